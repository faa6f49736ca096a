/* SPDX-License-Identifier: BSD-3-Clause */

#include "post/post_calls.h"

#include "peer/list_put.h"

void mkv_calls_note(const mkv_calls_t *calls, void *request)
{
    const mkv_pair_t *pair = &calls->post->plan->map->pairs[calls->from.pair];
    mkv_path_key_t key = mkv_post_path(calls->post, pair, calls->lists != NULL);

    mkv_path_note(calls->post->leg->peer, &key, mkv_post_may_be_pulled(calls->post),
                  request);
    if ((key.kind == MKV_CALL_PUT) &&
        (mkv_peer_list_use(calls->post->leg->peer, key.local, pair->rmem) ==
         MKV_LIST_USE_PROBE)) {
        mkv_peer_note_list_support(calls->post->leg->peer, pair->rmem, request);
    }
}

bool mkv_post_is_refused(mkv_post_t *post, const mkv_path_key_t *key)
{
    mkv_peer_t *peer = post->leg->peer;
    char text[640];

    if (!mkv_path_is_refused(peer, key)) {
        return false;
    }
    mkv_path_reason(peer, key, text, sizeof(text));
    mkv_leg_fail(post->leg, MKV_ERR_BACKEND, "peer %s, leg %u: %s", peer->name,
                 post->leg->index, text);
    return true;
}
