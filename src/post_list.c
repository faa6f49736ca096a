/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * One pass over the runs from the cursor on. Pairs follow each other in a list as long
 * as their memory types are alike; without a handle and a key of its own for every
 * piece where all of them lie in one allocation on both sides.
 */

#include "post_list.h"

#include "post_cursor.h"

#include <string.h>

static int mkv_pair_is_alike(const mkv_pair_t *a, const mkv_pair_t *b)
{
    return (a->mem->type == b->mem->type) && (a->rmem->type == b->rmem->type);
}

/* Whether all pairs from the cursor on that can go into one list share handle and key
 */
static int mkv_post_is_uniform(const mkv_post_t *post, const mkv_pair_t *first)
{
    const mkv_map_t *map = post->plan->map;
    const mkv_pair_t *pair;

    for (pair = first; pair < map->pairs + map->num_pairs; ++pair) {
        if (!mkv_sel_has_pair(&post->sel, map, pair)) {
            continue;
        }
        if (!mkv_pair_is_alike(first, pair)) {
            break;
        }
        if ((pair->mem != first->mem) || (pair->rmem != first->rmem)) {
            return 0;
        }
    }
    return 1;
}

/* Most pieces that one list from the cursor on can hold */
static size_t mkv_post_list_length(const mkv_post_t *post, const mkv_pair_t *first)
{
    const mkv_map_t *map = post->plan->map;
    uint64_t left = post->num_elements - post->elements;
    uint64_t units, pieces, total = 0;
    const mkv_pair_t *pair;

    for (pair = first; (pair < map->pairs + map->num_pairs) && (total < left); ++pair) {
        if (mkv_sel_has_pair(&post->sel, map, pair)) {
            if (!mkv_pair_is_alike(first, pair)) {
                break;
            }
            mkv_post_count_pair(post, pair, &units, &pieces);
            total += pieces;
        }
    }
    total = (total < left) ? total : left;
    return (total < map->ctx->opts->sgl_max) ? total : map->ctx->opts->sgl_max;
}

int mkv_lists_alloc(mkv_lists_t *lists, mkv_post_t *post, const mkv_pair_t *first)
{
    mkv_ctx_t *ctx = post->plan->ctx;
    int is_uniform = mkv_post_is_uniform(post, first);
    size_t max = mkv_post_list_length(post, first);
    char *p;

    p = mkv_arena_get(ctx, max * (is_uniform ? 24 : 40), &post->blocks);
    if (p == NULL) {
        return 0;
    }
    memset(lists, 0, sizeof(*lists));
    lists->max = max;
    lists->buffers = (void **)p;
    lists->lengths = (size_t *)(p + max * 8);
    lists->remotes = (uint64_t *)(p + max * 16);
    if (!is_uniform) {
        lists->memhs = (ucp_mem_h *)(p + max * 24);
        lists->rkeys = (ucp_rkey_h *)(p + max * 32);
    }
    return 1;
}

static void mkv_lists_set_keys(mkv_lists_t *lists, const mkv_pair_t *pair, size_t from)
{
    size_t i;

    for (i = from; (lists->memhs != NULL) && (i < lists->num); ++i) {
        lists->memhs[i] = pair->mem->memh;
        lists->rkeys[i] = pair->rmem->rkey;
    }
}

/* The common case: whole runs of a dense pair; everything per block happens here.
 * Neighbouring runs have neighbouring positions, so the sum of their counts is known.
 */
static void mkv_lists_add_runs(mkv_lists_t *lists, const mkv_pair_t *pair,
                               const mkv_run_t *runs, size_t num)
{
    void **restrict buffers = lists->buffers + lists->num;
    size_t *restrict lengths = lists->lengths + lists->num;
    uint64_t *restrict remotes = lists->remotes + lists->num;
    uint64_t unit_bytes = pair->unit_bytes;
    char *local_base = pair->local_base;
    uint64_t remote_base = pair->remote_base;
    size_t i;

#pragma GCC unroll 4
    for (i = 0; i < num; ++i) {
        buffers[i] = local_base + runs[i].local * unit_bytes;
        remotes[i] = remote_base + runs[i].remote * unit_bytes;
        lengths[i] = runs[i].count * unit_bytes;
    }
    if (num > 0) {
        lists->num += num;
        lists->bytes +=
            ((uint64_t)runs[num - 1].pos + runs[num - 1].count - runs[0].pos) *
            unit_bytes;
    }
}

static void mkv_lists_add_pair(mkv_lists_t *lists, mkv_post_t *post,
                               const mkv_pair_t *pair)
{
    const mkv_plan_part_t *part = mkv_post_part(post, pair);
    size_t from = lists->num;
    mkv_piece_t piece;
    size_t num;

    if (pair->is_dense && !mkv_sel_has_positions(&post->sel)) {
        num = part->num_runs - post->run;
        num = (num < lists->max - lists->num) ? num : lists->max - lists->num;
        mkv_lists_add_runs(lists, pair, part->runs + post->run, num);
        post->run += num;
    } else {
        while ((lists->num < lists->max) && mkv_post_next_of(post, pair, &piece)) {
            lists->buffers[lists->num] = piece.local;
            lists->remotes[lists->num] = piece.remote;
            lists->lengths[lists->num] = piece.length;
            lists->bytes += piece.length;
            ++lists->num;
        }
    }
    mkv_lists_set_keys(lists, pair, from);
}

/* There may be room for pairs that nobody has counted on: those behind one of another
 * type that has nothing to post */
static int mkv_lists_take(const mkv_lists_t *lists, const mkv_pair_t *first,
                          const mkv_pair_t *pair)
{
    return mkv_pair_is_alike(first, pair) &&
           ((lists->memhs != NULL) ||
            ((pair->mem == first->mem) && (pair->rmem == first->rmem)));
}

void mkv_lists_build(mkv_lists_t *lists, mkv_post_t *post, const mkv_pair_t *first)
{
    const mkv_pair_t *pair;

    while ((lists->num < lists->max) && ((pair = mkv_post_pair(post)) != NULL) &&
           mkv_lists_take(lists, first, pair)) {
        mkv_lists_add_pair(lists, post, pair);
    }
}
