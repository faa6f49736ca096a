/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A sorted table of the runtime's address ranges.
 *
 * Freed ranges stay in the table, out of reach, until an allocation of the same size
 * takes their addresses again, as it would on a GPU; a use in between is detected.
 *
 * The table has one lock. It is not held while bytes move. A call that frees memory in
 * use is detected by checking the lines (hipcpu_lines_check), or waits for them
 * (hipFree), as with the real runtime.
 */

#include "hipcpu_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HIPCPU_MAX_FREED 256

static pthread_rwlock_t hipcpu_table_lock = PTHREAD_RWLOCK_INITIALIZER;
static hipcpu_range_t *hipcpu_table;
static size_t hipcpu_table_size;
static size_t hipcpu_table_room;
static size_t hipcpu_num_freed;
static unsigned hipcpu_last_id;

/* Index of the first range that ends after addr. */
static size_t hipcpu_table_lower(uintptr_t addr)
{
    size_t low = 0;
    size_t high = hipcpu_table_size;
    size_t middle;

    while (low < high) {
        middle = (low + high) / 2;
        if (hipcpu_table[middle].base + hipcpu_table[middle].mapped <= addr) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static hipcpu_range_t *hipcpu_table_at(uintptr_t addr)
{
    size_t i = hipcpu_table_lower(addr);

    return ((i < hipcpu_table_size) && (hipcpu_table[i].base <= addr))
               ? &hipcpu_table[i]
               : NULL;
}

static void hipcpu_table_drop(size_t i)
{
    hipcpu_num_freed -= (hipcpu_table[i].kind == HIPCPU_FREED);
    --hipcpu_table_size;
    memmove(&hipcpu_table[i], &hipcpu_table[i + 1],
            (hipcpu_table_size - i) * sizeof(*hipcpu_table));
}

bool hipcpu_range_find(uintptr_t addr, hipcpu_range_t *range)
{
    const hipcpu_range_t *found;

    pthread_rwlock_rdlock(&hipcpu_table_lock);
    found = hipcpu_table_at(addr);
    if (found != NULL) {
        *range = *found;
    }
    pthread_rwlock_unlock(&hipcpu_table_lock);
    return found != NULL;
}

bool hipcpu_range_overlaps(uintptr_t base, size_t size)
{
    bool is_overlapping;
    size_t i;

    pthread_rwlock_rdlock(&hipcpu_table_lock);
    i = hipcpu_table_lower(base);
    is_overlapping = (i < hipcpu_table_size) && (hipcpu_table[i].base < base + size);
    pthread_rwlock_unlock(&hipcpu_table_lock);
    return is_overlapping;
}

bool hipcpu_range_find_import(dev_t dev, ino_t ino, hipcpu_range_t *range)
{
    bool is_found = false;
    size_t i;

    pthread_rwlock_rdlock(&hipcpu_table_lock);
    for (i = 0; (i < hipcpu_table_size) && !is_found; ++i) {
        is_found = (hipcpu_table[i].kind == HIPCPU_IMPORTED) &&
                   (hipcpu_table[i].dev == dev) && (hipcpu_table[i].ino == ino);
        if (is_found) {
            *range = hipcpu_table[i];
        }
    }
    pthread_rwlock_unlock(&hipcpu_table_lock);
    return is_found;
}

bool hipcpu_range_overlaps_import(int proc, int device, uintptr_t place, size_t size)
{
    const hipcpu_range_t *range;
    bool is_found = false;
    size_t i;

    pthread_rwlock_rdlock(&hipcpu_table_lock);
    for (i = 0; (i < hipcpu_table_size) && !is_found; ++i) {
        range = &hipcpu_table[i];
        is_found = (range->kind == HIPCPU_IMPORTED) && (range->proc == proc) &&
                   (range->device == device) && (range->place < place + size) &&
                   (place < range->place + range->size) &&
                   ((range->place != place) || (range->size != size));
    }
    pthread_rwlock_unlock(&hipcpu_table_lock);
    return is_found;
}

void hipcpu_range_add(const hipcpu_range_t *range)
{
    size_t i;

    pthread_rwlock_wrlock(&hipcpu_table_lock);
    if (hipcpu_table_size == hipcpu_table_room) {
        hipcpu_table_room = (2 * hipcpu_table_room) + 16;
        hipcpu_table = realloc(hipcpu_table, hipcpu_table_room * sizeof(*hipcpu_table));
        if (hipcpu_table == NULL) {
            hipcpu_misuse("no memory for the table of ranges");
        }
    }
    i = hipcpu_table_lower(range->base);
    memmove(&hipcpu_table[i + 1], &hipcpu_table[i],
            (hipcpu_table_size - i) * sizeof(*hipcpu_table));
    hipcpu_table[i] = *range;
    hipcpu_table[i].id = ++hipcpu_last_id;
    ++hipcpu_table_size;
    hipcpu_num_freed += (range->kind == HIPCPU_FREED);
    pthread_rwlock_unlock(&hipcpu_table_lock);
}

void hipcpu_range_change(uintptr_t base, bool (*change)(hipcpu_range_t *, void *),
                         void *arg)
{
    hipcpu_range_t *range;

    pthread_rwlock_wrlock(&hipcpu_table_lock);
    range = hipcpu_table_at(base);
    if ((range != NULL) && change(range, arg)) {
        hipcpu_table_drop((size_t)(range - hipcpu_table));
    }
    pthread_rwlock_unlock(&hipcpu_table_lock);
}

/* The addresses of freed memory of this size, or NULL. */
static void *hipcpu_range_recycle(size_t mapped)
{
    void *base = NULL;
    size_t i;

    pthread_rwlock_wrlock(&hipcpu_table_lock);
    for (i = 0; (i < hipcpu_table_size) && (base == NULL); ++i) {
        if ((hipcpu_table[i].kind == HIPCPU_FREED) &&
            (hipcpu_table[i].mapped == mapped)) {
            base = (void *)hipcpu_table[i].base;
            hipcpu_table_drop(i);
        }
    }
    pthread_rwlock_unlock(&hipcpu_table_lock);
    return base;
}

bool hipcpu_range_map(hipcpu_range_t *range, int fd)
{
    int protection = hipcpu_config.is_guarded ? PROT_NONE : (PROT_READ | PROT_WRITE);
    void *place = hipcpu_range_recycle(range->mapped);
    void *addr;

    addr = mmap(place, range->mapped, protection,
                MAP_SHARED | ((place != NULL) ? MAP_FIXED : 0), fd, 0);
    if (addr == MAP_FAILED) {
        return false;
    }

    range->base = (uintptr_t)addr;
    range->shadow = addr;
    if (hipcpu_config.is_guarded) {
        range->shadow =
            mmap(NULL, range->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (range->shadow == MAP_FAILED) {
            munmap(addr, range->mapped);
            return false;
        }
    }
    return true;
}

static void hipcpu_range_forget_oldest(void)
{
    size_t i;

    pthread_rwlock_wrlock(&hipcpu_table_lock);
    for (i = 0; (i < hipcpu_table_size) && (hipcpu_num_freed > HIPCPU_MAX_FREED); ++i) {
        if (hipcpu_table[i].kind == HIPCPU_FREED) {
            munmap((void *)hipcpu_table[i].base, hipcpu_table[i].mapped);
            hipcpu_table_drop(i--);
        }
    }
    pthread_rwlock_unlock(&hipcpu_table_lock);
}

static bool hipcpu_range_become_freed(hipcpu_range_t *range, void *arg)
{
    (void)arg;
    range->kind = HIPCPU_FREED;
    ++hipcpu_num_freed;
    return false;
}

void hipcpu_range_retire(hipcpu_range_t *range)
{
    hipcpu_late_land_all();
    if ((uintptr_t)range->shadow != range->base) {
        munmap(range->shadow, range->mapped);
    }
    if (mmap((void *)range->base, range->mapped, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0) == MAP_FAILED) {
        hipcpu_misuse("mmap(length %zu) over freed memory failed: %s", range->mapped,
                      strerror(errno));
    }
    hipcpu_range_change(range->base, hipcpu_range_become_freed, NULL);
    hipcpu_range_forget_oldest();
}

const char *hipcpu_kind_name(hipcpu_kind_t kind)
{
    static const char *const names[] = {"device",     "managed",  "pinned host",
                                        "registered", "imported", "freed"};

    return names[kind];
}

char *hipcpu_resolve(const char *what, int device, uintptr_t addr, size_t size,
                     size_t *size_p)
{
    hipcpu_range_t range;
    size_t left;

    if (!hipcpu_range_find(addr, &range)) {
        if (device >= 0) {
            hipcpu_misuse("%s %p length %zu: no memory a device can reach", what,
                          (void *)addr, size);
        }
        /* pageable host memory, which copies may use */
        if (size_p != NULL) {
            *size_p = size;
        }
        return (char *)addr;
    }
    if ((range.kind == HIPCPU_FREED) || range.is_kept) {
        hipcpu_misuse("%s %p length %zu: that memory was freed or closed", what,
                      (void *)addr, size);
    }

    left = (range.base + range.size > addr) ? (range.base + range.size - addr) : 0;
    if ((left == 0) || ((size_p == NULL) && (size > left))) {
        hipcpu_misuse("%s %p length %zu: beyond the %s memory at %p of %zu bytes", what,
                      (void *)addr, size, hipcpu_kind_name(range.kind),
                      (void *)range.base, range.size);
    }
    if ((device >= 0) && (range.kind == HIPCPU_DEVICE) &&
        !hipcpu_device_can_reach(device, range.device)) {
        hipcpu_misuse("%s %p: memory of device %d, to which device %d has no access",
                      what, (void *)addr, range.device, device);
    }

    if (size_p != NULL) {
        *size_p = (size < left) ? size : left;
    }
    return range.shadow + (addr - range.base);
}

bool hipcpu_is_mapped(const void *ptr)
{
    hipcpu_range_t range;

    return hipcpu_range_find((uintptr_t)ptr, &range) && (range.kind != HIPCPU_FREED);
}
