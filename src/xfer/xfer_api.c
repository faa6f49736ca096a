/* SPDX-License-Identifier: BSD-3-Clause */

/* Public calls: seal, abort, extend, close, query. */

#include "xfer/leg.h"
#include "xfer/trace.h"

#include "base/abi.h"
#include "message/message.h"
#include "message/peer_close.h"

#include <stdlib.h>
#include <string.h>

static mkv_status_t mkv_xfer_seal_check(mkv_xfer_t *xfer, uint32_t first, uint32_t last)
{
    const mkv_log_t *log = &xfer->ctx->log;
    uint32_t i;

    if (!xfer->is_active || (last > xfer->num_legs)) {
        return mkv_error(log, MKV_ERR_INVALID,
                         "seal: leg %u on the %s side, expected one below %u, or "
                         "MKV_LEG_ALL, on the active side",
                         first, xfer->is_active ? "active" : "passive", xfer->num_legs);
    }
    if (mkv_xfer_is_terminal(xfer)) {
        return mkv_error(log, (xfer->status == MKV_OK) ? MKV_ERR_INVALID : xfer->status,
                         "the transfer has ended: %s", xfer->error);
    }
    for (i = first; i < last; ++i) {
        if (mkv_leg_is_left_out(&xfer->legs[i], last - first)) {
            continue;
        }
        if (xfer->legs[i].status < MKV_OK) {
            return mkv_leg_error(&xfer->legs[i]);
        }
        if (xfer->legs[i].state > MKV_LEG_BOUND) {
            return mkv_error(log, MKV_ERR_INVALID, "seal: leg %u is sealed already", i);
        }
        if (xfer->legs[i].state < MKV_LEG_BOUND) {
            return mkv_error(log, MKV_ERR_BUSY,
                             "seal: leg %u has no block list of its peer yet; seal "
                             "after event EXPOSED",
                             i);
        }
    }
    return MKV_OK;
}

/* Whether no post is complete. The caller's next call is progress, which starts the
 * posts; a step can wait until they move */
static bool mkv_xfer_is_moving(const mkv_xfer_t *xfer)
{
    uint32_t i;

    for (i = 0; i < xfer->num_legs; ++i) {
        if (mkv_list_is_empty(&xfer->legs[i].running)) {
            return false;
        }
    }
    return true;
}

/* Bytes that remain of a FIN with the largest number of components */
#define MKV_FIN_OVERHEAD 1536u

static mkv_status_t mkv_leg_check_done_data(const mkv_leg_t *leg, size_t length)
{
    const mkv_log_t *log = &leg->xfer->ctx->log;
    uint64_t max = mkv_message_max(leg->peer) - MKV_FIN_OVERHEAD;

    if (length > max) {
        return mkv_error(
            log, MKV_ERR_LENGTH,
            "seal: %zu bytes for peer %s, MAX_MESSAGE of both sides leaves "
            "room for %llu",
            length, leg->peer->name, (unsigned long long)max);
    }
    return MKV_OK;
}

static mkv_status_t mkv_xfer_set_done_data(mkv_xfer_t *xfer, uint32_t first,
                                           uint32_t last, const void *data,
                                           size_t length)
{
    mkv_status_t status = MKV_OK;
    mkv_leg_t *leg;
    uint32_t i;

    xfer->has_done_data = true; /* the bytes may be left from a seal that was refused */
    for (i = first; (status == MKV_OK) && (i < last); ++i) {
        if (xfer->legs[i].status >= MKV_OK) {
            status = mkv_leg_check_done_data(&xfer->legs[i], length);
        }
    }
    for (i = first; (status == MKV_OK) && (i < last); ++i) {
        leg = &xfer->legs[i];
        free(leg->done_data);
        leg->done_length = length;
        leg->done_data = (length > 0) ? malloc(length) : NULL;
        if ((length > 0) && (leg->done_data == NULL)) {
            leg->done_length = 0;
            return mkv_error(&xfer->ctx->log, MKV_ERR_NOMEM,
                             "seal: no memory for %zu bytes", length);
        }
        if (length > 0) {
            memcpy(leg->done_data, data, length);
        }
    }
    return status;
}

static mkv_status_t mkv_xfer_seal_locked(mkv_xfer_t *xfer, uint32_t leg,
                                         const void *data, size_t length)
{
    uint32_t first = (leg == MKV_LEG_ALL) ? 0 : leg;
    uint32_t last = (leg == MKV_LEG_ALL) ? xfer->num_legs : leg + 1;
    mkv_status_t status = mkv_xfer_seal_check(xfer, first, last);
    char text[128];
    uint32_t i;

    if ((status == MKV_OK) && ((length > 0) || xfer->has_done_data)) {
        status = mkv_xfer_set_done_data(xfer, first, last, data, length);
    }
    if (status != MKV_OK) {
        return status;
    }
    for (i = first; i < last; ++i) {
        status = mkv_leg_is_left_out(&xfer->legs[i], last - first)
                     ? MKV_OK
                     : mkv_leg_check_seal(&xfer->legs[i], text, sizeof(text));
        if (status != MKV_OK) {
            mkv_xfer_fail(xfer, status, "peer %s, leg %u: %s", xfer->legs[i].peer->name,
                          i, text);
            return mkv_error(&xfer->ctx->log, status, "%s", xfer->error);
        }
    }
    for (i = first; i < last; ++i) {
        if (!mkv_leg_is_left_out(&xfer->legs[i], last - first)) {
            (void)mkv_leg_take(&xfer->legs[i], MKV_LEG_SEAL);
        }
    }
    mkv_xfer_check_sealed(xfer);
    mkv_xfer_dirty(xfer);
    if (!mkv_xfer_is_moving(xfer)) {
        (void)mkv_ctx_step(
            xfer->ctx); /* report the transfer now if it is already complete */
    }
    return MKV_OK;
}

mkv_status_t mkv_xfer_seal_data(mkv_xfer_t *xfer, uint32_t leg, const void *data,
                                size_t length)
{
    mkv_ctx_t *ctx = xfer->ctx;
    mkv_status_t status;

    MKV_HOLD(ctx, "xfer_seal_data", return MKV_ERR_INVALID);
    mkv_enter(ctx);
    status = mkv_xfer_seal_locked(xfer, leg, data, length);
    mkv_leave(ctx);
    return status;
}

mkv_status_t mkv_xfer_seal(mkv_xfer_t *xfer, uint32_t leg)
{
    mkv_ctx_t *ctx = xfer->ctx;

    MKV_HOLD(ctx, "xfer_seal", return MKV_ERR_INVALID);
    mkv_enter(ctx);
    return mkv_leave_status(ctx, mkv_xfer_seal_locked(xfer, leg, NULL, 0));
}

mkv_status_t mkv_xfer_done_data(const mkv_xfer_t *xfer, uint32_t leg,
                                const void **data_p, size_t *length_p)
{
    mkv_ctx_t *ctx = xfer->ctx;
    mkv_status_t status = MKV_OK;

    MKV_HOLD(ctx, "xfer_done_data", return MKV_ERR_INVALID);
    mkv_enter(ctx);
    if (xfer->is_active || (leg >= xfer->num_legs) || (xfer->state != MKV_XFER_DONE)) {
        status = mkv_error(&ctx->log, MKV_ERR_INVALID,
                           "done_data: leg %u on the %s side, expected one below %u on "
                           "a passive side that is DONE",
                           leg, xfer->is_active ? "active" : "passive", xfer->num_legs);
    } else {
        *data_p = xfer->legs[leg].done_data;
        *length_p = xfer->legs[leg].done_length;
    }
    mkv_leave_quietly(ctx);
    return status;
}

static mkv_status_t mkv_abort_check(const mkv_ctx_t *ctx, mkv_status_t code)
{
    return (code >= MKV_OK)
               ? mkv_error(&ctx->log, MKV_ERR_INVALID,
                           "abort: code %d, expected one of MKV_ERR_*", (int)code)
               : MKV_OK;
}

mkv_status_t mkv_xfer_abort_leg(mkv_xfer_t *xfer, uint32_t leg, mkv_status_t code,
                                const char *reason)
{
    mkv_ctx_t *ctx = xfer->ctx;
    mkv_status_t status;

    MKV_HOLD(ctx, "xfer_abort_leg", return MKV_ERR_INVALID);
    status = mkv_abort_check(ctx, code);
    if ((status == MKV_OK) && ((leg >= xfer->num_legs) || (xfer->role != MKV_SRC))) {
        status = mkv_error(
            &ctx->log, MKV_ERR_INVALID,
            "abort: leg %u of the %s, expected one below %u of the source", leg,
            (xfer->role == MKV_SRC) ? "source" : "destination", xfer->num_legs);
    }
    if (status != MKV_OK) {
        return status;
    }

    mkv_enter(ctx);
    mkv_leg_fail(&xfer->legs[leg], code, "%s by %s",
                 (reason != NULL) ? reason : "aborted", ctx->name);
    (void)mkv_ctx_step(ctx);
    mkv_leave(ctx);
    return MKV_OK;
}

mkv_status_t mkv_xfer_abort(mkv_xfer_t *xfer, mkv_status_t code, const char *reason)
{
    mkv_ctx_t *ctx = xfer->ctx;

    MKV_HOLD(ctx, "xfer_abort", return MKV_ERR_INVALID);
    if (mkv_abort_check(ctx, code) != MKV_OK) {
        return MKV_ERR_INVALID;
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

    MKV_HOLD(ctx, "xfer_extend", return MKV_ERR_INVALID);
    if (timeout_ms == 0) {
        return mkv_error(&ctx->log, MKV_ERR_INVALID,
                         "extend: 0 ms, expected at least 1; mkv_xfer_abort() ends "
                         "a transfer");
    }

    mkv_enter(ctx);
    if (xfer->deadline != MKV_NEVER) {
        xfer->deadline = mkv_ctx_now(ctx) + timeout_ms * MKV_NSEC_PER_MSEC;
        mkv_ctx_deadline(ctx, xfer->deadline);
    }
    mkv_leave(ctx);
    return MKV_OK;
}

mkv_status_t mkv_xfer_declare_dead(mkv_xfer_t *xfer)
{
    mkv_ctx_t *ctx = xfer->ctx;
    uint32_t i;

    MKV_HOLD(ctx, "xfer_declare_dead", return MKV_ERR_INVALID);
    mkv_enter(ctx);
    if (!mkv_xfer_is_terminal(xfer)) {
        return mkv_leave_status(ctx, mkv_error(&ctx->log, MKV_ERR_BUSY,
                                               "transfer %llu is not over yet",
                                               (unsigned long long)xfer->id));
    }
    for (i = 0; i < xfer->num_legs; ++i) {
        if (!mkv_leg_is_quiet(&xfer->legs[i])) {
            mkv_peer_declare_dead_locked(xfer->legs[i].peer);
        }
    }
    return mkv_leave_status(ctx, MKV_OK);
}

mkv_status_t mkv_xfer_close(mkv_xfer_t *xfer)
{
    mkv_ctx_t *ctx = xfer->ctx;

    if (mkv_ctx_is_forked(ctx)) {
        return MKV_OK; /* the object is the parent's */
    }
    MKV_HOLD(ctx, "xfer_close", return MKV_ERR_INVALID);
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

/* Everything here is constant or atomic: no lock, which progress may hold for long */
mkv_status_t mkv_xfer_query(const mkv_xfer_t *xfer, mkv_xfer_attr_t *attr)
{
    mkv_ctx_t *ctx = xfer->ctx;
    mkv_xfer_attr_t values;

    MKV_HOLD(ctx, "xfer_query", return MKV_ERR_INVALID);
    memset(&values, 0, sizeof(values));
    values.id = xfer->id;
    values.epoch = xfer->epoch;
    values.is_quiet = __atomic_load_n(&xfer->is_quiet, __ATOMIC_ACQUIRE);
    values.is_quarantined = __atomic_load_n(&xfer->is_quarantined, __ATOMIC_RELAXED);
    values.state = __atomic_load_n(&xfer->state, __ATOMIC_ACQUIRE);
    values.status = mkv_xfer_result(xfer);
    values.completed = __atomic_load_n(&xfer->completed, __ATOMIC_RELAXED);
    if (values.status < MKV_OK) {
        mkv_text(values.error, sizeof(values.error), "%s", xfer->error);
    }
    mkv_xfer_waiting(xfer, values.waiting_for, sizeof(values.waiting_for));
    values.posted = __atomic_load_n(&xfer->posted, __ATOMIC_RELAXED);
    values.bytes = __atomic_load_n(&xfer->bytes, __ATOMIC_RELAXED);
    values.age_ns = mkv_ctx_now(ctx) - xfer->open_time;
    values.user_data = xfer->user_data;
    mkv_xfer_times(xfer, &values);
    values.num_ucp_calls = __atomic_load_n(&xfer->num_ucp_calls, __ATOMIC_RELAXED);
    return mkv_struct_write(&ctx->log, &mkv_struct_xfer_attr, &values, attr);
}

mkv_status_t mkv_xfer_query_leg(const mkv_xfer_t *xfer, uint32_t index,
                                mkv_leg_attr_t *attr)
{
    const mkv_log_t *log = &xfer->ctx->log;
    const mkv_leg_t *leg;
    mkv_leg_attr_t values;
    const char *waits;

    MKV_HOLD(xfer->ctx, "xfer_query_leg", return MKV_ERR_INVALID);
    if (index >= xfer->num_legs) {
        return mkv_error(log, MKV_ERR_INVALID,
                         "query_leg: leg %u, expected one below %u", index,
                         xfer->num_legs);
    }
    leg = &xfer->legs[index];
    memset(&values, 0, sizeof(values));
    values.peer = leg->peer->remote.peer;
    values.is_quiet = __atomic_load_n(&leg->is_quiet, __ATOMIC_ACQUIRE);
    values.status = __atomic_load_n(&leg->status, __ATOMIC_ACQUIRE);
    values.bytes = __atomic_load_n(&leg->bytes, __ATOMIC_RELAXED);
    if ((values.status < MKV_OK) && (leg->error != NULL)) {
        mkv_text(values.error, sizeof(values.error), "%s", leg->error);
    }
    waits = __atomic_load_n(&leg->waits, __ATOMIC_RELAXED);
    mkv_text(values.waiting_for, sizeof(values.waiting_for), "%s",
             (waits != NULL) ? waits : "");
    return mkv_struct_write(log, &mkv_struct_leg_attr, &values, attr);
}

mkv_status_t mkv_xfer_status(const mkv_xfer_t *xfer, uint64_t *completed_p)
{
    mkv_status_t status = mkv_ctx_check_open(xfer->ctx, "xfer_status");

    if (status != MKV_OK) {
        return status;
    }
    status = mkv_xfer_result(xfer);
    if (completed_p != NULL) {
        *completed_p = __atomic_load_n(&xfer->completed, __ATOMIC_RELAXED);
    }
    return status;
}
