/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TEST_CLOCK_HERE_H
#define TEST_CLOCK_HERE_H

/**
 * @file
 * A clock that the test moves, read by the product in the one program that includes it.
 * Other callers get the kernel's time.
 */

#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>


static uint64_t clock_ns = 1;

int clock_gettime(clockid_t id, struct timespec *ts)
{
    if (id != CLOCK_MONOTONIC) {
        return (int)syscall(SYS_clock_gettime, id, ts);
    }
    ts->tv_sec = (time_t)(clock_ns / 1000000000u);
    ts->tv_nsec = (long)(clock_ns % 1000000000u);
    return 0;
}

#endif
