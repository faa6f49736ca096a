/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_OP_WATCH_H
#define MKV_OP_WATCH_H

/**
 * @file
 * Listeners of one-sided operations, and their end at the context's close.
 */

#include "base/ctx.h"

/** Register the listener for messages and ends of peers. */
void mkv_ops_listen(mkv_ctx_t *ctx);

/** Fail all that are open. @return How many the application had left open. */
unsigned mkv_ops_abort(mkv_ctx_t *ctx);

/** Whether no operation is in flight. */
bool mkv_ops_are_quiet(mkv_ctx_t *ctx);

/** Free all; no connection can call back any more. */
void mkv_ops_cleanup(mkv_ctx_t *ctx);

#endif
