/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Build lists in one pass over the runs, from the cursor on. Pairs share a list as long
 * as their memory types are alike. If all pieces lie in one allocation on both sides,
 * they share one handle and one key.
 *
 * The plan keeps its lists until the cache reuses their memory. So a repeated post does
 * not build them again, and posts in flight read the same arrays.
 */

#include "post/post_list.h"

#include "post/post_cursor.h"

#include <string.h>

#define MKV_LISTS_MAX_LOOKS 16u

static bool mkv_pair_is_alike(const mkv_pair_t *a, const mkv_pair_t *b)
{
    return (a->mem->type == b->mem->type) && (a->rmem->type == b->rmem->type) &&
           (a->rmem->lists == b->rmem->lists);
}

/* Whether all pairs from the cursor on that fit into one list share handle and key */
static bool mkv_post_is_uniform(const mkv_post_t *post, const mkv_pair_t *first)
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
            return false;
        }
    }
    return true;
}

/* Maximum number of pieces of a list that starts at the cursor */
static size_t mkv_post_list_length(const mkv_post_t *post, const mkv_pair_t *first)
{
    const mkv_map_t *map = post->plan->map;
    uint64_t left = post->num_elements - post->elements;
    const mkv_pair_t *pair;
    uint64_t total = 0;

    for (pair = first; (pair < map->pairs + map->num_pairs) && (total < left); ++pair) {
        if (mkv_post_leads(post, pair)) {
            if (!mkv_pair_is_alike(first, pair)) {
                break;
            }
            total += mkv_post_count_pieces(post, pair);
        }
    }
    total = (total < left) ? total : left;
    return (total < map->ctx->tuning.sgl_max) ? total : map->ctx->tuning.sgl_max;
}

/* Allocate arrays for one list from the cursor on */
static mkv_cached_list_t *mkv_lists_alloc(mkv_post_t *post, const mkv_pair_t *first)
{
    bool is_uniform = mkv_post_is_uniform(post, first);
    size_t max = mkv_post_list_length(post, first);
    mkv_cached_list_t *block;
    mkv_lists_t *lists;
    char *p;

    block = mkv_list_cache_get(
        post->plan->ctx, sizeof(*lists) + max * (is_uniform ? 24 : 40), &post->lists);
    if (block == NULL) {
        return NULL;
    }
    lists = (mkv_lists_t *)block->data;
    p = (char *)(lists + 1);
    memset(lists, 0, sizeof(*lists));
    lists->max = max;
    lists->buffers = (void **)p;
    lists->lengths = (size_t *)(p + max * 8);
    lists->remotes = (uint64_t *)(p + max * 16);
    if (!is_uniform) {
        lists->memhs = (ucp_mem_h *)(p + max * 24);
        lists->rkeys = (ucp_rkey_h *)(p + max * 32);
    }
    return block;
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
static void mkv_lists_add_runs(mkv_lists_t *lists, const mkv_stretch_t *stretch,
                               const mkv_run_t *runs, size_t num)
{
    void **restrict buffers = lists->buffers + lists->num;
    size_t *restrict lengths = lists->lengths + lists->num;
    uint64_t *restrict remotes = lists->remotes + lists->num;
    uint64_t unit_bytes = stretch->length;
    char *local_base = (char *)(uintptr_t)stretch->pair->here.base;
    uint64_t remote_base = stretch->pair->there.base;
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

/* Add single pieces of a plan of bytes; slices are handled like units */
static void mkv_lists_add_bytes(mkv_lists_t *lists, const mkv_pair_t *pair,
                                const mkv_byte_piece_t *pieces, size_t num)
{
    void **restrict buffers = lists->buffers + lists->num;
    size_t *restrict lengths = lists->lengths + lists->num;
    uint64_t *restrict remotes = lists->remotes + lists->num;
    char *local_base = (char *)(uintptr_t)pair->mine.base;
    uint64_t bytes = 0;
    size_t i;

    for (i = 0; i < num; ++i) {
        buffers[i] = local_base + pieces[i].local;
        remotes[i] = pair->theirs.base + pieces[i].remote;
        lengths[i] = pieces[i].length;
        bytes += pieces[i].length;
    }
    lists->num += num;
    lists->bytes += bytes;
}

/* Two values of an array, at any alignment. */
typedef uint64_t mkv_two_t __attribute__((vector_size(16), aligned(8), may_alias));

static inline void mkv_two_put(void *array, size_t i, mkv_two_t value)
{
    *(mkv_two_t *)((uint64_t *)array + i) = value;
}

/* Pieces of one length at constant steps: a row of a cut unit, two at a time */
static void mkv_lists_add_row(mkv_lists_t *lists, uint64_t local, uint64_t local_step,
                              uint64_t remote, uint64_t remote_step, uint64_t length,
                              size_t num)
{
    void **buffers = lists->buffers + lists->num;
    size_t *lengths = lists->lengths + lists->num;
    uint64_t *remotes = lists->remotes + lists->num;
    const mkv_two_t local_steps = {2 * local_step, 2 * local_step};
    const mkv_two_t remote_steps = {2 * remote_step, 2 * remote_step};
    const mkv_two_t both_lengths = {length, length};
    mkv_two_t locals = {local, local + local_step};
    mkv_two_t both_remotes = {remote, remote + remote_step};
    size_t i;

#pragma GCC unroll 4
    for (i = 0; i + 2 <= num; i += 2) {
        mkv_two_put(buffers, i, locals);
        mkv_two_put(remotes, i, both_remotes);
        mkv_two_put(lengths, i, both_lengths);
        locals += local_steps;
        both_remotes += remote_steps;
    }
    if (i < num) {
        buffers[i] = (void *)(uintptr_t)locals[0];
        remotes[i] = both_remotes[0];
        lengths[i] = length;
    }
    lists->num += num;
    lists->bytes += num * length;
}

/* Unselected runs of cut units, row by row */
static void mkv_lists_add_units(mkv_lists_t *lists, mkv_post_t *post,
                                const mkv_stretch_t *stretch,
                                const mkv_plan_part_t *part)
{
    const mkv_pair_t *pair = stretch->pair;
    const mkv_grid_t *grid = &pair->grid;
    const mkv_run_t *run;
    uint64_t local, remote;
    size_t num, room;

    while ((post->at.run < part->num_runs) && (lists->num < lists->max)) {
        run = &part->runs[post->at.run];
        mkv_pair_piece(pair, run->local + post->at.unit,
                       (uint64_t)run->remote + post->at.unit, post->at.piece, &local,
                       &remote);
        num = grid->cols - (post->at.piece % grid->cols);
        room = lists->max - lists->num;
        num = (num < room) ? num : room;
        mkv_lists_add_row(lists, local, grid->local_col, remote, grid->remote_col,
                          stretch->length, num);
        post->at.piece += (uint32_t)num;
        if (post->at.piece == stretch->pieces) {
            post->at.piece = 0;
            if (++post->at.unit == run->count) {
                post->at.unit = 0;
                ++post->at.run;
            }
        }
    }
}

/* Entries that take one step each: whole runs of a dense pair, or single pieces */
static bool mkv_post_is_simple(const mkv_post_t *post, const mkv_stretch_t *stretch)
{
    return (post->plan->bytes != NULL)
               ? (mkv_post_bytes(post, stretch->pair)->steps == NULL)
               : (stretch->is_dense && !mkv_sel_has_positions(&post->sel));
}

static void mkv_lists_add_pair(mkv_lists_t *lists, mkv_post_t *post,
                               const mkv_pair_t *pair)
{
    const mkv_plan_part_t *part = mkv_post_part(post, pair);
    mkv_stretch_t stretch = mkv_post_stretch(post, pair);
    size_t from = lists->num;
    mkv_piece_t piece;
    size_t num;

    if (mkv_post_is_simple(post, &stretch)) {
        num = mkv_post_num_runs(post, pair) - post->at.run;
        num = (num < lists->max - lists->num) ? num : lists->max - lists->num;
        if (post->plan->bytes != NULL) {
            mkv_lists_add_bytes(lists, pair,
                                mkv_post_bytes(post, pair)->pieces + post->at.run, num);
        } else {
            mkv_lists_add_runs(lists, &stretch, part->runs + post->at.run, num);
        }
        post->at.run += num;
    } else if ((post->plan->bytes == NULL) && !mkv_sel_has_positions(&post->sel)) {
        mkv_lists_add_units(lists, post, &stretch, part);
    } else {
        while ((lists->num < lists->max) &&
               mkv_post_next_of(post, &stretch, part, &piece)) {
            lists->buffers[lists->num] = piece.local;
            lists->remotes[lists->num] = piece.remote;
            lists->lengths[lists->num] = piece.length;
            lists->bytes += piece.length;
            ++lists->num;
        }
    }
    mkv_lists_set_keys(lists, pair, from);
}

/* A list may have room for pairs that were not counted: those that follow a pair of
 * another type without pieces to post */
static bool mkv_lists_take(const mkv_lists_t *lists, const mkv_pair_t *first,
                           const mkv_pair_t *pair)
{
    return mkv_pair_is_alike(first, pair) &&
           ((lists->memhs != NULL) ||
            ((pair->mem == first->mem) && (pair->rmem == first->rmem)));
}

static void mkv_lists_build(mkv_lists_t *lists, mkv_post_t *post,
                            const mkv_pair_t *first)
{
    const mkv_pair_t *pair;

    lists->sel = post->sel;
    lists->from = post->at;
    while ((lists->num < lists->max) && ((pair = mkv_post_pair(post)) != NULL) &&
           mkv_lists_take(lists, first, pair)) {
        mkv_lists_add_pair(lists, post, pair);
    }
    lists->to = post->at;
}

/* Selection and start identify a list of a plan. Its end follows from them, the map and
 * sgl_max, which do not change while plans exist. */
static bool mkv_lists_are_next(const mkv_lists_t *lists, const mkv_post_t *post)
{
    return (lists->from.pair == post->at.pair) && (lists->from.run == post->at.run) &&
           (lists->from.unit == post->at.unit) &&
           (lists->from.piece == post->at.piece) &&
           (lists->sel.fields == post->sel.fields) &&
           (lists->sel.component_mask == post->sel.component_mask) &&
           (lists->sel.layer_lo == post->sel.layer_lo) &&
           (lists->sel.layer_hi == post->sel.layer_hi) &&
           (lists->sel.pos_lo == post->sel.pos_lo) &&
           (lists->sel.pos_hi == post->sel.pos_hi);
}

/* A repeated post uses its lists in the same order, so the next list is the least
 * recently used one. For other orders a short search is enough */
static mkv_cached_list_t *mkv_lists_find(const mkv_post_t *post)
{
    unsigned num_looks = 0;
    mkv_cached_list_t *block;

    mkv_list_for_each(block, &post->plan->lists, owner)
    {
        if (mkv_lists_are_next((const mkv_lists_t *)block->data, post)) {
            return block;
        }
        if (++num_looks == MKV_LISTS_MAX_LOOKS) {
            break;
        }
    }
    return NULL;
}

const mkv_lists_t *mkv_lists_get(mkv_post_t *post, const mkv_pair_t *first)
{
    mkv_cached_list_t *block = mkv_lists_find(post);
    mkv_lists_t *lists;

    if (block != NULL) {
        if (!mkv_list_cache_share(post->plan->ctx, block, &post->lists)) {
            return NULL;
        }
        lists = (mkv_lists_t *)block->data;
        post->at = lists->to;
        MKV_COUNT(post->leg->peer, lists_reused, 1);
    } else {
        block = mkv_lists_alloc(post, first);
        if (block == NULL) {
            return NULL;
        }
        lists = (mkv_lists_t *)block->data;
        mkv_lists_build(lists, post, first);
    }
    mkv_list_del(&block->owner);
    mkv_list_add_tail(&post->plan->lists, &block->owner);
    return lists;
}
