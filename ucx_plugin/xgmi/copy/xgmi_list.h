/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_LIST_H
#define MUCT_XGMI_LIST_H

/**
 * @file
 * Builds the list of one launch of the copy kernel.
 *
 * The list is written once, straight into memory that the device reads. Adding costs a
 * few nanoseconds and never allocates. A full list is finished and launched, and the
 * rest goes to another one: a transfer of any length is a series of launches.
 *
 * Lifetime. The builder may go after @ref muct_xgmi_list_finish, the memory of
 * the entries only after the launch is over.
 *
 * Threads. One at a time.
 */

#include "xgmi_kernel.h"

#include <stdbool.h>


/** The last run that was added. A change of layout makes many runs of one kind at
 * other addresses.
 */
typedef struct muct_xgmi_alike {
    uint64_t dst_stride;
    uint64_t src_stride;
    uint64_t piece;
    uint64_t bits;     /**< OR of both strides and the piece. Its low bits, OR'ed with
                            those of the addresses, determine the shape's unit */
    uint64_t shape;    /**< Index of the shape, as stored in an entry */
    uint32_t low_bits; /**< Low bits of the OR of bits and the run's addresses */
    uint32_t num_tiles;
    uint32_t count; /**< Pieces of the run; 0: there is no such run */
    bool is_missed; /**< A run of this kind with fewer pieces followed; the next one
                       replaces this run */
} muct_xgmi_alike_t;


/** A list under construction. */
typedef struct muct_xgmi_list {
    muct_xgmi_entry_t *next;  /**< Place of the next entry */
    muct_xgmi_entry_t *begin; /**< First entry */
    muct_xgmi_entry_t *end;   /**< End of the array */
    uint64_t num_tiles;       /**< Tiles of all entries so far */
    uint64_t dst_end;         /**< End of the last entry's destination, which the next
                                   piece may continue; UINT64_MAX: none may */
    uint64_t src_end;         /**< End of its source */
    uint32_t num_shapes;
    muct_xgmi_shape_t shapes[MUCT_XGMI_MAX_SHAPES]; /**< Shapes of the list's runs */
    muct_xgmi_alike_t alike;
} muct_xgmi_list_t;


/** Saved state of a list, without its last entry, which may have grown since. */
typedef struct muct_xgmi_list_mark {
    muct_xgmi_entry_t *next;
    uint64_t num_tiles;
    uint64_t dst_end;
    uint64_t src_end;
    uint32_t num_shapes;
} muct_xgmi_list_mark_t;


/** Pieces of one length at constant strides, which may be negative. */
typedef struct muct_xgmi_strided {
    uint64_t dst; /**< First piece */
    uint64_t src;
    uint64_t dst_stride; /**< Modulo 2^64 */
    uint64_t src_stride;
    uint32_t piece; /**< Bytes of a piece */
    uint32_t count; /**< Pieces, not 0 */
} muct_xgmi_strided_t;


/** Launch of the kernel for a finished list. */
typedef struct muct_xgmi_launch {
    muct_xgmi_copy_args_t args; /**< Kernel argument; see @ref muct_xgmi_list_finish */
    uint32_t num_blocks;        /**< Grid size, in thread blocks */
    uint32_t block_size;        /**< Threads of a block */
} muct_xgmi_launch_t;


/**
 * Begin an empty list.
 *
 * @param [out] list      List.
 * @param [in]  memory    Room for the entries, aligned to 32 bytes. Pinned, seen
 *                        by the device under the same address. Lent by the
 *                        caller until the launch is over.
 * @param [in]  capacity  Entries that fit; 1 to @ref MUCT_XGMI_MAX_ENTRIES.
 */
void muct_xgmi_list_init(muct_xgmi_list_t *list, void *memory, size_t capacity);


/**
 * Describe the launch of the entries that were added.
 *
 * Fills the argument except arrivals, flag and sequence, which are set to zero and
 * belong to the caller. A launch with flag 0 does not report its end; all launches but
 * the last one of a series have none.
 *
 * @param [in]  list        List with at least one entry.
 * @param [in]  max_blocks  Most thread blocks to use, 1 to
 *                          @ref MUCT_XGMI_MAX_BLOCKS; short lists use fewer.
 * @param [out] launch      Grid, block and argument.
 */
void muct_xgmi_list_finish(const muct_xgmi_list_t *list, uint32_t max_blocks,
                           muct_xgmi_launch_t *launch);


/**
 * Add a run as one entry, of any alignment.
 *
 * @return true: the run was added. false: nothing was added, because the list or its
 * table of shapes is full, or the pieces are too many, or too long to share a tile.
 * They can be added one by one.
 */
bool muct_xgmi_list_add_run(muct_xgmi_list_t *list, const muct_xgmi_strided_t *run);


/** Remember the end of the list. */
static inline muct_xgmi_list_mark_t muct_xgmi_list_mark(const muct_xgmi_list_t *list)
{
    return (muct_xgmi_list_mark_t){list->next, list->num_tiles, list->dst_end,
                                   list->src_end, list->num_shapes};
}


/** Take back what was added since; the caller restores the last entry. */
static inline void muct_xgmi_list_rollback(muct_xgmi_list_t *list,
                                           const muct_xgmi_list_mark_t *mark)
{
    list->next = mark->next;
    list->num_tiles = mark->num_tiles;
    list->dst_end = mark->dst_end;
    list->src_end = mark->src_end;
    list->num_shapes = mark->num_shapes;
    list->alike.count = 0; /* the rollback may have removed its shape */
}


/**
 * Add a run of the kind of @a list->alike, with as many pieces.
 *
 * @return Whether it was added; false: use @ref muct_xgmi_list_add_run.
 */
static inline bool muct_xgmi_list_add_alike(muct_xgmi_list_t *list, uint64_t dst,
                                            uint64_t src)
{
    muct_xgmi_alike_t *alike = &list->alike;
    muct_xgmi_entry_t *entry = list->next;

    if ((entry == list->end) || (((dst | src | alike->bits) &
                                  (MUCT_XGMI_VECTOR_SIZE - 1)) != alike->low_bits)) {
        return false;
    }

    entry->dst = dst;
    entry->src = src;
    entry->length = alike->count;
    entry->place = list->num_tiles | alike->shape;
    list->num_tiles += alike->num_tiles;
    list->next = entry + 1;
    list->dst_end = UINT64_MAX; /* prevents a join with the next piece */
    alike->is_missed = false;
    return true;
}


/** The shape of an entry that is a run. */
static inline const muct_xgmi_shape_t *muct_xgmi_list_shape_of(
    const muct_xgmi_list_t *list, const muct_xgmi_entry_t *entry)
{
    return &list->shapes[muct_xgmi_place_shape(entry->place) - 1];
}


/** Entries so far; neighbours on both sides have become one. */
static inline size_t muct_xgmi_list_count(const muct_xgmi_list_t *list)
{
    return (size_t)(list->next - list->begin);
}


/** Whether nothing was added yet. */
static inline bool muct_xgmi_list_is_empty(const muct_xgmi_list_t *list)
{
    return list->next == list->begin;
}


/** Entries that can still be added. */
static inline size_t muct_xgmi_list_room(const muct_xgmi_list_t *list)
{
    return (size_t)(list->end - list->next);
}


/**
 * Add one piece of any length and alignment; zero bytes add nothing.
 *
 * A piece that continues the one before it on both sides makes that one longer,
 * also when they are of different allocations that happen to be neighbours: the
 * kernel copies such an entry, a copy call may refuse it.
 *
 * @return Whether it was added; false: the list is full, nothing happened.
 */
static inline bool muct_xgmi_list_add(muct_xgmi_list_t *list, uint64_t dst,
                                      uint64_t src, uint64_t length)
{
    muct_xgmi_entry_t *entry = list->next;

    if ((dst == list->dst_end) && (src == list->src_end)) {
        /* never true for an empty list, so there is a previous entry */
        --entry;
        entry->length += length;
        list->num_tiles =
            entry->place + muct_xgmi_tile_count(entry->dst, entry->length);
    } else if (length == 0) {
        return true;
    } else if (entry == list->end) {
        return false;
    } else {
        entry->dst = dst;
        entry->src = src;
        entry->length = length;
        entry->place = list->num_tiles;
        list->num_tiles += muct_xgmi_tile_count(dst, length);
        list->next = entry + 1;
    }

    list->dst_end = dst + length;
    list->src_end = src + length;
    return true;
}

#endif
