/* SPDX-License-Identifier: BSD-3-Clause */

#include "post/stage_want.h"

#include "post/copy.h"
#include "post/post_cursor.h"

bool mkv_leg_may_stage(const mkv_leg_t *leg)
{
    const mkv_peer_t *peer = leg->peer;

    return (leg->xfer->ctx->opts->staging_below != 0) && !leg->is_unstaged &&
           (leg->xfer->mode == MKV_WRITE) && (leg->xfer->role == MKV_SRC) &&
           !(leg->map->flags & MKV_MAP_TOKENS) &&
           mkv_peer_knows(peer, MKV_FEATURE_STAGE) &&
           ((peer->backend == MKV_BACKEND_RDMA) || (peer->backend == MKV_BACKEND_TCP));
}

uint64_t mkv_peer_chunk(const mkv_peer_t *peer)
{
    uint64_t mine = mkv_staging_chunk(peer->ctx);
    uint64_t theirs = peer->remote.info.max_staged;

    return (mine < theirs) ? mine : theirs;
}

/* Of the pair in the post: all its bytes, and the longest piece */
static uint64_t mkv_stage_measure(const mkv_post_t *post, const mkv_pair_t *pair,
                                  uint64_t *longest_p)
{
    const mkv_plan_part_t *part = mkv_post_part(post, pair);
    const mkv_byte_list_t *list;
    uint64_t total = 0, longest = 0, length;
    size_t i;

    if (post->plan->bytes != NULL) {
        list = mkv_post_bytes(post, pair);
        for (i = 0; i < list->num; ++i) {
            length = list->pieces[i].length;
            longest = (length > longest) ? length : longest;
            total += length * mkv_byte_list_count(list, i);
        }
    } else {
        for (i = 0; pair->is_dense && (i < part->num_runs); ++i) {
            length = part->runs[i].count * pair->grid.length;
            longest = (length > longest) ? length : longest;
        }
        longest = pair->is_dense ? longest : pair->grid.length;
        total = mkv_post_count_units(post, part) * pair->unit_bytes;
    }
    *longest_p = longest;
    return total;
}

/* Pairs that move together are one long piece already */
static bool mkv_pair_is_alone(const mkv_post_t *post, const mkv_pair_t *pair)
{
    const mkv_map_t *map = post->plan->map;

    return (post->plan->bytes != NULL) || (pair->next == MKV_NO_PAIR) ||
           !mkv_sel_has_pair(&post->sel, map, &map->pairs[pair->next]);
}

static bool mkv_pair_is_small(const mkv_post_t *post, const mkv_pair_t *pair)
{
    const mkv_peer_t *peer = post->leg->peer;
    uint64_t longest, num = mkv_post_count_pieces(post, pair);
    uint64_t total = mkv_stage_measure(post, pair, &longest);

    return (num > 0) && (total / num < peer->ctx->opts->staging_below) &&
           (longest <= mkv_peer_chunk(peer));
}

static bool mkv_pair_may_stage(const mkv_post_t *post, const mkv_pair_t *pair)
{
    const mkv_peer_t *peer = post->leg->peer;

    return (post->num_elements >= peer->ctx->opts->staging_min) &&
           !((peer->staging_refused >> pair->rmem->type) & 1) &&
           mkv_pair_is_alone(post, pair) && mkv_pair_is_small(post, pair) &&
           mkv_copy_knows(peer->ctx, pair->mem->type) &&
           (mkv_pool_get(peer->ctx, MKV_POOL_SEND, pair->mem->type) != NULL);
}

bool mkv_stage_is_wanted(mkv_post_t *post, const mkv_pair_t *pair)
{
    uint32_t looked = (uint32_t)(pair - post->plan->map->pairs) + 1;

    if (!mkv_leg_may_stage(post->leg)) {
        return false;
    }
    if (post->looked_pair != looked) {
        post->looked_pair = looked;
        post->is_staged = mkv_pair_may_stage(post, pair);
    }
    return post->is_staged;
}
