/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_POOL_H
#define PERF_POOL_H

/**
 * @file
 * The memory of a KV cache and its expected contents.
 *
 * A layer is one allocation, as in engines; it contains the parts one after the other,
 * each `num_blocks` pieces. Or a slab: one allocation of blocks, in each of which the
 * pieces of all layers and parts lie side by side. A block's contents in all layers and
 * parts follow from one key, so equal keys have equal bytes in every process. The pool
 * remembers the key that was last written to each block by any side, and can therefore
 * check every byte it owns: moved ones have arrived, all others are unchanged.
 *
 * Threads. Each pool is used by one thread. Nothing may write to a block while it is
 * filled or checked.
 */

#include "perf/memory/memory.h"
#include "perf/workload/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


/**
 * Which elements of the whole model's a piece holds, so that two ranks that hold an
 * element have equal bytes of it: outer x entries x (num of each group) x inner_bytes,
 * or with heads first outer x (num of each group) x entries x inner_bytes.
 */
typedef struct perf_cells {
    unsigned num_groups;             /**< 0: pieces are alike in all processes */
    unsigned first[PERF_MAX_GROUPS]; /**< Number of the first element here */
    unsigned num[PERF_MAX_GROUPS];   /**< Elements here */
    unsigned outer;
    unsigned entries; /**< A multiple of the pool's num_keys */
    bool has_heads_first;
    size_t inner_bytes;
} perf_cells_t;

typedef struct perf_pool_shape {
    unsigned num_layers;
    unsigned num_parts;
    uint32_t num_blocks;
    size_t piece_bytes;
    bool is_slab;
    unsigned num_keys; /**< Keys of a block, each for an equal share of its entries;
                            more than one needs cells. 0 counts as 1 */
    perf_cells_t cells;
} perf_pool_shape_t;

/** Addresses of the pieces of one layer and part. */
typedef struct perf_pool_region {
    void *base;
    size_t length; /**< Bytes from base to the end of the last piece */
    size_t stride; /**< Bytes from a block to the next one */
    void *alloc_base;
    size_t alloc_length;
} perf_pool_region_t;

typedef struct perf_pool perf_pool_t;

/** Key of a block that was never written, and of a part that keeps its contents. */
#define PERF_POOL_UNTOUCHED UINT64_C(0)


/**
 * Allocate a pool.
 *
 * @param [in]  memory    Must outlive the pool.
 * @param [in]  shape     Copied.
 * @param [in]  is_check  Fill it all with the contents of untouched blocks, so that it
 * can be checked; else contents are undefined, and of the functions below only the
 * addresses may be used.
 * @param [out] pool_p    Owned by the caller.
 *
 * @return 0, or -1 after @ref perf_error (no memory).
 */
int perf_pool_create(perf_memory_t *memory, const perf_pool_shape_t *shape,
                     bool is_check, perf_pool_t **pool_p);

/**
 * Make a pool of one layer, which can be checked, of memory that exists.
 *
 * @param [in] layer  Memory of the only layer; borrowed until the pool is destroyed.
 *
 * @return As @ref perf_pool_create.
 */
int perf_pool_create_at(perf_memory_t *memory, const perf_pool_shape_t *shape,
                        void *layer, perf_pool_t **pool_p);

void perf_pool_destroy(perf_pool_t *pool);

const perf_pool_shape_t *perf_pool_shape(const perf_pool_t *pool);

/** Addresses of the pieces of a layer and part. */
void perf_pool_region(const perf_pool_t *pool, unsigned layer, unsigned part,
                      perf_pool_region_t *region);

/** Write the contents of keys[i] into blocks[i], or with num_keys of a block those of
 * keys[i * num_keys] and the next ones. @return 0, or -1. */
int perf_pool_fill(perf_pool_t *pool, const uint32_t *blocks, const uint64_t *keys,
                   uint32_t num_blocks);

/** Expect the contents of keys[i] in blocks[i] from now on; the other process writes
 * them. */
void perf_pool_expect(perf_pool_t *pool, const uint32_t *blocks, const uint64_t *keys,
                      uint32_t num_blocks);

/**
 * Compare every byte of some blocks with their expected contents.
 *
 * @return 0, or -1 after @ref perf_error named the first wrong byte.
 */
int perf_pool_check(perf_pool_t *pool, const uint32_t *blocks, uint32_t num_blocks);

/** Compare every byte of the pool. */
int perf_pool_check_all(perf_pool_t *pool);

#endif
