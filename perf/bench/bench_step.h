/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_BENCH_STEP_H
#define PERF_BENCH_STEP_H

/**
 * @file
 * Steps of a put and its notification. A round counts one step, in a separate dump
 * under callgrind. bench.sh splits two further steps by a dump within them: at the
 * start of the copy ("launch" until there) and at the sending of the message ("send").
 */

#include "perf/bench/bench_callgrind.h"

#include <stdlib.h>

enum { BENCH_BYTES = 4096, BENCH_ROUNDS = 20, BENCH_WARMUP = 3 };

typedef enum bench_step {
    BENCH_BESIDE,  /**< The post, and the call of progress that starts the copy */
    BENCH_SENT,    /**< Progress of the source until it is done with the message */
    BENCH_RECEIVE, /**< Progress of the destination until it gets the event */
    BENCH_IDLE,    /**< A call of progress at the destination that finds nothing */
    BENCH_NUM_STEPS
} bench_step_t;

/** Call these around the step. */
static inline void bench_step_toggle(bench_step_t counted, bench_step_t step)
{
    (void)step;
    if (counted == step) {
        CALLGRIND_TOGGLE_COLLECT;
    }
}

/** The step is over in this round. */
static inline void bench_step_dump(bench_step_t counted, bench_step_t step)
{
    static const char *const names[BENCH_NUM_STEPS] = {"beside", "sent", "receive",
                                                       "idle"};

    if (counted == step) {
        CALLGRIND_DUMP_STATS_AT(names[step]);
    }
}

/** Rounds for each step. @return 0, or the round's error. */
static inline int bench_step_rounds(void *bench, bench_step_t *counted,
                                    int (*round)(void *bench))
{
    int ret = 0, step, i;

    for (step = BENCH_BESIDE; (ret == 0) && (step < BENCH_NUM_STEPS); ++step) {
        *counted = BENCH_NUM_STEPS;
        for (i = 0; (ret == 0) && (i < BENCH_WARMUP); ++i) {
            ret = round(bench);
        }
        CALLGRIND_ZERO_STATS;
        *counted = (bench_step_t)step;
        for (i = 0; (ret == 0) && (i < BENCH_ROUNDS); ++i) {
            ret = round(bench);
        }
    }
    return ret;
}

#endif
