/* SPDX-License-Identifier: BSD-3-Clause */

/* Seal, abort, extend, close, query. */

#include "xfer/leg.h"

#include "base/abi.h"

#include <string.h>

static mkv_status_t mkv_xfer_seal_check(mkv_xfer_t *xfer, uint32_t first, uint32_t last)
{
    const mkv_log_t *log = &xfer->ctx->log;
    uint32_t i;

    if (!xfer->is_active || (last > xfer->num_legs)) {
        return mkv_error(log, MKV_ERR_INVALID, "seal: leg %u of %u, %s side", first,
                         xfer->num_legs, xfer->is_active ? "active" : "passive");
    }
    if (mkv_xfer_is_terminal(xfer)) {
        return mkv_error(log, (xfer->status == MKV_OK) ? MKV_ERR_INVALID : xfer->status,
                         "the transfer has ended: %s", xfer->error);
    }
    for (i = first; i < last; ++i) {
        if (xfer->legs[i].state != MKV_LEG_BOUND) {
            return mkv_error(log, MKV_ERR_INVALID, "seal: leg %u %s", i,
                             (xfer->legs[i].state > MKV_LEG_BOUND)
                                 ? "is sealed already"
                                 : "has no block list of its peer yet");
        }
    }
    return MKV_OK;
}

static void mkv_xfer_update_sealed(mkv_xfer_t *xfer)
{
    uint32_t i;

    for (i = 0; i < xfer->num_legs; ++i) {
        if (xfer->legs[i].state < MKV_LEG_SEALED) {
            return;
        }
    }
    (void)mkv_xfer_take(xfer, MKV_XFER_ALL_SEALED);
}

static mkv_status_t mkv_xfer_seal_locked(mkv_xfer_t *xfer, uint32_t leg)
{
    uint32_t first = (leg == MKV_LEG_ALL) ? 0 : leg;
    uint32_t last = (leg == MKV_LEG_ALL) ? xfer->num_legs : leg + 1;
    mkv_status_t status = mkv_xfer_seal_check(xfer, first, last);
    char text[128];
    uint32_t i;

    if (status != MKV_OK) {
        return status;
    }
    for (i = first; i < last; ++i) {
        status = mkv_leg_check_seal(&xfer->legs[i], text, sizeof(text));
        if (status != MKV_OK) {
            mkv_xfer_fail(xfer, status, "peer %s, leg %u: %s", xfer->legs[i].peer->name,
                          i, text);
            return mkv_error(&xfer->ctx->log, status, "%s", xfer->error);
        }
    }
    for (i = first; i < last; ++i) {
        (void)mkv_leg_take(&xfer->legs[i], MKV_LEG_SEAL);
    }
    mkv_xfer_update_sealed(xfer);
    mkv_xfer_dirty(xfer);
    (void)mkv_ctx_step(xfer->ctx); /* what is complete already is told at once */
    return MKV_OK;
}

mkv_status_t mkv_xfer_seal(mkv_xfer_t *xfer, uint32_t leg)
{
    mkv_ctx_t *ctx = xfer->ctx;
    mkv_status_t status;

    mkv_enter(ctx);
    status = mkv_xfer_seal_locked(xfer, leg);
    mkv_leave(ctx);
    return status;
}

mkv_status_t mkv_xfer_abort(mkv_xfer_t *xfer, mkv_status_t code, const char *reason)
{
    mkv_ctx_t *ctx = xfer->ctx;

    if ((code >= MKV_OK) || (code <= MKV_ERR_LAST)) {
        return mkv_error(&ctx->log, MKV_ERR_INVALID, "abort: code %d is no error",
                         (int)code);
    }

    mkv_enter(ctx);
    mkv_xfer_fail(xfer, code, "%s by %s", (reason != NULL) ? reason : "aborted",
                  ctx->name);
    (void)mkv_ctx_step(ctx);
    mkv_leave(ctx);
    return MKV_OK;
}

mkv_status_t mkv_xfer_extend(mkv_xfer_t *xfer, uint32_t timeout_ms)
{
    mkv_ctx_t *ctx = xfer->ctx;

    if (timeout_ms == 0) {
        return mkv_error(&ctx->log, MKV_ERR_INVALID,
                         "extend: 0 ms; mkv_xfer_abort() ends a transfer");
    }

    mkv_enter(ctx);
    if (xfer->deadline != MKV_NEVER) {
        xfer->deadline = mkv_ctx_now(ctx) + timeout_ms * MKV_NSEC_PER_MSEC;
        mkv_ctx_deadline(ctx, xfer->deadline);
    }
    mkv_leave(ctx);
    return MKV_OK;
}

mkv_status_t mkv_xfer_close(mkv_xfer_t *xfer)
{
    mkv_ctx_t *ctx = xfer->ctx;

    mkv_enter(ctx);
    if (!mkv_xfer_is_terminal(xfer) || !xfer->is_quiet) {
        return mkv_leave_status(
            ctx, mkv_error(&ctx->log, MKV_ERR_BUSY, "transfer %llu is not %s",
                           (unsigned long long)xfer->id,
                           mkv_xfer_is_terminal(xfer) ? "quiet yet" : "over yet"));
    }
    mkv_xfer_free(xfer);
    return mkv_leave_status(ctx, MKV_OK);
}

mkv_status_t mkv_xfer_query(const mkv_xfer_t *xfer, mkv_xfer_attr_t *attr)
{
    mkv_ctx_t *ctx = xfer->ctx;
    mkv_xfer_attr_t values;

    memset(&values, 0, sizeof(values));

    mkv_enter(ctx);
    values.id = xfer->id;
    values.epoch = xfer->epoch;
    values.state = xfer->state;
    values.status = xfer->status;
    values.is_quiet = xfer->is_quiet;
    values.is_quarantined = xfer->is_quarantined;
    memcpy(values.error, xfer->error, sizeof(values.error));
    mkv_xfer_waiting(xfer, values.waiting_for, sizeof(values.waiting_for));
    values.posted = xfer->posted;
    values.completed = xfer->completed;
    values.bytes = xfer->bytes;
    values.age_ns = mkv_ctx_now(ctx) - xfer->open_time;
    values.user_data = xfer->user_data;
    values.num_ucp_calls = xfer->num_ucp_calls;
    mkv_leave_quietly(ctx);
    return mkv_struct_write(&ctx->log, &mkv_struct_xfer_attr, &values, attr);
}

mkv_status_t mkv_xfer_status(const mkv_xfer_t *xfer, uint64_t *completed_p)
{
    mkv_ctx_t *ctx = xfer->ctx;
    mkv_status_t status;

    mkv_enter(ctx);
    status = xfer->status;
    if (completed_p != NULL) {
        *completed_p = xfer->completed;
    }
    mkv_leave_quietly(ctx);
    return status;
}
