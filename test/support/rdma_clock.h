/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMA_CLOCK_H
#define RDMA_CLOCK_H

/**
 * @file
 * The clock that mori_rdma waits by (CLOCK_MONOTONIC_COARSE), under the test's control:
 * a program with this file has its own clock_gettime(), which all its libraries call.
 * All other clocks, timers that wake a sleeper included, are the kernel's.
 *
 * It runs until it is stopped. Any thread.
 */

#include <stdint.h>

/** Stop the clock; from now on it moves by @ref rdma_clock_advance only. */
void rdma_clock_stop(void);

/** Move a stopped clock. */
void rdma_clock_advance(uint64_t ms);

#endif
