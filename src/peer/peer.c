/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * One remote context: how it is connected, found and asked; peer_close.c ends it.
 *
 * Each side has its own endpoint, made from the other's worker address, so that both
 * get UCX's error callback. READY needs three things: the peer's description, its
 * answer (or its own HELLO), and a flush of our endpoint, which proves the way there.
 */

#include "mkv_int.h"

#include <stdlib.h>

static void mkv_peer_check_ready(mkv_peer_t *peer);

void mkv_peer_get(mkv_peer_t *peer)
{
    ++peer->num_refs;
}

void mkv_peer_put(mkv_peer_t *peer)
{
    --peer->num_refs; /* freed by mkv_ctx_reap() */
}

mkv_peer_t *mkv_peer_find(mkv_ctx_t *ctx, uint64_t ctx_id)
{
    mkv_peer_t *peer;

    mkv_list_for_each(peer, &ctx->peers, mkv_peer_t, list)
    {
        if (peer->process.ctx_id == ctx_id) {
            return peer;
        }
    }
    return NULL;
}

mkv_peer_t *mkv_peer_find_closed(mkv_ctx_t *ctx, uint64_t ctx_id, uint32_t seq)
{
    mkv_peer_t *peer;

    mkv_list_for_each(peer, &ctx->dead_peers, mkv_peer_t, list)
    {
        if ((peer->process.ctx_id == ctx_id) && !peer->is_ep_closing &&
            (seq - peer->rx_seq < MKV_REORDER_WINDOW)) {
            return peer;
        }
    }
    return NULL;
}

/* ---- Connecting ------------------------------------------------------------------ */

static void mkv_peer_init_lists(mkv_peer_t *peer)
{
    mkv_list_t *lists[] = {&peer->list,          &peer->fail_list,    &peer->busy_list,
                           &peer->rx_reorder,    &peer->early,        &peer->rmems,
                           &peer->maps,          &peer->legs,         &peer->busy_legs,
                           &peer->flush_waiting, &peer->flush_running};
    size_t i;

    for (i = 0; i < sizeof(lists) / sizeof(lists[0]); ++i) {
        mkv_list_init(lists[i]);
    }
}

/* Keep what stays valid without the blob's bytes */
static void mkv_peer_set_info(mkv_peer_t *peer, const mkv_blob_info_t *info)
{
    peer->info = *info;
    peer->info.address = NULL;
    peer->info.mems = NULL;
    peer->info.regions = NULL;
    peer->info.num_mems = peer->info.num_regions = 0;
    peer->process = info->process;
    peer->is_same_host = mkv_process_is_local(&peer->ctx->process, &peer->process);
}

static mkv_status_t mkv_peer_create_ep(mkv_peer_t *peer, const mkv_blob_info_t *info)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER,
                              .address = (const ucp_address_t *)info->address,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler = {mkv_peer_error_cb, peer}};
    ucs_status_t status;

    status = ucp_ep_create(peer->ctx->worker, &params, &peer->ep);
    if (status != UCS_OK) {
        return mkv_error(&peer->ctx->log, MKV_ERR_TRANSPORT,
                         "peer %s: ucp_ep_create() failed: %s", peer->name,
                         ucs_status_string(status));
    }
    return MKV_OK;
}

static mkv_status_t mkv_peer_create(mkv_ctx_t *ctx, const mkv_blob_info_t *info,
                                    const char *name, mkv_peer_t **peer_p)
{
    mkv_peer_t *peer = calloc(1, sizeof(*peer));
    mkv_status_t status;

    if (peer == NULL) {
        return mkv_error(&ctx->log, MKV_ERR_NOMEM, "no memory for a peer");
    }
    mkv_peer_init_lists(peer);
    peer->ctx = ctx;
    mkv_peer_set_info(peer, info);
    mkv_text(peer->name, sizeof(peer->name), "%s", (name != NULL) ? name : info->name);

    status = mkv_event_reserve(ctx, MKV_PEER_EVENTS);
    if (status == MKV_OK) {
        status = mkv_peer_create_ep(peer, info);
    }
    if (status != MKV_OK) {
        mkv_event_unreserve(ctx, MKV_PEER_EVENTS);
        free(peer);
        return status;
    }

    peer->tx_seq = (uint32_t)mkv_ctx_nonce(ctx);
    peer->rx_seq = mkv_msg_answer_seq(peer->tx_seq);
    peer->deadline = mkv_ctx_now(ctx) + ctx->opts->bind_timeout * MKV_NSEC_PER_MSEC;
    mkv_ctx_deadline(ctx, 0); /* includes the checks of its process */
    mkv_list_add_tail(&ctx->peers, &peer->list);
    ++ctx->num_peers;
    *peer_p = peer;
    return MKV_OK;
}

mkv_status_t mkv_peer_announce(mkv_peer_t *peer, mkv_msg_type_t type)
{
    mkv_msg_t msg = {.type = type};
    mkv_status_t status;
    mkv_wbuf_t wbuf;

    mkv_wbuf_init(&wbuf);
    status = mkv_ctx_blob(peer->ctx, MKV_BLOB_FULL, &wbuf);
    if (status == MKV_OK) {
        msg.data = wbuf.data;
        msg.length = wbuf.length;
        status = mkv_notify_send(peer, &msg);
    }
    if (status == MKV_OK) {
        peer->told_epoch = peer->ctx->epoch;
    }
    mkv_wbuf_cleanup(&wbuf);
    return status;
}

static mkv_status_t mkv_peer_add_info(mkv_ctx_t *ctx, const mkv_blob_info_t *info,
                                      const char *name, mkv_peer_t **peer_p)
{
    mkv_status_t status;
    mkv_peer_t *peer;

    if (info->process.ctx_id == ctx->process.ctx_id) {
        return mkv_error(&ctx->log, MKV_ERR_INVALID, "the blob is this context's own");
    }
    peer = mkv_peer_find(ctx, info->process.ctx_id);
    if (peer == NULL) {
        status = mkv_peer_create(ctx, info, name, &peer);
        if (status != MKV_OK) {
            return status;
        }
        status = mkv_peer_announce(peer, MKV_MSG_HELLO);
        if (status != MKV_OK) {
            (void)mkv_peer_close_locked(peer, MKV_CLOSE_FORCE);
            return status;
        }
    } else if (name != NULL) {
        mkv_text(peer->name, sizeof(peer->name), "%s", name);
    }

    *peer_p = peer;
    return MKV_OK;
}

mkv_status_t mkv_peer_add(mkv_ctx_t *ctx, const void *blob, size_t length,
                          const char *name, mkv_peer_t **peer_p)
{
    mkv_blob_info_t info;
    mkv_status_t status;

    status = mkv_blob_decode(blob, length, &info);
    if (status != MKV_OK) {
        return mkv_error(&ctx->log, status, "the blob of %zu bytes %s", length,
                         (status == MKV_ERR_VERSION)
                             ? "is of another library version"
                             : "is cut, altered or no blob at all");
    }

    mkv_enter(ctx);
    status = mkv_peer_add_info(ctx, &info, name, peer_p);
    mkv_leave(ctx);
    mkv_blob_info_cleanup(&info);
    return status;
}

/* ---- HELLO ----------------------------------------------------------------------- */

static void mkv_peer_flush_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_peer_t *peer = user_data;

    if (status == UCS_OK) {
        peer->is_flushed = 1;
        mkv_peer_check_ready(peer);
    } else {
        mkv_peer_fail(peer, MKV_ERR_PEER, "no connection: %s",
                      ucs_status_string(status));
    }
    mkv_peer_put(peer);
    if (request != NULL) {
        ucp_request_free(request);
    }
}

void mkv_peer_flush(mkv_peer_t *peer, ucp_send_nbx_callback_t next)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = next,
                                 .user_data = peer};
    ucs_status_ptr_t request;

    mkv_peer_get(peer);
    request = ucp_ep_flush_nbx(peer->ep, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        next(NULL, UCS_PTR_RAW_STATUS(request), peer);
    }
}

mkv_peer_t *mkv_peer_accept(mkv_ctx_t *ctx, const mkv_msg_t *msg)
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

static void mkv_peer_update(mkv_peer_t *peer, const mkv_msg_t *msg)
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
        status = mkv_remote_update(peer, &info);
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

void mkv_peer_hello(mkv_peer_t *peer, const mkv_msg_t *msg)
{
    mkv_peer_update(peer, msg);
    if (!peer->has_info || (msg->type == MKV_MSG_REGIONS)) {
        return;
    }

    /* Regions may have been committed since our HELLO, when he did not know us yet */
    if (((msg->type == MKV_MSG_HELLO) || (peer->told_epoch != peer->ctx->epoch)) &&
        (mkv_peer_announce(peer, (msg->type == MKV_MSG_HELLO)
                                     ? MKV_MSG_HELLO_ACK
                                     : MKV_MSG_REGIONS) != MKV_OK)) {
        mkv_peer_fail(peer, MKV_ERR_NOMEM, "could not be answered: %s",
                      mkv_last_error());
        return;
    }
    if (!peer->has_ack) {
        peer->has_ack = 1;
        mkv_peer_flush(peer, mkv_peer_flush_cb);
    }
}

static void mkv_peer_check_ready(mkv_peer_t *peer)
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
    MKV_COUNT(peer, hellos, 1);
    mkv_log_info(ctx,
                 "peer %s ready: backend %s, transports [%s], %s host, %u regions, tp "
                 "%u/%u",
                 peer->name, mkv_backend_string(peer->backend), peer->transports,
                 peer->is_same_host ? "same" : "other", peer->num_regions,
                 peer->info.topology.tp_rank, peer->info.topology.tp_size);
    mkv_peer_log_rejected(peer);
    event = mkv_event_add(ctx, MKV_EV_PEER_READY);
    if (event != NULL) {
        event->peer = peer;
    }
    mkv_notify_resume(peer);
}

mkv_status_t mkv_peer_query(mkv_peer_t *peer, mkv_peer_attr_t *attr)
{
    if (attr->size != sizeof(*attr)) {
        return mkv_error(&peer->ctx->log, MKV_ERR_INVALID,
                         "peer_query: attr->size is %zu, not %zu", attr->size,
                         sizeof(*attr));
    }

    mkv_enter(peer->ctx);
    attr->state = peer->state;
    attr->status = peer->status;
    mkv_text(attr->error, sizeof(attr->error), "%s", peer->error);
    mkv_text(attr->name, sizeof(attr->name), "%s", peer->name);
    mkv_text(attr->transports, sizeof(attr->transports), "%s", peer->transports);
    attr->backend = peer->backend;
    attr->is_same_host = peer->is_same_host;
    attr->has_sgl_put =
        mkv_peer_may_sgl(peer, UCS_MEMORY_TYPE_ROCM, UCS_MEMORY_TYPE_ROCM);
    attr->regions_epoch = peer->regions_epoch;
    attr->num_regions = peer->num_regions;
    attr->topology = peer->info.topology;
    mkv_leave(peer->ctx);
    return MKV_OK;
}
