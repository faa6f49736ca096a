/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMA_CLOCK_H
#define RDMA_CLOCK_H

/**
 * @file
 * The clock that mori_rdma waits by (CLOCK_MONOTONIC_COARSE), in the hands of the test:
 * a program that has this file has its own clock_gettime(), which every library of it
 * calls. All other clocks, timers that wake a sleeper included, are the kernel's.
 *
 * It runs until it is stopped. Any thread.
 */

#include <stdint.h>

/** Stop the clock; from now on it moves by @ref rdma_clock_advance only. */
void rdma_clock_stop(void);

/** Move a stopped clock. */
void rdma_clock_advance(uint64_t ms);

#endif
