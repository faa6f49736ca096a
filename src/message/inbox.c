/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages from other contexts, delivered in the order in which they were sent,
 * whatever lanes UCX used. Every byte that arrives is checked. An invalid message is
 * counted and dropped. If it has a place in a connection's sequence, that connection
 * fails with the reason, because later messages could not be delivered; others go on.
 */

#include "message/inbox.h"

#include "message/credit.h"
#include "message/deliver.h"
#include "message/heartbeat.h"
#include "message/hello.h"
#include "message/listen.h"
#include "peer/packet.h"

#include <stdlib.h>
#include <string.h>

/* ---- Delivering ------------------------------------------------------------------ */

static void mkv_inbox_user(mkv_peer_t *peer, const mkv_msg_t *msg)
{
    mkv_news_t *event = mkv_peer_deliver(peer, MKV_EV_MSG, msg);

    if (event != NULL) {
        event->value = msg->value;
    }
}

static void mkv_inbox_dispatch(mkv_peer_t *peer, const mkv_msg_t *msg, const void *data,
                               size_t length)
{
    MKV_COUNT(peer, msgs_received, 1);
    if (mkv_peer_is_closed(peer) && (msg->type != MKV_MSG_TERM) &&
        (msg->type != MKV_MSG_DRAINED) && (msg->type != MKV_MSG_BYE) &&
        (msg->type != MKV_MSG_PING)) {
        return; /* a closed connection accepts only messages that end transfers */
    }
    switch (msg->type) {
    case MKV_MSG_HELLO:
    case MKV_MSG_HELLO_ACK:
    case MKV_MSG_REGIONS:
        mkv_hello_receive(peer, msg);
        break;
    case MKV_MSG_BYE:
        mkv_peer_end(peer, MKV_CONN_BYE, MKV_ERR_PEER, "%s", msg->text);
        break;
    case MKV_MSG_USER:
        mkv_inbox_user(peer, msg);
        break;
    case MKV_MSG_PING:
        mkv_heartbeat_answer(peer);
        break;
    case MKV_MSG_CREDIT:
        mkv_credit_update(peer, msg);
        break;
    case MKV_MSG_PONG:
    case MKV_MSG_SKIPPED:
        break;
    default:
        mkv_peer_notify_message(peer, msg, data, length);
        break;
    }
}

/* ---- Order ----------------------------------------------------------------------- */

static bool mkv_inbox_must_wait(const mkv_peer_t *peer, const mkv_msg_t *msg)
{
    return (msg->seq != peer->rx_seq) ||
           ((peer->state < MKV_CONN_READY) && (msg->type >= MKV_MSG_EXPOSE));
}

/*
 * Insert in order; equal numbers are one message.
 *
 * @return 0: a duplicate
 */
static bool mkv_inbox_insert(mkv_peer_t *peer, mkv_packet_t *packet)
{
    mkv_packet_t *next;

    mkv_list_for_each(next, &peer->rx_reorder, list)
    {
        if (next->seq == packet->seq) {
            MKV_COUNT(peer, msgs_stale, 1);
            return false;
        }
        if (next->seq - peer->rx_seq > packet->seq - peer->rx_seq) {
            break;
        }
    }
    mkv_list_add_tail(&next->list, &packet->list); /* before next */
    ++peer->num_reorder;
    peer->reorder_bytes += packet->length;
    return true;
}

static void mkv_inbox_keep(mkv_peer_t *peer, uint32_t seq, const void *data,
                           size_t length)
{
    mkv_packet_t *packet;

    if ((peer->num_reorder >= MKV_REORDER_WINDOW) ||
        (peer->reorder_bytes + length > peer->ctx->opts->max_queued)) {
        mkv_peer_fail(peer, MKV_ERR_BUSY,
                      "%u messages of %zu bytes wait out of order, MAX_QUEUED is %llu",
                      peer->num_reorder, peer->reorder_bytes,
                      (unsigned long long)peer->ctx->opts->max_queued);
        return;
    }
    packet = mkv_packet_copy(data, length);
    if (packet == NULL) {
        mkv_peer_fail(peer, MKV_ERR_NOMEM, "no memory for a message of %zu bytes",
                      length);
        return;
    }
    packet->seq = seq;
    if (!mkv_inbox_insert(peer, packet)) {
        mkv_packet_free(packet);
    }
}

/*
 * Handle the first message in sequence: the answer to our HELLO, or the peer's own
 * HELLO when both sides connect at once. Messages kept before it are checked again,
 * because those of a former connection with the same process are outside this
 * connection's window.
 */
static void mkv_inbox_start(mkv_peer_t *peer, const mkv_msg_t *msg)
{
    mkv_packet_t *packet;
    mkv_list_t early;

    if ((msg->type != MKV_MSG_HELLO) && (msg->seq != peer->rx_seq)) {
        return;
    }
    peer->is_rx_started = true;
    peer->rx_seq = msg->seq;
    mkv_list_init(&early);
    mkv_list_splice(&peer->rx_reorder, &early);
    peer->num_reorder = 0;
    peer->reorder_bytes = 0;
    while (!mkv_list_is_empty(&early)) {
        packet = mkv_list_head(&early, mkv_packet_t, list);
        mkv_list_del(&packet->list);
        if ((packet->seq - peer->rx_seq >= MKV_REORDER_WINDOW) ||
            !mkv_inbox_insert(peer, packet)) {
            mkv_packet_free(packet);
        }
    }
}

void mkv_inbox_resume(mkv_peer_t *peer)
{
    mkv_packet_t *packet;
    mkv_msg_t msg;

    while (!mkv_list_is_empty(&peer->rx_reorder) && !mkv_conn_is_cut_off(peer->state)) {
        packet = mkv_list_head(&peer->rx_reorder, mkv_packet_t, list);
        if (mkv_msg_decode(packet->data, packet->length, &msg) != MKV_OK) {
            break; /* impossible: it was decoded when it came */
        }
        if (mkv_inbox_must_wait(peer, &msg)) {
            break;
        }
        mkv_list_del(&packet->list);
        --peer->num_reorder;
        peer->reorder_bytes -= packet->length;
        ++peer->rx_seq;
        mkv_inbox_dispatch(peer, &msg, packet->data, packet->length);
        mkv_packet_free(packet);
    }
}

static mkv_peer_t *mkv_inbox_sender(mkv_ctx_t *ctx, const mkv_msg_t *msg)
{
    mkv_peer_t *peer = mkv_peer_find_former(ctx, msg->from, msg->seq);

    return (peer == NULL) ? mkv_peer_find(ctx, msg->from) : peer;
}

/* Whether this number has a place in the coming sequence, or may have: the sequence is
 * unknown before the first message */
static int mkv_inbox_expects(const mkv_peer_t *peer, uint32_t seq)
{
    return !peer->is_rx_started || (seq - peer->rx_seq < MKV_REORDER_WINDOW);
}

/* Later messages of the sender cannot be delivered any more */
static void mkv_inbox_refuse(mkv_ctx_t *ctx, const void *data, size_t length,
                             mkv_status_t status)
{
    mkv_peer_t *peer = NULL;
    mkv_msg_t msg;

    ++ctx->count.msgs_malformed;
    mkv_log_debug(ctx, "a message of %zu bytes was dropped: %s", length,
                  mkv_status_string(status));
    if (mkv_msg_peek(data, length, &msg) && (msg.to == ctx->process.ctx_id)) {
        peer = mkv_inbox_sender(ctx, &msg);
    }
    if ((peer == NULL) || mkv_conn_is_cut_off(peer->state) ||
        !mkv_inbox_expects(peer, msg.seq)) {
        return;
    }
    if (status == MKV_ERR_LENGTH) {
        mkv_peer_fail(peer, status,
                      "it sent a message of %zu bytes, larger than option MAX_MESSAGE, "
                      "%llu",
                      length, (unsigned long long)ctx->opts->max_message);
    } else {
        mkv_peer_fail(peer, status, "it sent a message of %zu bytes that %s", length,
                      (status == MKV_ERR_VERSION)
                          ? "is of another version of the library"
                          : "cannot be read");
    }
}

/* Handle a HELLO that belongs to no known connection */
static bool mkv_inbox_is_new(const mkv_ctx_t *ctx, const mkv_peer_t *peer,
                             const mkv_msg_t *msg)
{
    if ((msg->type != MKV_MSG_HELLO) || (msg->to != ctx->process.ctx_id) ||
        ctx->is_closing) {
        return false;
    }
    return (peer == NULL) || mkv_conn_is_cut_off(peer->state) ||
           !mkv_inbox_expects(peer, msg->seq);
}

void mkv_inbox_receive(mkv_ctx_t *ctx, const void *data, size_t length)
{
    mkv_peer_t *peer, *accepted;
    mkv_status_t status;
    mkv_msg_t msg;

    status = (length <= ctx->opts->max_message) ? mkv_msg_decode(data, length, &msg)
                                                : MKV_ERR_LENGTH;
    if (status != MKV_OK) {
        mkv_inbox_refuse(ctx, data, length, status);
        return;
    }

    peer = mkv_inbox_sender(ctx, &msg);
    if (mkv_inbox_is_new(ctx, peer, &msg)) {
        accepted = mkv_hello_accept(ctx, &msg, peer);
        peer = (accepted != NULL) ? accepted : peer;
    }
    if ((peer == NULL) || (msg.to != ctx->process.ctx_id) ||
        mkv_conn_is_cut_off(peer->state)) {
        ++ctx->count.msgs_stale;
        return;
    }

    if (!peer->is_rx_started) {
        mkv_inbox_start(peer, &msg);
    }
    if (!mkv_inbox_expects(peer, msg.seq)) {
        MKV_COUNT(peer, msgs_stale, 1);
        return;
    }
    mkv_heartbeat_received(peer);
    if (mkv_inbox_must_wait(peer, &msg)) {
        mkv_inbox_keep(peer, msg.seq, data, length);
    } else {
        ++peer->rx_seq;
        mkv_inbox_dispatch(peer, &msg, data, length);
        mkv_inbox_resume(peer);
    }
    mkv_heartbeat_watch_gap(peer);
}

/* ---- UCX ------------------------------------------------------------------------- */

static ucs_status_t mkv_inbox_am_cb(void *arg, const void *header, size_t header_length,
                                    void *data, size_t length,
                                    const ucp_am_recv_param_t *param)
{
    mkv_ctx_t *ctx = arg;

    (void)header;
    if ((header_length != 0) || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
        ++ctx->count.msgs_malformed; /* not sent by this library */
        return UCS_OK;
    }
    mkv_inbox_receive(ctx, data, length);
    return UCS_OK;
}

static ucs_status_t mkv_inbox_set_handler(mkv_ctx_t *ctx, ucp_am_recv_callback_t cb)
{
    ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = (unsigned)ctx->opts->am_id,
        .flags = UCP_AM_FLAG_WHOLE_MSG,
        .cb = cb,
        .arg = ctx};

    return ucp_worker_set_am_recv_handler(ctx->worker, &param);
}

mkv_status_t mkv_inbox_open(mkv_ctx_t *ctx)
{
    ucs_status_t status = mkv_inbox_set_handler(ctx, mkv_inbox_am_cb);

    if (status != UCS_OK) {
        return mkv_error(&ctx->log, MKV_ERR_TRANSPORT,
                         "ucp_worker_set_am_recv_handler(%llu) failed: %s",
                         (unsigned long long)ctx->opts->am_id,
                         ucs_status_string(status));
    }
    return MKV_OK;
}

void mkv_inbox_close(mkv_ctx_t *ctx)
{
    if (ctx->is_attached) {
        (void)mkv_inbox_set_handler(ctx, NULL);
    }
}
