/* SPDX-License-Identifier: BSD-3-Clause */

/**
 * @file
 * A post's place in its plan: a cursor over (pair, run, unit).
 *
 * Inline, because posting asks for every piece. The caller holds the context's lock,
 * and nothing here fails.
 */

#ifndef MKV_POST_CURSOR_H
#define MKV_POST_CURSOR_H

#include "cache/blocks.h"
#include "post/post.h"

#include <stdint.h>

/* One contiguous piece of memory */
typedef struct mkv_piece {
    const mkv_pair_t *pair;
    char *local;
    uint64_t remote;
    size_t length;
    uint32_t unit; /* first local block, for texts */
} mkv_piece_t;

static inline int mkv_sel_has_positions(const mkv_sel_t *sel)
{
    return (sel->fields & MKV_SEL_POSITIONS) != 0;
}

static inline int mkv_sel_has_pair(const mkv_sel_t *sel, const mkv_map_t *map,
                                   const mkv_pair_t *pair)
{
    uint32_t component = map->components[pair->component].component;

    if (((sel->fields & MKV_SEL_COMPONENTS) &&
         !(sel->component_mask & (1ull << component))) ||
        (mkv_sel_has_positions(sel) && (sel->pos_lo == sel->pos_hi))) {
        return 0;
    }
    return !(sel->fields & MKV_SEL_LAYERS) ||
           ((pair->layer >= sel->layer_lo) && (pair->layer < sel->layer_hi));
}

static inline const mkv_plan_part_t *mkv_post_part(const mkv_post_t *post,
                                                   const mkv_pair_t *pair)
{
    return &post->plan->parts[pair->component];
}

/* Index of the first run that the selection may touch */
static inline size_t mkv_post_first_run(const mkv_post_t *post, const mkv_pair_t *pair)
{
    const mkv_plan_part_t *part = mkv_post_part(post, pair);

    return mkv_sel_has_positions(&post->sel)
               ? mkv_runs_find(part->runs, part->num_runs, post->sel.pos_lo)
               : 0;
}

static inline void mkv_post_rewind(mkv_post_t *post)
{
    post->at.pair = 0;
    post->at.run = SIZE_MAX; /* enter the pair first */
    post->at.unit = 0;
    post->elements = post->bytes = 0;
}

static inline void mkv_post_next_pair(mkv_post_t *post)
{
    ++post->at.pair;
    post->at.run = SIZE_MAX;
    post->at.unit = 0;
}

/* The pair under the cursor, or NULL at the end; skips what has nothing to post */
static inline const mkv_pair_t *mkv_post_pair(mkv_post_t *post)
{
    const mkv_map_t *map = post->plan->map;
    const mkv_plan_part_t *part;
    const mkv_pair_t *pair;

    for (; post->at.pair < map->num_pairs; mkv_post_next_pair(post)) {
        pair = &map->pairs[post->at.pair];
        if (!mkv_sel_has_pair(&post->sel, map, pair)) {
            continue;
        }
        if (post->at.run == SIZE_MAX) {
            post->at.run = mkv_post_first_run(post, pair);
        }
        part = mkv_post_part(post, pair);
        if ((post->at.run < part->num_runs) &&
            (!mkv_sel_has_positions(&post->sel) ||
             (part->runs[post->at.run].pos < post->sel.pos_hi))) {
            return pair;
        }
    }
    return NULL;
}

/* The part of the run under the cursor that is selected; 0 blocks: behind the end */
static inline uint32_t mkv_post_run(const mkv_post_t *post, const mkv_plan_part_t *part,
                                    mkv_run_t *run)
{
    const mkv_run_t *whole = &part->runs[post->at.run];

    if (!mkv_sel_has_positions(&post->sel)) {
        *run = *whole;
        return run->count;
    }
    return mkv_run_clip(whole, post->sel.pos_lo, post->sel.pos_hi, run);
}

/* Take the next piece of the pair under the cursor; 0 at its end */
static inline int mkv_post_next_of(mkv_post_t *post, const mkv_pair_t *pair,
                                   const mkv_plan_part_t *part, mkv_piece_t *piece)
{
    const mkv_run_t *whole;
    uint32_t count;
    mkv_run_t run;

    if (post->at.run >= part->num_runs) {
        return 0;
    }
    piece->pair = pair;
    whole = &part->runs[post->at.run];
    if (pair->is_dense && !mkv_sel_has_positions(&post->sel)) {
        piece->unit = whole->local;
        piece->local = pair->local_base + whole->local * pair->unit_bytes;
        piece->remote = pair->remote_base + whole->remote * pair->unit_bytes;
        piece->length = whole->count * pair->unit_bytes;
        ++post->at.run;
        return 1;
    }

    count = mkv_post_run(post, part, &run);
    if (count == 0) {
        return 0;
    }
    piece->unit = run.local + post->at.unit;
    piece->local = pair->local_base + piece->unit * pair->local_stride;
    piece->remote = pair->remote_base +
                    (uint64_t)(run.remote + post->at.unit) * pair->remote_stride;
    piece->length = pair->unit_bytes * (pair->is_dense ? count : 1);
    if (pair->is_dense || (++post->at.unit == count)) {
        ++post->at.run;
        post->at.unit = 0;
    }
    return 1;
}

/* Take the next piece; 0 at the end */
static inline int mkv_post_next(mkv_post_t *post, mkv_piece_t *piece)
{
    const mkv_pair_t *pair;

    while ((pair = mkv_post_pair(post)) != NULL) {
        if (mkv_post_next_of(post, pair, mkv_post_part(post, pair), piece)) {
            return 1;
        }
        mkv_post_next_pair(post);
    }
    return 0;
}

/* Units and pieces of one pair in the selection */
static inline void mkv_post_count_pair(const mkv_post_t *post, const mkv_pair_t *pair,
                                       uint64_t *units_p, uint64_t *pieces_p)
{
    const mkv_plan_part_t *part = mkv_post_part(post, pair);
    uint64_t first, last;

    if (!mkv_sel_has_positions(&post->sel)) {
        *units_p = part->num_units;
        *pieces_p = pair->is_dense ? part->num_runs : part->num_units;
        return;
    }

    last = (part->num_units < post->sel.pos_hi) ? part->num_units : post->sel.pos_hi;
    *units_p = (last > post->sel.pos_lo) ? last - post->sel.pos_lo : 0;
    *pieces_p = *units_p;
    if (pair->is_dense && (*units_p > 0)) {
        first = mkv_runs_find(part->runs, part->num_runs, post->sel.pos_lo);
        *pieces_p =
            mkv_runs_find(part->runs, part->num_runs, (uint32_t)last - 1) - first + 1;
    }
}

/* Fill num_elements and count units per pair, for the check at the seal */
static inline void mkv_post_count(mkv_post_t *post, uint64_t *posted)
{
    const mkv_map_t *map = post->plan->map;
    uint64_t units, pieces;
    uint32_t i;

    post->num_elements = 0;
    for (i = 0; i < map->num_pairs; ++i) {
        if (mkv_sel_has_pair(&post->sel, map, &map->pairs[i])) {
            mkv_post_count_pair(post, &map->pairs[i], &units, &pieces);
            posted[i] += units;
            post->num_elements += pieces;
        }
    }
}

#endif
