/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_HISTOGRAM_H
#define PERF_HISTOGRAM_H

/**
 * @file
 * Distribution of durations in fixed memory, exact to 1/64 of the value.
 *
 * A plain value: copy it, send it to another process of the same build, add two up.
 * Adding a sample touches one counter and never fails.
 */

#include <stdint.h>


enum {
    PERF_HISTOGRAM_SUB_BITS = 6,
    PERF_HISTOGRAM_BUCKETS = (65 - PERF_HISTOGRAM_SUB_BITS) << PERF_HISTOGRAM_SUB_BITS
};


typedef struct perf_histogram {
    uint64_t count;
    uint64_t sum; /**< Sum of the samples, wraps after 584 years of nanoseconds */
    uint64_t min; /**< UINT64_MAX while empty */
    uint64_t max;
    uint64_t buckets[PERF_HISTOGRAM_BUCKETS];
} perf_histogram_t;


/** Make it empty. */
void perf_histogram_init(perf_histogram_t *histogram);

/** Add one sample, in nanoseconds. */
void perf_histogram_add(perf_histogram_t *histogram, uint64_t ns);

/** Add all samples of @a other. */
void perf_histogram_merge(perf_histogram_t *histogram, const perf_histogram_t *other);

/** Largest sample, in nanoseconds, that is counted in @a buckets[@a index]. */
uint64_t perf_histogram_upper(unsigned index);

/** Mean, in nanoseconds; 0 while empty. */
double perf_histogram_mean(const perf_histogram_t *histogram);

/**
 * Smallest value that at least @a permille of 1000 samples do not exceed, in
 * nanoseconds, rounded up by at most 1/64 and never above the largest sample; 0 while
 * empty.
 *
 * @param [in] permille  0 to 1000; 500 is the median, 999 is p99.9.
 */
uint64_t perf_histogram_permille(const perf_histogram_t *histogram, unsigned permille);

#endif
