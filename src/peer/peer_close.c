/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The end of a remote context: it fails, is found gone, or is closed.
 *
 * The object outlives its close: maps, legs, packets and requests hold references, and
 * the endpoint's close request must have completed. An endpoint is closed exactly once.
 */

#include "peer/peer_close.h"

#include "base/event.h"
#include "peer/message.h"
#include "peer/packet.h"
#include "peer/process.h"

#include <stdlib.h>

/* ---- The endpoint ------------------------------------------------------------------
 */

static void mkv_peer_close_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_peer_t *peer = user_data;

    (void)status; /* closed it is */
    peer->is_ep_gone = 1;
    peer->ctx->peer_listener->look(peer);
    ucp_request_free(request);
}

static void mkv_peer_close_ep_mode(mkv_peer_t *peer, uint32_t flags)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS |
                                                 UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA,
                                 .flags = flags,
                                 .cb.send = mkv_peer_close_cb,
                                 .user_data = peer};
    ucs_status_ptr_t request;

    if (peer->is_ep_closing) {
        return;
    }
    peer->is_ep_closing = 1;
    if (peer->ep == NULL) {
        peer->is_ep_gone = 1;
        return;
    }

    request = ucp_ep_close_nbx(peer->ep, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        if (UCS_PTR_IS_ERR(request)) {
            mkv_log_warn(peer->ctx, "peer %s: ucp_ep_close_nbx() failed: %s",
                         peer->name, ucs_status_string(UCS_PTR_STATUS(request)));
        }
        peer->is_ep_gone = 1;
    }
}

static void mkv_peer_close_ep(mkv_peer_t *peer)
{
    peer->is_cut |=
        (peer->status != MKV_ERR_PEER) && (peer->status != MKV_ERR_TRANSPORT);
    mkv_peer_close_ep_mode(peer, UCP_EP_CLOSE_FLAG_FORCE);
}

/* ---- Failing --------------------------------------------------------------------- */

/*
 * UCX returns the calls of a failed endpoint by itself, but stops progressing a
 * transport with the last endpoint that used it: closed too early, they would never
 * come back. When it is us who cut the connection, closing is what makes them come
 * back.
 */
void mkv_peer_step_waiting(mkv_peer_t *peer)
{
    if (peer->is_close_waiting &&
        ((peer->inflight_ops == 0) || (mkv_ctx_now(peer->ctx) >= peer->deadline))) {
        peer->is_close_waiting = 0;
        mkv_peer_close_ep(peer);
    }
}

void mkv_peer_step_failed(mkv_peer_t *peer)
{
    mkv_event_t *event;

    if (peer->state == MKV_PEER_FAILED) {
        return;
    }

    peer->state = MKV_PEER_FAILED;
    peer->status = peer->fail_status;
    mkv_text(peer->error, sizeof(peer->error), "%s", peer->fail_text);
    if (!peer->is_closed) {
        if (!peer->has_said_bye) {
            mkv_log_warn(peer->ctx, "peer %s: %s", peer->name, peer->error);
        }
        event = mkv_event_add(peer->ctx, MKV_EV_PEER_FAILED);
        if (event != NULL) {
            event->peer = peer;
            event->status = peer->status;
            mkv_text(event->text, sizeof(event->text), "peer %s: %s", peer->name,
                     peer->error);
        }
    }

    mkv_packets_cleanup(&peer->rx_reorder);
    peer->num_reorder = 0;
    peer->reorder_bytes = 0;
    peer->is_close_waiting = 1;
    peer->deadline = mkv_ctx_now(peer->ctx);
    if (peer->status == MKV_ERR_PEER) {
        peer->deadline += peer->ctx->opts->drain_timeout * MKV_NSEC_PER_MSEC;
    }
    mkv_peer_step_waiting(peer);
    peer->ctx->peer_listener->ended(peer);
    mkv_ctx_deadline(peer->ctx, 0); /* look again whether the process is gone */
}

int mkv_peer_is_harmless(mkv_peer_t *peer)
{
    if ((peer->state != MKV_PEER_FAILED) || !peer->is_ep_gone) {
        return 0;
    }
    if (peer->has_said_bye ||
        mkv_process_is_gone(&peer->ctx->process, &peer->process)) {
        return 1;
    }
    /* On another host, a broken connection carries nothing, and a queue pair that we
     * destroyed refuses what still comes. A connection that we cut while the peer may
     * only be slow proves nothing: bytes can be on their way in other sockets. */
    return !peer->is_same_host &&
           (!peer->is_cut || (peer->backend == MKV_BACKEND_RDMA));
}

/* ---- Closing --------------------------------------------------------------------- */

/* Goodbye is said; nothing is left that the close itself could have to wait for */
static void mkv_peer_left_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_peer_t *peer = user_data;

    mkv_peer_close_ep_mode(peer, (status == UCS_OK) ? 0 : UCP_EP_CLOSE_FLAG_FORCE);
    mkv_peer_put(peer);
    if (request != NULL) {
        ucp_request_free(request);
    }
}

/* Everything of ours has arrived: nothing that follows touches the peer's memory */
static void mkv_peer_bye_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_peer_t *peer = user_data;
    mkv_msg_t msg = {.type = MKV_MSG_BYE};

    if (peer->is_ep_closing) {
        /* cut meanwhile */
    } else if (status == UCS_OK) {
        mkv_text(msg.text, sizeof(msg.text), "%s",
                 (peer->state == MKV_PEER_FAILED) ? peer->error : "closed by the peer");
        (void)mkv_message_send(peer, &msg);
        mkv_peer_flush(peer, mkv_peer_left_cb);
    } else {
        mkv_peer_close_ep_mode(peer, UCP_EP_CLOSE_FLAG_FORCE);
    }
    mkv_peer_put(peer);
    if (request != NULL) {
        ucp_request_free(request);
    }
}

/*
 * Flush, say goodbye, flush, close. UCX would flush in its close, too, but a close that
 * waits for a peer that is stopped cannot be cut any more: a second one is refused, and
 * ucp_worker_destroy() asserts that there is none (ucp_ep.c). A flush of our own can.
 */
static void mkv_peer_leave(mkv_peer_t *peer)
{
    peer->is_leaving = 1;
    mkv_peer_flush(peer, mkv_peer_bye_cb);
}

void mkv_peer_step_closing(mkv_peer_t *peer)
{
    if (peer->is_ep_closing || peer->is_leaving) {
        return;
    }
    if (peer->is_close_waiting) {
        return;
    }
    if (peer->is_ep_failed) {
        mkv_peer_close_ep_mode(peer, UCP_EP_CLOSE_FLAG_FORCE);
        return;
    }
    if (peer->ctx->peer_listener->is_idle(peer)) {
        mkv_peer_leave(peer);
    }
}

mkv_status_t mkv_peer_close_locked(mkv_peer_t *peer, mkv_close_mode_t mode)
{
    mkv_ctx_t *ctx = peer->ctx;

    if ((mode == MKV_CLOSE_FLUSH) && !mkv_list_is_empty(&peer->legs)) {
        return mkv_error(&ctx->log, MKV_ERR_BUSY,
                         "peer %s is used by open transfers, the first is %llu",
                         peer->name,
                         (unsigned long long)ctx->peer_listener->first_id(peer));
    }

    peer->is_closed = 1;
    peer->remote.peer = NULL;
    mkv_events_forget(ctx, NULL, peer);
    mkv_list_del(&peer->list);
    mkv_list_add_tail(&ctx->dead_peers, &peer->list);
    --ctx->num_peers;
    peer->deadline = mkv_ctx_now(ctx) + ctx->opts->drain_timeout * MKV_NSEC_PER_MSEC;
    mkv_ctx_deadline(ctx, peer->deadline);
    if (peer->state != MKV_PEER_FAILED) {
        mkv_list_del(&peer->changed);
        peer->state = MKV_PEER_FAILED;
        peer->status = MKV_ERR_PEER;
        mkv_text(peer->error, sizeof(peer->error), "closed here");
        peer->ctx->peer_listener->ended(
            peer); /* stops posting and tells the other side */
    }
    (void)mkv_ctx_step(ctx);
    mkv_peer_step_closing(peer);
    return MKV_OK;
}

/* ---- Watching -------------------------------------------------------------------- */

uint64_t mkv_peer_check(mkv_peer_t *peer, uint64_t now)
{
    mkv_ctx_t *ctx = peer->ctx;
    uint64_t interval = ctx->opts->peer_check * MKV_NSEC_PER_MSEC;
    uint64_t next = (interval > 0) ? now + interval : MKV_NEVER;
    uint64_t expire = ctx->peer_listener->expire(peer, now);

    if ((peer->state == MKV_PEER_CONNECTING) || peer->is_closed ||
        peer->is_close_waiting) {
        if (peer->is_close_waiting) {
            mkv_peer_step_waiting(peer);
            next = (peer->deadline < next) ? peer->deadline : next;
        } else if ((now >= peer->deadline) && peer->is_closed) {
            peer->is_cut = 1;
            mkv_peer_close_ep_mode(peer, UCP_EP_CLOSE_FLAG_FORCE);
        } else if (now >= peer->deadline) {
            mkv_peer_fail(peer, MKV_ERR_BIND_TIMEOUT, "did not answer in %llu ms",
                          (unsigned long long)ctx->opts->bind_timeout);
        } else if (peer->deadline < next) {
            next = peer->deadline;
        }
    }

    if ((peer->state != MKV_PEER_FAILED) && (interval > 0) && peer->is_same_host &&
        mkv_process_is_gone(&ctx->process, &peer->process)) {
        mkv_peer_fail(peer, MKV_ERR_PEER, "process %u is gone", peer->process.pid);
    }
    if ((peer->state == MKV_PEER_FAILED) && !mkv_list_is_empty(&peer->legs)) {
        ctx->peer_listener->look(peer);
        next = (interval > 0) ? next : now + 1000 * MKV_NSEC_PER_MSEC;
    }
    return (expire < next) ? expire : next;
}
