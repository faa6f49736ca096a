/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * One remote context: connect, fail, close.
 *
 * Each side has its own endpoint, made from the other's worker address, so that both
 * get UCX's error callback. READY needs three things: the peer's description, its
 * answer (or its own HELLO), and a flush of our endpoint, which proves the way there.
 *
 * The object outlives its close: maps, legs, packets and requests hold references, and
 * the endpoint's close request must have completed. An endpoint is closed exactly once.
 */

#include "mkv_int.h"

#include <stdlib.h>
#include <string.h>

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

mkv_peer_t *mkv_peer_find_closed(mkv_ctx_t *ctx, uint64_t ctx_id)
{
    mkv_peer_t *peer;

    mkv_list_for_each(peer, &ctx->dead_peers, mkv_peer_t, list)
    {
        if ((peer->process.ctx_id == ctx_id) && !peer->is_ep_closing) {
            return peer;
        }
    }
    return NULL;
}

/* ---- Failing --------------------------------------------------------------------- */

void mkv_peer_fail(mkv_peer_t *peer, mkv_status_t status, const char *fmt, ...)
{
    va_list args;

    if ((peer->state == MKV_PEER_FAILED) || (peer->fail_status != MKV_OK)) {
        return;
    }

    va_start(args, fmt);
    vsnprintf(peer->fail_text, sizeof(peer->fail_text), fmt, args);
    va_end(args);
    peer->fail_status = status;
    mkv_list_queue(&peer->ctx->failed_peers, &peer->fail_list);
    mkv_ctx_wake(peer->ctx);
}

static void mkv_peer_error_cb(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    mkv_peer_t *peer = arg;

    (void)ep;
    peer->is_ep_failed = 1;
    if (peer->is_ep_closing) {
        return; /* the other side may be faster */
    }
    mkv_peer_fail(peer, MKV_ERR_PEER, "connection failed: %s",
                  ucs_status_string(status));
}

static void mkv_peer_fail_xfers(mkv_peer_t *peer)
{
    mkv_leg_t *leg;

    mkv_list_for_each(leg, &peer->legs, mkv_leg_t, list)
    {
        if (!leg->is_finished && !mkv_xfer_is_terminal(leg->xfer)) {
            mkv_xfer_fail(leg->xfer, peer->status, "peer %s, leg %u: %s", peer->name,
                          leg->index, peer->error);
        }
        mkv_xfer_dirty(leg->xfer); /* quiet may be provable now */
    }
}

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
    mkv_packets_cleanup(&peer->early);
    peer->num_early = 0;
    peer->is_close_waiting = 1;
    peer->deadline = mkv_ctx_now(peer->ctx);
    if (peer->status == MKV_ERR_PEER) {
        peer->deadline += peer->ctx->opts->drain_timeout * MKV_NSEC_PER_MSEC;
    }
    mkv_peer_step_waiting(peer);
    mkv_peer_fail_xfers(peer);
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

static void mkv_peer_close_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_peer_t *peer = user_data;
    mkv_leg_t *leg;

    (void)status; /* closed it is */
    peer->is_ep_gone = 1;
    mkv_list_for_each(leg, &peer->legs, mkv_leg_t, list)
    {
        mkv_xfer_dirty(leg->xfer);
    }
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

void mkv_peer_close_ep(mkv_peer_t *peer)
{
    peer->is_cut |=
        (peer->status != MKV_ERR_PEER) && (peer->status != MKV_ERR_TRANSPORT);
    mkv_peer_close_ep_mode(peer, UCP_EP_CLOSE_FLAG_FORCE);
}

/* Everything of ours has arrived: nothing that follows touches the peer's memory */
static void mkv_peer_bye_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_peer_t *peer = user_data;
    mkv_msg_t msg = {.type = MKV_MSG_BYE};

    if ((status == UCS_OK) && !peer->is_ep_closing) {
        mkv_text(msg.text, sizeof(msg.text), "%s",
                 (peer->state == MKV_PEER_FAILED) ? peer->error : "closed by the peer");
        (void)mkv_notify_send(peer, &msg);
    }
    mkv_peer_close_ep_mode(peer, (status == UCS_OK) ? 0 : UCP_EP_CLOSE_FLAG_FORCE);
    mkv_peer_put(peer);
    if (request != NULL) {
        ucp_request_free(request);
    }
}

/* Flush, say goodbye, close */
static void mkv_peer_leave(mkv_peer_t *peer)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = mkv_peer_bye_cb,
                                 .user_data = peer};
    ucs_status_ptr_t request;

    peer->is_leaving = 1;
    mkv_peer_get(peer);
    request = ucp_ep_flush_nbx(peer->ep, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        mkv_peer_bye_cb(NULL, UCS_PTR_RAW_STATUS(request), peer);
    }
}

void mkv_peer_step_closing(mkv_peer_t *peer)
{
    mkv_leg_t *leg;

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
    mkv_list_for_each(leg, &peer->legs, mkv_leg_t, list)
    {
        if (!mkv_leg_is_quiet(leg)) {
            return; /* the peer's word is needed, or our data is in flight */
        }
    }
    mkv_peer_leave(peer);
}

static mkv_status_t mkv_peer_close_locked(mkv_peer_t *peer, mkv_close_mode_t mode)
{
    mkv_ctx_t *ctx = peer->ctx;

    if ((mode == MKV_CLOSE_FLUSH) && !mkv_list_is_empty(&peer->legs)) {
        return mkv_error(
            &ctx->log, MKV_ERR_BUSY,
            "peer %s is used by open transfers, the first is %llu", peer->name,
            (unsigned long long)mkv_list_head(&peer->legs, mkv_leg_t, list)->xfer->id);
    }

    peer->is_closed = 1;
    mkv_events_forget(ctx, NULL, peer);
    mkv_list_del(&peer->list);
    mkv_list_add_tail(&ctx->dead_peers, &peer->list);
    --ctx->num_peers;
    peer->deadline = mkv_ctx_now(ctx) + ctx->opts->drain_timeout * MKV_NSEC_PER_MSEC;
    mkv_ctx_deadline(ctx, peer->deadline);
    if (peer->state != MKV_PEER_FAILED) {
        mkv_list_del(&peer->fail_list);
        peer->state = MKV_PEER_FAILED;
        peer->status = MKV_ERR_PEER;
        mkv_text(peer->error, sizeof(peer->error), "closed here");
        mkv_peer_fail_xfers(peer); /* stops posting and tells the other side */
    }
    (void)mkv_ctx_step(ctx);
    mkv_peer_step_closing(peer);
    return MKV_OK;
}

mkv_status_t mkv_peer_close(mkv_peer_t *peer, mkv_close_mode_t mode)
{
    mkv_ctx_t *ctx = peer->ctx;
    mkv_status_t status;

    mkv_enter(ctx);
    status = mkv_peer_close_locked(peer, mode);
    mkv_leave(ctx);
    return status;
}

void mkv_peer_destroy(mkv_peer_t *peer)
{
    mkv_list_del(&peer->list);
    mkv_list_del(&peer->fail_list);
    mkv_list_del(&peer->busy_list);
    mkv_packets_cleanup(&peer->rx_reorder);
    mkv_packets_cleanup(&peer->early);
    mkv_remote_cleanup(peer);
    mkv_event_unreserve(peer->ctx, MKV_PEER_EVENTS);
    free(peer);
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

static void mkv_peer_flush(mkv_peer_t *peer)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = mkv_peer_flush_cb,
                                 .user_data = peer};
    ucs_status_ptr_t request;

    mkv_peer_get(peer);
    request = ucp_ep_flush_nbx(peer->ep, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        mkv_peer_flush_cb(NULL, UCS_PTR_RAW_STATUS(request), peer);
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
        if (status != MKV_OK) {
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

    if ((msg->type == MKV_MSG_HELLO) &&
        (mkv_peer_announce(peer, MKV_MSG_HELLO_ACK) != MKV_OK)) {
        mkv_peer_fail(peer, MKV_ERR_NOMEM, "could not be answered: %s",
                      mkv_last_error());
        return;
    }
    if (!peer->has_ack) {
        peer->has_ack = 1;
        mkv_peer_flush(peer);
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
    event = mkv_event_add(ctx, MKV_EV_PEER_READY);
    if (event != NULL) {
        event->peer = peer;
    }
    mkv_notify_resume(peer);
}

/* ---- Watching -------------------------------------------------------------------- */

uint64_t mkv_peer_check(mkv_peer_t *peer, uint64_t now)
{
    mkv_ctx_t *ctx = peer->ctx;
    uint64_t interval = ctx->opts->peer_check * MKV_NSEC_PER_MSEC;
    uint64_t next = (interval > 0) ? now + interval : MKV_NEVER;
    uint64_t expire = mkv_early_expire(peer, now);
    mkv_leg_t *leg;

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
        mkv_list_for_each(leg, &peer->legs, mkv_leg_t, list)
        {
            mkv_xfer_dirty(leg->xfer);
        }
        next = (interval > 0) ? next : now + 1000 * MKV_NSEC_PER_MSEC;
    }
    return (expire < next) ? expire : next;
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
