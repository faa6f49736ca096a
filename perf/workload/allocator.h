/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_ALLOCATOR_H
#define PERF_ALLOCATOR_H

/**
 * @file
 * Paged KV allocator as in inference engines: a pool of equal blocks whose contents are
 * found again by key; the block that has been free longest is taken first.
 *
 * A block is held by any number of sequences. When the last one releases it, it keeps
 * its contents and joins the end of the free queue; taking it from the front of the
 * queue drops them. A sequence that begins like an earlier one therefore shares its
 * first blocks, and after some turns of the pool no two blocks of a sequence are
 * neighbours except by chance - the block tables that transfers have to handle.
 *
 * Keys stand for contents: equal keys promise equal bytes. Key 0 means contents that
 * are never shared, such as a block that is not full yet.
 *
 * Threads. One thread per allocator.
 */

#include <stdint.h>


typedef struct perf_allocator perf_allocator_t;


/**
 * Create a pool whose blocks are all free, in ascending order, without contents.
 *
 * @param [in]  num_blocks   Blocks in the pool, at least 1.
 * @param [out] allocator_p  Owned by the caller. Set only on success.
 *
 * @return 0, or -1 after @ref perf_error (no memory, or @a num_blocks is 0).
 */
int perf_allocator_create(uint32_t num_blocks, perf_allocator_t **allocator_p);

void perf_allocator_destroy(perf_allocator_t *allocator);

/**
 * Hold blocks for a sequence.
 *
 * The longest run of first keys whose contents are in the pool is shared, the rest
 * comes from the free queue and gets the given keys.
 *
 * @param [in]  keys          Contents of each block, in sequence order.
 * @param [in]  num_keys      Number of keys and blocks.
 * @param [out] blocks        Block numbers, @a num_keys of them.
 * @param [out] num_shared_p  How many of the first blocks already held their contents.
 *
 * @return 0, or -1 when too few blocks are free; then nothing has changed and nothing
 *         is printed: release some and try again.
 */
int perf_allocator_get(perf_allocator_t *allocator, const uint64_t *keys,
                       uint32_t num_keys, uint32_t *blocks, uint32_t *num_shared_p);

/** Release blocks, the last one first, so that the end of a sequence is reused before
 * its beginning. The caller must hold each block. */
void perf_allocator_put(perf_allocator_t *allocator, const uint32_t *blocks,
                        uint32_t num_blocks);

/** Blocks that no sequence holds. */
uint32_t perf_allocator_num_free(const perf_allocator_t *allocator);

/** Key of a block's contents, also while it is free; 0 when they are unknown. */
uint64_t perf_allocator_key(const perf_allocator_t *allocator, uint32_t block);

#endif
