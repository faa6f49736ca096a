/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Memory of the GPU, through the L1 of a workgroup and the L2 of its die.
 *
 * Loads fill both caches with the requested bytes. Stores go through the L1 and stay in
 * the L2. The L2 keeps neither data of system scope nor the host's memory. Atomic
 * operations meet in memory, since dies have no other place in common.
 */

#include "isa_impl.h"

#include <stdlib.h>
#include <string.h>


static bool memory_access(isa_wave_t *wave, uint64_t address, unsigned length)
{
    const isa_memory_t *memory = &wave->gpu->memory;

    if ((memory->may_access == NULL) ||
        memory->may_access(memory->arg, address, length)) {
        return true;
    }
    isa_fail(wave->gpu, "memory fault: %u bytes at 0x%lx, by the instruction at 0x%lx",
             length, (unsigned long)address, (unsigned long)wave->pc);
    return false;
}

static bool memory_is_uncached(const struct isa_gpu *gpu, uint64_t address)
{
    return (gpu->memory.is_uncached != NULL) &&
           gpu->memory.is_uncached(gpu->memory.arg, address);
}

/* The host may look at aligned words while they are written. */
static void memory_write(struct isa_gpu *gpu, uint64_t address, const void *buffer,
                         unsigned length)
{
    uint32_t word;

    if ((length == sizeof(word)) && (address % sizeof(word) == 0)) {
        memcpy(&word, buffer, sizeof(word));
        __atomic_store_n((uint32_t *)(uintptr_t)address, word, __ATOMIC_RELEASE);
    } else {
        memcpy((void *)(uintptr_t)address, buffer, length);
    }
    if (gpu->memory.written != NULL) {
        gpu->memory.written(gpu->memory.arg, address, length);
    }
}

static void memory_read(uint64_t address, void *buffer, unsigned length)
{
    memcpy(buffer, (const void *)(uintptr_t)address, length);
}

/* Bytes of one line: from the cache if it has them all; else from below, kept here, and
 * those that the cache has on top of it. */
static bool cache_lookup(const isa_cache_t *cache, uint64_t address, uint8_t *buffer,
                         unsigned length)
{
    const isa_line_t *line = isa_cache_find(cache, address);
    uint64_t mask = isa_line_mask(address, length);
    unsigned first = address % ISA_LINE_SIZE;
    unsigned i;

    if (line == NULL) {
        return false;
    }
    if ((line->valid & mask) == mask) {
        memcpy(buffer, &line->data[first], length);
        return true;
    }
    for (i = 0; i < length; ++i) {
        if ((line->valid >> (first + i)) & 1) {
            buffer[i] = line->data[first + i];
        }
    }
    return false;
}

/* Keep clean bytes, but do not overwrite bytes that the cache has. */
static void cache_fill(isa_cache_t *cache, uint64_t address, const uint8_t *buffer,
                       unsigned length)
{
    const isa_line_t *line = isa_cache_find(cache, address);
    unsigned i;

    if ((line == NULL) || ((line->valid & isa_line_mask(address, length)) == 0)) {
        isa_cache_put(cache, address, buffer, length, false);
        return;
    }
    for (i = 0; i < length; ++i) {
        if (((line->valid >> ((address + i) % ISA_LINE_SIZE)) & 1) == 0) {
            isa_cache_put(cache, address + i, buffer + i, 1, false);
        }
    }
}

static void load_l2(isa_wave_t *wave, uint64_t address, uint8_t *buffer,
                    unsigned length, unsigned flags)
{
    isa_cache_t *l2 = &wave->gpu->l2[wave->group->die];

    if ((flags & ISA_BYPASS_L2) || memory_is_uncached(wave->gpu, address)) {
        memory_read(address, buffer, length);
        return;
    }
    if (cache_lookup(l2, address, buffer, length)) {
        return;
    }
    memory_read(address, buffer, length);
    cache_fill(l2, address, buffer, length);
    cache_lookup(l2, address, buffer, length);
}

static void load_line(isa_wave_t *wave, uint64_t address, uint8_t *buffer,
                      unsigned length, unsigned flags)
{
    isa_cache_t *l1 = &wave->group->l1;

    if (wave->gpu->timing == ISA_EARLY) {
        memory_read(address, buffer, length);
        return;
    }
    if (flags & ISA_BYPASS_L1) {
        load_l2(wave, address, buffer, length, flags);
        return;
    }
    if (cache_lookup(l1, address, buffer, length)) {
        return;
    }
    load_l2(wave, address, buffer, length, flags);
    cache_fill(l1, address, buffer, length);
    cache_lookup(l1, address, buffer, length);
}

static void store_line(isa_wave_t *wave, uint64_t address, const uint8_t *buffer,
                       unsigned length, unsigned flags)
{
    isa_cache_t *l2 = &wave->gpu->l2[wave->group->die];

    if (wave->gpu->timing == ISA_EARLY) {
        memory_write(wave->gpu, address, buffer, length);
        return;
    }
    isa_cache_drop(&wave->group->l1, address, length);
    if ((flags & ISA_BYPASS_L2) || memory_is_uncached(wave->gpu, address)) {
        isa_cache_drop(l2, address, length);
        memory_write(wave->gpu, address, buffer, length);
    } else {
        isa_cache_put(l2, address, buffer, length, true);
    }
}

static unsigned line_rest(uint64_t address, unsigned length)
{
    unsigned rest = ISA_LINE_SIZE - (unsigned)(address % ISA_LINE_SIZE);

    return (length < rest) ? length : rest;
}

void isa_load(isa_wave_t *wave, uint64_t address, void *buffer, unsigned length,
              unsigned flags)
{
    uint8_t *at = buffer;
    unsigned part;

    if (!memory_access(wave, address, length)) {
        memset(buffer, 0, length);
        return;
    }
    for (; length > 0; address += part, at += part, length -= part) {
        part = line_rest(address, length);
        load_line(wave, address, at, part, flags);
    }
}

void isa_store(isa_wave_t *wave, uint64_t address, const void *buffer, unsigned length,
               unsigned flags)
{
    const uint8_t *at = buffer;
    unsigned part;

    if (!memory_access(wave, address, length)) {
        return;
    }
    for (; length > 0; address += part, at += part, length -= part) {
        part = line_rest(address, length);
        store_line(wave, address, at, part, flags);
    }
}

/* Dirty bytes of one line to memory, in runs. */
static void write_line(struct isa_gpu *gpu, const isa_line_t *line)
{
    unsigned first = 0;
    unsigned end;

    while (first < ISA_LINE_SIZE) {
        if (((line->dirty >> first) & 1) == 0) {
            ++first;
            continue;
        }
        for (end = first; (end < ISA_LINE_SIZE) && ((line->dirty >> end) & 1); ++end) {
        }
        memory_write(gpu, line->address + first, &line->data[first], end - first);
        first = end;
    }
}

void isa_write_lines(struct isa_gpu *gpu, isa_line_t *lines)
{
    for (; lines != NULL; lines = lines->next) {
        write_line(gpu, lines);
    }
}

/* Memory gets this die's stores, and this die keeps no copy. */
static void atomic_prepare(isa_wave_t *wave, uint64_t address, unsigned length)
{
    isa_cache_t *l2 = &wave->gpu->l2[wave->group->die];
    const isa_line_t *line = isa_cache_find(l2, address);
    isa_line_t part;

    if (line != NULL) {
        part = *line;
        part.dirty &= isa_line_mask(address, length);
        write_line(wave->gpu, &part);
        isa_cache_drop(l2, address, length);
    }
    isa_cache_drop(&wave->group->l1, address, length);
}

uint64_t isa_atomic(isa_wave_t *wave, uint64_t address, unsigned length,
                    isa_value_t value, uint64_t operand, uint64_t compare)
{
    uint64_t before, after;
    bool done;

    if (!memory_access(wave, address, length)) {
        return 0;
    }
    if (address % length != 0) {
        isa_fail(wave->gpu, "memory fault: an atomic operation at 0x%lx",
                 (unsigned long)address);
        return 0;
    }
    atomic_prepare(wave, address, length);
    do {
        if (length == 4) {
            uint32_t expected =
                __atomic_load_n((uint32_t *)(uintptr_t)address, __ATOMIC_SEQ_CST);

            before = expected;
            after = value(before, operand, compare);
            done = __atomic_compare_exchange_n((uint32_t *)(uintptr_t)address,
                                               &expected, (uint32_t)after, false,
                                               __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        } else {
            before = __atomic_load_n((uint64_t *)(uintptr_t)address, __ATOMIC_SEQ_CST);
            after = value(before, operand, compare);
            done = __atomic_compare_exchange_n((uint64_t *)(uintptr_t)address, &before,
                                               after, false, __ATOMIC_SEQ_CST,
                                               __ATOMIC_SEQ_CST);
        }
    } while (!done);
    if (wave->gpu->memory.written != NULL) {
        wave->gpu->memory.written(wave->gpu->memory.arg, address, length);
    }
    return before;
}
