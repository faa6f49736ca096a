/* SPDX-License-Identifier: BSD-3-Clause */

/* The compiler makes vectors of the loops, which is why they keep no state. */

#include "perf/memory/pattern.h"

#include <string.h>


void perf_pattern_make(void *buffer, size_t length, uint64_t seed)
{
    uint64_t *words = buffer, last;
    size_t i, num_words = length / sizeof(*words);

    for (i = 0; i < num_words; ++i) {
        words[i] = perf_pattern_word(seed, i);
    }
    last = perf_pattern_word(seed, i);
    memcpy(words + i, &last, length % sizeof(*words));
}

bool perf_pattern_is_made(const void *buffer, size_t length, uint64_t seed)
{
    const uint64_t *words = buffer;
    uint64_t last, wrong = 0;
    size_t i, num_words = length / sizeof(*words);

    for (i = 0; i < num_words; ++i) {
        wrong |= words[i] ^ perf_pattern_word(seed, i);
    }
    last = perf_pattern_word(seed, i);
    return (wrong == 0) && (memcmp(words + i, &last, length % sizeof(*words)) == 0);
}
