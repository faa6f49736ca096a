/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages between two contexts: sent as eager active messages, delivered in the order
 * in which they were sent, whatever lanes UCX used. Every byte that arrives is checked;
 * what is wrong is counted and dropped, and the service goes on.
 */

#include "mkv_int.h"

#include <stdlib.h>
#include <string.h>

void mkv_packet_free(mkv_packet_t *packet)
{
    mkv_list_del(&packet->list);
    free(packet->data);
    free(packet);
}

void mkv_packets_cleanup(mkv_list_t *packets)
{
    while (!mkv_list_is_empty(packets)) {
        mkv_packet_free(mkv_list_head(packets, mkv_packet_t, list));
    }
}

/* ---- Sending --------------------------------------------------------------------- */

static void mkv_notify_sent_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_packet_t *packet = user_data;
    mkv_peer_t *peer = packet->peer;

    if (status != UCS_OK) {
        mkv_peer_fail(peer, MKV_ERR_PEER, "a message could not be sent: %s",
                      ucs_status_string(status));
    }
    peer->tx_bytes -= packet->length;
    mkv_packet_free(packet);
    mkv_peer_put(peer);
    if (request != NULL) {
        ucp_request_free(request);
    }
}

static void mkv_notify_post(mkv_packet_t *packet)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .flags = UCP_AM_SEND_FLAG_EAGER,
        .cb.send = mkv_notify_sent_cb,
        .user_data = packet,
        .memory_type = UCS_MEMORY_TYPE_HOST};
    mkv_peer_t *peer = packet->peer;
    ucs_status_ptr_t request;

    MKV_COUNT(peer, msgs_sent, 1);
    request = ucp_am_send_nbx(peer->ep, (unsigned)peer->ctx->opts->am_id, NULL, 0,
                              packet->data, packet->length, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        mkv_notify_sent_cb(NULL, UCS_PTR_RAW_STATUS(request), packet);
    }
}

mkv_status_t mkv_notify_send(mkv_peer_t *peer, mkv_msg_t *msg)
{
    mkv_ctx_t *ctx = peer->ctx;
    mkv_packet_t *packet;
    mkv_status_t status;
    mkv_wbuf_t wbuf;

    if ((peer->ep == NULL) || peer->is_ep_closing || peer->is_close_waiting) {
        return mkv_error(&ctx->log, MKV_ERR_PEER, "peer %s: no connection for %s",
                         peer->name, mkv_msg_string(msg->type));
    }

    mkv_wbuf_init(&wbuf);
    msg->from = ctx->process.ctx_id;
    msg->to = peer->process.ctx_id;
    status = mkv_msg_encode(msg, &wbuf);
    if ((status == MKV_OK) && (wbuf.length > ctx->opts->max_message)) {
        status = MKV_ERR_LENGTH;
    }
    packet = (status == MKV_OK) ? calloc(1, sizeof(*packet)) : NULL;
    if (packet == NULL) {
        status = (status == MKV_OK) ? MKV_ERR_NOMEM : status;
        mkv_error(&ctx->log, status, "peer %s: %s of %zu bytes cannot be sent: %s",
                  peer->name, mkv_msg_string(msg->type), wbuf.length,
                  (status == MKV_ERR_LENGTH) ? "larger than option MAX_MESSAGE"
                                             : "no memory");
        mkv_wbuf_cleanup(&wbuf);
        return status;
    }

    mkv_list_init(&packet->list);
    packet->peer = peer;
    packet->data = wbuf.data;
    packet->length = wbuf.length;
    mkv_msg_finish(packet->data, packet->length, peer->tx_seq++);
    peer->tx_bytes += packet->length;
    mkv_peer_get(peer);
    mkv_notify_post(packet);
    return MKV_OK;
}

mkv_status_t mkv_send(mkv_peer_t *peer, uint64_t id, uint32_t type, const void *header,
                      size_t header_length, const void *data, size_t length)
{
    mkv_msg_t msg = {.type = MKV_MSG_USER,
                     .id = id,
                     .value = type,
                     .header = header,
                     .header_length = header_length,
                     .data = data,
                     .length = length};
    mkv_ctx_t *ctx = peer->ctx;
    mkv_status_t status;

    if ((header_length > ctx->opts->max_message) || (length > ctx->opts->max_message)) {
        return mkv_error(
            &ctx->log, MKV_ERR_LENGTH,
            "a message of %zu + %zu bytes is larger than option MAX_MESSAGE",
            header_length, length);
    }

    mkv_enter(ctx);
    if (peer->state != MKV_PEER_READY) {
        status = (peer->state == MKV_PEER_FAILED) ? MKV_ERR_PEER : MKV_ERR_BUSY;
        mkv_error(&ctx->log, status, "peer %s is not ready: %s", peer->name,
                  peer->error);
    } else if (peer->tx_bytes + length > ctx->opts->max_queued) {
        status = mkv_error(&ctx->log, MKV_ERR_BUSY,
                           "peer %s: %zu bytes wait to be sent, MAX_QUEUED is %llu",
                           peer->name, peer->tx_bytes,
                           (unsigned long long)ctx->opts->max_queued);
    } else {
        status = mkv_notify_send(peer, &msg);
    }
    mkv_leave(ctx);
    return status;
}

/* ---- Receiving ------------------------------------------------------------------- */

static void mkv_notify_user(mkv_peer_t *peer, const mkv_msg_t *msg)
{
    mkv_ctx_t *ctx = peer->ctx;
    size_t total = msg->header_length + msg->length;
    size_t held = total + sizeof(mkv_event_node_t); /* an empty one is not free */
    mkv_event_t *event;
    uint8_t *copy;

    if (ctx->queued_event_bytes + held > ctx->opts->max_queued) {
        MKV_COUNT(peer, msgs_dropped, 1);
        mkv_peer_fail(
            peer, MKV_ERR_BUSY,
            "a message was lost: %zu bytes wait for mkv_poll(), MAX_QUEUED is "
            "%llu",
            ctx->queued_event_bytes, (unsigned long long)ctx->opts->max_queued);
        return;
    }

    copy = malloc(total + 1);
    event = (copy == NULL) ? NULL : mkv_event_add_owned(ctx, MKV_EV_MSG, copy, held);
    if (event == NULL) {
        free(copy);
        MKV_COUNT(peer, msgs_dropped, 1);
        mkv_peer_fail(peer, MKV_ERR_NOMEM, "a message of %zu bytes was lost", total);
        return;
    }

    if (msg->header_length > 0) {
        memcpy(copy, msg->header, msg->header_length);
    }
    if (msg->length > 0) {
        memcpy(copy + msg->header_length, msg->data, msg->length);
    }
    event->peer = peer;
    event->id = msg->id;
    event->value = msg->value;
    event->header = copy;
    event->header_length = msg->header_length;
    event->data = copy + msg->header_length;
    event->length = msg->length;
}

static void mkv_notify_dispatch(mkv_peer_t *peer, const mkv_msg_t *msg,
                                const void *data, size_t length)
{
    MKV_COUNT(peer, msgs_received, 1);
    if (peer->is_closed && (msg->type != MKV_MSG_TERM) &&
        (msg->type != MKV_MSG_DRAINED) && (msg->type != MKV_MSG_BYE)) {
        return; /* only the end of transfers matters now */
    }
    switch (msg->type) {
    case MKV_MSG_HELLO:
    case MKV_MSG_HELLO_ACK:
    case MKV_MSG_REGIONS:
        mkv_peer_hello(peer, msg);
        break;
    case MKV_MSG_BYE:
        peer->has_said_bye = 1;
        mkv_peer_fail(peer, MKV_ERR_PEER, "%s", msg->text);
        break;
    case MKV_MSG_USER:
        mkv_notify_user(peer, msg);
        break;
    default:
        mkv_leg_receive(peer, msg, data, length);
        break;
    }
}

static int mkv_notify_must_wait(const mkv_peer_t *peer, const mkv_msg_t *msg)
{
    return (msg->seq != peer->rx_seq) ||
           ((peer->state == MKV_PEER_CONNECTING) && (msg->type >= MKV_MSG_EXPOSE));
}

/* Ordered; several equal numbers are one message. 0: there is one */
static int mkv_notify_insert(mkv_peer_t *peer, mkv_packet_t *packet)
{
    mkv_packet_t *next;

    mkv_list_for_each(next, &peer->rx_reorder, mkv_packet_t, list)
    {
        if (next->seq == packet->seq) {
            MKV_COUNT(peer, msgs_stale, 1);
            return 0;
        }
        if (next->seq - peer->rx_seq > packet->seq - peer->rx_seq) {
            break;
        }
    }
    mkv_list_add_tail(&next->list, &packet->list); /* before next */
    ++peer->num_reorder;
    peer->reorder_bytes += packet->length;
    return 1;
}

static void mkv_notify_keep(mkv_peer_t *peer, uint32_t seq, const void *data,
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
    packet = calloc(1, sizeof(*packet));
    if (packet != NULL) {
        packet->data = malloc(length);
    }
    if ((packet == NULL) || (packet->data == NULL)) {
        free(packet);
        mkv_peer_fail(peer, MKV_ERR_NOMEM, "no memory for a message of %zu bytes",
                      length);
        return;
    }
    memcpy(packet->data, data, length);
    packet->length = length;
    packet->seq = seq;
    mkv_list_init(&packet->list);
    if (!mkv_notify_insert(peer, packet)) {
        mkv_packet_free(packet);
    }
}

/*
 * The first message in sequence: the answer to our HELLO, or his own, when both sides
 * connect at once. What came before it is looked at again: a message of a former
 * connection with the same process is in no window of this one.
 */
static void mkv_notify_start(mkv_peer_t *peer, const mkv_msg_t *msg)
{
    mkv_packet_t *packet;
    mkv_list_t early;

    if ((msg->type != MKV_MSG_HELLO) && (msg->seq != peer->rx_seq)) {
        return;
    }
    peer->is_rx_started = 1;
    peer->rx_seq = msg->seq;
    mkv_list_init(&early);
    mkv_list_splice(&peer->rx_reorder, &early);
    peer->num_reorder = 0;
    peer->reorder_bytes = 0;
    while (!mkv_list_is_empty(&early)) {
        packet = mkv_list_head(&early, mkv_packet_t, list);
        mkv_list_del(&packet->list);
        if ((packet->seq - peer->rx_seq >= MKV_REORDER_WINDOW) ||
            !mkv_notify_insert(peer, packet)) {
            mkv_packet_free(packet);
        }
    }
}

void mkv_notify_resume(mkv_peer_t *peer)
{
    mkv_packet_t *packet;
    mkv_msg_t msg;

    while (!mkv_list_is_empty(&peer->rx_reorder) && (peer->fail_status == MKV_OK)) {
        packet = mkv_list_head(&peer->rx_reorder, mkv_packet_t, list);
        if (mkv_msg_decode(packet->data, packet->length, &msg) != MKV_OK) {
            break; /* cannot be: it was decoded when it came */
        }
        if (mkv_notify_must_wait(peer, &msg)) {
            break;
        }
        mkv_list_del(&packet->list);
        --peer->num_reorder;
        peer->reorder_bytes -= packet->length;
        ++peer->rx_seq;
        mkv_notify_dispatch(peer, &msg, packet->data, packet->length);
        mkv_packet_free(packet);
    }
}

void mkv_notify_receive(mkv_ctx_t *ctx, const void *data, size_t length)
{
    mkv_peer_t *peer;
    mkv_status_t status;
    mkv_msg_t msg;

    status = (length <= ctx->opts->max_message) ? mkv_msg_decode(data, length, &msg)
                                                : MKV_ERR_LENGTH;
    if (status != MKV_OK) {
        ++ctx->count.msgs_malformed;
        mkv_log_debug(ctx, "a message of %zu bytes was dropped: %s", length,
                      mkv_status_string(status));
        return;
    }

    peer = mkv_peer_find_closed(ctx, msg.from, msg.seq);
    peer = (peer == NULL) ? mkv_peer_find(ctx, msg.from) : peer;
    if ((peer == NULL) && (msg.type == MKV_MSG_HELLO) &&
        (msg.to == ctx->process.ctx_id) && !ctx->is_closing) {
        peer = mkv_peer_accept(ctx, &msg);
    }
    if ((peer == NULL) || (msg.to != ctx->process.ctx_id) ||
        ((peer->state == MKV_PEER_FAILED) && !peer->is_closed) ||
        (peer->fail_status != MKV_OK)) {
        ++ctx->count.msgs_stale;
        return;
    }

    if (!peer->is_rx_started) {
        mkv_notify_start(peer, &msg);
    }
    if (peer->is_rx_started && (msg.seq - peer->rx_seq >= MKV_REORDER_WINDOW)) {
        MKV_COUNT(peer, msgs_stale, 1);
        return;
    }
    if (mkv_notify_must_wait(peer, &msg)) {
        mkv_notify_keep(peer, msg.seq, data, length);
        return;
    }
    ++peer->rx_seq;
    mkv_notify_dispatch(peer, &msg, data, length);
    mkv_notify_resume(peer);
}

static ucs_status_t mkv_notify_am_cb(void *arg, const void *header,
                                     size_t header_length, void *data, size_t length,
                                     const ucp_am_recv_param_t *param)
{
    mkv_ctx_t *ctx = arg;

    (void)header;
    if ((header_length != 0) || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
        ++ctx->count.msgs_malformed; /* not sent by this library */
        return UCS_OK;
    }
    mkv_notify_receive(ctx, data, length);
    return UCS_OK;
}

static ucs_status_t mkv_notify_set_handler(mkv_ctx_t *ctx, ucp_am_recv_callback_t cb)
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

mkv_status_t mkv_notify_init(mkv_ctx_t *ctx)
{
    ucs_status_t status = mkv_notify_set_handler(ctx, mkv_notify_am_cb);

    if (status != UCS_OK) {
        return mkv_error(&ctx->log, MKV_ERR_TRANSPORT,
                         "ucp_worker_set_am_recv_handler(%llu) failed: %s",
                         (unsigned long long)ctx->opts->am_id,
                         ucs_status_string(status));
    }
    return MKV_OK;
}

void mkv_notify_cleanup(mkv_ctx_t *ctx)
{
    if (ctx->is_attached) {
        (void)mkv_notify_set_handler(ctx, NULL);
    }
}
