/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef RISKS_KERNEL_H
#define RISKS_KERNEL_H

/**
 * @file
 * The kernel of gpu_risks: it waits for a flag, is running when the flag is set, and
 * compares memory with a pattern at once.
 */

#include <stdint.h>

#define RISKS_WATCH_NAME "risks_watch"

/** Argument; addresses as the device sees them. */
typedef struct risks_watch_args {
    uint64_t flag;    /**< uint32_t in pinned memory */
    uint64_t started; /**< uint32_t in pinned memory: gets the sequence at the start */
    uint64_t bad;     /**< uint64_t in pinned memory: words that were wrong, added */
    uint64_t memory;  /**< Words to compare */
    uint64_t num_words; /**< Words of 32 bits */
    uint32_t sequence;  /**< The flag's value once the memory is new */
    uint32_t seed;      /**< Seed of the pattern */
} risks_watch_args_t;

#ifdef __HIP__
__device__
#endif
    static inline uint32_t risks_word(uint64_t index, uint32_t seed)
{
    return ((uint32_t)index * 2654435761u) ^ seed;
}

#endif
