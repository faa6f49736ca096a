/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_CACHES_H
#define PERF_CACHES_H

/**
 * @file
 * The memory of a model's caches, a pool for each component, and the blocks of a
 * request.
 *
 * Threads. Each object is used by one thread.
 */

#include "perf/kv_perf/engine/mkv_session.h"
#include "perf/memory/engine_side.h"
#include "perf/memory/pool.h"


typedef struct perf_caches {
    const perf_engine_side_t *side;
    perf_pool_t *pools[PERF_MAX_COMPONENTS];
} perf_caches_t;


/**
 * Allocate.
 *
 * @param [in]  side    Must outlive the object.
 * @param [out] caches  To be closed also after an error.
 *
 * @return 0, or -1 after @ref perf_error.
 */
int perf_caches_open(perf_memory_t *memory, const perf_engine_side_t *side,
                     bool is_check, perf_caches_t *caches);

void perf_caches_close(perf_caches_t *caches);

/** Make regions of it. @return 0, or -1 after @ref perf_error. */
int perf_caches_add(const perf_caches_t *caches, perf_session_t *kv,
                    ucs_memory_type_t type);

/** Write the missing contents of a request. @return 0, or -1 after @ref perf_error. */
int perf_caches_fill(perf_caches_t *caches, const perf_admitted_t *admitted);

/** Expect another process to write those contents from now on. */
void perf_caches_expect(perf_caches_t *caches, const perf_admitted_t *admitted);

/** Compare every byte of that. @return 0, or -1 after @ref perf_error. */
int perf_caches_check(perf_caches_t *caches, const perf_admitted_t *admitted);

/** Compare every byte of all. @return 0, or -1 after @ref perf_error. */
int perf_caches_check_all(perf_caches_t *caches);

/**
 * @return First tokens of the prompt that the destination, this side, has already, down
 *         to a multiple of both sides' blocks.
 */
uint32_t perf_caches_start(const perf_caches_t *caches,
                           const perf_admitted_t *admitted);

/**
 * Block lists of a request that are moved.
 *
 * @param [in]  start  The destination has so many of the prompt's first tokens.
 * @param [out] units  One for each component.
 *
 * @return How many there are.
 */
size_t perf_caches_units(const perf_caches_t *caches, const perf_admitted_t *admitted,
                         uint32_t start, mkv_units_t *units);

/**
 * The same, paired with the blocks that the other side exposes.
 *
 * @param [in]  event  Its MKV_EV_EXPOSED.
 * @param [out] units  One for each component, their number in @a num_p; they point into
 *                     the event's.
 *
 * @return 0, or -1 after @ref perf_error: it exposes more or fewer blocks.
 */
int perf_caches_pair(const perf_caches_t *caches, const perf_admitted_t *admitted,
                     const mkv_event_t *event, uint32_t start, mkv_units_t *units,
                     size_t *num_p);

/** Pieces that a map moves of such lists, in all layers and parts. */
uint64_t perf_caches_pieces(const mkv_map_t *map, const mkv_units_t *units,
                            size_t num_units);

#endif
