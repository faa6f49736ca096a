/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_TIME_H
#define MUCT_RDMA_TIME_H

/**
 * @file
 * The clock of timeouts: links, recovery, restarts of queue pairs. Any thread.
 */

#include <stdint.h>
#include <time.h>

/** Longer than the life of any process; adding a time does not overflow. */
#define MUCT_RDMA_NEVER_MS (UINT64_MAX / 4)

/** Milliseconds of a clock that never goes back; coarse. */
static inline uint64_t muct_rdma_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

#endif
