/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The GPUs' page tables: sorted ranges that do not overlap, each with a bit for each
 * GPU. A lock for reading and writing guards them, as queues look up while ioctls
 * change.
 */

#include "kfd_impl.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct kfd_range {
    uint64_t start, end;
    kfd_mask_t mask; /* not 0 */
} kfd_range_t;

static pthread_rwlock_t kfd_map_lock = PTHREAD_RWLOCK_INITIALIZER;
static kfd_range_t *kfd_ranges;
static size_t kfd_num_ranges, kfd_max_ranges;

/* Place of the first range that ends behind an address. */
static size_t kfd_range_at(uint64_t address)
{
    size_t low = 0, high = kfd_num_ranges, middle;

    while (low < high) {
        middle = (low + high) / 2;
        if (kfd_ranges[middle].end <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void kfd_range_insert(size_t place, uint64_t start, uint64_t end,
                             kfd_mask_t mask)
{
    if (kfd_num_ranges == kfd_max_ranges) {
        kfd_max_ranges = (2 * kfd_max_ranges) + 64;
        kfd_ranges = realloc(kfd_ranges, kfd_max_ranges * sizeof(*kfd_ranges));
        if (kfd_ranges == NULL) {
            kfd_die("no memory for %zu ranges", kfd_max_ranges);
        }
    }
    memmove(&kfd_ranges[place + 1], &kfd_ranges[place],
            (kfd_num_ranges - place) * sizeof(*kfd_ranges));
    kfd_ranges[place] = (kfd_range_t){start, end, mask};
    kfd_num_ranges++;
}

static void kfd_range_remove(size_t place)
{
    kfd_num_ranges--;
    memmove(&kfd_ranges[place], &kfd_ranges[place + 1],
            (kfd_num_ranges - place) * sizeof(*kfd_ranges));
}

/* Let a range begin at an address that is inside of one. */
static void kfd_range_split(uint64_t address)
{
    size_t place = kfd_range_at(address);
    kfd_range_t *range = &kfd_ranges[place];

    if ((place < kfd_num_ranges) && (range->start < address)) {
        kfd_range_insert(place, range->start, address, range->mask);
        kfd_ranges[place + 1].start = address;
    }
}

void kfd_map_change(uint64_t start, uint64_t length, kfd_mask_t set, kfd_mask_t clear)
{
    uint64_t end = start + length;
    kfd_range_t *range;
    size_t place;

    pthread_rwlock_wrlock(&kfd_map_lock);
    kfd_range_split(start);
    kfd_range_split(end);
    place = kfd_range_at(start);
    while (start < end) {
        range = &kfd_ranges[place];
        if ((place == kfd_num_ranges) || (range->start > start)) { /* a hole */
            uint64_t next = ((place == kfd_num_ranges) || (range->start > end))
                                ? end
                                : range->start;

            if (set != 0) {
                kfd_range_insert(place++, start, next, set);
            }
            start = next;
            continue;
        }
        start = range->end;
        range->mask = (range->mask & ~clear) | set;
        if (range->mask == 0) {
            kfd_range_remove(place);
        } else {
            ++place;
        }
    }
    pthread_rwlock_unlock(&kfd_map_lock);
}

bool kfd_map_allows(int gpu, uint64_t start, uint64_t length)
{
    kfd_mask_t bit = (kfd_mask_t)1 << gpu;
    uint64_t end = start + length;
    size_t place;

    if (end < start) {
        return false;
    }
    pthread_rwlock_rdlock(&kfd_map_lock);
    for (place = kfd_range_at(start); start < end; ++place) {
        if ((place == kfd_num_ranges) || (kfd_ranges[place].start > start) ||
            !(kfd_ranges[place].mask & bit)) {
            break;
        }
        start = kfd_ranges[place].end;
    }
    pthread_rwlock_unlock(&kfd_map_lock);
    return start >= end;
}

bool kfd_map_any(uint64_t start, uint64_t length)
{
    size_t place;
    bool any;

    pthread_rwlock_rdlock(&kfd_map_lock);
    place = kfd_range_at(start);
    any = (place < kfd_num_ranges) && (kfd_ranges[place].start < start + length);
    pthread_rwlock_unlock(&kfd_map_lock);
    return any;
}
