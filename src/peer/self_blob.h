/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_SELF_BLOB_H
#define MKV_SELF_BLOB_H

/**
 * @file
 * The blob that describes a context.
 */

#include "memory/remote_mem.h"

/** Receiver of a blob; all 0: any peer. */
typedef struct mkv_audience {
    uint64_t connection;        /**< Number of the connection */
    uint64_t proof;             /**< Proof for the peer */
    uint64_t claim;             /**< Claim on the peer's memory; 0: none */
    const mkv_remote_t *remote; /**< NULL: keys of regions open to all peers only */
    uint64_t since;             /**< Epoch of the regions the peer has; 0: none */
} mkv_audience_t;

/** Append the blob of this context. @return MKV_OK, MKV_ERR_NOMEM. */
mkv_status_t mkv_ctx_blob(mkv_ctx_t *ctx, mkv_blob_kind_t kind,
                          const mkv_audience_t *audience, mkv_wbuf_t *wbuf);

#endif
