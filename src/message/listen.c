/* SPDX-License-Identifier: BSD-3-Clause */

/* Calls the listeners of connections, one after the other. */

#include "message/listen.h"

/** The listeners of a peer's context, in their order. */
#define mkv_for_each_listener(_listener, _ctx)                                         \
    for (unsigned _i = 0; (_i < (_ctx)->num_peer_listeners) &&                         \
                          ((_listener) = (_ctx)->peer_listeners[_i]);                  \
         ++_i)

void mkv_peer_listen(mkv_ctx_t *ctx, const mkv_peer_listener_t *listener)
{
    unsigned type;

    ctx->peer_listeners[ctx->num_peer_listeners++] = listener;
    for (type = 0; type < MKV_MSG_LAST; ++type) {
        if (listener->messages & (1ull << type)) {
            ctx->message_listeners[type] = listener;
        }
    }
}

void mkv_peer_notify_ended(mkv_peer_t *peer)
{
    const mkv_peer_listener_t *listener;

    mkv_for_each_listener(listener, peer->ctx)
    {
        listener->ended(peer);
    }
}

void mkv_peer_notify_look(mkv_peer_t *peer)
{
    const mkv_peer_listener_t *listener;

    mkv_for_each_listener(listener, peer->ctx)
    {
        listener->look(peer);
    }
}

void mkv_peer_notify_message(mkv_peer_t *peer, const mkv_msg_t *msg, const void *data,
                             size_t length)
{
    const mkv_peer_listener_t *listener = peer->ctx->message_listeners[msg->type];

    if (listener != NULL) {
        listener->receive(peer, msg, data, length);
    }
}

uint64_t mkv_peer_listeners_expire(mkv_peer_t *peer, uint64_t now)
{
    const mkv_peer_listener_t *listener;
    uint64_t next = MKV_NEVER;
    uint64_t each;

    mkv_for_each_listener(listener, peer->ctx)
    {
        each = listener->expire(peer, now);
        next = (each < next) ? each : next;
    }
    return next;
}

bool mkv_peer_listeners_are_idle(mkv_peer_t *peer)
{
    const mkv_peer_listener_t *listener;
    bool is_idle = true;

    mkv_for_each_listener(listener, peer->ctx)
    {
        is_idle = is_idle && ((listener->is_idle == NULL) || listener->is_idle(peer));
    }
    return is_idle;
}

const mkv_peer_listener_t *mkv_peer_find_open_listener(mkv_peer_t *peer, uint64_t *id_p)
{
    const mkv_peer_listener_t *listener;

    mkv_for_each_listener(listener, peer->ctx)
    {
        if (listener->has_open(peer, id_p)) {
            return listener;
        }
    }
    return NULL;
}
