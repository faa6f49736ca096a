/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef ISA_CACHE_H
#define ISA_CACHE_H

/**
 * @file
 * A cache that forgets nothing by itself: bytes stay as they were read or written until
 * they are invalidated or written back.
 */

#include <stdbool.h>
#include <stdint.h>

#define ISA_LINE_SIZE 64

typedef struct isa_line {
    struct isa_line *next;
    uint64_t address; /* multiple of ISA_LINE_SIZE */
    uint64_t valid;   /* a bit a byte */
    uint64_t dirty;   /* valid bytes that memory does not have */
    uint8_t data[ISA_LINE_SIZE];
} isa_line_t;

#define ISA_CACHE_BUCKETS 1024

typedef struct isa_cache {
    isa_line_t *bucket[ISA_CACHE_BUCKETS];
    uint64_t count;
} isa_cache_t;


/** Bits of a range that lies in one line. */
uint64_t isa_line_mask(uint64_t address, unsigned length);


/** The line of an address; NULL if there is none. */
isa_line_t *isa_cache_find(const isa_cache_t *cache, uint64_t address);


/** Put bytes of one line, which are dirty or are as in memory. */
void isa_cache_put(isa_cache_t *cache, uint64_t address, const void *bytes,
                   unsigned length, bool dirty);


/** Forget bytes of one line, dirty or not. */
void isa_cache_drop(isa_cache_t *cache, uint64_t address, unsigned length);


/** Forget all bytes that are not dirty. */
void isa_cache_invalidate(isa_cache_t *cache);


/** Take the dirty bytes out as a list; they stay in the cache as clean bytes. */
isa_line_t *isa_cache_take_dirty(isa_cache_t *cache);


/** Forget everything. */
void isa_cache_clear(isa_cache_t *cache);

#endif
