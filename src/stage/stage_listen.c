/* SPDX-License-Identifier: BSD-3-Clause */

#include "stage/stage_listen.h"

#include "message/listen.h"
#include "stage/scatter.h"
#include "stage/stage.h"

/* Lists end with their legs, and copies by themselves */
static void mkv_stage_no_change(mkv_peer_t *peer)
{
    (void)peer;
}

static void mkv_stage_receive(mkv_peer_t *peer, const mkv_msg_t *msg, const void *data,
                              size_t length)
{
    (void)data;
    (void)length;
    if (msg->type == MKV_MSG_STAGE) {
        mkv_scatter_receive(peer, msg);
    } else {
        mkv_stage_answered(peer, msg);
    }
}

static uint64_t mkv_stage_expire(mkv_peer_t *peer, uint64_t now)
{
    (void)peer;
    (void)now;
    return MKV_NEVER;
}

static bool mkv_stage_has_open(mkv_peer_t *peer, uint64_t *id_p)
{
    (void)peer;
    (void)id_p;
    return false;
}

void mkv_stage_listen(mkv_ctx_t *ctx)
{
    static const mkv_peer_listener_t listener = {
        .what = "staging",
        .messages = (1ull << MKV_MSG_STAGE) | (1ull << MKV_MSG_STAGED),
        .ended = mkv_stage_no_change,
        .look = mkv_stage_no_change,
        .receive = mkv_stage_receive,
        .expire = mkv_stage_expire,
        .has_open = mkv_stage_has_open,
    };

    mkv_peer_listen(ctx, &listener);
}

void mkv_stage_cleanup(mkv_peer_t *peer)
{
    mkv_stage_free(peer);
    mkv_scatter_free(peer);
}
