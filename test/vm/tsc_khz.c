/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Print how many thousand ticks a second this machine's time stamp counter makes.
 * The emulated counter is the same one. A guest that measures it on a busy host may be
 * wrong by a factor, and so would be all its time limits.
 */

#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>


static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}


int main(void)
{
    const struct timespec pause = {.tv_sec = 0, .tv_nsec = 100000000};
    uint64_t ticks;
    double start;

    start = now();
    ticks = __rdtsc();
    nanosleep(&pause, NULL);
    ticks = __rdtsc() - ticks;
    printf("%.0f\n", (double)ticks / (now() - start) / 1e3);
    return 0;
}
