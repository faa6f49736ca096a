/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_LATENCY_H
#define MKV_LATENCY_H

/**
 * @file
 * Histograms of times: bucket i counts those from 2^i to below 2^(i+1) ns, the first
 * one also 0, and the last one all above. Read by any thread, without the lock under
 * which they are added to.
 */

#include "morikv.h"

static inline unsigned mkv_latency_bucket(uint64_t ns)
{
    unsigned bucket = (ns == 0) ? 0 : 63u - (unsigned)__builtin_clzll(ns);

    return (bucket < MKV_LATENCY_BUCKETS) ? bucket : MKV_LATENCY_BUCKETS - 1;
}

static inline void mkv_latency_add(uint64_t *buckets, uint64_t ns)
{
    uint64_t *bucket = &buckets[mkv_latency_bucket(ns)];

    __atomic_store_n(bucket, *bucket + 1, __ATOMIC_RELAXED);
}

static inline void mkv_latency_copy(const uint64_t *from, uint64_t *to)
{
    unsigned i;

    for (i = 0; i < MKV_LATENCY_BUCKETS; ++i) {
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
    }
}

#endif
