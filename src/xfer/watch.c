/* SPDX-License-Identifier: BSD-3-Clause */

/* Reactions of transfers to messages and ends of their peers. */

#include "xfer/watch.h"

#include "message/listen.h"
#include "message/early.h"
#include "xfer/leg_receive.h"

static void mkv_xfers_look(mkv_peer_t *peer)
{
    mkv_leg_t *leg;

    mkv_list_for_each(leg, &peer->legs, list)
    {
        mkv_xfer_dirty(leg->xfer); /* quiet may be proven now */
    }
}

/* Report complete transfers before the connection's end fails the others */
static void mkv_xfers_raise_done(mkv_peer_t *peer)
{
    mkv_leg_t *leg;

    mkv_list_for_each(leg, &peer->legs, list)
    {
        if (leg->state == MKV_LEG_FINISHED) {
            mkv_xfer_step(leg->xfer);
        }
    }
}

static void mkv_xfers_peer_ended(mkv_peer_t *peer)
{
    mkv_leg_t *leg;

    mkv_xfers_raise_done(peer);
    mkv_early_cleanup(peer);
    mkv_list_for_each(leg, &peer->legs, list)
    {
        if (leg->state != MKV_LEG_FINISHED) {
            mkv_leg_fail(leg, peer->status, "peer %s, leg %u: %s", peer->name,
                         leg->index, peer->error);
        }
    }
    mkv_xfers_look(peer);
}

static bool mkv_xfers_are_idle(mkv_peer_t *peer)
{
    mkv_leg_t *leg;

    mkv_list_for_each(leg, &peer->legs, list)
    {
        if (!mkv_leg_is_quiet(leg)) {
            return false; /* the peer's message is needed, or our data is in flight */
        }
    }
    return true;
}

static bool mkv_xfers_have_open(mkv_peer_t *peer, uint64_t *id_p)
{
    if (mkv_list_is_empty(&peer->legs)) {
        return false;
    }
    *id_p = mkv_list_head(&peer->legs, mkv_leg_t, list)->xfer->id;
    return true;
}

void mkv_xfers_listen(mkv_ctx_t *ctx)
{
    static const mkv_peer_listener_t listener = {
        .what = "transfers",
        .messages = (1ull << MKV_MSG_EXPOSE) | (1ull << MKV_MSG_BIND) |
                    (1ull << MKV_MSG_FIN) | (1ull << MKV_MSG_TERM) |
                    (1ull << MKV_MSG_DRAINED) | (1ull << MKV_MSG_PULL) |
                    (1ull << MKV_MSG_PULLED) | (1ull << MKV_MSG_REQUEST) |
                    (1ull << MKV_MSG_OPEN) | (1ull << MKV_MSG_ARRIVED),
        .ended = mkv_xfers_peer_ended,
        .look = mkv_xfers_look,
        .receive = mkv_leg_receive,
        .expire = mkv_early_expire,
        .is_idle = mkv_xfers_are_idle,
        .has_open = mkv_xfers_have_open,
    };

    mkv_peer_listen(ctx, &listener);
}
