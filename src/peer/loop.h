/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_LOOP_H
#define MKV_LOOP_H

/**
 * @file
 * The connection of a worker to itself, by which the library copies GPU memory: a put
 * of a list is one launch of mori_xgmi. The caller holds the context's lock.
 */

#include "base/ctx.h"
#include "cache/region.h"
#include "cache/staging.h"

#include <stdbool.h>

typedef struct mkv_loop mkv_loop_t;

/** Connect if that was not done. @return Whether a lane takes lists of GPU memory. */
bool mkv_loop_takes_lists(mkv_ctx_t *ctx);

/** A copy over it has failed: what comes later does without. */
void mkv_loop_distrust(mkv_ctx_t *ctx, ucs_status_t status);

/** Whether the first copy was asked what carries it; give it with is_asked before. */
bool mkv_loop_is_known(const mkv_ctx_t *ctx);

/** Note what carries the first copy: another one than mori_xgmi is not trusted. */
void mkv_loop_note(mkv_ctx_t *ctx, void *request);

/** The endpoint, after mkv_loop_takes_lists(). */
ucp_ep_h mkv_loop_ep(const mkv_ctx_t *ctx);

/** The key of our own memory, for the loop. @return NULL: UCX does not unpack it. */
ucp_rkey_h mkv_loop_key(const mkv_ctx_t *ctx, mkv_mem_t *mem);
ucp_rkey_h mkv_loop_pool_key(const mkv_ctx_t *ctx, mkv_pool_t *pool);

/** Begin to close it; no call over it is under way. */
void mkv_loop_close(mkv_ctx_t *ctx);

/** The close is over. */
bool mkv_loop_is_closed(mkv_ctx_t *ctx);

void mkv_loop_cleanup(mkv_ctx_t *ctx);

#endif
