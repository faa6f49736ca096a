/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_SWEEP_H
#define PERF_SWEEP_H

/**
 * @file
 * Internals of a sweep: the state that all schemes share.
 *
 * Threads. Each sweep is used by one thread.
 */

#include "perf/kv_perf/engine/engine.h"
#include "perf/memory/pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


enum {
    PERF_MAX_VIEWS = 41, /**< Powers of two up to 1 TiB */
    PERF_MAX_ROWS = PERF_MAX_VIEWS * 31,
    PERF_MAX_FLOWS = 2 * PERF_MAX_LEAVES
};

/** A flow as this process sees it. */
typedef struct perf_flow {
    unsigned number; /**< Number of the flow, the same in all processes */
    bool is_mine;    /**< This process starts operations */
    bool is_source;  /**< This process' blocks are read */
    unsigned peer;   /**< Index of the channel to the other process */
    unsigned peer_rank;
    perf_job_t job;
    uint32_t *local, *remote;
    uint64_t num_posted;
    uint64_t *posted_ns; /**< Time of each post in flight, at number % pipeline_depth */
    uint64_t end_ns;     /**< Time at which the last post so far had ended */
} perf_flow_t;

/** Row of the output: a block size and a number of blocks. */
typedef struct perf_row {
    unsigned view;
    uint32_t batch;
    const char *label; /**< "": none */
} perf_row_t;

typedef struct perf_sweep {
    perf_run_t *run;
    const perf_options_t *options;
    const perf_engine_ops_t *ops;
    perf_engine_t *engine;
    perf_engine_params_t params;
    size_t block_sizes[PERF_MAX_VIEWS];
    perf_flow_t flows[PERF_MAX_FLOWS];
    unsigned num_flows;
    perf_result_t result;
    uint64_t next_job;
    perf_row_t rows[PERF_MAX_ROWS];
    uint64_t rows_done, rows_total;
    unsigned rows_left_out; /**< Rows that do not fit into the buffer */
    uint64_t bytes_done;    /**< Bytes moved by the rows that are done */
} perf_sweep_t;


/** Whether a leaf and the center both start operations. */
bool perf_scheme_is_mutual(perf_scheme_t scheme);

/** Blocks of one process that belong to one flow: how many, and the first one. */
uint32_t perf_sweep_zone(const perf_sweep_t *sweep, unsigned rank, size_t block_size,
                         unsigned flow, uint32_t *first_p);

/**
 * A flow's blocks in one process: the first of its zone, or any of it.
 *
 * @return The caller's to free(), or NULL after @ref perf_error.
 */
uint32_t *perf_sweep_list(const perf_sweep_t *sweep, unsigned rank, size_t block_size,
                          unsigned flow, uint32_t num);

/** Work out the rows and the block sizes that they have. */
void perf_sweep_plan(perf_sweep_t *sweep);

/**
 * Post a flow's blocks once more, and measure it from the post number @a warmup on.
 *
 * @return 0, or -1 after @ref perf_error.
 */
int perf_flow_post(perf_sweep_t *sweep, perf_flow_t *flow, uint64_t warmup);

/**
 * Call a function for each flow of this process, or for each flow of others that
 * touches this process.
 *
 * @return 0, or -1 after the first that failed.
 */
int perf_sweep_each(perf_sweep_t *sweep, bool is_mine,
                    int (*op)(perf_engine_t *engine, perf_job_t *job));

/** Make progress while the process waits for others. @param [in] arg  The sweep. */
void perf_sweep_idle(void *arg);

/** Wait until all processes are here. @return 0, or -1 after @ref perf_error. */
int perf_sweep_barrier(perf_sweep_t *sweep);

/** Add up the bytes that the flows of this process moved in a row, when it is over. */
void perf_sweep_account(perf_sweep_t *sweep, uint32_t batch, uint64_t num_iter,
                        uint64_t warmup);

/**
 * Write contents into the sources, or set the expected contents of the destinations.
 *
 * @param [in] round  Each has its own contents; below 2^24.
 *
 * @return 0, or -1 after @ref perf_error.
 */
int perf_sweep_fill(perf_sweep_t *sweep, perf_pool_t *pool, uint32_t batch,
                    uint64_t round, bool is_source);

#endif
