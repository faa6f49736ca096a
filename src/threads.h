/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_THREADS_H
#define MKV_THREADS_H

/**
 * @file
 * Threads that make progress for the application (option PROGRESS_THREADS).
 */

#include "base/ctx.h"

/** @return MKV_OK, MKV_ERR_INVALID: the option does not fit, MKV_ERR_NOMEM. */
mkv_status_t mkv_threads_start(mkv_ctx_t *ctx);

/** Whether the caller is a progress thread, so in a callback. */
bool mkv_threads_are_calling(const mkv_ctx_t *ctx);

/** Join the threads. Called without the lock, and not by one of these threads. */
void mkv_threads_stop(mkv_ctx_t *ctx);

/** Close the descriptors, which calls that hold the context may write to. */
void mkv_threads_cleanup(mkv_ctx_t *ctx);

#endif
