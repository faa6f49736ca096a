/* SPDX-License-Identifier: BSD-3-Clause */

/* Progress: UCX's worker, decisions, posts, deadlines, in this order. */

#include "progress.h"

#include "direct/op_step.h"
#include "message/credit.h"
#include "message/inbox.h"
#include "message/peer_close.h"
#include "post/gate.h"
#include "post/flush.h"
#include "post/post.h"
#include "stage/stage_listen.h"

/* Post queued pieces to UCX, one leg after the other. A leg moves to the end of the
 * list after its turn, so that each round is finite */
static unsigned mkv_ctx_pump(mkv_ctx_t *ctx)
{
    unsigned count = 0;
    mkv_list_t peers;
    mkv_peer_t *peer;

    ctx->round_cost = 0;
    if (mkv_list_is_empty(&ctx->busy_peers)) {
        return 0;
    }
    mkv_list_init(&peers);
    mkv_list_splice(&ctx->busy_peers, &peers);
    while (!mkv_list_is_empty(&peers) && (ctx->round_cost < MKV_ROUND_COST)) {
        peer = mkv_list_head(&peers, mkv_peer_t, busy_list);
        mkv_list_del(&peer->busy_list);
        mkv_list_add_tail(&ctx->busy_peers, &peer->busy_list);
        count += mkv_peer_pump(peer);
    }
    mkv_list_splice(&ctx->busy_peers, &peers);
    mkv_list_splice(&peers, &ctx->busy_peers);
    return count;
}

static void mkv_ctx_check_deadlines(mkv_ctx_t *ctx)
{
    mkv_peer_t *peer;
    mkv_xfer_t *xfer;
    uint64_t now;

    if (!mkv_ctx_may_be_due(ctx, ctx->next_deadline) ||
        ((now = mkv_ctx_now(ctx)) < ctx->next_deadline)) {
        return;
    }

    ctx->next_deadline = MKV_NEVER;
    mkv_list_for_each(peer, &ctx->peers, list)
    {
        mkv_ctx_deadline(ctx, mkv_peer_check(peer, now));
    }
    mkv_list_for_each(peer, &ctx->dead_peers, list)
    {
        mkv_ctx_deadline(ctx, mkv_peer_check(peer, now));
    }
    mkv_list_for_each(xfer, &ctx->xfers, list)
    {
        mkv_xfer_check_deadline(xfer, now);
        mkv_ctx_deadline(ctx, xfer->deadline);
    }
}

static unsigned mkv_ctx_reap(mkv_ctx_t *ctx)
{
    mkv_peer_t *peer, *next;
    unsigned count = 0;

    mkv_list_for_each_safe(peer, next, &ctx->dead_peers, list)
    {
        count += mkv_peer_step_closing(peer);
        if (mkv_peer_is_gone(peer) && mkv_list_is_empty(&peer->legs) &&
            mkv_list_is_empty(&peer->ops) && mkv_list_is_empty(&peer->remote.maps)) {
            mkv_stage_cleanup(peer);
            mkv_peer_destroy(peer);
        }
    }
    return count;
}

static void mkv_peer_step_changed(mkv_peer_t *peer)
{
    if (peer->state == MKV_CONN_READY) {
        mkv_inbox_resume(peer);
    } else {
        mkv_peer_step_failed(peer);
    }
}

/* The conditions are checked here, as few peers meet them */
static inline void mkv_peers_step(mkv_list_t *peers)
{
    mkv_peer_t *peer;

    mkv_list_for_each(peer, peers, list)
    {
        if (!mkv_list_is_empty(&peer->flush_waiting)) {
            mkv_peer_start_flush(peer);
        }
        if (!mkv_conn_is_alive(peer->state)) {
            mkv_peer_step_waiting(peer);
        }
    }
}

static unsigned mkv_progress_step(mkv_ctx_t *ctx)
{
    unsigned count = 0;
    mkv_peer_t *peer;
    mkv_xfer_t *xfer;

    do {
        while (!mkv_list_is_empty(&ctx->changed_peers)) {
            peer = mkv_list_head(&ctx->changed_peers, mkv_peer_t, changed);
            mkv_list_del(&peer->changed);
            mkv_peer_step_changed(peer);
            ++count;
        }
        while (!mkv_list_is_empty(&ctx->dirty_xfers)) {
            xfer = mkv_list_head(&ctx->dirty_xfers, mkv_xfer_t, dirty);
            mkv_list_del(&xfer->dirty);
            mkv_xfer_step(xfer);
            ++count;
        }
    } while (!mkv_list_is_empty(&ctx->changed_peers));

    mkv_peers_step(&ctx->peers);
    mkv_peers_step(&ctx->dead_peers);
    return count;
}

/* Process signals and posts that were queued without the lock. The first check is
 * for the usual case of none. */
static inline unsigned mkv_progress_take(mkv_ctx_t *ctx)
{
    return mkv_ctx_has_signals(ctx) ? mkv_gates_take(ctx) + ctx->take(ctx) : 0;
}

unsigned mkv_progress_locked(mkv_ctx_t *ctx)
{
    unsigned count;

    ctx->time = 0; /* the effects of a callback have the time of the callback */
    ctx->is_in_callbacks = true;
    count = ucp_worker_progress(ctx->worker);
    ctx->is_in_callbacks = false;
    ctx->num_idle += (count == 0);
    count += mkv_progress_step(ctx);
    count += mkv_progress_take(ctx);
    count += mkv_ctx_pump(ctx);
    mkv_ctx_check_deadlines(ctx);
    count += (ctx->next_deadline == 0); /* a deadline of 0 requests another round */
    if (mkv_ctx_has_steps(ctx)) {
        count += mkv_progress_step(ctx);
    }
    count += mkv_ctx_has_signals(ctx) ? mkv_credits_report(ctx) : 0;
    count += mkv_list_is_empty(&ctx->dirty_ops) ? 0 : mkv_ops_step(ctx);
    count += mkv_ctx_reap(ctx);
    ctx->is_progress_due = (count > 0);
    return count;
}

unsigned mkv_progress(mkv_ctx_t *ctx)
{
    unsigned count;

    MKV_HOLD(ctx, "progress", return 0);
    mkv_enter(ctx);
    count = mkv_progress_locked(ctx);
    if ((count > 0) || mkv_ctx_has_events(ctx)) {
        mkv_ctx_wake(
            ctx); /* this thread has consumed the event that another thread waits for */
    }
    mkv_leave_quietly(ctx);
    return count;
}

void mkv_progress_init(mkv_ctx_t *ctx)
{
    ctx->step = mkv_progress_step;
    ctx->progress = mkv_progress_locked;
}
