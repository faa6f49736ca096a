/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages between two contexts: sent as eager active messages, delivered in the order
 * in which they were sent, whatever lanes UCX used. Every byte that arrives is checked;
 * what is wrong is counted and dropped, and the service goes on.
 */

#include "peer/message.h"

#include "peer/packet.h"

#include <stdlib.h>
#include <string.h>

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

mkv_status_t mkv_message_send(mkv_peer_t *peer, mkv_msg_t *msg)
{
    mkv_ctx_t *ctx = peer->ctx;
    mkv_packet_t *packet;
    mkv_status_t status;
    mkv_wbuf_t wbuf;

    if ((peer->ep == NULL) || mkv_conn_is_cut_off(peer->state)) {
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
    mkv_message_post(packet);
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
    if (peer->state != MKV_CONN_READY) {
        status = mkv_conn_is_alive(peer->state) ? MKV_ERR_BUSY : MKV_ERR_PEER;
        mkv_error(&ctx->log, status, "peer %s is not ready: %s", peer->name,
                  peer->error);
    } else if (peer->tx_bytes + length > ctx->opts->max_queued) {
        status = mkv_error(&ctx->log, MKV_ERR_BUSY,
                           "peer %s: %zu bytes wait to be sent, MAX_QUEUED is %llu",
                           peer->name, peer->tx_bytes,
                           (unsigned long long)ctx->opts->max_queued);
    } else {
        status = mkv_message_send(peer, &msg);
    }
    mkv_leave(ctx);
    return status;
}
