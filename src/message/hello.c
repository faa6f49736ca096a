/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * HELLO. A connection becomes READY after the peer's description, in its answer or its
 * own HELLO, and then a flush of this side's endpoint, which proves that the peer is
 * reachable.
 */

#include "message/hello.h"

#include "base/event.h"
#include "memory/map.h"
#include "peer/backend.h"
#include "message/credit.h"
#include "message/grant.h"
#include "message/message.h"
#include "peer/process.h"
#include "peer/proof.h"
#include "peer/self_blob.h"

/* The description, with the regions that were added since that epoch; 0: all */
static mkv_status_t mkv_hello_send_since(mkv_peer_t *peer, mkv_msg_type_t type,
                                         uint64_t since)
{
    mkv_audience_t audience = {
        .connection = peer->connection,
        .proof = mkv_proof(peer->ctx->proof_key, peer->process.ctx_id),
        .claim = peer->claim,
        .remote = &peer->remote,
        .since = since};
    mkv_msg_t msg = {.type = type};
    mkv_status_t status;
    mkv_wbuf_t wbuf;

    mkv_wbuf_init(&wbuf);
    status = mkv_ctx_blob(peer->ctx, MKV_BLOB_FULL, &audience, &wbuf);
    if (status == MKV_OK) {
        msg.data = wbuf.data;
        msg.length = wbuf.length;
        status = mkv_message_send(peer, &msg);
    }
    if (status == MKV_OK) {
        peer->sent_epoch = peer->ctx->epoch;
    }
    mkv_wbuf_cleanup(&wbuf);
    return status;
}

mkv_status_t mkv_hello_send(mkv_peer_t *peer, mkv_msg_type_t type)
{
    return mkv_hello_send_since(peer, type, 0);
}

mkv_status_t mkv_hello_repeat(mkv_peer_t *peer)
{
    uint64_t sent_epoch = peer->sent_epoch;
    mkv_status_t status;

    --peer->tx_seq; /* nothing follows HELLO until it is answered */
    status = mkv_hello_send(peer, MKV_MSG_HELLO);
    if (status != MKV_OK) {
        ++peer->tx_seq;
    }
    peer->sent_epoch =
        sent_epoch; /* on a repeated HELLO the peer may receive only the first one */
    return status;
}

/* The flush has proven that the peer is reachable: READY, unless strict mode refuses
 * its lanes */
static void mkv_hello_finish(mkv_peer_t *peer)
{
    mkv_ctx_t *ctx = peer->ctx;
    char text[384] = "";
    mkv_news_t *event;

    mkv_peer_query_transports(peer);
    if (mkv_peer_check_backend(peer, text, sizeof(text)) != MKV_OK) {
        mkv_peer_fail(peer, MKV_ERR_BACKEND, "%s", text);
        return;
    }
    if (text[0] != '\0') {
        mkv_log_warn(ctx, "peer %s: %s", peer->name, text);
    }

    if (mkv_peer_take(peer, MKV_CONN_FLUSHED) != MKV_OK) {
        return;
    }
    mkv_list_queue(&ctx->changed_peers, &peer->changed);
    mkv_ctx_deadline(ctx, 0); /* its heartbeat begins */
    MKV_COUNT(peer, hellos, 1);
    mkv_log_info(
        ctx,
        "peer %s ready: best connected backend %s, transports [%s], %s host, %u "
        "regions, tp %u/%u",
        peer->name, mkv_backend_string(peer->backend), peer->transports,
        peer->is_same_host ? "same" : "other", peer->remote.num_regions,
        peer->remote.info.topology.tp_rank, peer->remote.info.topology.tp_size);
    mkv_peer_log_rejected(peer);
    mkv_credit_report(peer);
    event = mkv_event_add(ctx, MKV_EV_PEER_READY);
    if (event != NULL) {
        event->peer = peer;
    }
}

static void mkv_hello_flushed_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_peer_t *peer = user_data;

    if (peer->state != MKV_CONN_SHAKING) {
        (void)mkv_peer_take(peer, MKV_CONN_FLUSHED); /* it may have ended */
    } else if (status == UCS_OK) {
        mkv_hello_finish(peer);
    } else {
        mkv_peer_fail(peer, MKV_ERR_PEER, "no connection: %s",
                      ucs_status_string(status));
    }
    mkv_peer_put(peer);
    if (request != NULL) {
        ucp_request_free(request);
    }
}

/* Connection numbers grow: an equal one is a repetition, a lower one is outdated */
static bool mkv_hello_is_next(const mkv_blob_info_t *info, const mkv_peer_t *former)
{
    return (former == NULL) || (info->connection > former->remote.info.connection);
}

/* Whether the sender is this connection's context; true if it has not sent a HELLO yet
 */
static bool mkv_hello_is_proven(const mkv_blob_info_t *info, const mkv_peer_t *former)
{
    if ((former == NULL) || (former->remote.info.proof == 0) ||
        (former->remote.info.proof == info->proof)) {
        return true;
    }
    ++former->ctx->count.msgs_dropped;
    mkv_log_warn(former->ctx,
                 "HELLO of %s (pid %u) has the context number of peer %s, but not its "
                 "proof; ignored",
                 info->name, info->process.pid, former->name);
    return false;
}

static bool mkv_hello_is_welcome(mkv_ctx_t *ctx, const mkv_blob_info_t *info)
{
    mkv_caller_t caller = {.size = sizeof(caller),
                           .name = info->name,
                           .context = info->process.ctx_id,
                           .pid = info->process.pid,
                           .is_same_host =
                               mkv_process_is_local(&ctx->process, &info->process),
                           .topology = info->topology,
                           .model = info->model};
    mkv_status_t status;

    if (ctx->params.accept == NULL) {
        return true;
    }
    status = ctx->params.accept(ctx->params.accept_arg, &caller);
    if (status != MKV_OK) {
        ++ctx->count.msgs_dropped;
        mkv_log_info(ctx, "HELLO of %s (pid %u) was not accepted: %s", info->name,
                     info->process.pid, mkv_status_string(status));
    }
    return status == MKV_OK;
}

mkv_peer_t *mkv_hello_accept(mkv_ctx_t *ctx, const mkv_msg_t *msg, mkv_peer_t *former)
{
    mkv_blob_info_t info;
    mkv_peer_t *peer = NULL;
    mkv_status_t status;

    status = mkv_blob_decode(msg->data, msg->length, &info);
    if (status != MKV_OK) {
        mkv_log_warn(ctx, "HELLO refused: %s", mkv_status_string(status));
        return NULL;
    }
    if ((info.process.ctx_id == msg->from) && mkv_hello_is_next(&info, former) &&
        mkv_hello_is_proven(&info, former) && mkv_hello_is_welcome(ctx, &info)) {
        status = mkv_peer_create(ctx, &info, NULL, &peer);
        if (status == MKV_OK) {
            peer->tx_seq = mkv_msg_answer_seq(msg->seq);
            if (former != NULL) {
                mkv_peer_supersede(former);
            }
        } else {
            mkv_log_error(ctx, "HELLO of %s: %s", info.name, mkv_last_error());
        }
    }
    mkv_blob_info_cleanup(&info);
    return peer;
}

/* At most one event waits; the caller queries the current regions after the poll */
static void mkv_hello_raise_change(mkv_peer_t *peer, uint64_t former_epoch,
                                   unsigned num_stale)
{
    mkv_news_t *event;

    if ((peer->state != MKV_CONN_READY) || (peer->remote.epoch == former_epoch) ||
        (peer->regions_raised != mkv_polled(&peer->regions_polled))) {
        return;
    }
    event = mkv_event_add(peer->ctx, MKV_EV_PEER_REGIONS);
    if (event != NULL) {
        mkv_event_count(event, &peer->regions_polled, 1);
        ++peer->regions_raised;
        event->peer = peer;
        event->id = peer->remote.epoch;
        event->value = num_stale;
    }
}

/* Take over the peer's description, or fail the peer */
static mkv_status_t mkv_hello_update(mkv_peer_t *peer, const mkv_msg_t *msg)
{
    uint64_t epoch = peer->remote.epoch;
    mkv_blob_info_t info;
    mkv_status_t status;
    unsigned num_stale;

    status = mkv_blob_decode(msg->data, msg->length, &info);
    if (status != MKV_OK) {
        MKV_COUNT(peer, msgs_malformed, 1);
        mkv_peer_fail(peer, status, "its %s cannot be read: %s",
                      mkv_msg_string(msg->type), mkv_status_string(status));
        return status;
    }

    if ((info.process.ctx_id == msg->from) && mkv_hello_is_proven(&info, peer)) {
        mkv_peer_set_info(peer, &info);
        status = mkv_remote_update(&peer->remote, &info);
        if (status == MKV_OK) {
            num_stale = mkv_maps_refresh(&peer->remote);
            if (info.since == 0) { /* full list; false: only additions */
                mkv_remote_trim(&peer->remote);
            }
            mkv_hello_raise_change(peer, epoch, num_stale);
        }
    } else {
        status = mkv_error(&peer->ctx->log, MKV_ERR_PROTOCOL,
                           "it describes a different context");
    }
    mkv_blob_info_cleanup(&info);
    if (status != MKV_OK) {
        mkv_peer_fail(peer, status, "%s", mkv_last_error());
    }
    return status;
}

/* Regions may have been committed between our HELLO and the peer's answer */
static mkv_status_t mkv_hello_answer(mkv_peer_t *peer, mkv_msg_type_t type)
{
    mkv_status_t status = MKV_OK;

    if (type == MKV_MSG_HELLO) {
        status = mkv_hello_send(peer, MKV_MSG_HELLO_ACK);
    } else if (peer->sent_epoch != peer->ctx->epoch) {
        status = mkv_hello_send(peer, MKV_MSG_REGIONS);
    }
    if (status != MKV_OK) {
        mkv_peer_fail(peer, MKV_ERR_NOMEM, "answering HELLO failed: %s",
                      mkv_last_error());
    }
    return status;
}

void mkv_hello_receive(mkv_peer_t *peer, const mkv_msg_t *msg)
{
    bool is_first = (peer->state == MKV_CONN_CONNECTING);
    bool is_hello = (msg->type != MKV_MSG_REGIONS);

    if ((mkv_peer_take(peer, is_hello ? MKV_CONN_HELLO : MKV_CONN_REGIONS) != MKV_OK) ||
        (mkv_hello_update(peer, msg) != MKV_OK) || !is_hello ||
        (mkv_hello_answer(peer, msg->type) != MKV_OK)) {
        return;
    }
    if (is_first) {
        mkv_peer_flush(peer, mkv_hello_flushed_cb);
    }
}

mkv_status_t mkv_hello_send_keys(mkv_peer_t *peer)
{
    mkv_status_t status = mkv_hello_send(peer, MKV_MSG_REGIONS);

    if (status != MKV_OK) {
        mkv_peer_fail(peer, status, "sending the keys of new regions failed");
    }
    return status;
}

/* Send the regions that are new to the peer, or all of them after a removal. A message
 * with all regions costs more the more there are, and each commit sends one. */
static mkv_status_t mkv_hello_send_new(mkv_peer_t *peer)
{
    bool is_more = (peer->sent_epoch >= peer->ctx->removed_epoch);

    return mkv_hello_send_since(peer, MKV_MSG_REGIONS, is_more ? peer->sent_epoch : 0);
}

/* @return A peer without our latest regions, or NULL. */
static mkv_peer_t *mkv_hello_find_behind(mkv_ctx_t *ctx)
{
    mkv_peer_t *peer;

    mkv_list_for_each(peer, &ctx->peers, list)
    {
        if (mkv_conn_is_alive(peer->state) && (peer->state != MKV_CONN_CONNECTING) &&
            (peer->sent_epoch != ctx->epoch)) {
            return peer;
        }
    }
    return NULL;
}

void mkv_hello_send_regions(mkv_ctx_t *ctx)
{
    mkv_peer_t *peer = mkv_hello_find_behind(ctx);

    while (peer != NULL) {
        mkv_grants_trim(peer);
        if (mkv_hello_send_new(peer) != MKV_OK) {
            mkv_peer_fail(peer, MKV_ERR_NOMEM, "sending the new regions failed");
        }
        peer = mkv_hello_find_behind(ctx);
        if (peer != NULL) {
            mkv_pause(ctx);
            peer = mkv_hello_find_behind(ctx); /* the connection may have ended */
        }
    }
}
