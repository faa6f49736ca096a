/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_WORKER_H
#define MKV_WORKER_H

/**
 * @file
 * The UCP context and worker under a context, own or attached.
 */

#include "base/ctx.h"

/** @return MKV_OK, MKV_ERR_UNSUPPORTED, MKV_ERR_TRANSPORT, MKV_ERR_NOMEM. */
mkv_status_t mkv_worker_open(mkv_ctx_t *ctx);
/**
 * A connection that was cut off stays alive in UCX until its transports have released
 * its resources; destroying the worker earlier leaks their endpoints. ctx->is_settling
 * is true until then, and progress clears it.
 */
void mkv_worker_settle(mkv_ctx_t *ctx);

void mkv_worker_close(mkv_ctx_t *ctx);

#endif
