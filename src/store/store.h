/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_STORE_H
#define MKV_STORE_H

/**
 * @file
 * Keyed buffers, as progress and the end of the context see them.
 */

#include "base/ctx.h"

/** Be told of peers, their messages and their ends. */
void mkv_store_listen(mkv_ctx_t *ctx);

/** End what is to end now. @return How many. */
unsigned mkv_store_step(mkv_ctx_t *ctx);

/** End what is too old. @return The next time to look. */
uint64_t mkv_store_expire(mkv_ctx_t *ctx, uint64_t now);

/** Whether no peer reads a buffer of this side. */
bool mkv_store_is_quiet(mkv_ctx_t *ctx);

/** Everything; no connection can call back any more. */
void mkv_store_cleanup(mkv_ctx_t *ctx);

#endif
