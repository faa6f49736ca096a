/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_BLOCK_MOVES_H
#define PERF_BLOCK_MOVES_H

/**
 * @file
 * Blocks that the requests of a run with a model move, all computed beforehand: both
 * sides are simulated in one process, one request after the other as with a pipeline
 * depth of 1.
 *
 * Threads. Any number may read.
 */

#include "perf/memory/pool.h"
#include "perf/workload/geometry.h"

#include <stdint.h>


/** A request: block src[i] of prefill goes to block dst[i] of decode. */
typedef struct perf_move {
    uint32_t num_blocks; /**< Blocks to move; decode has the others already */
    uint32_t *src;
    uint32_t *dst;
} perf_move_t;

typedef struct perf_block_moves {
    perf_pool_shape_t shape; /**< Blocks of both KV caches */
    uint32_t num_moves;
    uint32_t num_warmup; /**< First ones, which are not measured */
    perf_move_t *moves;
} perf_block_moves_t;


/**
 * Compute all requests.
 *
 * @param [in]  options  With a model; not kept.
 * @param [out] moves_p  To be destroyed by perf_block_moves_destroy(). Set on success.
 *
 * @return 0, or -1 after @ref perf_error (the options are impossible, no memory).
 */
int perf_block_moves_create(const perf_options_t *options,
                            perf_block_moves_t **moves_p);

void perf_block_moves_destroy(perf_block_moves_t *moves);

#endif
