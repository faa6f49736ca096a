/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_PROGRESS_H
#define MKV_PROGRESS_H

/**
 * @file
 * Progress: first UCX's worker, then the steps that its callbacks have deferred.
 */

#include "base/ctx.h"

/** mkv_progress() under the lock. */
unsigned mkv_progress_locked(mkv_ctx_t *ctx);

/** Set the hooks of lower folders for a step and for a round. */
void mkv_progress_init(mkv_ctx_t *ctx);

#endif
