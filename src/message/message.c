/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages between two contexts: sent as eager active messages, delivered in the order
 * in which they were sent, whatever lanes UCX used. Every byte that arrives is checked.
 * Invalid messages are counted and dropped, and other connections go on.
 */

#include "message/message.h"

#include "peer/packet.h"

static void mkv_message_sent_cb(void *request, ucs_status_t status, void *user_data)
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

static void mkv_message_post(mkv_packet_t *packet)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .flags = UCP_AM_SEND_FLAG_EAGER,
        .cb.send = mkv_message_sent_cb,
        .user_data = packet,
        .memory_type = UCS_MEMORY_TYPE_HOST};
    mkv_peer_t *peer = packet->peer;
    ucs_status_ptr_t request;

    MKV_COUNT(peer, msgs_sent, 1);
    request = ucp_am_send_nbx(peer->ep, (unsigned)peer->ctx->opts->am_id, NULL, 0,
                              packet->data, packet->length, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        mkv_message_sent_cb(NULL, UCS_PTR_RAW_STATUS(request), packet);
    }
}

/* The peer fails a connection that brings a larger message */
static bool mkv_message_is_peers_limit(const mkv_peer_t *peer)
{
    return (peer->max_message != 0) &&
           (peer->max_message < peer->ctx->opts->max_message);
}

uint64_t mkv_message_max(const mkv_peer_t *peer)
{
    return mkv_message_is_peers_limit(peer) ? peer->max_message
                                            : peer->ctx->opts->max_message;
}

/* The library's own messages have separate room, which is bounded too: a peer may send
 * requests and never receive the answers */
static mkv_status_t mkv_message_check(const mkv_peer_t *peer, size_t length)
{
    if (length > mkv_message_max(peer)) {
        return MKV_ERR_LENGTH;
    }
    return (peer->tx_bytes / 2 > peer->ctx->opts->max_queued) ? MKV_ERR_BUSY : MKV_OK;
}

static const char *mkv_message_reason(const mkv_peer_t *peer, mkv_status_t status)
{
    switch (status) {
    case MKV_ERR_LENGTH:
        return mkv_message_is_peers_limit(peer) ? "larger than the peer's MAX_MESSAGE"
                                                : "larger than option MAX_MESSAGE";
    case MKV_ERR_BUSY:
        return "the peer takes nothing, and twice MAX_QUEUED waits";
    default:
        return "no memory";
    }
}

/* Encoded behind its packet, in one block of memory */
mkv_packet_t *mkv_message_prepare(mkv_peer_t *peer, mkv_msg_t *msg,
                                  mkv_status_t *status_p)
{
    static const mkv_packet_t head;
    mkv_packet_t *packet;
    mkv_wbuf_t wbuf;
    size_t length;

    if (mkv_conn_is_cut_off(peer->state)) {
        *status_p =
            mkv_error(&peer->ctx->log, MKV_ERR_PEER, "peer %s: no connection for %s",
                      peer->name, mkv_msg_string(msg->type));
        return NULL;
    }
    mkv_wbuf_init(&wbuf);
    mkv_wbuf_put(&wbuf, &head, sizeof(head));
    length = wbuf.length;
    msg->from = peer->ctx->process.ctx_id;
    msg->to = peer->process.ctx_id;
    *status_p = mkv_msg_encode(msg, &wbuf);
    length = wbuf.length - length;
    if (*status_p == MKV_OK) {
        *status_p = mkv_message_check(peer, length);
    }
    if (*status_p != MKV_OK) {
        mkv_error(&peer->ctx->log, *status_p,
                  "peer %s: %s of %zu bytes cannot be sent: %s", peer->name,
                  mkv_msg_string(msg->type), length,
                  mkv_message_reason(peer, *status_p));
        mkv_wbuf_cleanup(&wbuf);
        return NULL;
    }

    packet = (mkv_packet_t *)(void *)wbuf.data;
    mkv_list_init(&packet->list);
    packet->peer = peer;
    packet->length = length;
    packet->seq = peer->tx_seq;
    mkv_msg_finish(packet->data, length, packet->seq);
    return packet;
}

void mkv_message_send_prepared(mkv_packet_t *packet)
{
    mkv_peer_t *peer = packet->peer;

    if (packet->seq != peer->tx_seq) { /* others were sent meanwhile */
        packet->seq = peer->tx_seq;
        mkv_msg_finish(packet->data, packet->length, packet->seq);
    }
    ++peer->tx_seq;
    peer->tx_bytes += packet->length;
    mkv_peer_get(peer);
    mkv_message_post(packet);
}

mkv_status_t mkv_message_send(mkv_peer_t *peer, mkv_msg_t *msg)
{
    mkv_packet_t *packet;
    mkv_status_t status;

    packet = mkv_message_prepare(peer, msg, &status);
    if (packet == NULL) {
        return status;
    }
    mkv_message_send_prepared(packet);
    return MKV_OK;
}

void mkv_messages_send_prepared(mkv_list_t *packets)
{
    mkv_packet_t *packet;

    while (!mkv_list_is_empty(packets)) {
        packet = mkv_list_head(packets, mkv_packet_t, list);
        mkv_list_del(&packet->list);
        mkv_message_send_prepared(packet);
    }
}
