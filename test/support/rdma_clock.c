/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_clock.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NSEC_PER_MS 1000000u
#define NSEC_PER_SEC 1000000000u

static uint64_t rdma_clock_nsec; /* 0: it runs */

/* Time from the kernel, as this file replaces the C library's function. */
static int rdma_clock_of_kernel(clockid_t id, struct timespec *time)
{
    return (int)syscall(SYS_clock_gettime, id, time);
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t id,
                                                         struct timespec *time)
{
    const uint64_t nsec = __atomic_load_n(&rdma_clock_nsec, __ATOMIC_RELAXED);

    if ((id != CLOCK_MONOTONIC_COARSE) || (nsec == 0)) {
        return rdma_clock_of_kernel(id, time);
    }

    time->tv_sec = (time_t)(nsec / NSEC_PER_SEC);
    time->tv_nsec = (long)(nsec % NSEC_PER_SEC);
    return 0;
}

void rdma_clock_stop(void)
{
    struct timespec now = {0};

    (void)rdma_clock_of_kernel(CLOCK_MONOTONIC_COARSE, &now);
    __atomic_store_n(&rdma_clock_nsec,
                     (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec,
                     __ATOMIC_RELAXED);
}

void rdma_clock_advance(uint64_t ms)
{
    __atomic_fetch_add(&rdma_clock_nsec, ms * NSEC_PER_MS, __ATOMIC_RELAXED);
}
