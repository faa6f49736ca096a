/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_PLOT_H
#define PERF_PLOT_H

/**
 * @file
 * Rows as a picture: bandwidth by block size, the distribution of latencies, and with
 * layers that take their time how much of the transfer hides behind them. Drawn by
 * gnuplot or, where there is none, by matplotlib.
 *
 * Threads. One thread per object.
 */

#include "perf/kv_perf/result.h"
#include "perf/workload/options.h"

#include <stdio.h>


typedef struct perf_plot {
    const perf_options_t *options;
    FILE *data; /**< NULL: no plot */
    unsigned num_rows;
} perf_plot_t;


/**
 * Begin, if --plot was given.
 *
 * @return 0, or -1 after @ref perf_error (no plotting program, no memory).
 */
int perf_plot_open(const perf_options_t *options, perf_plot_t *plot);

void perf_plot_row(perf_plot_t *plot, const perf_result_t *result);

/**
 * Draw all rows; nothing if there is none.
 *
 * @return 0, or -1 after @ref perf_error (the file could not be written).
 */
int perf_plot_close(perf_plot_t *plot);

#endif
