/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_SHAPE_H
#define MKV_SHAPE_H

/**
 * @file
 * Layout of a unit, the part of it that a rank holds, and the common part of two ranks.
 * Pure.
 *
 * A unit is `outer` times `tokens` times the elements of an axis (the heads), or with
 * MKV_REGION_HEADS_FIRST the axis before the tokens; an element has `inner` bytes. The
 * axis is one group of elements or some that follow each other, each of which is
 * divided among the ranks for itself: with F elements and R ranks a rank holds F / R of
 * them, or R / F ranks hold the same one.
 */

#include "morikv.h"

#include <stdbool.h>

typedef struct mkv_shape {
    uint64_t outer, inner;
    uint32_t tokens;
    uint32_t num_groups;
    uint32_t groups[MKV_MAX_GROUPS]; /**< Elements over all ranks */
    uint32_t rank, size;             /**< Rank among those that share the axis */
    bool is_replicated;              /**< Every rank holds all elements */
    bool is_heads_first;
} mkv_shape_t;

/** A repetition, and its steps in bytes. */
typedef struct mkv_slice_dim {
    uint64_t count, local, remote;
} mkv_slice_dim_t;

/** Pieces that two units have in common: three nested repetitions of one length. */
typedef struct mkv_slice {
    uint64_t local, remote; /**< Offsets in the units */
    uint64_t length;
    mkv_slice_dim_t dims[3]; /**< Outermost first */
} mkv_slice_t;

/** @return Whether every group can be divided among the ranks. */
bool mkv_shape_is_divisible(const mkv_shape_t *shape);

/** Elements that the rank holds, of all groups. */
uint64_t mkv_shape_elements(const mkv_shape_t *shape);

/** Bytes of a unit that the rank holds; 0: beyond 2^64. */
uint64_t mkv_shape_bytes(const mkv_shape_t *shape);

/** Bytes from one part of @a tokens tokens of a unit to the next. */
uint64_t mkv_shape_step(const mkv_shape_t *shape, uint32_t tokens);

/**
 * Whether this source sends a group's elements to a destination. Of the ranks that hold
 * the same elements, the rank nearest to the destination's place sends them.
 */
bool mkv_shape_is_elected(const mkv_shape_t *source, uint32_t group,
                          const mkv_shape_t *destination);

/** Whether the election depends on which side is the source: numbers and copies differ.
 */
bool mkv_shape_has_direction(const mkv_shape_t *a, const mkv_shape_t *b,
                             uint32_t group);

/**
 * Common part of two ranks in a group, in the first @a tokens tokens of a unit.
 *
 * @return false: nothing.
 */
bool mkv_shape_slice(const mkv_shape_t *local, const mkv_shape_t *remote,
                     uint32_t group, uint32_t tokens, mkv_slice_t *slice);

/**
 * The proof that a destination gets every element once: the elected sources of all
 * ranks, in the order of the axis.
 *
 * @return false: an element comes from none, or from two; *group_p and *element_p name
 *         it.
 */
bool mkv_shape_covers(const mkv_shape_t *source, const mkv_shape_t *destination,
                      uint32_t *group_p, uint64_t *element_p);

/** Whether any group of the pair goes from the source to the destination. */
bool mkv_shape_gives(const mkv_shape_t *source, const mkv_shape_t *destination);

#endif
