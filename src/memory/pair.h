/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_PAIR_H
#define MKV_PAIR_H

/**
 * @file
 * Two corresponding regions: the places of their units, and the pieces of a unit that
 * move. The caller holds the context's lock.
 */

#include "memory/region.h"
#include "memory/remote_mem.h"

#include <stdbool.h>

#define MKV_NO_PAIR UINT32_MAX

/** Place of one side's units. Numbers wrap around: steps may go backwards. */
typedef struct mkv_place {
    uint64_t base;
    uint64_t stride; /**< Bytes from block to block */
    uint64_t step;   /**< Bytes from unit to unit inside a block */
    uint32_t split;  /**< Units of a block */
} mkv_place_t;

/** A region as a range of bytes. */
typedef struct mkv_extent {
    uint64_t base, length;
    uint64_t unit_bytes, stride, n_units;
    bool is_reverse; /**< Unit 0 is the last one in memory */
} mkv_extent_t;

/** The pieces of one unit: rows of columns, all of one length. */
typedef struct mkv_grid {
    uint64_t length; /**< Bytes of a piece */
    uint32_t rows, cols;
    uint64_t local_row, local_col; /**< Bytes from row to row, from piece to piece */
    uint64_t remote_row, remote_col;
} mkv_grid_t;

typedef struct mkv_pair {
    mkv_lregion_t *local;
    mkv_mem_t *mem;
    mkv_rmem_t *rmem;
    uint32_t remote_id;
    uint32_t component; /**< Index into map->components */
    int32_t layer;
    uint16_t part;
    bool is_dense; /**< A run of units is one piece on both sides */
    /** Indices of the pairs that lie before and after this one, without a gap in any
     *  unit of either side; MKV_NO_PAIR: none */
    uint32_t prev, next;
    mkv_place_t here, there;
    mkv_grid_t grid;
    uint64_t unit_bytes; /**< Bytes moved of each unit */
    mkv_extent_t mine, theirs;
} mkv_pair_t;

/** Pairs that adjoin and move together, at least one. */
typedef struct mkv_stretch {
    const mkv_pair_t *pair; /**< First pair */
    uint64_t length;        /**< Bytes of a piece */
    uint32_t pieces;        /**< Pieces of a unit */
    bool is_dense;
} mkv_stretch_t;

/** Set is_dense and unit_bytes of a pair whose places and grid are set. */
void mkv_pair_finish(mkv_pair_t *pair);

/** Find the pairs that adjoin. @return MKV_OK, MKV_ERR_NOMEM. */
mkv_status_t mkv_pairs_join(mkv_pair_t *pairs, uint32_t num);

static inline uint64_t mkv_place_of(const mkv_place_t *place, uint64_t unit)
{
    return (place->split == 1) ? place->base + unit * place->stride
                               : place->base + (unit / place->split) * place->stride +
                                     (unit % place->split) * place->step;
}

/** Offset at which a unit begins. */
static inline uint64_t mkv_extent_unit(const mkv_extent_t *extent, uint64_t unit)
{
    return extent->base +
           (extent->is_reverse ? extent->n_units - 1 - unit : unit) * extent->stride;
}

/** Whether every byte belongs to a unit. */
static inline bool mkv_extent_is_dense(const mkv_extent_t *extent)
{
    return (extent->unit_bytes == extent->stride) &&
           (extent->length == extent->n_units * extent->unit_bytes);
}

/** Whether the bytes, which lie inside the region, contain no gap between units. */
static inline bool mkv_extent_holds(const mkv_extent_t *extent, uint64_t offset,
                                    uint64_t length)
{
    if (extent->unit_bytes == extent->stride) {
        return offset + length <= extent->n_units * extent->unit_bytes;
    }
    return (offset / extent->stride < extent->n_units) &&
           (offset % extent->stride + length <= extent->unit_bytes);
}

static inline mkv_stretch_t mkv_stretch_of(const mkv_pair_t *pair)
{
    return (mkv_stretch_t){.pair = pair,
                           .length = pair->grid.length,
                           .pieces = pair->grid.rows * pair->grid.cols,
                           .is_dense = pair->is_dense};
}

/** Add the pair that follows the last one. */
static inline void mkv_stretch_add(mkv_stretch_t *stretch, const mkv_pair_t *pair)
{
    stretch->length += pair->grid.length;
    stretch->is_dense = (stretch->pair->here.stride == stretch->length) &&
                        (stretch->pair->there.stride == stretch->length);
}

/** Find the place of a piece of a unit; @a index counts the unit's pieces. */
static inline void mkv_pair_piece(const mkv_pair_t *pair, uint64_t local,
                                  uint64_t remote, uint32_t index, uint64_t *here_p,
                                  uint64_t *there_p)
{
    const mkv_grid_t *grid = &pair->grid;
    uint32_t row, col;

    *here_p = mkv_place_of(&pair->here, local);
    *there_p = mkv_place_of(&pair->there, remote);
    if (index > 0) {
        row = index / grid->cols;
        col = index % grid->cols;
        *here_p += row * grid->local_row + col * grid->local_col;
        *there_p += row * grid->remote_row + col * grid->remote_col;
    }
}

#endif
