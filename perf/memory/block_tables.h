/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_BLOCK_TABLES_H
#define PERF_BLOCK_TABLES_H

/**
 * @file
 * Block tables of requests, as a serving process' scheduler makes them.
 *
 * A table gets its blocks from a paged pool that has been in use: before the first
 * request, private ones have turned it over. The decode side's sequences go on growing
 * after their prompt has arrived, block by block and in turn, until their answer is
 * complete; time is the requests' own, not the clock's.
 *
 * Threads. One thread per object.
 */

#include "perf/workload/request.h"
#include "perf/workload/geometry.h"

#include <stdint.h>


typedef struct perf_block_tables perf_block_tables_t;

/** Blocks of a request on this side. */
typedef struct perf_block_table {
    uint64_t number;     /**< Number of the request */
    uint32_t tokens;     /**< Tokens of the prompt */
    uint32_t num_blocks; /**< Blocks of the prompt */
    uint32_t num_shared; /**< Leading blocks that already hold their contents */
    uint32_t *blocks;
    uint64_t *keys;         /**< Key of each block: blocks with one key may be shared */
    uint64_t *contents;     /**< perf_geometry_num_keys() keys of the contents of each
                                 block, for perf_pool_fill(); keys, if that is 1 */
    uint32_t output_blocks; /**< Blocks that the answer will take */
    uint64_t timestamp_ms;
} perf_block_table_t;


/**
 * Create the tables of one process.
 *
 * @param [in]  geometry    Must outlive the object.
 * @param [in]  num_blocks  Blocks of the pool.
 * @param [in]  seed        Of the private requests; different in each process.
 * @param [out] tables_p    Owned by the caller.
 *
 * @return 0, or -1 after @ref perf_error.
 */
int perf_block_tables_create(const perf_geometry_t *geometry, uint32_t num_blocks,
                             uint64_t seed, perf_block_tables_t **tables_p);

/** Tables admitted and not finished become void. */
void perf_block_tables_destroy(perf_block_tables_t *tables);

/**
 * Give a request its blocks.
 *
 * @param [in]  request  Copied as far as needed.
 * @param [in]  number   Of the request, the same in all processes.
 * @param [out] table_p  Valid until it is finished.
 *
 * @return 1: admitted; 0: wait until another table is finished; -1 after
 *         @ref perf_error: larger than the whole pool, or no memory.
 */
int perf_block_tables_admit(perf_block_tables_t *tables, const perf_request_t *request,
                            uint64_t number, perf_block_table_t **table_p);

/** Prefill: the prompt was transferred; its blocks keep their contents until they are
 * reused. */
void perf_block_tables_release(perf_block_tables_t *tables, perf_block_table_t *table);

/** Decode: the prompt has arrived; the answer begins. */
void perf_block_tables_decode(perf_block_tables_t *tables, perf_block_table_t *table);

#endif
