/* SPDX-License-Identifier: BSD-3-Clause */

/*
 *   fetching side                               owner
 *     FETCH(key, length, room)   ----------->   small, host memory:
 *     <-----------------------------------------  FETCHED(bytes)
 *                                               else:
 *     <-----------------------------------------  FETCHED(lease, place)
 *     reads it there
 *     RELEASE(lease)             ----------->     the buffer may end
 *
 * A key that is not there is waited for as long as the FETCH says.
 */

#include "store/serve.h"

#include "peer/grant.h"
#include "peer/hello.h"
#include "peer/message.h"

#include <stdlib.h>
#include <string.h>

#define MKV_FETCHED_OVERHEAD 128u /* the rest of a FETCHED */

/** A peer may be reading a publication. */
typedef struct mkv_lease {
    mkv_list_t list; /**< store->leases */
    uint64_t id;
    mkv_peer_t *peer;
    mkv_publication_t *publication;
} mkv_lease_t;

/** What a FETCH asks for, without its key. */
typedef struct mkv_wanted {
    uint64_t id;
    uint64_t length;
    uint32_t mode, room;
} mkv_wanted_t;

typedef struct mkv_waiter {
    mkv_list_t list; /**< store->waiters */
    mkv_peer_t *peer;
    mkv_wanted_t wanted;
    uint64_t deadline;
    size_t key_length;
    uint8_t key[];
} mkv_waiter_t;

/* ---- Answers --------------------------------------------------------------------- */

static void mkv_serve_send(mkv_peer_t *peer, mkv_msg_t *msg)
{
    mkv_status_t status = mkv_message_send(peer, msg);

    if ((status != MKV_OK) && (peer->state == MKV_CONN_READY)) {
        mkv_peer_fail(peer, status, "%s", mkv_last_error());
    }
}

static void mkv_serve_refuse(mkv_peer_t *peer, uint64_t id, mkv_status_t code,
                             uint64_t length)
{
    mkv_msg_t msg = {.type = MKV_MSG_FETCHED, .id = id, .code = code, .bytes = length};

    mkv_serve_send(peer, &msg);
}

/* Whoever published it learns as well that somebody expects something else */
static void mkv_serve_refuse_length(mkv_peer_t *peer, const mkv_wanted_t *wanted,
                                    const mkv_publication_t *publication)
{
    mkv_news_t *event = mkv_event_add_extra(peer->ctx, MKV_EV_WARN);

    if (event != NULL) {
        event->peer = peer;
        event->status = MKV_ERR_LENGTH;
        event->id = publication->id;
        event->user_data = publication->user_data;
        mkv_event_text(event,
                       "peer %s expects %llu bytes of publication %llu, which has %llu",
                       peer->name, (unsigned long long)wanted->length,
                       (unsigned long long)publication->id,
                       (unsigned long long)publication->stretch.length);
    }
    mkv_serve_refuse(peer, wanted->id, MKV_ERR_LENGTH, publication->stretch.length);
}

static bool mkv_serve_fits_inline(const mkv_peer_t *peer, const mkv_wanted_t *wanted,
                                  const mkv_publication_t *publication)
{
    uint64_t length = publication->stretch.length;

    return mkv_stretch_is_host(&publication->stretch) && (length <= wanted->room) &&
           (length <= peer->ctx->opts->fetch_inline) &&
           (length <= mkv_message_max(peer) - MKV_FETCHED_OVERHEAD);
}

static void mkv_serve_inline(mkv_peer_t *peer, const mkv_wanted_t *wanted,
                             const mkv_publication_t *publication)
{
    mkv_msg_t msg = {.type = MKV_MSG_FETCHED,
                     .id = wanted->id,
                     .bytes = publication->stretch.length,
                     .data = mkv_stretch_memory(&publication->stretch),
                     .length = publication->stretch.length};

    MKV_COUNT(peer, fetches_copied, 1);
    mkv_serve_send(peer, &msg);
}

/* The key goes before the lease; @return false: no memory */
static bool mkv_serve_key(mkv_peer_t *peer, const mkv_publication_t *publication)
{
    bool is_new = false;

    return (mkv_grant_mem(peer, publication->stretch.region->mem, &is_new) == MKV_OK) &&
           (!is_new || (mkv_hello_tell_keys(peer) == MKV_OK));
}

static void mkv_serve_lease(mkv_peer_t *peer, const mkv_wanted_t *wanted,
                            mkv_publication_t *publication)
{
    mkv_store_t *store = peer->ctx->store;
    mkv_lease_t *lease = calloc(1, sizeof(*lease));
    mkv_msg_t msg = {.type = MKV_MSG_FETCHED,
                     .id = wanted->id,
                     .bytes = publication->stretch.length,
                     .region = publication->stretch.region->id,
                     .offset = publication->stretch.offset};

    if ((lease == NULL) || !mkv_serve_key(peer, publication)) {
        mkv_serve_refuse(peer, wanted->id, MKV_ERR_NOMEM, 0);
        free(lease);
        return;
    }
    lease->id = msg.lease = ++store->last_id;
    lease->peer = peer;
    lease->publication = publication;
    mkv_list_init(&lease->list);
    mkv_list_add_tail(&store->leases, &lease->list);
    ++peer->num_leases;
    mkv_publication_get(publication);
    mkv_serve_send(peer, &msg);
}

static void mkv_serve_answer(mkv_peer_t *peer, const mkv_wanted_t *wanted,
                             mkv_publication_t *publication)
{
    uint64_t length = publication->stretch.length;

    if ((length > wanted->length) ||
        ((wanted->mode == MKV_WIRE_FETCH_EXACT) && (length != wanted->length))) {
        mkv_serve_refuse_length(peer, wanted, publication);
        return;
    }
    MKV_COUNT(peer, fetches_served, 1);
    if (mkv_serve_fits_inline(peer, wanted, publication)) {
        mkv_serve_inline(peer, wanted, publication);
    } else {
        mkv_serve_lease(peer, wanted, publication);
    }
}

/* ---- Leases ---------------------------------------------------------------------- */

static void mkv_lease_end(mkv_lease_t *lease)
{
    mkv_list_del(&lease->list);
    --lease->peer->num_leases;
    mkv_publication_put(lease->publication);
    free(lease);
}

void mkv_serve_release(mkv_peer_t *peer, const mkv_msg_t *msg)
{
    mkv_lease_t *lease;

    if (peer->num_leases > 0) {
        mkv_list_for_each(lease, &peer->ctx->store->leases, mkv_lease_t, list)
        {
            if ((lease->peer == peer) && (lease->id == msg->lease)) {
                mkv_lease_end(lease);
                return;
            }
        }
    }
    MKV_COUNT(peer, msgs_stale, 1);
}

void mkv_serve_end_leases(mkv_peer_t *peer)
{
    mkv_lease_t *lease, *next;

    mkv_list_for_each_safe(lease, next, &peer->ctx->store->leases, mkv_lease_t, list)
    {
        if (lease->peer == peer) {
            mkv_lease_end(lease);
        }
    }
}

/* ---- Waiting for a key ----------------------------------------------------------- */

static void mkv_waiter_free(mkv_waiter_t *waiter)
{
    mkv_list_del(&waiter->list);
    free(waiter);
}

static unsigned mkv_serve_count_waiters(const mkv_peer_t *peer)
{
    mkv_waiter_t *waiter;
    unsigned count = 0;

    mkv_list_for_each(waiter, &peer->ctx->store->waiters, mkv_waiter_t, list)
    {
        count += (waiter->peer == peer);
    }
    return count;
}

static void mkv_serve_wait(mkv_peer_t *peer, const mkv_wanted_t *wanted,
                           const mkv_msg_t *msg)
{
    mkv_ctx_t *ctx = peer->ctx;
    mkv_waiter_t *waiter;

    if (mkv_serve_count_waiters(peer) >= ctx->opts->early_messages) {
        mkv_serve_refuse(peer, wanted->id, MKV_ERR_BUSY, 0);
        return;
    }
    waiter = calloc(1, sizeof(*waiter) + msg->header_length);
    if (waiter == NULL) {
        mkv_serve_refuse(peer, wanted->id, MKV_ERR_NOMEM, 0);
        return;
    }
    waiter->peer = peer;
    waiter->wanted = *wanted;
    waiter->deadline = mkv_ctx_now(ctx) + msg->value * MKV_NSEC_PER_MSEC;
    waiter->key_length = msg->header_length;
    memcpy(waiter->key, msg->header, msg->header_length);
    mkv_list_init(&waiter->list);
    mkv_list_add_tail(&ctx->store->waiters, &waiter->list);
    mkv_ctx_deadline(ctx, waiter->deadline);
}

void mkv_serve_waiters(mkv_ctx_t *ctx, mkv_publication_t *publication)
{
    mkv_waiter_t *waiter, *next;

    mkv_list_for_each_safe(waiter, next, &ctx->store->waiters, mkv_waiter_t, list)
    {
        if ((waiter->key_length == publication->key_length) &&
            !memcmp(waiter->key, publication->key, waiter->key_length)) {
            mkv_serve_answer(waiter->peer, &waiter->wanted, publication);
            mkv_waiter_free(waiter);
        }
    }
}

uint64_t mkv_serve_expire(mkv_ctx_t *ctx, uint64_t now)
{
    mkv_waiter_t *waiter, *next;
    uint64_t deadline = MKV_NEVER;

    mkv_list_for_each_safe(waiter, next, &ctx->store->waiters, mkv_waiter_t, list)
    {
        if (now >= waiter->deadline) {
            mkv_serve_refuse(waiter->peer, waiter->wanted.id, MKV_ERR_NOTFOUND, 0);
            ++ctx->store->num_answered;
            mkv_waiter_free(waiter);
        } else if (waiter->deadline < deadline) {
            deadline = waiter->deadline;
        }
    }
    return deadline;
}

void mkv_serve_forget(mkv_peer_t *peer)
{
    mkv_waiter_t *waiter, *next;

    mkv_list_for_each_safe(waiter, next, &peer->ctx->store->waiters, mkv_waiter_t, list)
    {
        if (waiter->peer == peer) {
            mkv_waiter_free(waiter);
        }
    }
}

void mkv_serve_fetch(mkv_peer_t *peer, const mkv_msg_t *msg)
{
    mkv_wanted_t wanted = {
        .id = msg->id, .length = msg->bytes, .mode = msg->mode, .room = msg->room};
    mkv_publication_t *publication;

    if (mkv_store_get(peer->ctx) == NULL) {
        mkv_serve_refuse(peer, msg->id, MKV_ERR_NOMEM, 0);
        return;
    }
    publication = mkv_publication_find(peer->ctx, msg->header, msg->header_length);
    if (publication != NULL) {
        mkv_serve_answer(peer, &wanted, publication);
    } else if (msg->value > 0) {
        mkv_serve_wait(peer, &wanted, msg);
    } else {
        mkv_serve_refuse(peer, msg->id, MKV_ERR_NOTFOUND, 0);
    }
}

void mkv_serve_cleanup(mkv_ctx_t *ctx)
{
    mkv_waiter_t *waiter, *next;
    mkv_lease_t *lease, *next_lease;

    mkv_list_for_each_safe(waiter, next, &ctx->store->waiters, mkv_waiter_t, list)
    {
        mkv_waiter_free(waiter);
    }
    mkv_list_for_each_safe(lease, next_lease, &ctx->store->leases, mkv_lease_t, list)
    {
        mkv_list_del(&lease->list);
        free(lease);
    }
}
