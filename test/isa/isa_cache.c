/* SPDX-License-Identifier: BSD-3-Clause */

#include "isa_cache.h"

#include <stdlib.h>
#include <string.h>


uint64_t isa_line_mask(uint64_t address, unsigned length)
{
    uint64_t mask = (length >= 64) ? UINT64_MAX : ((UINT64_C(1) << length) - 1);

    return mask << (address % ISA_LINE_SIZE);
}

static uint64_t line_bucket(uint64_t address)
{
    uint64_t number = address / ISA_LINE_SIZE;

    return (number ^ (number >> 10) ^ (number >> 20)) % ISA_CACHE_BUCKETS;
}

isa_line_t *isa_cache_find(const isa_cache_t *cache, uint64_t address)
{
    uint64_t base = address - (address % ISA_LINE_SIZE);
    isa_line_t *line = cache->bucket[line_bucket(address)];

    while ((line != NULL) && (line->address != base)) {
        line = line->next;
    }
    return line;
}

static isa_line_t *cache_line(isa_cache_t *cache, uint64_t address)
{
    isa_line_t **bucket = &cache->bucket[line_bucket(address)];
    isa_line_t *line = isa_cache_find(cache, address);

    if (line != NULL) {
        return line;
    }
    line = calloc(1, sizeof(*line));
    if (line == NULL) {
        abort();
    }
    line->address = address - (address % ISA_LINE_SIZE);
    line->next = *bucket;
    *bucket = line;
    ++cache->count;
    return line;
}

void isa_cache_put(isa_cache_t *cache, uint64_t address, const void *bytes,
                   unsigned length, bool dirty)
{
    isa_line_t *line = cache_line(cache, address);
    uint64_t mask = isa_line_mask(address, length);

    memcpy(&line->data[address % ISA_LINE_SIZE], bytes, length);
    line->valid |= mask;
    if (dirty) {
        line->dirty |= mask;
    }
}

void isa_cache_drop(isa_cache_t *cache, uint64_t address, unsigned length)
{
    isa_line_t *line = isa_cache_find(cache, address);
    uint64_t mask = isa_line_mask(address, length);

    if (line != NULL) {
        line->valid &= ~mask;
        line->dirty &= ~mask;
    }
}

void isa_cache_invalidate(isa_cache_t *cache)
{
    isa_line_t **link, *line;
    unsigned i;

    for (i = 0; (i < ISA_CACHE_BUCKETS) && (cache->count > 0); ++i) {
        link = &cache->bucket[i];
        while ((line = *link) != NULL) {
            line->valid = line->dirty;
            if (line->valid != 0) {
                link = &line->next;
                continue;
            }
            *link = line->next;
            free(line);
            --cache->count;
        }
    }
}

isa_line_t *isa_cache_take_dirty(isa_cache_t *cache)
{
    isa_line_t *list = NULL;
    isa_line_t *line, *copy;
    unsigned i;

    for (i = 0; (i < ISA_CACHE_BUCKETS) && (cache->count > 0); ++i) {
        for (line = cache->bucket[i]; line != NULL; line = line->next) {
            if (line->dirty == 0) {
                continue;
            }
            copy = malloc(sizeof(*copy));
            if (copy == NULL) {
                abort();
            }
            *copy = *line;
            copy->next = list;
            list = copy;
            line->dirty = 0;
        }
    }
    return list;
}

void isa_cache_clear(isa_cache_t *cache)
{
    unsigned i;

    for (i = 0; i < ISA_CACHE_BUCKETS; ++i) {
        for (isa_line_t *line = cache->bucket[i]; line != NULL;
             line = cache->bucket[i]) {
            cache->bucket[i] = line->next;
            free(line);
        }
    }
    cache->count = 0;
}
