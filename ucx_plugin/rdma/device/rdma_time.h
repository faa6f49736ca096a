/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_TIME_H
#define MUCT_RDMA_TIME_H

/**
 * @file
 * The clock of what waits: links, recovery, queue pairs that are tried again. Any
 * thread.
 */

#include <stdint.h>
#include <time.h>

/** Longer than any process lives, and no overflow when a time is added. */
#define MUCT_RDMA_NEVER_MS (UINT64_MAX / 4)

/** Milliseconds of a clock that never goes back; coarse. */
static inline uint64_t muct_rdma_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

#endif
