/* SPDX-License-Identifier: BSD-3-Clause */

/* Public calls that post: check, count and queue posts, and their gates. */

#include "post/post.h"

#include "base/abi.h"
#include "plan/plan_sel.h"
#include "xfer/leg.h"
#include "post/gate.h"
#include "post/post_calls.h"
#include "post/post_cursor.h"
#include "post/post_end.h"
#include "post/post_units.h"
#include "post/pull.h"
#include "post/push.h"
#include "stage/stage.h"
#include "xfer/trace.h"

#include <stdlib.h>
#include <string.h>

/* Callable without the lock: the members that may change are atomic */
static mkv_status_t mkv_post_check_leg(mkv_xfer_t *xfer, uint32_t index,
                                       const mkv_plan_t *plan)
{
    const mkv_log_t *log = &xfer->ctx->log;
    mkv_leg_state_t state;
    mkv_status_t status;
    mkv_leg_t *leg;

    if (!xfer->is_active) {
        return mkv_error(log, MKV_ERR_INVALID,
                         "post: transfer %llu is the passive side, the %s; expected "
                         "the call on the other side",
                         (unsigned long long)xfer->id,
                         (xfer->mode == MKV_WRITE) ? "destination of a WRITE"
                                                   : "source of a READ");
    }
    if (index >= xfer->num_legs) {
        return mkv_error(log, MKV_ERR_INVALID, "post: leg %u, expected below %u", index,
                         xfer->num_legs);
    }
    if (mkv_xfer_is_terminal(xfer)) {
        status = mkv_xfer_result(xfer);
        return mkv_error(log, (status == MKV_OK) ? MKV_ERR_INVALID : status,
                         "the transfer has ended: %s",
                         (status == MKV_OK) ? "done" : xfer->error);
    }
    leg = &xfer->legs[index];
    if (__atomic_load_n(&leg->status, __ATOMIC_ACQUIRE) < MKV_OK) {
        return mkv_leg_error(leg);
    }
    state = __atomic_load_n(&leg->state, __ATOMIC_ACQUIRE);
    if ((plan->map != leg->map) || (state > MKV_LEG_BOUND)) {
        return mkv_error(log, MKV_ERR_INVALID, "post: leg %u %s", index,
                         (plan->map != leg->map) ? "has another map than the plan"
                                                 : "is sealed");
    }
    if (state < MKV_LEG_BOUND) {
        return mkv_error(log, MKV_ERR_BUSY,
                         "post: leg %u has no block list of its peer yet; post after "
                         "event EXPOSED",
                         index);
    }
    if (__atomic_load_n(&leg->map->is_stale, __ATOMIC_RELAXED)) {
        return mkv_error(log, MKV_ERR_STALE,
                         "peer %s has dropped regions of the map; make a new one",
                         leg->peer->name);
    }
    return MKV_OK;
}

static mkv_status_t mkv_post_check(mkv_xfer_t *xfer, uint32_t index, mkv_plan_t *plan,
                                   const mkv_sel_t *sel)
{
    mkv_status_t status = mkv_post_check_leg(xfer, index, plan);

    if (status == MKV_OK) {
        status = mkv_plan_check_sel(plan, sel);
    }
    if (status == MKV_OK) {
        status = mkv_plan_check_layers(plan, sel);
    }
    if (status == MKV_OK) {
        status = mkv_post_check_keys(&xfer->legs[index], plan, sel);
    }
    if (status == MKV_OK) {
        status = mkv_post_check_units(&xfer->legs[index], plan, sel);
    }
    return status;
}

static void mkv_post_set_gate(mkv_post_t *post, const mkv_gate_t *gate)
{
    if (gate == NULL) {
        return;
    }
    post->gate = *gate;
    post->gate_state = (gate->ready != NULL) ? MKV_GATE_CHECK : MKV_GATE_WAIT;
    (void)mkv_gates_take(post->plan->ctx); /* the gate may have been signalled before */
    post->plan->ctx->num_asking_gates += (gate->ready != NULL);
}

static mkv_status_t mkv_xfer_post_locked(mkv_xfer_t *xfer, uint32_t index,
                                         mkv_plan_t *plan, const mkv_sel_t *sel,
                                         const mkv_gate_t *gate)
{
    mkv_status_t status;
    mkv_post_t *post;
    mkv_leg_t *leg;

    status = mkv_post_check(xfer, index, plan, sel);
    if (status != MKV_OK) {
        return status;
    }
    leg = &xfer->legs[index];
    post = mkv_post_create(leg, plan, sel);
    if (post == NULL) {
        return mkv_error(&xfer->ctx->log, MKV_ERR_NOMEM, "no memory for a post");
    }

    mkv_post_set_gate(post, gate);
    mkv_post_sum_units(post);
    MKV_ADD(xfer->posted, post->num_elements);
    mkv_xfer_stamp(xfer, MKV_TIME_POSTED);
    (void)mkv_xfer_take(xfer, MKV_XFER_POSTED);
    MKV_COUNT(leg->peer, plan_posts, 1);
    MKV_COUNT(leg->peer, elements_posted, post->num_elements);
    mkv_list_add_tail(&leg->posts, &post->list);
    mkv_leg_queue(leg);
    xfer->ctx->round_cost = 0;
    (void)mkv_peer_pump(leg->peer);
    if (!mkv_list_is_empty(&leg->busy)) {
        mkv_leg_note(leg); /* progress, which reads the signal, may not have run */
    }
    return MKV_OK;
}

/* ---- Posts that find the lock taken ---------------------------------------------- */

/** The parameters of a post, checked. */
typedef struct mkv_submission {
    struct mkv_submission *next;
    mkv_xfer_t *xfer;
    uint32_t leg;
    mkv_plan_t *plan;
    mkv_sel_t sel;
    mkv_gate_t gate;
    bool has_gate;
} mkv_submission_t;

/* Submissions are a stack. A call that frees a plan or a transfer enters the context,
 * and so first takes in the submissions that refer to it. */
static mkv_status_t mkv_post_submit(const mkv_submission_t *values)
{
    mkv_ctx_t *ctx = values->xfer->ctx;
    mkv_submission_t *submission = malloc(sizeof(*submission));

    if (submission == NULL) {
        return mkv_error(&ctx->log, MKV_ERR_NOMEM, "no memory for a post");
    }
    *submission = *values;
    submission->next = __atomic_load_n(&ctx->submissions, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&ctx->submissions, &submission->next,
                                        submission, 1, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED)) {
    }
    mkv_ctx_wake_all(ctx);
    if (mkv_try_enter(ctx)) { /* the lock's owner may have looked before */
        mkv_leave(ctx);
    }
    return MKV_OK;
}

/* The submission was accepted before. If it is refused now, the state changed in
 * between, and the caller must learn that the post is not made. */
static void mkv_post_take(const mkv_submission_t *submission)
{
    mkv_xfer_t *xfer = submission->xfer;
    mkv_status_t status;

    status =
        mkv_xfer_post_locked(xfer, submission->leg, submission->plan, &submission->sel,
                             submission->has_gate ? &submission->gate : NULL);
    if (status != MKV_OK) {
        mkv_leg_t *leg = &xfer->legs[submission->leg];
        mkv_leg_fail(leg, status, "peer %s, leg %u: a post is refused: %s",
                     leg->peer->name, leg->index, mkv_last_error());
    }
}

static unsigned mkv_posts_take(mkv_ctx_t *ctx)
{
    mkv_submission_t *submission, *next, *first = NULL;
    unsigned count = 0;

    if (!mkv_ctx_has_submissions(ctx)) {
        return 0; /* not atomic: other processors need not see it */
    }
    submission = __atomic_exchange_n(&ctx->submissions, NULL, __ATOMIC_ACQUIRE);
    for (; submission != NULL; submission = next) {
        next = submission->next;
        submission->next = first;
        first = submission;
    }
    for (; first != NULL; first = next) {
        next = first->next;
        mkv_post_take(first);
        free(first);
        ++count;
    }
    ctx->is_progress_due |= (count > 0); /* posts may be made in part so far */
    return count;
}

static mkv_status_t mkv_post_read(const mkv_log_t *log, const mkv_sel_t *sel,
                                  const mkv_gate_t *gate, mkv_submission_t *values)
{
    mkv_status_t status = MKV_OK;

    if (sel != NULL) {
        status = mkv_struct_read(log, &mkv_struct_sel, sel, &values->sel);
    }
    if ((gate != NULL) && (status == MKV_OK)) {
        status = mkv_struct_read(log, &mkv_struct_gate, gate, &values->gate);
    }
    if ((gate != NULL) && (status == MKV_OK) && (values->gate.ready == NULL) &&
        (values->gate.value == 0)) {
        status =
            mkv_error(log, MKV_ERR_INVALID,
                      "gate %llu: value 0 opens at once, expected at least 1, or a "
                      "callback",
                      (unsigned long long)values->gate.id);
    }
    return status;
}

static mkv_status_t mkv_xfer_post_held(const mkv_submission_t *values)
{
    mkv_xfer_t *xfer = values->xfer;
    mkv_status_t status;

    if (mkv_try_enter(xfer->ctx)) {
        status = mkv_xfer_post_locked(xfer, values->leg, values->plan, &values->sel,
                                      values->has_gate ? &values->gate : NULL);
        return mkv_leave_status(xfer->ctx, status);
    }
    status = mkv_post_check(xfer, values->leg, values->plan, &values->sel);
    return (status == MKV_OK) ? mkv_post_submit(values) : status;
}

mkv_status_t mkv_xfer_post(mkv_xfer_t *xfer, uint32_t leg, mkv_plan_t *plan,
                           const mkv_sel_t *sel, const mkv_gate_t *gate)
{
    mkv_submission_t values = {.xfer = xfer,
                               .leg = leg,
                               .plan = plan,
                               .sel = {.size = sizeof(values.sel)},
                               .gate = {.size = sizeof(values.gate)},
                               .has_gate = (gate != NULL)};
    mkv_status_t status;

    MKV_HOLD(xfer->ctx, "xfer_post", return MKV_ERR_INVALID);
    status = mkv_post_read(&xfer->ctx->log, sel, gate, &values);
    return (status == MKV_OK) ? mkv_xfer_post_held(&values) : status;
}

void mkv_posts_cleanup(mkv_ctx_t *ctx)
{
    mkv_calls_t *calls;
    mkv_post_t *post;

    while ((calls = ctx->free_calls) != NULL) {
        ctx->free_calls = calls->next;
        free(calls);
    }
    while (!mkv_list_is_empty(&ctx->free_posts)) {
        post = mkv_list_head(&ctx->free_posts, mkv_post_t, list);
        mkv_list_del(&post->list);
        free(post->lists.lists);
        free(post);
    }
}

static bool mkv_leg_has_gate(const mkv_leg_t *leg)
{
    return !mkv_list_is_empty(&leg->posts) &&
           (mkv_list_head(&leg->posts, mkv_post_t, list)->gate_state != MKV_GATE_OPEN);
}

static uint64_t mkv_leg_moving(const mkv_leg_t *leg)
{
    const mkv_post_t *post;
    uint64_t bytes = 0;

    mkv_list_for_each(post, &leg->running, list)
    {
        bytes += post->bytes;
    }
    return bytes;
}

/* End posts that wait for the peer; the others end with their UCX calls */
static void mkv_leg_posts_ended(mkv_leg_t *leg)
{
    mkv_leg_cancel_posts(leg);
    mkv_stage_leg_ended(leg);
}

static void mkv_leg_posts_settled(mkv_leg_t *leg)
{
    mkv_pulls_drop(leg);
}

static void mkv_leg_posts_freed(mkv_leg_t *leg)
{
    mkv_push_cleanup(leg);
}

void mkv_posts_listen(mkv_ctx_t *ctx)
{
    static const mkv_leg_listener_t listener = {
        .ended = mkv_leg_posts_ended,
        .has_gate = mkv_leg_has_gate,
        .moving = mkv_leg_moving,
        .pull = mkv_push_receive,
        .pulled = mkv_pull_answered,
        .settled = mkv_leg_posts_settled,
        .freed = mkv_leg_posts_freed,
    };

    ctx->leg_listener = &listener;
    ctx->take = mkv_posts_take;
}
