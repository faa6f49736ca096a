/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_SLOTS_H
#define PERF_SLOTS_H

/**
 * @file
 * Blocks of caches that do not grow with a prompt: windows, rings, states. A request
 * takes some and returns them.
 *
 * Threads. Each object is used by one thread.
 */

#include <stdbool.h>
#include <stdint.h>


typedef struct perf_slots perf_slots_t;

/**
 * Make the blocks of so many requests.
 *
 * @param [in]  per_request  Most blocks of one; a ring has so many.
 * @param [in]  is_ring      Blocks of a request are neighbours, and block n of a prompt
 *                           is number n modulo per_request of them; else they are from
 *                           anywhere.
 * @param [in]  seed         Of their order.
 * @param [out] slots_p      Owned by the caller.
 *
 * @return 0, or -1 after @ref perf_error.
 */
int perf_slots_create(uint32_t num_requests, unsigned per_request, bool is_ring,
                      uint64_t seed, perf_slots_t **slots_p);

void perf_slots_destroy(perf_slots_t *slots);

/**
 * Take blocks.
 *
 * @param [in]  first   Number of the first one in the prompt.
 * @param [out] blocks  @a num of them.
 *
 * @return 0, or -1 when there are not enough: others must give back.
 */
int perf_slots_get(perf_slots_t *slots, unsigned num, unsigned first, uint32_t *blocks);

/** Return the blocks of one perf_slots_get(). */
void perf_slots_put(perf_slots_t *slots, unsigned num, const uint32_t *blocks);

#endif
