/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_ENGINE_SIDE_H
#define PERF_ENGINE_SIDE_H

/**
 * @file
 * State of a side, prefill or decode, in a run with a model: its requests in order and
 * the blocks of each. The transfers follow from the options alone, so each engine moves
 * the same lists.
 *
 * Threads. Each object is used by one thread.
 */

#include "perf/workload/options.h"
#include "perf/memory/pool.h"
#include "perf/workload/request.h"
#include "perf/memory/block_tables.h"
#include "perf/workload/geometry.h"
#include "perf/workload/slots.h"

#include <stdbool.h>


/** Read-only for users. Must not be moved while it is open. */
typedef struct perf_engine_side {
    bool is_prefill;
    perf_geometry_t geometry;
    unsigned peer_block_tokens;
    perf_pool_shape_t shapes[PERF_MAX_COMPONENTS]; /**< Shape of each cache */
    perf_slots_t *slots[PERF_MAX_COMPONENTS]; /**< Slots of components that do not keep
                                                 every token */
    perf_block_tables_t *tables;
    perf_source_t *source;
    const perf_request_t *request; /**< Read, not admitted yet */
    uint64_t num_requests;         /**< Fewer than requested once a trace has ended */
    uint64_t num_admitted;
} perf_engine_side_t;

/** Blocks of one component and the expected contents of each. */
typedef struct perf_list {
    uint32_t num;
    uint32_t num_shared; /**< Leading blocks that already hold their contents */
    uint32_t *blocks;
    uint64_t *keys; /**< perf_pool_shape_t::num_keys of each block */
} perf_list_t;

/** A request's blocks here. */
typedef struct perf_admitted {
    perf_block_table_t *table;
    perf_list_t lists[PERF_MAX_COMPONENTS];
} perf_admitted_t;


/**
 * Open one side.
 *
 * @param [in]  options  Must have a model; read, not kept.
 * @param [in]  rank     Which tensor-parallel rank of its side this process is.
 * @param [out] side     To be closed also after an error.
 *
 * @return 0, or -1 after @ref perf_error.
 */
int perf_engine_side_open(const perf_options_t *options, bool is_prefill, unsigned rank,
                          perf_engine_side_t *side);

/** Tables admitted and not finished become void. */
void perf_engine_side_close(perf_engine_side_t *side);

/**
 * Give the next request its blocks; its number is num_admitted before the call.
 *
 * @param [out] admitted  Valid until it is finished.
 *
 * @return 1: admitted; 0: there is none any more, or no room until another one is
 *         finished; -1 after @ref perf_error.
 */
int perf_engine_side_admit(perf_engine_side_t *side, perf_admitted_t *admitted);

/** The prompt has been moved: prefill releases it, decode begins its answer. */
void perf_engine_side_finish(perf_engine_side_t *side, perf_admitted_t *admitted);

/** Release everything of a request that an error cut short. */
void perf_engine_side_drop(perf_engine_side_t *side, perf_admitted_t *admitted);

#endif
