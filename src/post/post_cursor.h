/* SPDX-License-Identifier: BSD-3-Clause */

/**
 * @file
 * A post's place in its plan: a cursor over (pair, run, unit).
 *
 * Inline, because posting uses it for every piece. The caller holds the context's lock,
 * and nothing here fails.
 */

#ifndef MKV_POST_CURSOR_H
#define MKV_POST_CURSOR_H

#include "plan/blocks.h"
#include "plan/plan_sel.h"
#include "post/post.h"

#include <stdbool.h>
#include <stdint.h>

/* A contiguous piece of memory */
typedef struct mkv_piece {
    const mkv_pair_t *pair;
    char *local;
    uint64_t remote;
    size_t length;
    uint32_t unit; /* first local block, for texts */
} mkv_piece_t;

static inline bool mkv_sel_has_pair(const mkv_sel_t *sel, const mkv_map_t *map,
                                    const mkv_pair_t *pair)
{
    uint32_t component = map->components[pair->component].component;

    if (((sel->fields & MKV_SEL_COMPONENTS) &&
         !(sel->component_mask & (1ull << component))) ||
        (mkv_sel_has_positions(sel) && (sel->pos_lo == sel->pos_hi))) {
        return false;
    }
    return !(sel->fields & MKV_SEL_LAYERS) ||
           ((pair->layer >= sel->layer_lo) && (pair->layer < sel->layer_hi));
}

/* Whether a pair is selected; pairs that adjoin a selected pair move with it */
static inline bool mkv_post_leads(const mkv_post_t *post, const mkv_pair_t *pair)
{
    const mkv_map_t *map = post->plan->map;

    return mkv_sel_has_pair(&post->sel, map, pair) &&
           ((pair->prev == MKV_NO_PAIR) || (post->plan->bytes != NULL) ||
            !mkv_sel_has_pair(&post->sel, map, &map->pairs[pair->prev]));
}

/* A leading pair, and the selected pairs of its chain */
static inline mkv_stretch_t mkv_post_stretch(const mkv_post_t *post,
                                             const mkv_pair_t *pair)
{
    const mkv_map_t *map = post->plan->map;
    mkv_stretch_t stretch = mkv_stretch_of(pair);

    while (pair->next != MKV_NO_PAIR) {
        pair = &map->pairs[pair->next];
        if (!mkv_sel_has_pair(&post->sel, map, pair)) {
            break;
        }
        mkv_stretch_add(&stretch, pair);
    }
    return stretch;
}

static inline const mkv_plan_part_t *mkv_post_part(const mkv_post_t *post,
                                                   const mkv_pair_t *pair)
{
    return &post->plan->parts[pair->component];
}

static inline const mkv_byte_list_t *mkv_post_bytes(const mkv_post_t *post,
                                                    const mkv_pair_t *pair)
{
    return &post->plan->bytes[pair - post->plan->map->pairs];
}

static inline size_t mkv_post_num_runs(const mkv_post_t *post, const mkv_pair_t *pair)
{
    return (post->plan->bytes != NULL) ? mkv_post_bytes(post, pair)->num
                                       : mkv_post_part(post, pair)->num_runs;
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
    post->at.unit = post->at.piece = 0;
    post->elements = post->bytes = 0;
}

static inline void mkv_post_next_pair(mkv_post_t *post)
{
    ++post->at.pair;
    post->at.run = SIZE_MAX;
    post->at.unit = post->at.piece = 0;
}

/* Pair under the cursor, or NULL at the end; skips pairs without pieces to post */
static inline const mkv_pair_t *mkv_post_pair(mkv_post_t *post)
{
    const mkv_map_t *map = post->plan->map;
    const mkv_pair_t *pair;

    for (; post->at.pair < map->num_pairs; mkv_post_next_pair(post)) {
        pair = &map->pairs[post->at.pair];
        if (!mkv_post_leads(post, pair)) {
            continue;
        }
        if (post->at.run == SIZE_MAX) {
            post->at.run = mkv_post_first_run(post, pair);
        }
        if ((post->at.run < mkv_post_num_runs(post, pair)) &&
            (!mkv_sel_has_positions(&post->sel) ||
             (mkv_post_part(post, pair)->runs[post->at.run].pos < post->sel.pos_hi))) {
            return pair;
        }
    }
    return NULL;
}

/* Selected part of the run under the cursor; 0 blocks: behind the end */
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

/* Variant for a plan of bytes */
static inline bool mkv_post_next_bytes(mkv_post_t *post, const mkv_pair_t *pair,
                                       mkv_piece_t *piece)
{
    const mkv_byte_list_t *list = mkv_post_bytes(post, pair);
    uint64_t local, remote;

    if (post->at.run >= list->num) {
        return false;
    }
    local = list->pieces[post->at.run].local;
    remote = list->pieces[post->at.run].remote;
    if (post->at.piece > 0) {
        local += post->at.piece * list->steps[post->at.run].local;
        remote += post->at.piece * list->steps[post->at.run].remote;
    }
    piece->pair = pair;
    piece->unit = (uint32_t)(local / pair->mine.stride);
    piece->local = (char *)(uintptr_t)(pair->mine.base + local);
    piece->remote = pair->theirs.base + remote;
    piece->length = list->pieces[post->at.run].length;
    if (++post->at.piece == mkv_byte_list_count(list, post->at.run)) {
        post->at.piece = 0;
        ++post->at.run;
    }
    return true;
}

/* Take the next piece of the pair under the cursor; 0 at its end. Forced inline against
 * GCC's limit of size: a call costs 27 instructions. */
static inline __attribute__((always_inline)) bool mkv_post_next_of(
    mkv_post_t *post, const mkv_stretch_t *stretch, const mkv_plan_part_t *part,
    mkv_piece_t *piece)
{
    const mkv_pair_t *pair = stretch->pair;
    uint64_t local;
    mkv_run_t run;
    uint32_t count;

    if (post->plan->bytes != NULL) {
        return mkv_post_next_bytes(post, pair, piece);
    }
    if ((post->at.run >= part->num_runs) ||
        ((count = mkv_post_run(post, part, &run)) == 0)) {
        return false;
    }
    piece->pair = pair;
    piece->unit = run.local + post->at.unit;
    mkv_pair_piece(pair, piece->unit, (uint64_t)run.remote + post->at.unit,
                   post->at.piece, &local, &piece->remote);
    piece->local = (char *)(uintptr_t)local;
    if (stretch->is_dense) {
        piece->length = count * stretch->length;
        ++post->at.run;
        return true;
    }

    piece->length = stretch->length;
    if (++post->at.piece == stretch->pieces) {
        post->at.piece = 0;
        if (++post->at.unit == count) {
            post->at.unit = 0;
            ++post->at.run;
        }
    }
    return true;
}

/* Take the next piece; 0 at the end */
static inline bool mkv_post_next(mkv_post_t *post, mkv_piece_t *piece)
{
    const mkv_pair_t *pair;
    mkv_stretch_t stretch;

    while ((pair = mkv_post_pair(post)) != NULL) {
        stretch = mkv_post_stretch(post, pair);
        if (mkv_post_next_of(post, &stretch, mkv_post_part(post, pair), piece)) {
            return true;
        }
        mkv_post_next_pair(post);
    }
    return false;
}

/* Units of one pair in the selection */
static inline uint64_t mkv_post_count_units(const mkv_post_t *post,
                                            const mkv_plan_part_t *part)
{
    uint64_t last = part->num_units;

    if (!mkv_sel_has_positions(&post->sel)) {
        return last;
    }
    last = (last < post->sel.pos_hi) ? last : post->sel.pos_hi;
    return (last > post->sel.pos_lo) ? last - post->sel.pos_lo : 0;
}

/* Pieces of a pair that leads, in the selection */
static inline uint64_t mkv_post_count_pieces(const mkv_post_t *post,
                                             const mkv_pair_t *pair)
{
    const mkv_plan_part_t *part = mkv_post_part(post, pair);
    mkv_stretch_t stretch = mkv_post_stretch(post, pair);
    uint64_t units = mkv_post_count_units(post, part);
    size_t first, last;

    if (post->plan->bytes != NULL) {
        return mkv_post_bytes(post, pair)->num_pieces;
    }
    if (!stretch.is_dense || (units == 0)) {
        return units * stretch.pieces;
    }
    if (!mkv_sel_has_positions(&post->sel)) {
        return part->num_runs;
    }
    first = mkv_runs_find(part->runs, part->num_runs, post->sel.pos_lo);
    last = mkv_runs_find(part->runs, part->num_runs,
                         (uint32_t)(post->sel.pos_lo + units - 1));
    return last - first + 1;
}

/* Fill num_elements and count units per pair, for the check at the seal */
static inline void mkv_post_count(mkv_post_t *post, uint64_t *posted)
{
    const mkv_map_t *map = post->plan->map;
    const mkv_pair_t *pair;
    uint32_t i;

    post->num_elements = 0;
    for (i = 0; i < map->num_pairs; ++i) {
        pair = &map->pairs[i];
        if ((posted != NULL) && mkv_sel_has_pair(&post->sel, map, pair)) {
            posted[i] += mkv_post_count_units(post, mkv_post_part(post, pair));
        }
        if (mkv_post_leads(post, pair)) {
            post->num_elements += mkv_post_count_pieces(post, pair);
        }
    }
}

#endif
