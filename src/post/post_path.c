/* SPDX-License-Identifier: BSD-3-Clause */

#include "post/post_path.h"

void mkv_calls_note(const mkv_calls_t *calls, void *request)
{
    const mkv_pair_t *pair = &calls->post->plan->map->pairs[calls->from.pair];
    mkv_path_key_t key = mkv_post_path(calls->post, pair, calls->lists != NULL);

    mkv_path_note(calls->post->leg->peer, &key, request);
}

bool mkv_post_is_refused(mkv_post_t *post, const mkv_path_key_t *key)
{
    mkv_peer_t *peer = post->leg->peer;
    char text[640];

    if (!mkv_path_is_refused(peer, key)) {
        return false;
    }
    mkv_path_reason(peer, key, text, sizeof(text));
    mkv_xfer_fail(post->leg->xfer, MKV_ERR_BACKEND, "peer %s, leg %u: %s", peer->name,
                  post->leg->index, text);
    return true;
}
