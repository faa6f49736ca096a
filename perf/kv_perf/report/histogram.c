/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/kv_perf/report/histogram.h"

#include <string.h>


enum { PERF_HISTOGRAM_SUBS = 1 << PERF_HISTOGRAM_SUB_BITS };


/*
 * Values below 64 have a bucket each; above, every power of two is cut in 64. The
 * first index bits are the exponent, the last the bits that follow the leading one.
 */
static unsigned perf_histogram_index(uint64_t ns)
{
    unsigned shift;

    if (ns < PERF_HISTOGRAM_SUBS) {
        return (unsigned)ns;
    }

    shift = 63 - (unsigned)__builtin_clzll(ns) - PERF_HISTOGRAM_SUB_BITS;
    return ((shift + 1) << PERF_HISTOGRAM_SUB_BITS) +
           (unsigned)((ns >> shift) - PERF_HISTOGRAM_SUBS);
}

uint64_t perf_histogram_upper(unsigned index)
{
    unsigned group = index >> PERF_HISTOGRAM_SUB_BITS;
    uint64_t sub = index & (PERF_HISTOGRAM_SUBS - 1);

    if (group == 0) {
        return sub;
    }
    return ((sub + PERF_HISTOGRAM_SUBS) << (group - 1)) +
           ((UINT64_C(1) << (group - 1)) - 1);
}

void perf_histogram_init(perf_histogram_t *histogram)
{
    memset(histogram, 0, sizeof(*histogram));
    histogram->min = UINT64_MAX;
}

void perf_histogram_add(perf_histogram_t *histogram, uint64_t ns)
{
    ++histogram->count;
    histogram->sum += ns;
    histogram->min = (ns < histogram->min) ? ns : histogram->min;
    histogram->max = (ns > histogram->max) ? ns : histogram->max;
    ++histogram->buckets[perf_histogram_index(ns)];
}

void perf_histogram_merge(perf_histogram_t *histogram, const perf_histogram_t *other)
{
    unsigned i;

    histogram->count += other->count;
    histogram->sum += other->sum;
    histogram->min = (other->min < histogram->min) ? other->min : histogram->min;
    histogram->max = (other->max > histogram->max) ? other->max : histogram->max;
    for (i = 0; i < PERF_HISTOGRAM_BUCKETS; ++i) {
        histogram->buckets[i] += other->buckets[i];
    }
}

double perf_histogram_mean(const perf_histogram_t *histogram)
{
    return (histogram->count == 0) ? 0.0
                                   : (double)histogram->sum / (double)histogram->count;
}

uint64_t perf_histogram_permille(const perf_histogram_t *histogram, unsigned permille)
{
    uint64_t wanted, seen = 0, upper;
    unsigned i;

    /* round up: p99.9 of ten samples is the tenth */
    wanted = (histogram->count * permille + 999) / 1000;
    wanted = (wanted == 0) ? 1 : wanted;
    for (i = 0; i < PERF_HISTOGRAM_BUCKETS; ++i) {
        seen += histogram->buckets[i];
        if (seen >= wanted) {
            upper = perf_histogram_upper(i);
            return (upper < histogram->max) ? upper : histogram->max;
        }
    }

    return histogram->max; /* empty: 0 */
}
