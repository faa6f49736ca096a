/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * HELLO. READY needs three things: the peer's description, its answer (or its own
 * HELLO), and a flush of our endpoint, which proves the way there.
 */

#include "peer/hello.h"

#include "base/event.h"
#include "cache/map.h"
#include "peer/backend.h"
#include "peer/message.h"
#include "peer/self_blob.h"

mkv_status_t mkv_hello_send(mkv_peer_t *peer, mkv_msg_type_t type)
{
    mkv_msg_t msg = {.type = type};
    mkv_status_t status;
    mkv_wbuf_t wbuf;

    mkv_wbuf_init(&wbuf);
    status = mkv_ctx_blob(peer->ctx, MKV_BLOB_FULL, &wbuf);
    if (status == MKV_OK) {
        msg.data = wbuf.data;
        msg.length = wbuf.length;
        status = mkv_message_send(peer, &msg);
    }
    if (status == MKV_OK) {
        peer->told_epoch = peer->ctx->epoch;
    }
    mkv_wbuf_cleanup(&wbuf);
    return status;
}

static void mkv_hello_check_ready(mkv_peer_t *peer)
{
    mkv_ctx_t *ctx = peer->ctx;
    char text[384] = "";
    mkv_event_t *event;

    if ((peer->state != MKV_PEER_CONNECTING) || (peer->fail_status != MKV_OK) ||
        !peer->has_info || !peer->has_ack || !peer->is_flushed) {
        return;
    }

    mkv_peer_query_transports(peer);
    if (mkv_peer_check_backend(peer, text, sizeof(text)) != MKV_OK) {
        mkv_peer_fail(peer, MKV_ERR_BACKEND, "%s", text);
        return;
    }
    if (text[0] != '\0') {
        mkv_log_warn(ctx, "peer %s: %s", peer->name, text);
    }

    peer->state = MKV_PEER_READY;
    mkv_list_queue(&ctx->changed_peers, &peer->changed);
    MKV_COUNT(peer, hellos, 1);
    mkv_log_info(ctx,
                 "peer %s ready: backend %s, transports [%s], %s host, %u regions, tp "
                 "%u/%u",
                 peer->name, mkv_backend_string(peer->backend), peer->transports,
                 peer->is_same_host ? "same" : "other", peer->remote.num_regions,
                 peer->remote.info.topology.tp_rank,
                 peer->remote.info.topology.tp_size);
    mkv_peer_log_rejected(peer);
    event = mkv_event_add(ctx, MKV_EV_PEER_READY);
    if (event != NULL) {
        event->peer = peer;
    }
}

static void mkv_hello_flushed_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_peer_t *peer = user_data;

    if (status == UCS_OK) {
        peer->is_flushed = 1;
        mkv_hello_check_ready(peer);
    } else {
        mkv_peer_fail(peer, MKV_ERR_PEER, "no connection: %s",
                      ucs_status_string(status));
    }
    mkv_peer_put(peer);
    if (request != NULL) {
        ucp_request_free(request);
    }
}

mkv_peer_t *mkv_hello_accept(mkv_ctx_t *ctx, const mkv_msg_t *msg)
{
    mkv_blob_info_t info;
    mkv_peer_t *peer = NULL;
    mkv_status_t status;

    status = mkv_blob_decode(msg->data, msg->length, &info);
    if (status != MKV_OK) {
        mkv_log_warn(ctx, "HELLO refused: %s", mkv_status_string(status));
        return NULL;
    }
    if (info.process.ctx_id == msg->from) {
        status = mkv_peer_create(ctx, &info, NULL, &peer);
        if (status == MKV_OK) {
            peer->tx_seq = mkv_msg_answer_seq(msg->seq);
        } else {
            mkv_log_error(ctx, "HELLO of %s: %s", info.name, mkv_last_error());
        }
    }
    mkv_blob_info_cleanup(&info);
    return peer;
}

static void mkv_hello_update(mkv_peer_t *peer, const mkv_msg_t *msg)
{
    mkv_blob_info_t info;
    mkv_status_t status;

    status = mkv_blob_decode(msg->data, msg->length, &info);
    if (status != MKV_OK) {
        MKV_COUNT(peer, msgs_malformed, 1);
        mkv_peer_fail(peer, status, "its %s cannot be read: %s",
                      mkv_msg_string(msg->type), mkv_status_string(status));
        return;
    }

    if (info.process.ctx_id == msg->from) {
        mkv_peer_set_info(peer, &info);
        status = mkv_remote_update(&peer->remote, &info);
        if (status == MKV_OK) {
            mkv_maps_refresh(&peer->remote);
            mkv_remote_trim(&peer->remote);
        }
    } else {
        status = mkv_error(&peer->ctx->log, MKV_ERR_PROTOCOL, "it describes another");
    }
    mkv_blob_info_cleanup(&info);
    if (status != MKV_OK) {
        mkv_peer_fail(peer, status, "%s", mkv_last_error());
        return;
    }
    peer->has_info = 1;
}

void mkv_hello_receive(mkv_peer_t *peer, const mkv_msg_t *msg)
{
    mkv_hello_update(peer, msg);
    if (!peer->has_info || (msg->type == MKV_MSG_REGIONS)) {
        return;
    }

    /* Regions may have been committed since our HELLO, when he did not know us yet */
    if (((msg->type == MKV_MSG_HELLO) || (peer->told_epoch != peer->ctx->epoch)) &&
        (mkv_hello_send(peer, (msg->type == MKV_MSG_HELLO)
                                  ? MKV_MSG_HELLO_ACK
                                  : MKV_MSG_REGIONS) != MKV_OK)) {
        mkv_peer_fail(peer, MKV_ERR_NOMEM, "could not be answered: %s",
                      mkv_last_error());
        return;
    }
    if (!peer->has_ack) {
        peer->has_ack = 1;
        mkv_peer_flush(peer, mkv_hello_flushed_cb);
    }
}

void mkv_hello_tell_regions(mkv_ctx_t *ctx)
{
    mkv_peer_t *peer;

    mkv_list_for_each(peer, &ctx->peers, mkv_peer_t, list)
    {
        if ((peer->state != MKV_PEER_FAILED) && peer->has_info &&
            (mkv_hello_send(peer, MKV_MSG_REGIONS) != MKV_OK)) {
            mkv_peer_fail(peer, MKV_ERR_NOMEM, "could not be told the new regions");
        }
    }
}
