/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A fetch ends once, with an event, and then the memory is the caller's: before the
 * answer nothing touches it, and afterwards a one-sided operation that is waited for.
 */

#include "store/fetch.h"

#include "base/abi.h"
#include "direct/op_build.h"
#include "direct/op_step.h"
#include "peer/message.h"

#include <stdlib.h>
#include <string.h>

#define MKV_FETCH_FLAGS ((uint32_t)MKV_FETCH_UP_TO)

typedef struct mkv_fetch {
    mkv_list_t list;  /**< store->fetches */
    mkv_list_t ended; /**< store->ended */
    mkv_peer_t *peer;
    uint64_t serial;
    uint64_t id;
    uint32_t flags;
    void *user_data;
    mkv_stretch_t to;
    uint64_t deadline;
    uint64_t length; /**< Of the peer's buffer */
    uint64_t lease;
    mkv_op_t *op; /**< Reads it; NULL: not yet */
} mkv_fetch_t;

/* ---- The end --------------------------------------------------------------------- */

static void mkv_fetch_free(mkv_fetch_t *fetch)
{
    mkv_list_del(&fetch->list);
    mkv_list_del(&fetch->ended);
    mkv_stretch_put(&fetch->to);
    mkv_event_unreserve(fetch->peer->ctx, 1);
    free(fetch);
}

static void mkv_fetch_end(mkv_fetch_t *fetch, mkv_status_t status, const char *text)
{
    mkv_news_t *event = mkv_event_add(fetch->peer->ctx, MKV_EV_FETCHED);

    if (event != NULL) {
        event->peer = fetch->peer->remote.peer;
        event->id = fetch->id;
        event->status = status;
        event->length = fetch->length;
        event->user_data = fetch->user_data;
        if (status != MKV_OK) {
            mkv_event_text(event, "fetch %llu of peer %s: %s",
                           (unsigned long long)fetch->id, fetch->peer->name, text);
        }
    }
    mkv_fetch_free(fetch);
}

static void mkv_fetch_release(mkv_peer_t *peer, uint64_t lease)
{
    mkv_msg_t msg = {.type = MKV_MSG_RELEASE, .lease = lease};
    mkv_status_t status;

    if (mkv_conn_is_cut_off(peer->state)) {
        return;
    }
    status = mkv_message_send(peer, &msg);
    if ((status != MKV_OK) && (peer->state == MKV_CONN_READY)) {
        mkv_peer_fail(peer, status, "%s", mkv_last_error());
    }
}

unsigned mkv_fetches_step(mkv_ctx_t *ctx)
{
    mkv_list_t *ended = &ctx->store->ended;
    unsigned count = 0;
    mkv_status_t status;
    mkv_fetch_t *fetch;
    char text[256];

    while (!mkv_list_is_empty(ended)) {
        fetch = mkv_list_head(ended, mkv_fetch_t, ended);
        status = fetch->op->status;
        mkv_text(text, sizeof(text), "%s", fetch->op->error);
        mkv_op_free(fetch->op);
        mkv_fetch_release(fetch->peer, fetch->lease);
        mkv_fetch_end(fetch, status, text);
        ++count;
    }
    return count;
}

/* ---- Reading --------------------------------------------------------------------- */

static void mkv_fetch_op_quiet(mkv_op_t *op, void *arg)
{
    mkv_fetch_t *fetch = arg;

    mkv_list_queue(&op->ctx->store->ended, &fetch->ended);
}

static mkv_status_t mkv_fetch_read(mkv_fetch_t *fetch, const mkv_msg_t *msg)
{
    mkv_op_piece_t piece = {fetch->to.region->id, msg->region, fetch->to.offset,
                            msg->offset, msg->bytes};
    uint64_t now = mkv_ctx_now(fetch->peer->ctx);
    uint64_t left = (fetch->deadline > now) ? fetch->deadline - now : 0;
    mkv_op_params_t params = {.size = sizeof(params),
                              .id = fetch->id,
                              .mode = MKV_READ,
                              .pieces = &piece,
                              .num_pieces = 1,
                              .timeout_ms = 1 + (uint32_t)(left / MKV_NSEC_PER_MSEC)};
    mkv_status_t status = mkv_op_build(fetch->peer, &params, true, &fetch->op);

    if (status == MKV_OK) {
        fetch->lease = msg->lease;
        fetch->op->quiet = mkv_fetch_op_quiet;
        fetch->op->quiet_arg = fetch;
        (void)mkv_op_step(fetch->op);
    }
    return status;
}

/* A peer may say anything: what it gives is held to what was asked for */
static mkv_status_t mkv_fetch_check(const mkv_fetch_t *fetch, const mkv_msg_t *msg)
{
    if ((msg->code == MKV_OK) &&
        ((msg->bytes == 0) || (msg->bytes > fetch->to.length) ||
         (!(fetch->flags & MKV_FETCH_UP_TO) && (msg->bytes != fetch->to.length)) ||
         ((msg->lease == 0) && !mkv_stretch_is_host(&fetch->to)))) {
        return MKV_ERR_PROTOCOL;
    }
    return (mkv_status_t)msg->code;
}

static mkv_fetch_t *mkv_fetch_find(mkv_peer_t *peer, uint64_t serial)
{
    mkv_fetch_t *fetch;

    if (peer->ctx->store == NULL) {
        return NULL;
    }
    mkv_list_for_each(fetch, &peer->ctx->store->fetches, mkv_fetch_t, list)
    {
        if ((fetch->peer == peer) && (fetch->serial == serial) && (fetch->op == NULL)) {
            return fetch;
        }
    }
    return NULL;
}

void mkv_fetch_answered(mkv_peer_t *peer, const mkv_msg_t *msg)
{
    mkv_fetch_t *fetch = mkv_fetch_find(peer, msg->id);
    mkv_status_t status;
    char text[160];

    if (fetch == NULL) { /* it was given up */
        MKV_COUNT(peer, msgs_stale, 1);
        if (msg->lease != 0) {
            mkv_fetch_release(peer, msg->lease);
        }
        return;
    }
    status = mkv_fetch_check(fetch, msg);
    fetch->length = msg->bytes;
    mkv_text(text, sizeof(text), "%s", mkv_status_string(status));
    if (status == MKV_ERR_LENGTH) {
        mkv_text(text, sizeof(text), "%llu bytes are wanted, %llu published",
                 (unsigned long long)fetch->to.length, (unsigned long long)msg->bytes);
    }
    if ((status == MKV_OK) && (msg->lease != 0)) {
        status = mkv_fetch_read(fetch, msg);
        if (status == MKV_OK) {
            return;
        }
        mkv_text(text, sizeof(text), "%s", mkv_last_error());
    }
    if (msg->lease != 0) {
        mkv_fetch_release(peer, msg->lease);
    } else if (status == MKV_OK) {
        memcpy(mkv_stretch_memory(&fetch->to), msg->data, msg->length);
    }
    mkv_fetch_end(fetch, status, text);
}

/* ---- Without an answer ----------------------------------------------------------- */

void mkv_fetches_fail(mkv_peer_t *peer)
{
    mkv_fetch_t *fetch, *next;

    mkv_list_for_each_safe(fetch, next, &peer->ctx->store->fetches, mkv_fetch_t, list)
    {
        if ((fetch->peer == peer) && (fetch->op == NULL)) {
            mkv_fetch_end(fetch, peer->status, peer->error);
        }
    }
}

uint64_t mkv_fetches_expire(mkv_ctx_t *ctx, uint64_t now)
{
    uint64_t deadline = MKV_NEVER;
    mkv_fetch_t *fetch, *next;

    mkv_list_for_each_safe(fetch, next, &ctx->store->fetches, mkv_fetch_t, list)
    {
        if (fetch->op != NULL) {
            continue; /* it has the deadline */
        }
        if (now >= fetch->deadline) {
            mkv_fetch_end(fetch, MKV_ERR_XFER_TIMEOUT, "no answer in time");
        } else if (fetch->deadline < deadline) {
            deadline = fetch->deadline;
        }
    }
    return deadline;
}

bool mkv_fetches_has(mkv_peer_t *peer, uint64_t *id_p)
{
    mkv_fetch_t *fetch;

    mkv_list_for_each(fetch, &peer->ctx->store->fetches, mkv_fetch_t, list)
    {
        if (fetch->peer == peer) {
            *id_p = fetch->id;
            return true;
        }
    }
    return false;
}

/* Operations are freed by their own room */
void mkv_fetches_cleanup(mkv_ctx_t *ctx)
{
    mkv_fetch_t *fetch, *next;

    mkv_list_for_each_safe(fetch, next, &ctx->store->fetches, mkv_fetch_t, list)
    {
        mkv_fetch_free(fetch);
    }
}

/* ---- Asking ---------------------------------------------------------------------- */

static mkv_status_t mkv_fetch_check_peer(mkv_peer_t *peer,
                                         const mkv_fetch_params_t *params)
{
    const mkv_log_t *log = &peer->ctx->log;

    if (params->flags & ~MKV_FETCH_FLAGS) {
        return mkv_error(log, MKV_ERR_UNSUPPORTED,
                         "fetch_params: flags 0x%x, libmorikv %s knows 0x%x",
                         params->flags, mkv_version_string(), MKV_FETCH_FLAGS);
    }
    if (peer->state != MKV_CONN_READY) {
        return mkv_error(log,
                         mkv_conn_is_alive(peer->state) ? MKV_ERR_BUSY : MKV_ERR_PEER,
                         "peer %s is not ready: %s", peer->name,
                         mkv_conn_is_alive(peer->state) ? "connecting" : peer->error);
    }
    if (!mkv_peer_knows(peer, MKV_FEATURE_STORE)) {
        return mkv_error(log, MKV_ERR_UNSUPPORTED,
                         "fetch: the library of peer %s publishes nothing", peer->name);
    }
    return mkv_key_check(log, "fetch", params->key, params->key_length);
}

static mkv_fetch_t *mkv_fetch_make(mkv_peer_t *peer, const mkv_fetch_params_t *params)
{
    mkv_ctx_t *ctx = peer->ctx;
    mkv_store_t *store = mkv_store_get(ctx);
    mkv_fetch_t *fetch = calloc(1, sizeof(*fetch));
    uint64_t timeout =
        (params->timeout_ms != 0) ? params->timeout_ms : ctx->opts->xfer_timeout;

    if ((store == NULL) || (fetch == NULL) || (mkv_event_reserve(ctx, 1) != MKV_OK)) {
        free(fetch);
        return NULL;
    }
    fetch->peer = peer;
    fetch->serial = ++store->last_id;
    fetch->id = params->id;
    fetch->flags = params->flags;
    fetch->user_data = params->user_data;
    fetch->deadline = mkv_ctx_now(ctx) + timeout * MKV_NSEC_PER_MSEC;
    mkv_ctx_deadline(ctx, fetch->deadline);
    mkv_list_init(&fetch->list);
    mkv_list_init(&fetch->ended);
    return fetch;
}

static mkv_status_t mkv_fetch_send(mkv_fetch_t *fetch, const mkv_fetch_params_t *params)
{
    bool is_host = mkv_stretch_is_host(&fetch->to);
    mkv_msg_t msg = {.type = MKV_MSG_FETCH,
                     .id = fetch->serial,
                     .mode = (params->flags & MKV_FETCH_UP_TO) ? MKV_WIRE_FETCH_UP_TO
                                                               : MKV_WIRE_FETCH_EXACT,
                     .bytes = params->length,
                     .value = params->wait_ms,
                     .header = params->key,
                     .header_length = params->key_length};

    msg.room = !is_host ? 0
                        : (params->length < UINT32_MAX ? (uint32_t)params->length
                                                       : UINT32_MAX);
    return mkv_message_send(fetch->peer, &msg);
}

static mkv_status_t mkv_fetch_locked(mkv_peer_t *peer, const mkv_fetch_params_t *params)
{
    mkv_status_t status = mkv_fetch_check_peer(peer, params);
    mkv_stretch_t to;
    mkv_fetch_t *fetch;

    if (status == MKV_OK) {
        status = mkv_stretch_hold(peer->ctx, "fetch", params->region, params->offset,
                                  params->length, &to);
    }
    if (status != MKV_OK) {
        return status;
    }
    fetch = mkv_fetch_make(peer, params);
    if (fetch == NULL) {
        mkv_stretch_put(&to);
        return mkv_error(&peer->ctx->log, MKV_ERR_NOMEM, "no memory for a fetch");
    }
    fetch->to = to;
    mkv_list_add_tail(&peer->ctx->store->fetches, &fetch->list);
    status = mkv_fetch_send(fetch, params);
    if (status != MKV_OK) {
        mkv_fetch_free(fetch);
    }
    return status;
}

mkv_status_t mkv_fetch(mkv_peer_t *peer, const mkv_fetch_params_t *params)
{
    mkv_ctx_t *ctx = peer->ctx;
    mkv_fetch_params_t mine;
    mkv_status_t status;

    status = mkv_struct_read(&ctx->log, &mkv_struct_fetch_params, params, &mine);
    if (status != MKV_OK) {
        return status;
    }
    mkv_enter(ctx);
    status = mkv_fetch_locked(peer, &mine);
    mkv_leave(ctx);
    return status;
}
