/* SPDX-License-Identifier: BSD-3-Clause */

/* Publishing, and what keyed buffers do when their peers tell them something. */

#include "store/store.h"

#include "base/abi.h"
#include "peer/listen.h"
#include "peer/peer_close.h"
#include "store/fetch.h"
#include "store/serve.h"

#include <stdlib.h>

/* ---- Public calls ---------------------------------------------------------------- */

mkv_status_t mkv_publish(mkv_ctx_t *ctx, const mkv_publish_params_t *params,
                         uint64_t *publication_p)
{
    mkv_publication_t *publication;
    mkv_publish_params_t mine;
    mkv_status_t status;

    status = mkv_struct_read(&ctx->log, &mkv_struct_publish_params, params, &mine);
    if (status != MKV_OK) {
        return status;
    }
    mkv_enter(ctx);
    status = mkv_publication_add(ctx, &mine, &publication);
    if (status == MKV_OK) {
        *publication_p = (publication != NULL) ? publication->id : 0;
        if (publication != NULL) {
            mkv_serve_waiters(ctx, publication);
        }
    }
    mkv_leave(ctx);
    return status;
}

mkv_status_t mkv_unpublish(mkv_ctx_t *ctx, uint64_t id)
{
    mkv_publication_t *publication;

    mkv_enter(ctx);
    if (ctx->store != NULL) {
        mkv_list_for_each(publication, &ctx->store->publications, mkv_publication_t,
                          list)
        {
            if ((publication->id == id) && !mkv_list_is_empty(&publication->hash)) {
                mkv_publication_unlist(publication, MKV_EXPIRED_WITHDRAWN);
                return mkv_leave_status(ctx, MKV_OK);
            }
        }
    }
    return mkv_leave_status(ctx,
                            mkv_error(&ctx->log, MKV_ERR_NOTFOUND,
                                      "there is no publication %llu, or it has ended",
                                      (unsigned long long)id));
}

/* ---- Peers ----------------------------------------------------------------------- */

/* A peer that may still be reading keeps its leases */
static void mkv_store_look(mkv_peer_t *peer)
{
    if ((peer->num_leases > 0) && mkv_peer_is_harmless(peer)) {
        mkv_serve_end_leases(peer);
    }
}

static void mkv_store_peer_ended(mkv_peer_t *peer)
{
    if (peer->ctx->store != NULL) {
        mkv_serve_forget(peer);
        mkv_fetches_fail(peer);
        mkv_store_look(peer);
    }
}

static void mkv_store_receive(mkv_peer_t *peer, const mkv_msg_t *msg, const void *data,
                              size_t length)
{
    (void)data;
    (void)length;
    if (msg->type == MKV_MSG_FETCH) {
        mkv_serve_fetch(peer, msg);
    } else if (msg->type == MKV_MSG_FETCHED) {
        mkv_fetch_answered(peer, msg);
    } else {
        mkv_serve_release(peer, msg);
    }
}

/* Deadlines are the context's: buffers expire without any peer */
static uint64_t mkv_store_expire_peer(mkv_peer_t *peer, uint64_t now)
{
    (void)peer;
    (void)now;
    return MKV_NEVER;
}

/* The peer's RELEASE is waited for */
static bool mkv_store_is_idle(mkv_peer_t *peer)
{
    return peer->num_leases == 0;
}

static bool mkv_store_has_open(mkv_peer_t *peer, uint64_t *id_p)
{
    *id_p = 0;
    return (peer->num_leases > 0) ||
           ((peer->ctx->store != NULL) && mkv_fetches_has(peer, id_p));
}

void mkv_store_listen(mkv_ctx_t *ctx)
{
    static const mkv_peer_listener_t listener = {
        .what = "fetches",
        .messages = (1ull << MKV_MSG_FETCH) | (1ull << MKV_MSG_FETCHED) |
                    (1ull << MKV_MSG_RELEASE),
        .ended = mkv_store_peer_ended,
        .look = mkv_store_look,
        .receive = mkv_store_receive,
        .expire = mkv_store_expire_peer,
        .is_idle = mkv_store_is_idle,
        .has_open = mkv_store_has_open,
    };

    mkv_peer_listen(ctx, &listener);
}

/* ---- The context ----------------------------------------------------------------- */

unsigned mkv_store_step(mkv_ctx_t *ctx)
{
    unsigned count = 0;

    if (ctx->store != NULL) {
        count = mkv_fetches_step(ctx) + ctx->store->num_answered;
        ctx->store->num_answered = 0;
    }
    return count;
}

uint64_t mkv_store_expire(mkv_ctx_t *ctx, uint64_t now)
{
    uint64_t deadlines[3];
    uint64_t next = MKV_NEVER;
    unsigned i;

    if (ctx->store == NULL) {
        return MKV_NEVER;
    }
    deadlines[0] = mkv_publications_expire(ctx, now);
    deadlines[1] = mkv_serve_expire(ctx, now);
    deadlines[2] = mkv_fetches_expire(ctx, now);
    for (i = 0; i < 3; ++i) {
        next = (deadlines[i] < next) ? deadlines[i] : next;
    }
    return next;
}

bool mkv_store_is_quiet(mkv_ctx_t *ctx)
{
    return (ctx->store == NULL) || mkv_list_is_empty(&ctx->store->leases);
}

void mkv_store_cleanup(mkv_ctx_t *ctx)
{
    if (ctx->store == NULL) {
        return;
    }
    mkv_serve_cleanup(ctx);
    mkv_fetches_cleanup(ctx);
    mkv_publications_cleanup(ctx);
    free(ctx->store);
    ctx->store = NULL;
}
