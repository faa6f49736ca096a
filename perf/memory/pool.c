/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Pieces are filled from and checked in a staging buffer of the host. It holds many
 * pieces, so that pieces side by side share one copy, and all copies of a GPU one wait.
 */

#include "perf/memory/pool.h"
#include "perf/base/error.h"
#include "perf/memory/pattern.h"
#include "perf/base/random.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>


enum { PERF_POOL_STAGING = 32 << 20 };

typedef enum perf_pool_way { PERF_POOL_FILL, PERF_POOL_CHECK } perf_pool_way_t;

/* Place of a piece that waits in the staging buffer. */
typedef struct perf_piece {
    uint32_t block;
    unsigned layer;
    unsigned part;
} perf_piece_t;

/* Seeds of the contents of one piece, one for each key */
typedef struct perf_seeds {
    unsigned num;
    uint64_t *of;
} perf_seeds_t;

struct perf_pool {
    perf_memory_t *memory;
    perf_pool_shape_t shape;
    bool is_borrowed; /* the caller owns the memory of the layers */
    void **layers;
    uint64_t *keys; /* num_keys keys of the expected contents of each block */
    perf_seeds_t seeds;
    uint32_t *all_blocks;
    char *staging;
    char *expected;       /* room for the expected bytes of one piece */
    perf_piece_t *pieces; /* places of the pieces in the staging buffer */
    size_t num_pieces;
    size_t max_pieces;
};


static const uint64_t *perf_piece_keys(const perf_pool_t *pool,
                                       const perf_piece_t *piece)
{
    return pool->keys + (size_t)piece->block * pool->shape.num_keys;
}

static void perf_piece_seeds(perf_pool_t *pool, const perf_piece_t *piece)
{
    const uint64_t *keys = perf_piece_keys(pool, piece);
    const uint64_t place = ((uint64_t)piece->layer << 8) + piece->part + 1;
    unsigned i;

    for (i = 0; i < pool->seeds.num; ++i) {
        pool->seeds.of[i] = perf_mix(perf_pattern_word(keys[i], place));
    }
}

/* Staged pieces start at multiples of 8, whatever their length. */
static size_t perf_pool_pitch(const perf_pool_t *pool)
{
    return (pool->shape.piece_bytes + 7) & ~(size_t)7;
}

static size_t perf_pool_layer_size(const perf_pool_t *pool)
{
    return (size_t)pool->shape.num_parts * pool->shape.num_blocks *
           pool->shape.piece_bytes;
}

/* A slab is one allocation. */
static unsigned perf_pool_num_allocs(const perf_pool_t *pool)
{
    return pool->shape.is_slab ? 1 : pool->shape.num_layers;
}

static size_t perf_pool_alloc_size(const perf_pool_t *pool)
{
    return perf_pool_layer_size(pool) *
           (pool->shape.is_slab ? pool->shape.num_layers : 1);
}

void perf_pool_region(const perf_pool_t *pool, unsigned layer, unsigned part,
                      perf_pool_region_t *region)
{
    const perf_pool_shape_t *shape = &pool->shape;
    size_t size = shape->piece_bytes, piece;

    region->alloc_base = pool->layers[shape->is_slab ? 0 : layer];
    region->alloc_length = perf_pool_alloc_size(pool);
    if (shape->is_slab) {
        region->stride = size * shape->num_layers * shape->num_parts;
        piece = (size_t)layer * shape->num_parts + part;
    } else {
        region->stride = size;
        piece = (size_t)part * shape->num_blocks;
    }
    region->base = (char *)region->alloc_base + piece * size;
    region->length = region->stride * (shape->num_blocks - 1) + size;
}

static void *perf_piece_address(const perf_pool_t *pool, const perf_piece_t *piece)
{
    perf_pool_region_t region;

    perf_pool_region(pool, piece->layer, piece->part, &region);
    return (char *)region.base + piece->block * region.stride;
}

/* Write one element: its pattern depends on the key and the position. */
static void perf_cell_make(char *cell, size_t length, uint64_t seed)
{
    uint64_t word;
    size_t i, part;

    for (i = 0; i < length; i += part) {
        part = (length - i < sizeof(word)) ? length - i : sizeof(word);
        word = perf_pattern_word(seed, i / sizeof(word));
        memcpy(cell + i, &word, part);
    }
}

/* One element for some rows, an entry each, that lie side by side. Rows count from the
 * first one with the same key, so that contents do not depend on the length of blocks.
 */
static char *perf_cells_make_rows(const perf_cells_t *cells, char *piece,
                                  const perf_seeds_t *seeds, unsigned group,
                                  unsigned element, unsigned row, unsigned num_rows)
{
    const unsigned share = cells->entries / seeds->num;
    unsigned entry;
    uint64_t number;

    for (; num_rows > 0; --num_rows, ++row) {
        entry = row % cells->entries;
        number = ((uint64_t)(row / cells->entries * share + entry % share) << 40) +
                 ((uint64_t)group << 32) + cells->first[group] + element;
        perf_cell_make(piece, cells->inner_bytes,
                       perf_mix(seeds->of[entry / share] ^ perf_mix(number + 1)));
        piece += cells->inner_bytes;
    }
    return piece;
}

/* The elements of all groups, each with some rows. */
static char *perf_cells_make_elements(const perf_cells_t *cells, char *piece,
                                      const perf_seeds_t *seeds, unsigned row,
                                      unsigned num_rows)
{
    unsigned group, i;

    for (group = 0; group < cells->num_groups; ++group) {
        for (i = 0; i < cells->num[group]; ++i) {
            piece = perf_cells_make_rows(cells, piece, seeds, group, i, row, num_rows);
        }
    }
    return piece;
}

static void perf_cells_make(const perf_cells_t *cells, char *piece,
                            const perf_seeds_t *seeds)
{
    const unsigned num_rows = cells->has_heads_first ? cells->entries : 1;
    unsigned row;

    for (row = 0; row < cells->outer * cells->entries; row += num_rows) {
        piece = perf_cells_make_elements(cells, piece, seeds, row, num_rows);
    }
}

/* Expected contents of a piece. */
static void perf_piece_make(perf_pool_t *pool, char *buffer, const perf_piece_t *piece)
{
    perf_piece_seeds(pool, piece);
    if (pool->shape.cells.num_groups == 0) {
        perf_pattern_make(buffer, pool->shape.piece_bytes, pool->seeds.of[0]);
    } else {
        perf_cells_make(&pool->shape.cells, buffer, &pool->seeds);
    }
}

static bool perf_piece_is_made(perf_pool_t *pool, const char *found,
                               const perf_piece_t *piece)
{
    if (pool->shape.cells.num_groups == 0) {
        perf_piece_seeds(pool, piece);
        return perf_pattern_is_made(found, pool->shape.piece_bytes, pool->seeds.of[0]);
    }
    perf_piece_make(pool, pool->expected, piece);
    return memcmp(found, pool->expected, pool->shape.piece_bytes) == 0;
}

static void perf_piece_error(perf_pool_t *pool, const perf_piece_t *piece,
                             const char *found)
{
    const uint64_t key = *perf_piece_keys(pool, piece);
    size_t i = 0;

    perf_piece_make(pool, pool->expected, piece);
    while ((i < pool->shape.piece_bytes - 1) && (found[i] == pool->expected[i])) {
        ++i;
    }

    perf_error(
        "wrong byte in layer %u part %u block %u at byte %zu of %zu: found 0x%02x, "
        "expected 0x%02x (%s, key 0x%" PRIx64 ")",
        piece->layer, piece->part, piece->block, i, pool->shape.piece_bytes,
        (unsigned char)found[i], (unsigned char)pool->expected[i],
        (key == PERF_POOL_UNTOUCHED) ? "a block that no transfer may write"
                                     : "what was moved there",
        key);
}

/* Number of staged pieces from the first on that lie side by side in memory as well.
 * The runtime refuses a copy that reaches into another allocation, which layers can be.
 */
static size_t perf_pool_run(const perf_pool_t *pool, const perf_piece_t *first,
                            size_t num_pieces)
{
    const char *address = perf_piece_address(pool, first);
    const size_t length = pool->shape.piece_bytes;
    size_t num = 1;

    if (perf_pool_pitch(pool) == length) {
        while ((num < num_pieces) && (first[num].layer == first->layer) &&
               (perf_piece_address(pool, first + num) == address + num * length)) {
            ++num;
        }
    }
    return num;
}

/* One copy for each run of pieces: a copy of a GPU takes longer than its bytes. */
static int perf_pool_copy(perf_pool_t *pool, perf_pool_way_t way)
{
    char *staged = pool->staging, *address;
    size_t i, num, length;

    for (i = 0; i < pool->num_pieces; i += num) {
        num = perf_pool_run(pool, &pool->pieces[i], pool->num_pieces - i);
        length = num * pool->shape.piece_bytes;
        address = perf_piece_address(pool, &pool->pieces[i]);
        if (way == PERF_POOL_FILL) {
            perf_memory_write(pool->memory, address, staged, length);
        } else {
            perf_memory_read(pool->memory, staged, address, length);
        }
        staged += num * perf_pool_pitch(pool);
    }
    return perf_memory_sync(pool->memory);
}

/* Copy the staged pieces; when checking, compare the bytes. */
static int perf_pool_flush(perf_pool_t *pool, perf_pool_way_t way)
{
    size_t i, num_pieces = pool->num_pieces;
    const perf_piece_t *piece;
    const char *staged;
    int ret;

    ret = perf_pool_copy(pool, way);
    pool->num_pieces = 0;
    if (ret != 0) {
        return -1;
    }

    for (i = 0; (way == PERF_POOL_CHECK) && (i < num_pieces); ++i) {
        piece = &pool->pieces[i];
        staged = pool->staging + i * perf_pool_pitch(pool);
        if (!perf_piece_is_made(pool, staged, piece)) {
            perf_piece_error(pool, piece, staged);
            return -1;
        }
    }
    return 0;
}

static int perf_pool_stage(perf_pool_t *pool, perf_pool_way_t way, perf_piece_t piece)
{
    if (way == PERF_POOL_FILL) {
        perf_piece_make(pool, pool->staging + pool->num_pieces * perf_pool_pitch(pool),
                        &piece);
    }

    pool->pieces[pool->num_pieces++] = piece;
    return (pool->num_pieces < pool->max_pieces) ? 0 : perf_pool_flush(pool, way);
}

static int perf_pool_visit(perf_pool_t *pool, perf_pool_way_t way,
                           const uint32_t *blocks, uint32_t num_blocks)
{
    perf_piece_t piece;
    uint32_t i;

    for (piece.layer = 0; piece.layer < pool->shape.num_layers; ++piece.layer) {
        for (piece.part = 0; piece.part < pool->shape.num_parts; ++piece.part) {
            for (i = 0; i < num_blocks; ++i) {
                piece.block = blocks[i];
                if (perf_pool_stage(pool, way, piece) != 0) {
                    return -1;
                }
            }
        }
    }
    return perf_pool_flush(pool, way);
}

void perf_pool_expect(perf_pool_t *pool, const uint32_t *blocks, const uint64_t *keys,
                      uint32_t num_blocks)
{
    const unsigned num_keys = pool->shape.num_keys;
    uint64_t *expected;
    uint32_t i;
    unsigned k;

    for (i = 0; i < num_blocks; ++i) {
        expected = pool->keys + (size_t)blocks[i] * num_keys;
        for (k = 0; k < num_keys; ++k, ++keys) {
            expected[k] = (*keys != PERF_POOL_UNTOUCHED) ? *keys : expected[k];
        }
    }
}

int perf_pool_fill(perf_pool_t *pool, const uint32_t *blocks, const uint64_t *keys,
                   uint32_t num_blocks)
{
    perf_pool_expect(pool, blocks, keys, num_blocks);
    return perf_pool_visit(pool, PERF_POOL_FILL, blocks, num_blocks);
}

int perf_pool_check(perf_pool_t *pool, const uint32_t *blocks, uint32_t num_blocks)
{
    return perf_pool_visit(pool, PERF_POOL_CHECK, blocks, num_blocks);
}

int perf_pool_check_all(perf_pool_t *pool)
{
    return perf_pool_visit(pool, PERF_POOL_CHECK, pool->all_blocks,
                           pool->shape.num_blocks);
}

const perf_pool_shape_t *perf_pool_shape(const perf_pool_t *pool)
{
    return &pool->shape;
}

/* Tables and staging that only checking needs. */
static int perf_pool_prepare_check(perf_pool_t *pool)
{
    uint32_t i;

    pool->max_pieces = PERF_POOL_STAGING / perf_pool_pitch(pool);
    pool->max_pieces = (pool->max_pieces == 0) ? 1 : pool->max_pieces;
    pool->keys = calloc((size_t)pool->shape.num_blocks * pool->shape.num_keys,
                        sizeof(*pool->keys));
    pool->seeds.num = pool->shape.num_keys;
    pool->seeds.of = calloc(pool->seeds.num, sizeof(*pool->seeds.of));
    pool->all_blocks = calloc(pool->shape.num_blocks, sizeof(*pool->all_blocks));
    pool->pieces = calloc(pool->max_pieces, sizeof(*pool->pieces));
    pool->staging = malloc(pool->max_pieces * perf_pool_pitch(pool));
    pool->expected = malloc(perf_pool_pitch(pool));
    if ((pool->keys == NULL) || (pool->seeds.of == NULL) ||
        (pool->all_blocks == NULL) || (pool->pieces == NULL) ||
        (pool->staging == NULL) || (pool->expected == NULL)) {
        perf_error("no memory to check a pool of %u blocks", pool->shape.num_blocks);
        return -1;
    }

    for (i = 0; i < pool->shape.num_blocks; ++i) {
        pool->all_blocks[i] = i;
    }
    return perf_pool_visit(pool, PERF_POOL_FILL, pool->all_blocks,
                           pool->shape.num_blocks);
}

/* Free the pool, but not the memory of the layers. */
static perf_pool_t *perf_pool_alloc(perf_memory_t *memory,
                                    const perf_pool_shape_t *shape)
{
    perf_pool_t *pool;

    pool = calloc(1, sizeof(*pool));
    if ((pool == NULL) ||
        ((pool->layers = calloc(shape->num_layers, sizeof(*pool->layers))) == NULL)) {
        perf_error("no memory for a pool of %u layers", shape->num_layers);
        free(pool);
        return NULL;
    }

    pool->memory = memory;
    pool->shape = *shape;
    pool->shape.num_keys = (shape->num_keys != 0) ? shape->num_keys : 1;
    return pool;
}

int perf_pool_create(perf_memory_t *memory, const perf_pool_shape_t *shape,
                     bool is_check, perf_pool_t **pool_p)
{
    perf_pool_t *pool;
    unsigned i;

    pool = perf_pool_alloc(memory, shape);
    if (pool == NULL) {
        return -1;
    }

    for (i = 0; i < perf_pool_num_allocs(pool); ++i) {
        pool->layers[i] = perf_memory_alloc(memory, perf_pool_alloc_size(pool));
        if (pool->layers[i] == NULL) {
            goto err_destroy;
        }
    }
    if (is_check && (perf_pool_prepare_check(pool) != 0)) {
        goto err_destroy;
    }

    *pool_p = pool;
    return 0;

err_destroy:
    perf_pool_destroy(pool);
    return -1;
}

int perf_pool_create_at(perf_memory_t *memory, const perf_pool_shape_t *shape,
                        void *layer, perf_pool_t **pool_p)
{
    perf_pool_t *pool;

    pool = perf_pool_alloc(memory, shape);
    if (pool == NULL) {
        return -1;
    }

    pool->is_borrowed = true;
    pool->layers[0] = layer;
    if (perf_pool_prepare_check(pool) != 0) {
        perf_pool_destroy(pool);
        return -1;
    }

    *pool_p = pool;
    return 0;
}

void perf_pool_destroy(perf_pool_t *pool)
{
    unsigned i;

    for (i = 0; !pool->is_borrowed && (i < perf_pool_num_allocs(pool)); ++i) {
        if (pool->layers[i] != NULL) {
            perf_memory_free(pool->memory, pool->layers[i], perf_pool_alloc_size(pool));
        }
    }
    free(pool->expected);
    free(pool->staging);
    free(pool->pieces);
    free(pool->all_blocks);
    free(pool->seeds.of);
    free(pool->keys);
    free(pool->layers);
    free(pool);
}
