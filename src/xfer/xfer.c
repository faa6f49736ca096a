/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Transfers, one side each; state.c draws the states.
 *
 * The first error and its text stay. `quiet` is a property beside the state: set once,
 * after the terminal event, when no leg here or there can touch this side's blocks any
 * more. DONE is quiet. The one deadline that runs belongs to the phase: bind, then xfer
 * or release, then drain.
 *
 * Legs of a source fail alone, and the transfer fails when all of them have ended. A
 * destination's transfer fails with the first.
 */

#include "xfer/leg.h"
#include "xfer/owner.h"
#include "xfer/xfer_events.h"
#include "xfer/trace.h"

#include <string.h>

void mkv_xfer_set_deadline(mkv_xfer_t *xfer, unsigned which)
{
    static const mkv_status_t statuses[MKV_NUM_TIMEOUTS] = {
        MKV_ERR_BIND_TIMEOUT, MKV_ERR_XFER_TIMEOUT, MKV_ERR_RELEASE_TIMEOUT,
        MKV_ERR_DRAIN_TIMEOUT};

    xfer->deadline = mkv_ctx_now(xfer->ctx) + xfer->timeouts[which];
    xfer->deadline_status = statuses[which];
    mkv_ctx_deadline(xfer->ctx, xfer->deadline);
}

/* ---- State ----------------------------------------------------------------------- */

mkv_status_t mkv_xfer_take(mkv_xfer_t *xfer, mkv_xfer_change_t change)
{
    mkv_xfer_state_t state = xfer->state;
    mkv_status_t status = mkv_xfer_state_take(&state, change);

    __atomic_store_n(&xfer->state, state, __ATOMIC_RELEASE);
    if (status != MKV_OK) {
        mkv_log_error(xfer->ctx, "transfer %llu: %s while %s: %s",
                      (unsigned long long)xfer->id, mkv_xfer_change_string(change),
                      mkv_xfer_state_string(state), mkv_status_string(status));
    }
    return status;
}

static void mkv_xfer_ended(mkv_xfer_t *xfer)
{
    mkv_xfer_stamp(xfer, MKV_TIME_ENDED);
    if (xfer->ended != NULL) {
        xfer->ended(xfer->ended_arg, xfer->status);
    }
}

static void mkv_xfer_keep_reason(mkv_xfer_t *xfer, const char *fmt, va_list args)
    MKV_PRINTF(2, 0);

static void mkv_xfer_keep_reason(mkv_xfer_t *xfer, const char *fmt, va_list args)
{
    char text[MKV_XFER_TEXT];
    int length =
        snprintf(text, sizeof(text), "transfer %llu: ", (unsigned long long)xfer->id);

    mkv_text_va(text + length, sizeof(text) - (size_t)length, fmt, args);
    xfer->error_text = strdup(text);
    xfer->error =
        (xfer->error_text != NULL) ? xfer->error_text : "no memory for the reason";
}

void mkv_xfer_fail(mkv_xfer_t *xfer, mkv_status_t status, const char *fmt, ...)
{
    va_list args;
    uint32_t i;

    if (mkv_xfer_is_terminal(xfer)) {
        return;
    }

    va_start(args, fmt);
    mkv_xfer_keep_reason(xfer, fmt, args);
    va_end(args);
    __atomic_store_n(&xfer->status, status, __ATOMIC_RELAXED);
    (void)mkv_xfer_take(xfer,
                        (status == MKV_ERR_ABORTED) ? MKV_XFER_ABORT : MKV_XFER_FAIL);
    mkv_log_debug(xfer->ctx, "%s (%s)", xfer->error, mkv_status_string(status));
    MKV_COUNT(xfer->legs[0].peer, xfers_failed, 1);
    mkv_xfer_ended(xfer);
    for (i = 0; i < xfer->num_legs; ++i) {
        mkv_leg_end(&xfer->legs[i], status, xfer->error);
    }
    (void)mkv_xfer_event(xfer,
                         (status == MKV_ERR_ABORTED) ? MKV_EV_ABORTED : MKV_EV_FAILED);
    mkv_xfer_set_deadline(xfer, MKV_TIMEOUT_DRAIN);
    for (i = 0; i < xfer->num_legs; ++i) {
        mkv_leg_terminate(&xfer->legs[i], status, xfer->error);
    }
    mkv_xfer_dirty(xfer);
}

void mkv_xfer_check_bound(mkv_xfer_t *xfer)
{
    uint32_t i;

    for (i = 0; i < xfer->num_legs; ++i) {
        if ((xfer->legs[i].remote_nonce == 0) && (xfer->legs[i].status >= MKV_OK)) {
            return;
        }
    }
    if (mkv_xfer_is_terminal(xfer) || (xfer->times[MKV_TIME_BOUND] != 0) ||
        (mkv_xfer_take(xfer, MKV_XFER_ALL_BOUND) != MKV_OK)) {
        return;
    }
    mkv_xfer_stamp(xfer, MKV_TIME_BOUND);
    mkv_xfer_set_deadline(xfer, (!xfer->is_active && (xfer->mode == MKV_READ))
                                    ? MKV_TIMEOUT_RELEASE
                                    : MKV_TIMEOUT_XFER);
}

void mkv_xfer_check_sealed(mkv_xfer_t *xfer)
{
    uint32_t i;

    for (i = 0; i < xfer->num_legs; ++i) {
        if ((xfer->legs[i].state < MKV_LEG_SEALED) &&
            (xfer->legs[i].status >= MKV_OK)) {
            return;
        }
    }
    if (xfer->times[MKV_TIME_SEALED] == 0) {
        mkv_xfer_stamp(xfer, MKV_TIME_SEALED);
        (void)mkv_xfer_take(xfer, MKV_XFER_ALL_SEALED);
    }
}

/* Data of the first DONE with any; mkv_xfer_done_data() returns the others */
static void mkv_xfer_event_data(const mkv_xfer_t *xfer, mkv_news_t *event)
{
    uint32_t i;

    for (i = 0; (i < xfer->num_legs) && (event->length == 0); ++i) {
        event->leg = i;
        event->data = xfer->legs[i].done_data;
        event->length = xfer->legs[i].done_length;
    }
    event->leg = (event->length > 0) ? event->leg : 0;
}

static void mkv_xfer_check_done(mkv_xfer_t *xfer)
{
    mkv_news_t *event;
    uint32_t i;

    for (i = 0; i < xfer->num_legs; ++i) {
        if (xfer->legs[i].status == MKV_INPROGRESS) {
            return;
        }
    }
    if (xfer->failed != NULL) {
        mkv_xfer_fail(xfer, xfer->failed->status, "%s",
                      (xfer->failed->error != NULL) ? xfer->failed->error
                                                    : "no memory for the reason");
        return;
    }
    if (mkv_xfer_take(xfer, MKV_XFER_ALL_FINISHED) != MKV_OK) {
        return;
    }

    __atomic_store_n(&xfer->status, MKV_OK, __ATOMIC_RELAXED);
    mkv_xfer_ended(xfer);
    mkv_xfer_count_latency(xfer);
    MKV_COUNT(xfer->legs[0].peer, xfers_done, 1);
    event = mkv_xfer_event(xfer, MKV_EV_DONE);
    if ((event != NULL) && !xfer->is_active) {
        event->units = xfer->legs[0].units;
        event->num_units = xfer->legs[0].num_units;
        mkv_xfer_event_data(xfer, event);
    }
}

static void mkv_xfer_check_quiet(mkv_xfer_t *xfer)
{
    uint32_t i;

    for (i = 0; i < xfer->num_legs; ++i) {
        if (!mkv_leg_is_quiet(&xfer->legs[i])) {
            return;
        }
    }
    if (mkv_xfer_take(xfer, MKV_XFER_QUIET) != MKV_OK) {
        return;
    }
    mkv_xfer_stamp(xfer, MKV_TIME_QUIET);
    __atomic_store_n(&xfer->is_quarantined, false, __ATOMIC_RELAXED);
    __atomic_store_n(&xfer->is_quiet, true, __ATOMIC_RELEASE);
    xfer->deadline = MKV_NEVER;
    mkv_owners_give(xfer);
    (void)mkv_xfer_event(xfer, MKV_EV_QUIET);
}

void mkv_xfer_step(mkv_xfer_t *xfer)
{
    uint32_t i;

    for (i = 0; i < xfer->num_legs; ++i) {
        mkv_leg_step(&xfer->legs[i]);
    }
    if (xfer->times_due != 0) {
        mkv_xfer_stamp_due(xfer);
    }
    if (!mkv_xfer_is_terminal(xfer)) {
        mkv_xfer_check_done(xfer);
    }
    if (mkv_xfer_is_terminal(xfer) && !xfer->is_quiet) {
        mkv_xfer_check_quiet(xfer);
    }
    for (i = 0; i < xfer->num_legs; ++i) {
        mkv_leg_note(&xfer->legs[i]);
    }
}

/* ---- Legs that end --------------------------------------------------------------- */

static void mkv_leg_fail_alone(mkv_leg_t *leg, mkv_status_t status, const char *text)
{
    mkv_xfer_t *xfer = leg->xfer;

    mkv_log_debug(xfer->ctx, "transfer %llu goes on without %s (%s)",
                  (unsigned long long)xfer->id, text, mkv_status_string(status));
    mkv_leg_end(leg, status, text);
    mkv_leg_terminate(leg, status, text);
    mkv_xfer_check_bound(xfer);
    if (xfer->is_active && (xfer->times[MKV_TIME_BOUND] != 0)) {
        mkv_xfer_check_sealed(xfer);
    }
    mkv_xfer_dirty(xfer); /* the transfer may have waited for this leg only */
}

void mkv_leg_fail(mkv_leg_t *leg, mkv_status_t status, const char *fmt, ...)
{
    mkv_xfer_t *xfer = leg->xfer;
    char text[MKV_XFER_TEXT];
    va_list args;

    if (mkv_leg_is_over(leg)) {
        return;
    }
    va_start(args, fmt);
    mkv_text_va(text, sizeof(text), fmt, args);
    va_end(args);
    if ((xfer->role == MKV_SRC) && (xfer->num_legs > 1)) {
        if (leg->status == MKV_INPROGRESS) { /* otherwise it was reported as complete */
            xfer->failed = (xfer->failed != NULL) ? xfer->failed : leg;
            mkv_leg_fail_alone(leg, status, text);
        }
        return;
    }
    xfer->failed = leg;
    mkv_xfer_fail(xfer, status, "%s", text);
}

/* ---- Deadlines ------------------------------------------------------------------- */

void mkv_xfer_waiting(const mkv_xfer_t *xfer, char *text, size_t size)
{
    const char *what;
    uint32_t i;

    text[0] = '\0';
    for (i = 0; i < xfer->num_legs; ++i) {
        what = __atomic_load_n(&xfer->legs[i].waits, __ATOMIC_RELAXED);
        if (what != NULL) {
            mkv_text(text, size, "leg %u (peer %s): %s", i, xfer->legs[i].peer->name,
                     what);
            return;
        }
    }
}

static void mkv_xfer_quarantine(mkv_xfer_t *xfer)
{
    mkv_news_t *event;
    char text[128];

    mkv_xfer_waiting(xfer, text, sizeof(text));
    __atomic_store_n(&xfer->is_quarantined, true, __ATOMIC_RELAXED);
    mkv_log_warn(
        xfer->ctx,
        "transfer %llu: not quiet after %llu ms, waits for %s; its blocks stay "
        "quarantined",
        (unsigned long long)xfer->id,
        (unsigned long long)(xfer->timeouts[MKV_TIMEOUT_DRAIN] / MKV_NSEC_PER_MSEC),
        text);
    event = mkv_xfer_event(xfer, MKV_EV_WARN);
    if (event != NULL) {
        event->status = MKV_ERR_DRAIN_TIMEOUT;
        mkv_event_text(event, "transfer %llu is not quiet in time: %s",
                       (unsigned long long)xfer->id, text);
    }
}

/* Check again until it is quiet */
static void mkv_xfer_drain_expired(mkv_xfer_t *xfer)
{
    uint32_t i;

    if (!xfer->is_quarantined) {
        mkv_xfer_quarantine(xfer);
    }
    for (i = 0; i < xfer->num_legs; ++i) {
        mkv_leg_check_late_drain(&xfer->legs[i]);
    }
    mkv_xfer_set_deadline(xfer, MKV_TIMEOUT_DRAIN);
}

void mkv_xfer_check_deadline(mkv_xfer_t *xfer, uint64_t now)
{
    char text[128];

    if (now < xfer->deadline) {
        return;
    }
    if (!mkv_xfer_is_terminal(xfer)) {
        mkv_xfer_waiting(xfer, text, sizeof(text));
        mkv_xfer_fail(xfer, xfer->deadline_status, "%s after %llu ms, waiting for %s",
                      mkv_status_string(xfer->deadline_status),
                      (unsigned long long)((now - xfer->open_time) / MKV_NSEC_PER_MSEC),
                      text);
        return;
    }
    mkv_xfer_step(xfer); /* it may be quiet since the last step */
    if (!xfer->is_quiet) {
        mkv_xfer_drain_expired(xfer);
    }
}
