/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_RANDOM_H
#define PERF_RANDOM_H

/**
 * @file
 * Numbers that look random and are the same for the same seed on every machine
 * (splitmix64). The state is one word; any value is a seed.
 */

#include <stdint.h>


/** Mix the bits of a word; bijective. */
static inline uint64_t perf_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static inline uint64_t perf_random(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return perf_mix(*state);
}

/** A number below @a bound, which must not be 0. */
static inline uint32_t perf_random_below(uint64_t *state, uint32_t bound)
{
    return (uint32_t)(((perf_random(state) >> 32) * bound) >> 32);
}

#endif
