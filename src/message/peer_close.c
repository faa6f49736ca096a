/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The end of a remote context: it fails, is found gone, or is closed. conn.c draws the
 * states.
 *
 * The object outlives its close: maps, legs, packets and requests refer to it, and the
 * endpoint's close request must have completed. An endpoint is closed exactly once.
 */

#include "message/peer_close.h"

#include "base/event.h"
#include "message/heartbeat.h"
#include "message/listen.h"
#include "message/message.h"
#include "peer/packet.h"

/* Interval of checks while blocks wait for a proof */
#define MKV_PEER_LOOK_NS (20 * MKV_NSEC_PER_MSEC)
/* Time that a closing context waits for a peer in the same process. The closing thread
 * may be the one that makes the peer's progress. All transfers have ended by then. */
#define MKV_PEER_HERE_MS 1000u
/* Idle rounds of UCX's progress until all messages of a dead process count as received
 */
#define MKV_PEER_IDLE_ROUNDS 2

/* ---- The endpoint ---------------------------------------------------------------- */

static void mkv_peer_ep_gone(mkv_peer_t *peer)
{
    (void)mkv_peer_take(peer, MKV_CONN_CLOSED);
    mkv_peer_notify_look(peer);
}

static void mkv_peer_close_cb(void *request, ucs_status_t status, void *user_data)
{
    (void)status; /* the endpoint is closed in any case */
    mkv_peer_ep_gone(user_data);
    ucp_request_free(request);
}

/* Close the endpoint, if the event leads to that state */
static void mkv_peer_close_ep(mkv_peer_t *peer, mkv_conn_event_t event)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS |
                                                 UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA,
                                 .flags = UCP_EP_CLOSE_FLAG_FORCE,
                                 .cb.send = mkv_peer_close_cb,
                                 .user_data = peer};
    mkv_conn_state_t before = peer->state;
    ucs_status_ptr_t request;

    if ((mkv_peer_take(peer, event) != MKV_OK) || (peer->state == before)) {
        return; /* the endpoint was closed or cut meanwhile */
    }

    request = ucp_ep_close_nbx(peer->ep, &param);
    if (UCS_PTR_IS_ERR(request)) {
        mkv_log_warn(peer->ctx, "peer %s: ucp_ep_close_nbx() failed: %s", peer->name,
                     ucs_status_string(UCS_PTR_STATUS(request)));
    }
    if (!UCS_PTR_IS_PTR(request)) {
        mkv_peer_ep_gone(peer);
    }
}

/* ---- Failing --------------------------------------------------------------------- */

/*
 * UCX completes the calls of a failed endpoint by itself, but stops progressing a
 * transport with the last endpoint that uses it. If the endpoint is closed too early,
 * they never complete. If this side has cut the connection, closing the endpoint is
 * what completes them.
 */
static bool mkv_peer_returns_calls(const mkv_peer_t *peer)
{
    return peer->is_broken && (peer->inflight_ops > 0) && !peer->is_declared_dead &&
           !peer->ctx->is_closing;
}

void mkv_peer_step_waiting(mkv_peer_t *peer)
{
    if ((peer->state == MKV_CONN_GONE) && (peer->inflight_ops == 0)) {
        mkv_claims_release(peer->ctx->claims, peer->claim);
        peer->claim = 0;
        if (peer->num_refs == 0) {
            mkv_remote_withdraw(&peer->remote); /* the caller may keep the peer */
        }
    }
    if (peer->state != MKV_CONN_FAILED) {
        return;
    }
    if (peer->inflight_ops == 0) {
        mkv_peer_close_ep(peer, MKV_CONN_DRAINED);
    } else if (!mkv_peer_returns_calls(peer) &&
               (mkv_ctx_now(peer->ctx) >= peer->deadline)) {
        mkv_peer_close_ep(peer, MKV_CONN_EXPIRED);
    }
}

/* Raised behind the events of the peer's transfers: an application that drops requests
 * at the end of a connection must know by then which of them were complete */
static void mkv_peer_raise_end(mkv_peer_t *peer)
{
    bool has_left = (peer->end == MKV_PEER_END_LEFT);
    mkv_news_t *event;

    if (!has_left) {
        mkv_log_warn(peer->ctx, "peer %s: %s", peer->name, peer->error);
    }
    event =
        mkv_event_add(peer->ctx, has_left ? MKV_EV_PEER_CLOSED : MKV_EV_PEER_FAILED);
    if (event != NULL) {
        event->peer = peer;
        event->status = has_left ? MKV_OK : peer->status;
        mkv_event_text(event, "peer %s: %s", peer->name, peer->error);
    }
}

void mkv_peer_step_failed(mkv_peer_t *peer)
{
    mkv_packets_cleanup(&peer->rx_reorder);
    peer->num_reorder = 0;
    peer->reorder_bytes = 0;
    mkv_peer_step_waiting(peer);
    mkv_peer_notify_ended(peer);
    mkv_peer_raise_end(peer);
    mkv_ctx_deadline(peer->ctx, 0); /* check again whether the process is gone */
}

/* Whether the claim is over and all earlier messages have arrived. These may lie in
 * sockets and our queues until UCX finds no more of them */
static bool mkv_peer_claim_is_over(const mkv_peer_t *peer)
{
    return (peer->claim_idle != 0) && (peer->ctx->num_idle >= peer->claim_idle);
}

/* A destroyed queue pair refuses operations that still come */
static bool mkv_peer_is_refused_once_cut(const mkv_peer_t *peer)
{
    return !peer->has_local_lane && (peer->backend == MKV_BACKEND_RDMA);
}

bool mkv_peer_is_harmless(mkv_peer_t *peer)
{
    if (peer->state != MKV_CONN_GONE) {
        return false;
    }
    if ((peer->end == MKV_PEER_END_LEFT) || peer->is_declared_dead ||
        mkv_peer_claim_is_over(peer)) {
        return true;
    }
    if (peer->has_local_lane) {
        return false; /* its processor or GPU needs no connection of ours */
    }
    /* A connection that UCX has reported broken carries no more data. This does not
     * hold if this side has cut it off from a slow peer, as its data may still be in
     * flight in other sockets, or if the peer still holds its claim. */
    return mkv_peer_is_refused_once_cut(peer) ||
           ((peer->end != MKV_PEER_END_CUT) &&
            (peer->watch.state == MKV_CLAIM_UNKNOWN));
}

void mkv_peer_check_late_drain(mkv_peer_t *peer, bool has_calls, uint64_t *seen,
                               const char *what, uint64_t id)
{
    if (mkv_conn_is_alive(peer->state) && mkv_heartbeat_is_silent(peer, seen) &&
        (has_calls || mkv_peer_is_refused_once_cut(peer))) {
        mkv_peer_fail(peer, MKV_ERR_DRAIN_TIMEOUT,
                      "%s %llu did not drain, the connection of a silent peer was cut",
                      what, (unsigned long long)id);
    }
}

/* ---- Closing --------------------------------------------------------------------- */

/*
 * The endpoint is to be closed, in the next step. Not from here: UCX calls back also
 * while it fails an endpoint, for each request that waits on one of its lanes, and then
 * goes on to the next lane. A forced close frees the endpoint below it, in UCX 1.22 and
 * 1.23 (ucp_ep_discard_lanes(), ucp_ep.c).
 */
static void mkv_peer_note_left(mkv_peer_t *peer)
{
    peer->has_left = true;
    peer->ctx->is_progress_due = true;
}

/* Goodbye has arrived. Over tcp a flushing close would wait for the peer's progress
 * once more if UCX itself has sent anything meanwhile. It would never return if the
 * peer hangs. */
static void mkv_peer_left_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_peer_t *peer = user_data;

    (void)status; /* the connection ends in either case */
    mkv_peer_note_left(peer);
    mkv_peer_put(peer);
    if (request != NULL) {
        ucp_request_free(request);
    }
}

/* All our operations have arrived: no later one touches the peer's memory */
static void mkv_peer_bye_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_peer_t *peer = user_data;
    mkv_msg_t msg = {.type = MKV_MSG_BYE};

    if ((status == UCS_OK) && (peer->state == MKV_CONN_LEAVING)) {
        mkv_text(msg.text, sizeof(msg.text), "closed by the peer");
        (void)mkv_message_send(peer, &msg);
        mkv_peer_flush(peer, mkv_peer_left_cb);
    } else {
        mkv_peer_note_left(peer);
    }
    mkv_peer_put(peer);
    if (request != NULL) {
        ucp_request_free(request);
    }
}

/* A peer that has sent goodbye answers nothing any more: queue pairs would retry for
 * seconds to a destroyed one */
static bool mkv_peer_has_left_first(const mkv_peer_t *peer)
{
    return (peer->state == MKV_CONN_LEAVING) && (peer->end == MKV_PEER_END_LEFT);
}

/* Transfers do not wait for its messages any more, only for this side's calls */
static bool mkv_peer_is_idle(mkv_peer_t *peer)
{
    return mkv_peer_listeners_are_idle(peer) ||
           ((peer->end == MKV_PEER_END_LEFT) && (peer->inflight_ops == 0));
}

/*
 * Flush, say goodbye, flush, close, by force: UCX would flush in its close, too, but a
 * close that waits for a peer that is stopped cannot be cut any more: a second one is
 * refused, and ucp_worker_destroy() asserts that there is none (ucp_ep.c). A flush of
 * our own can.
 */
unsigned mkv_peer_step_closing(mkv_peer_t *peer)
{
    unsigned count = 0;

    if ((peer->state == MKV_CONN_ENDING) && mkv_peer_is_idle(peer) &&
        (mkv_peer_take(peer, MKV_CONN_IDLE) == MKV_OK)) {
        mkv_peer_flush(peer, mkv_peer_bye_cb);
        ++count;
    }
    if (mkv_peer_has_left_first(peer)) {
        mkv_peer_note_left(peer);
    }
    if (peer->has_left) {
        peer->has_left = false;
        mkv_peer_close_ep(peer, MKV_CONN_LEFT);
        ++count;
    }
    return count;
}

static uint64_t mkv_peer_end_timeout(const mkv_peer_t *peer)
{
    uint64_t drain = peer->ctx->opts->drain_timeout;

    return (peer->ctx->is_closing && (drain > MKV_PEER_HERE_MS) &&
            mkv_ctx_is_open(peer->process.ctx_id))
               ? MKV_PEER_HERE_MS
               : drain;
}

/* The caller has released the peer; its transfers end and notify the other side */
static void mkv_peer_end_here(mkv_peer_t *peer)
{
    mkv_ctx_t *ctx = peer->ctx;
    bool was_alive = mkv_conn_is_alive(peer->state);

    if (mkv_peer_take(peer, MKV_CONN_CLOSE) != MKV_OK) {
        return;
    }
    if (was_alive) {
        peer->deadline =
            mkv_ctx_now(ctx) + mkv_peer_end_timeout(peer) * MKV_NSEC_PER_MSEC;
        peer->status = MKV_ERR_PEER;
        mkv_text(peer->error, sizeof(peer->error), "closed here");
    }
    if (was_alive ||
        !mkv_list_is_empty(&peer->changed)) { /* a failure not reported yet */
        mkv_list_del(&peer->changed);
        mkv_peer_notify_ended(peer);
    }
    mkv_ctx_deadline(ctx, peer->deadline);
}

mkv_status_t mkv_peer_close_locked(mkv_peer_t *peer, mkv_close_mode_t mode)
{
    mkv_ctx_t *ctx = peer->ctx;
    const mkv_peer_listener_t *user;
    uint64_t id;

    user = (mode == MKV_CLOSE_FLUSH) ? mkv_peer_find_open_listener(peer, &id) : NULL;
    if (user != NULL) {
        return mkv_error(&ctx->log, MKV_ERR_BUSY,
                         "peer %s is used by open %s, the first is %llu", peer->name,
                         user->what, (unsigned long long)id);
    }

    peer->remote.peer = NULL;
    mkv_events_forget(ctx, NULL, peer);
    mkv_list_del(&peer->list);
    mkv_list_add_tail(&ctx->dead_peers, &peer->list);
    --ctx->num_peers;
    mkv_peer_end_here(peer);
    (void)mkv_ctx_step(ctx);
    (void)mkv_peer_step_closing(peer);
    return MKV_OK;
}

void mkv_peer_declare_dead_locked(mkv_peer_t *peer)
{
    mkv_log_warn(peer->ctx, "peer %s: declared dead by the caller", peer->name);
    peer->is_declared_dead = true;
    if (mkv_conn_is_alive(peer->state)) {
        mkv_peer_fail(peer, MKV_ERR_PEER, "declared dead by the caller");
    }
    peer->deadline = mkv_ctx_now(peer->ctx); /* no call completes any more */
    mkv_ctx_deadline(peer->ctx, peer->deadline);
    mkv_peer_notify_look(peer);
}

/* ---- Watching -------------------------------------------------------------------- */

static void mkv_peer_expire(mkv_peer_t *peer)
{
    if ((peer->state == MKV_CONN_READY) && peer->is_superseded) {
        mkv_peer_fail(peer, MKV_ERR_PEER, "it has reconnected");
        peer->end = MKV_PEER_END_CUT; /* operations in flight may still arrive */
        peer->deadline = mkv_ctx_now(peer->ctx);
        return;
    }
    if (mkv_conn_is_alive(peer->state)) {
        mkv_peer_end(peer, MKV_CONN_EXPIRED, MKV_ERR_BIND_TIMEOUT,
                     "did not answer in %llu ms",
                     (unsigned long long)peer->ctx->opts->bind_timeout);
        return;
    }
    if (peer->state == MKV_CONN_FAILED) {
        mkv_peer_step_waiting(peer);
        return;
    }
    if (peer->end != MKV_PEER_END_LEFT) {
        peer->end = MKV_PEER_END_CUT;
    }
    mkv_peer_close_ep(peer, MKV_CONN_EXPIRED);
}

/* @return The deadline of the state, if it has not expired. */
static uint64_t mkv_peer_check_deadline(mkv_peer_t *peer, uint64_t now)
{
    if (((peer->state == MKV_CONN_READY) && !peer->is_superseded) ||
        (peer->state >= MKV_CONN_CLOSING)) {
        return MKV_NEVER;
    }
    if (now < peer->deadline) {
        return peer->deadline;
    }
    mkv_peer_expire(peer);
    return MKV_NEVER;
}

/*
 * The peer cannot answer any more. Calls that wait for an answer return when the
 * endpoint is cut, else by a lane's timeouts or UCX's own checks.
 * @return Whether the deadline was moved.
 */
static bool mkv_peer_hurry(mkv_peer_t *peer, uint64_t now)
{
    if (mkv_conn_is_alive(peer->state) || (peer->state >= MKV_CONN_CLOSING) ||
        (peer->deadline <= now)) {
        return false;
    }
    peer->deadline = now;
    return true;
}

/* Our own copies may outlive the connection, and wake no thread then */
static bool mkv_peer_is_over(const mkv_peer_t *peer)
{
    return (peer->state == MKV_CONN_GONE) && (peer->inflight_ops == 0);
}

/*
 * Check the peer's claim. When it is over, fail the peer, or notify its listeners.
 * @return The next time to look.
 */
static uint64_t mkv_peer_check_claim(mkv_peer_t *peer, uint64_t now)
{
    mkv_ctx_t *ctx = peer->ctx;
    uint64_t interval = ctx->opts->peer_check * MKV_NSEC_PER_MSEC;
    mkv_claim_state_t state = mkv_peer_look_claim(peer);
    bool is_needed;
    uint64_t id;

    is_needed = !mkv_conn_is_alive(peer->state) &&
                (mkv_peer_find_open_listener(peer, &id) != NULL);
    if (state <= MKV_CLAIM_HELD) {
        interval = is_needed ? MKV_PEER_LOOK_NS : interval;
        return (interval > 0) ? now + interval : MKV_NEVER;
    }
    if (peer->claim_idle == 0) {
        peer->claim_idle = ctx->num_idle + MKV_PEER_IDLE_ROUNDS;
    }
    if (!mkv_peer_claim_is_over(peer)) {
        return 0;
    }
    if (mkv_conn_is_alive(peer->state)) {
        mkv_peer_fail(peer, MKV_ERR_PEER, "process %u %s", peer->process.pid,
                      (state == MKV_CLAIM_GONE) ? "is gone" : "has cut the connection");
    }
    if (mkv_peer_hurry(peer, now)) {
        return 0;
    }
    if (is_needed) {
        mkv_peer_notify_look(peer);
        return mkv_peer_is_over(peer) ? MKV_NEVER : now + MKV_PEER_LOOK_NS;
    }
    return MKV_NEVER;
}

uint64_t mkv_peer_check(mkv_peer_t *peer, uint64_t now)
{
    uint64_t expire = mkv_peer_listeners_expire(peer, now);
    uint64_t deadline = mkv_peer_check_deadline(peer, now);
    uint64_t beat = mkv_heartbeat_check(peer, now);
    uint64_t next = mkv_peer_check_claim(peer, now);

    next = (deadline < next) ? deadline : next;
    next = (beat < next) ? beat : next;
    return (expire < next) ? expire : next;
}
