/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Remote contexts: creation, look-up, and state; conn.c draws the states.
 *
 * Each side has its own endpoint, made from the other side's worker address, so that
 * both get UCX's error callback.
 */

#include "peer/path.h"
#include "peer/peer.h"

#include "base/event.h"
#include "peer/packet.h"

#include <stdlib.h>

#define MKV_PEER_EVENTS 2u /* ready, failed */

void mkv_peer_get(mkv_peer_t *peer)
{
    ++peer->num_refs;
}

void mkv_peer_put(mkv_peer_t *peer)
{
    --peer->num_refs; /* freed by mkv_ctx_reap() */
}

/* Each received message looks up its sender here; numbers of contexts are random */
static mkv_list_t *mkv_peer_bucket(mkv_ctx_t *ctx, uint64_t ctx_id)
{
    return &ctx->peer_buckets[ctx_id % MKV_PEER_BUCKETS];
}

mkv_peer_t *mkv_peer_find(mkv_ctx_t *ctx, uint64_t ctx_id)
{
    mkv_peer_t *found = NULL;
    mkv_peer_t *peer;

    mkv_list_for_each(peer, mkv_peer_bucket(ctx, ctx_id), same_id)
    {
        if ((peer->process.ctx_id != ctx_id) || mkv_peer_is_closed(peer)) {
            continue;
        }
        if (mkv_conn_is_alive(peer->state) && !peer->is_superseded) {
            return peer;
        }
        found = peer; /* the last peer is the newest */
    }
    return found;
}

static bool mkv_peer_is_next(const mkv_peer_t *peer, uint64_t ctx_id, uint32_t seq)
{
    return (peer->process.ctx_id == ctx_id) &&
           (seq - peer->rx_seq < MKV_REORDER_WINDOW);
}

mkv_peer_t *mkv_peer_find_former(mkv_ctx_t *ctx, uint64_t ctx_id, uint32_t seq)
{
    mkv_peer_t *peer;

    mkv_list_for_each(peer, mkv_peer_bucket(ctx, ctx_id), same_id)
    {
        if ((mkv_peer_is_closed(peer) ? (peer->state < MKV_CONN_CLOSING)
                                      : peer->is_superseded) &&
            mkv_peer_is_next(peer, ctx_id, seq)) {
            return peer;
        }
    }
    return NULL;
}

void mkv_peer_supersede(mkv_peer_t *peer)
{
    if (mkv_conn_is_alive(peer->state) && !peer->is_superseded) {
        peer->is_superseded = true;
        peer->deadline =
            mkv_ctx_now(peer->ctx) + peer->ctx->opts->drain_timeout * MKV_NSEC_PER_MSEC;
        mkv_ctx_deadline(peer->ctx, peer->deadline);
    }
}

mkv_status_t mkv_peer_take(mkv_peer_t *peer, mkv_conn_event_t event)
{
    mkv_conn_state_t before = peer->state;
    mkv_status_t status = mkv_conn_take(&peer->state, event);

    if (status != MKV_OK) {
        mkv_log_error(peer->ctx, "peer %s: %s while %s: %s", peer->name,
                      mkv_conn_event_string(event), mkv_conn_state_string(before),
                      mkv_status_string(status));
    }
    if (status == MKV_ERR_PROTOCOL) {
        mkv_peer_fail(peer, status, "sent %s while %s", mkv_conn_event_string(event),
                      mkv_conn_state_string(before));
    }
    return status;
}

static mkv_peer_end_t mkv_peer_end_of(mkv_conn_event_t event, mkv_status_t status)
{
    if (event == MKV_CONN_BYE) {
        return MKV_PEER_END_LEFT;
    }
    return (status == MKV_ERR_PEER) ? MKV_PEER_END_BROKEN : MKV_PEER_END_CUT;
}

void mkv_peer_end(mkv_peer_t *peer, mkv_conn_event_t event, mkv_status_t status,
                  const char *fmt, ...)
{
    bool was_alive = mkv_conn_is_alive(peer->state);
    mkv_ctx_t *ctx = peer->ctx;
    va_list args;

    if (mkv_peer_take(peer, event) != MKV_OK) {
        return;
    }
    if (was_alive || (event == MKV_CONN_BYE)) {
        peer->end = mkv_peer_end_of(event, status);
    }
    if (!was_alive) {
        return; /* the first reason stays */
    }

    va_start(args, fmt);
    mkv_text_va(peer->error, sizeof(peer->error), fmt, args);
    va_end(args);
    peer->status = status;
    peer->deadline = mkv_ctx_now(ctx);
    if (status == MKV_ERR_PEER) {
        peer->deadline += ctx->opts->drain_timeout * MKV_NSEC_PER_MSEC;
    }
    mkv_list_queue(&ctx->changed_peers, &peer->changed);
    mkv_ctx_wake(ctx);
}

static void mkv_peer_error_cb(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    mkv_peer_t *peer = arg;

    (void)ep;
    peer->is_broken = true;
    mkv_peer_end(peer, MKV_CONN_BROKEN, MKV_ERR_PEER, "connection failed: %s",
                 ucs_status_string(status));
}

static void mkv_peer_init_lists(mkv_peer_t *peer)
{
    mkv_list_t *lists[] = {
        &peer->list,         &peer->same_id,       &peer->changed,
        &peer->busy_list,    &peer->rx_reorder,    &peer->early,
        &peer->early_aborts, &peer->remote.mems,   &peer->remote.maps,
        &peer->ops,          &peer->ops_to_flush,  &peer->ops_flushing,
        &peer->legs,         &peer->flush_waiting, &peer->flush_running,
        &peer->paths};
    size_t i;

    for (i = 0; i < sizeof(lists) / sizeof(lists[0]); ++i) {
        mkv_list_init(lists[i]);
    }
    for (i = 0; i < MKV_NUM_PRIORITIES; ++i) {
        mkv_list_init(&peer->busy_legs[i]);
    }
}

mkv_claim_state_t mkv_peer_look_claim(mkv_peer_t *peer)
{
    const char *dir = peer->ctx->opts->shm_dir;
    const mkv_peer_t *other;

    if ((mkv_watch_look(&peer->watch, dir) != MKV_CLAIM_UNKNOWN) ||
        (peer->watch.claim == 0)) {
        return peer->watch.state;
    }
    mkv_list_for_each(other, mkv_peer_bucket(peer->ctx, peer->process.ctx_id), same_id)
    {
        mkv_watch_trust(&peer->watch, dir, &other->watch);
    }
    return peer->watch.state;
}

/* Copy the fields that do not point into the blob */
void mkv_peer_set_info(mkv_peer_t *peer, const mkv_blob_info_t *info)
{
    peer->remote.info = *info;
    peer->remote.info.address = NULL;
    peer->remote.info.mems = NULL;
    peer->remote.info.regions = NULL;
    peer->remote.info.num_mems = peer->remote.info.num_regions = 0;
    peer->max_message = info->max_message;
    peer->process = info->process;
    if (info->claim != 0) {
        mkv_watch_start(&peer->watch, peer->ctx->opts->shm_dir, peer->process.ctx_id,
                        info->claim);
    }
    peer->is_same_host = (peer->watch.state != MKV_CLAIM_UNKNOWN) ||
                         mkv_process_is_local(&peer->ctx->process, &peer->process);
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
        ++peer->ctx->num_unmade;
        return mkv_error(&peer->ctx->log, MKV_ERR_TRANSPORT,
                         "peer %s: ucp_ep_create() failed: %s", peer->name,
                         ucs_status_string(status));
    }
    peer->remote.ep = peer->ep;
    return MKV_OK;
}

static void mkv_peer_init(mkv_peer_t *peer, mkv_ctx_t *ctx, const mkv_blob_info_t *info,
                          const char *name)
{
    mkv_peer_init_lists(peer);
    peer->ctx = ctx;
    peer->state = MKV_CONN_CONNECTING;
    peer->remote.ctx = ctx;
    peer->remote.peer = peer;
    peer->remote.name = peer->name;
    peer->remote.count = &peer->count;
    mkv_watch_init(&peer->watch, ctx->ends_fd);
    mkv_peer_set_info(peer, info);
    mkv_name_set(peer->name, (name != NULL) ? name : info->name);
}

/* Give a number, a claim and a deadline to the connection of a peer that cannot fail
 * any more */
static void mkv_peer_begin(mkv_peer_t *peer)
{
    mkv_ctx_t *ctx = peer->ctx;

    peer->connection = ++ctx->last_connection;
    /* take the claim first, so that the peer can check it when HELLO arrives */
    peer->claim = mkv_claims_take(ctx->claims, mkv_ctx_nonce(ctx));
    peer->tx_seq = (uint32_t)mkv_ctx_nonce(ctx);
    peer->rx_seq = mkv_msg_answer_seq(peer->tx_seq);
    peer->deadline = mkv_ctx_now(ctx) + ctx->opts->bind_timeout * MKV_NSEC_PER_MSEC;
    mkv_ctx_deadline(ctx, 0); /* also schedules the checks of its process */
    mkv_list_add_tail(&ctx->peers, &peer->list);
    mkv_list_add_tail(mkv_peer_bucket(ctx, peer->process.ctx_id), &peer->same_id);
    ++ctx->num_peers;
}

mkv_status_t mkv_peer_create(mkv_ctx_t *ctx, const mkv_blob_info_t *info,
                             const char *name, mkv_peer_t **peer_p)
{
    mkv_status_t status;
    mkv_peer_t *peer;

    if (ctx->num_peers >= ctx->opts->max_peers) {
        return mkv_error(&ctx->log, MKV_ERR_BUSY,
                         "there are %u peers, those not closed included, MAX_PEERS is "
                         "%llu",
                         ctx->num_peers, (unsigned long long)ctx->opts->max_peers);
    }
    peer = calloc(1, sizeof(*peer));
    if (peer == NULL) {
        return mkv_error(&ctx->log, MKV_ERR_NOMEM, "no memory for a peer");
    }

    mkv_peer_init(peer, ctx, info, name);
    status = mkv_event_reserve(ctx, MKV_PEER_EVENTS);
    if (status == MKV_OK) {
        status = mkv_peer_create_ep(peer, info);
    }
    if (status != MKV_OK) {
        mkv_event_unreserve(ctx, MKV_PEER_EVENTS);
        mkv_watch_stop(&peer->watch);
        free(peer);
        return status;
    }

    mkv_peer_begin(peer);
    *peer_p = peer;
    return MKV_OK;
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

void mkv_peer_destroy(mkv_peer_t *peer)
{
    mkv_list_del(&peer->list);
    mkv_list_del(&peer->same_id);
    mkv_list_del(&peer->changed);
    mkv_list_del(&peer->busy_list);
    mkv_packets_cleanup(&peer->rx_reorder);
    mkv_packets_cleanup(&peer->early);
    mkv_packets_cleanup(&peer->early_aborts);
    mkv_remote_cleanup(&peer->remote);
    mkv_event_unreserve(peer->ctx, MKV_PEER_EVENTS);
    mkv_claims_release(peer->ctx->claims, peer->claim);
    mkv_watch_stop(&peer->watch);
    mkv_paths_cleanup(peer);
    free(peer);
}
