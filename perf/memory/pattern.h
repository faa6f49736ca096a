/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_PATTERN_H
#define PERF_PATTERN_H

/**
 * @file
 * Bytes that follow from a seed: 64-bit words of which each is the one before it plus a
 * constant, so that no two words within 2^64 are equal and any part of a pattern is a
 * pattern. Bytes that came from elsewhere are seen at their first whole word.
 *
 * Pure functions; any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


/** Word number @a i of a pattern; also the seed of a pattern that begins there. */
static inline uint64_t perf_pattern_word(uint64_t seed, uint64_t i)
{
    return seed + i * UINT64_C(0x9e3779b97f4a7c15);
}

/** Write a pattern; @a buffer is aligned to 8 bytes, @a length need not be. */
void perf_pattern_make(void *buffer, size_t length, uint64_t seed);

/** Whether a buffer matches perf_pattern_make(). */
bool perf_pattern_is_made(const void *buffer, size_t length, uint64_t seed);

#endif
