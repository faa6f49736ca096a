/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_PROGRESS_H
#define PERF_PROGRESS_H

/**
 * @file
 * Progress of a run, its rate and the remaining time: a bar on stderr when that is a
 * terminal, a line a second on request, nothing otherwise.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


/** State of a run. */
typedef struct perf_position {
    const char *what; /**< "requests", "rows" */
    uint64_t done, total;
    uint64_t part, whole; /**< Size of the next part; whole 0: unknown */
    uint64_t bytes;       /**< Moved so far; 0: unknown */
} perf_position_t;


/** Show lines also where there is no terminal. */
void perf_progress_request(void);

/** Whether anything would be shown: working out a position may cost. */
bool perf_progress_is_on(void);

/** A phase of unknown length: "connecting". */
void perf_progress_phase(const char *what);

/** Show where the run is; draws at most ten times a second, or prints once a second. */
void perf_progress_show(const perf_position_t *position);

/** Take the bar away, before other output. */
void perf_progress_clear(void);

/**
 * The text of a bar.
 *
 * @param [in] elapsed_ns  Since the run began.
 * @param [in] rate        Bytes a second, just now; 0: unknown.
 */
void perf_progress_text(const perf_position_t *position, uint64_t elapsed_ns,
                        double rate, char *text, size_t size);

#endif
