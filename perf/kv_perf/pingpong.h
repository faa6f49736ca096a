/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_PINGPONG_H
#define PERF_PINGPONG_H

/**
 * @file
 * Two processes that take turns: one puts its blocks and notifies the other, which
 * answers in the same way when the bytes have arrived. Half of the time between a post
 * and the answer is the latency of a put with its notification.
 *
 * Threads. Each sweep is used by one thread.
 */

#include "perf/kv_perf/sweep.h"


/**
 * Measure rounds of a row whose flows are ready.
 *
 * @return 0, or -1 after @ref perf_error.
 */
int perf_pingpong_measure(perf_sweep_t *sweep, uint32_t batch, uint64_t num_iter,
                          uint64_t warmup);

/**
 * Rounds whose contents change. At each notification every byte that was moved must be
 * the round's own.
 *
 * @return 0, or -1 after @ref perf_error named the first wrong byte.
 */
int perf_pingpong_check(perf_sweep_t *sweep, perf_pool_t *pool, uint32_t batch);

#endif
