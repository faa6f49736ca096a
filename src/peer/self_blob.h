/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_SELF_BLOB_H
#define MKV_SELF_BLOB_H

/**
 * @file
 * What a context tells of itself.
 */

#include "base/ctx.h"

/**
 * Append the blob of this context.
 *
 * @param [in] connection  Number of the connection that it is for; 0: for anybody.
 * @param [in] claim       On the memory of the peer it is for; 0: none, or for anybody.
 *
 * @return MKV_OK, MKV_ERR_NOMEM.
 */
mkv_status_t mkv_ctx_blob(mkv_ctx_t *ctx, mkv_blob_kind_t kind, uint64_t connection,
                          uint64_t claim, mkv_wbuf_t *wbuf);

#endif
