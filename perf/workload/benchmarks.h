/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_BENCHMARKS_H
#define PERF_BENCHMARKS_H

/**
 * @file
 * Lists of blocks of other projects' published benchmarks, by name.
 *
 * Constant tables; any thread.
 */

#include <stdint.h>


/** Format of the benchmark's own table. */
typedef enum perf_format {
    PERF_FORMAT_OURS,
    PERF_FORMAT_MORI,  /**< MORI-IO's benchmark: sizes, bandwidths, latencies */
    PERF_FORMAT_PAGES, /**< Pages, Gbit/s and millions of operations a second */
    PERF_FORMAT_TIME   /**< Milliseconds until a request is there */
} perf_format_t;

typedef struct perf_bench_row {
    uint64_t block_size;
    uint32_t batch;
    const char *label; /**< "": the numbers suffice */
} perf_bench_row_t;

typedef struct perf_benchmark {
    const char *name; /**< NULL ends the table */
    const char *about;
    perf_format_t format;
    unsigned num_rows;
    const perf_bench_row_t *rows;
} perf_benchmark_t;


extern const perf_benchmark_t perf_benchmarks[];

/** @return The benchmark, case ignored, or NULL after @ref perf_error. */
const perf_benchmark_t *perf_benchmark_find(const char *name);

#endif
