/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A thread block gets every n-th part of the tiles before the tail. The host searches
 * the list for the first entry of each block here, in memory that it has just written.
 * For the block each step would be a round trip over PCIe.
 */

#include "xgmi_list.h"

#include <string.h>

/* No piece begins at the last address, as no allocation extends to it. */
#define MUCT_XGMI_LIST_NOWHERE UINT64_MAX

/* Share of the tiles in the tail, which blocks take dynamically. It covers the lag
 * of the slowest blocks: small while each block has its own path to the link, larger
 * with more blocks than paths. */
#define MUCT_XGMI_LIST_TAIL_PART 32
#define MUCT_XGMI_LIST_TAIL_PART_CROWDED 4

/* Tiles of the tail for each block from which dynamic distribution pays off: four for
 * each wave of 32 threads. */
#define MUCT_XGMI_LIST_MIN_TAIL (4 * (MUCT_XGMI_MAX_THREADS / 32))


/* The entry that holds a tile; the first entry's first tile is 0. */
static uint32_t muct_xgmi_list_find(const muct_xgmi_list_t *list, uint32_t low,
                                    uint64_t tile)
{
    uint32_t high = (uint32_t)muct_xgmi_list_count(list);
    uint32_t middle;

    while ((high - low) > 1) {
        middle = low + ((high - low) / 2);
        if (muct_xgmi_place_tile(list->begin[middle].place) <= tile) {
            low = middle;
        } else {
            high = middle;
        }
    }

    return low;
}

/* Launch a block only when each of its waves gets a tile. */
static uint32_t muct_xgmi_list_num_blocks(uint64_t num_tiles, uint32_t max_blocks)
{
    uint64_t waves = MUCT_XGMI_MAX_THREADS / MUCT_XGMI_MIN_THREADS;
    uint64_t count = (num_tiles + waves - 1) / waves;

    return (count < max_blocks) ? (uint32_t)count : max_blocks;
}

/* Tiles outside the fixed ranges of the blocks. */
static uint64_t muct_xgmi_list_tail(const muct_xgmi_list_t *list, uint32_t num_blocks)
{
    uint64_t tail = list->num_tiles / ((num_blocks <= MUCT_XGMI_DEFAULT_BLOCKS)
                                           ? MUCT_XGMI_LIST_TAIL_PART
                                           : MUCT_XGMI_LIST_TAIL_PART_CROWDED);

    tail = (tail < MUCT_XGMI_MAX_TAIL_TILES) ? tail : MUCT_XGMI_MAX_TAIL_TILES;
    if ((num_blocks == 1) || (tail < (uint64_t)num_blocks * MUCT_XGMI_LIST_MIN_TAIL)) {
        return 0;
    }

    return tail;
}

void muct_xgmi_list_init(muct_xgmi_list_t *list, void *memory, size_t capacity)
{
    list->begin = memory;
    list->next = list->begin;
    list->end = list->begin + capacity;
    list->num_tiles = 0;
    list->dst_end = MUCT_XGMI_LIST_NOWHERE;
    list->src_end = MUCT_XGMI_LIST_NOWHERE;
    list->num_shapes = 0;
    list->alike.count = 0;
}

/* Return the largest unit that divides all values which were combined into bits by OR.
 * The smallest unit is one byte. */
static uint32_t muct_xgmi_list_unit(uint64_t bits)
{
    if (bits % 4 != 0) {
        return 1;
    }
    return (bits % 16 == 0) ? 16 : ((bits % 8 == 0) ? 8 : 4);
}

/* Number of the shape, which is added if new; 0: the table is full, or the run has no
 * valid shape. */
static uint32_t muct_xgmi_list_shape(muct_xgmi_list_t *list, uint32_t unit,
                                     uint32_t piece, uint64_t dst_stride,
                                     uint64_t src_stride)
{
    muct_xgmi_shape_t *shape;
    uint32_t i;

    for (i = 0; i < list->num_shapes; ++i) {
        shape = &list->shapes[i];
        if ((shape->dst_stride == dst_stride) && (shape->src_stride == src_stride) &&
            (shape->piece == piece) && (shape->unit == unit)) {
            return i + 1;
        }
    }
    if ((i == MUCT_XGMI_MAX_SHAPES) || (piece == 0) ||
        (piece > unit * MUCT_XGMI_MAX_UNITS)) {
        return 0;
    }

    muct_xgmi_shape_init(&list->shapes[i], unit, piece, dst_stride, src_stride);
    return list->num_shapes = i + 1;
}

/* The ends of a list that UCP cuts have fewer pieces than the runs between them, so one
 * short run does not replace a longer one. */
static void muct_xgmi_list_keep_alike(muct_xgmi_list_t *list,
                                      const muct_xgmi_strided_t *run, uint32_t shape)
{
    muct_xgmi_alike_t *alike = &list->alike;
    const uint64_t place = (uint64_t)shape << 32;
    const uint64_t bits = run->dst_stride | run->src_stride | run->piece;

    if ((run->count < alike->count) && (place == alike->shape) && !alike->is_missed) {
        alike->is_missed = true;
        return;
    }

    alike->dst_stride = run->dst_stride;
    alike->src_stride = run->src_stride;
    alike->piece = run->piece;
    alike->bits = bits;
    alike->shape = place;
    alike->low_bits = (run->dst | run->src | bits) & (MUCT_XGMI_VECTOR_SIZE - 1);
    alike->num_tiles = muct_xgmi_shape_tiles(&list->shapes[shape - 1], run->count);
    alike->count = run->count;
    alike->is_missed = false;
}

bool muct_xgmi_list_add_run(muct_xgmi_list_t *list, const muct_xgmi_strided_t *run)
{
    muct_xgmi_entry_t *entry = list->next;
    uint64_t bits = run->dst | run->src | run->dst_stride | run->src_stride;
    uint32_t shape;

    if ((entry == list->end) || (run->count > MUCT_XGMI_MAX_PIECES)) {
        return false;
    }
    shape = muct_xgmi_list_shape(list, muct_xgmi_list_unit(bits | run->piece),
                                 run->piece, run->dst_stride, run->src_stride);
    if (shape == 0) {
        return false;
    }

    entry->dst = run->dst;
    entry->src = run->src;
    entry->length = run->count;
    entry->place = list->num_tiles | ((uint64_t)shape << 32);
    list->num_tiles += muct_xgmi_shape_tiles(&list->shapes[shape - 1], run->count);
    list->next = entry + 1;
    list->dst_end = MUCT_XGMI_LIST_NOWHERE; /* prevents a join with the next piece */
    muct_xgmi_list_keep_alike(list, run, shape);
    return true;
}

void muct_xgmi_list_finish(const muct_xgmi_list_t *list, uint32_t max_blocks,
                           muct_xgmi_launch_t *launch)
{
    muct_xgmi_copy_args_t *args = &launch->args;
    uint64_t tiles = list->num_tiles;
    uint64_t tail, shared;
    uint32_t entry = 0;
    uint32_t block;

    launch->num_blocks = muct_xgmi_list_num_blocks(tiles, max_blocks);
    launch->block_size = MUCT_XGMI_MAX_THREADS;
    if ((tiles * MUCT_XGMI_MIN_THREADS) < MUCT_XGMI_MAX_THREADS) {
        launch->block_size = (uint32_t)tiles * MUCT_XGMI_MIN_THREADS;
    }

    memset(args, 0, offsetof(muct_xgmi_copy_args_t, first_entry));
    args->version = MUCT_XGMI_KERNEL_VERSION;
    args->num_entries = (uint32_t)muct_xgmi_list_count(list);
    args->num_tiles = tiles;
    tail = muct_xgmi_list_tail(list, launch->num_blocks);
    shared = tiles - tail;
    args->block_tiles = shared / launch->num_blocks;
    args->extra_blocks = (uint32_t)(shared % launch->num_blocks);
    args->entries = (uintptr_t)list->begin;
    args->num_shapes = list->num_shapes;
    memcpy(args->shapes, list->shapes, list->num_shapes * sizeof(*list->shapes));
    for (block = 0; block < launch->num_blocks; ++block) {
        entry = muct_xgmi_list_find(list, entry, muct_xgmi_block_tile(args, block));
        args->first_entry[block] = entry;
    }
    args->first_entry[block] =
        (tail > 0) ? muct_xgmi_list_find(list, entry, shared) : args->num_entries;
}
