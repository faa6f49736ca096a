/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_BACKOFF_H
#define PERF_BACKOFF_H

/**
 * @file
 * How a polling loop shares a processor: it spins for a short time, then yields before
 * each further poll. Processes that wait for each other make progress even where there
 * are fewer processors than processes.
 */

#include <sched.h>
#include <stdbool.h>


/** Empty looks before the first yield: some 100 microseconds. */
enum { PERF_BACKOFF_LOOKS = 1000 };

/** Record whether a poll found something; @a empty counts empty polls in a row. */
static inline void perf_backoff(unsigned *empty, bool is_found)
{
    if (is_found) {
        *empty = 0;
    } else if (++*empty > PERF_BACKOFF_LOOKS) {
        sched_yield();
    }
}

#endif
