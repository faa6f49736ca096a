/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A GPU's reads and writes. One to an address that is not mapped to the GPU raises a
 * memory fault and halts the queue, as a wave that faults never ends.
 */

#include "kfd_impl.h"

#include <string.h>
#include <time.h>

bool kfd_may(kfd_queue_t *queue, uint64_t address, uint64_t length, bool is_write)
{
    if (kfd_map_allows(queue->gpu, address, length)) {
        return true;
    }
    kfd_refuse("memory fault: queue %u of GPU %d %s %llu bytes at %#llx, not all of "
               "which are mapped to it",
               queue->id, queue->gpu, is_write ? "writes" : "reads",
               (unsigned long long)length, (unsigned long long)address);
    queue->halted = true;
    kfd_event_memory_fault(queue->gpu, address, is_write);
    return false;
}

static void kfd_slow(void)
{
    unsigned us = kfd_config()->slow_copy_us;
    struct timespec ts = {us / 1000000, (us % 1000000) * 1000l};

    if (us != 0) {
        nanosleep(&ts, NULL);
    }
}

/* A slow copy stops in its middle. */
bool kfd_copy(kfd_queue_t *queue, uint64_t dst, uint64_t src, uint64_t length)
{
    uint64_t half = (kfd_config()->slow_copy_us != 0) ? length / 2 : 0;

    if (!kfd_may(queue, src, length, false) || !kfd_may(queue, dst, length, true)) {
        return false;
    }
    if (queue->is_late) {
        kfd_slow();
        kfd_late_keep(queue->gpu, dst, src, length);
        return true;
    }
    memmove((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, half);
    kfd_slow();
    memmove((void *)(uintptr_t)(dst + half), (const void *)(uintptr_t)(src + half),
            length - half);
    return true;
}

bool kfd_fill(kfd_queue_t *queue, uint64_t dst, const void *pattern, size_t size,
              uint64_t count)
{
    char *to = (char *)(uintptr_t)dst;
    uint64_t i;

    if (!kfd_may(queue, dst, size * count, true)) {
        return false;
    }
    kfd_slow();
    for (i = 0; i < count; ++i, to += size) {
        memcpy(to, pattern, size);
    }
    return true;
}

bool kfd_store32(kfd_queue_t *queue, uint64_t address, uint32_t value)
{
    if (!kfd_may(queue, address, 4, true)) {
        return false;
    }
    __atomic_store_n((uint32_t *)(uintptr_t)address, value, __ATOMIC_SEQ_CST);
    return true;
}

bool kfd_store64(kfd_queue_t *queue, uint64_t address, uint64_t value)
{
    if (!kfd_may(queue, address, 8, true)) {
        return false;
    }
    __atomic_store_n((uint64_t *)(uintptr_t)address, value, __ATOMIC_SEQ_CST);
    return true;
}

bool kfd_load32(kfd_queue_t *queue, uint64_t address, uint32_t *value)
{
    if (!kfd_may(queue, address, 4, false)) {
        return false;
    }
    *value = __atomic_load_n((uint32_t *)(uintptr_t)address, __ATOMIC_ACQUIRE);
    return true;
}

bool kfd_load64(kfd_queue_t *queue, uint64_t address, uint64_t *value)
{
    if (!kfd_may(queue, address, 8, false)) {
        return false;
    }
    *value = __atomic_load_n((uint64_t *)(uintptr_t)address, __ATOMIC_ACQUIRE);
    return true;
}

bool kfd_add64(kfd_queue_t *queue, uint64_t address, uint64_t value, uint64_t *old)
{
    if (!kfd_may(queue, address, 8, true)) {
        return false;
    }
    *old = __atomic_fetch_add((uint64_t *)(uintptr_t)address, value, __ATOMIC_SEQ_CST);
    return true;
}
