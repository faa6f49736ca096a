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
 * A connection that was cut is closed when UCX says so, and lives on in UCX until its
 * transports have given up what they had: destroyed below that, a worker leaves them
 * with endpoints. ctx->is_settling is false when that is over; progress gets there.
 */
void mkv_worker_settle(mkv_ctx_t *ctx);

void mkv_worker_close(mkv_ctx_t *ctx);

#endif
