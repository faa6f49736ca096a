/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_LOOP_H
#define MKV_LOOP_H

/**
 * @file
 * The endpoint of a worker to itself, by which the library copies GPU memory: a list
 * put is one launch of mori_xgmi's kernel. The caller holds the context's lock.
 */

#include "memory/region.h"
#include "peer/list_put.h"

#include <stdbool.h>

/** Connect, unless this was done. @return Whether a lane takes lists of GPU memory. */
bool mkv_loop_takes_lists(mkv_ctx_t *ctx);

/** Copy a list, after mkv_loop_takes_lists(). @a cb passes its request and status to
 * mkv_loop_ended(). The result is that of ucp_put_nbx(). */
ucs_status_ptr_t mkv_loop_put(mkv_ctx_t *ctx, mkv_list_put_t *list,
                              ucp_send_nbx_callback_t cb, void *user_data);

/** Note how a copy has ended. After a failure, or if another lane than mori_xgmi
 * carries copies, mkv_loop_takes_lists() returns false. */
void mkv_loop_ended(mkv_ctx_t *ctx, void *request, ucs_status_t status);

/** Key of our own memory; NULL: UCX cannot unpack it. */
ucp_rkey_h mkv_loop_key(const mkv_ctx_t *ctx, mkv_mem_t *mem);
ucp_rkey_h mkv_loop_unpack(const mkv_ctx_t *ctx, const void *key);

/** Begin to close it; no copy is in flight. */
void mkv_loop_close(mkv_ctx_t *ctx);

bool mkv_loop_is_closed(const mkv_ctx_t *ctx);

void mkv_loop_cleanup(mkv_ctx_t *ctx);

#endif
