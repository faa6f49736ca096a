/* SPDX-License-Identifier: BSD-3-Clause */
#include "fv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The pages of memory that is registered, and a device's table of them. */

#define FV_SMALL_PAGE 4096u
#define FV_LARGE_PAGE (2u << 20)

bool fv_is_gpu(const void *addr)
{
    const uintptr_t at = (uintptr_t)addr;
    uintptr_t from, to;
    char line[512];
    FILE *maps = fopen("/proc/thread-self/maps", "re");
    bool is_gpu = false;

    while ((maps != NULL) && (fgets(line, sizeof(line), maps) != NULL)) {
        if ((sscanf(line, "%lx-%lx", &from, &to) == 2) && (at >= from) && (at < to)) {
            is_gpu = strstr(line, "/memfd:hipcpu") != NULL;
            break;
        }
    }

    if (maps != NULL) {
        fclose(maps);
    }
    return is_gpu;
}

/* Map [from, to) a second time at @a place. This is a system call because UCX hooks
 * mremap() of libc. */
static bool fv_pages_share(uintptr_t from, uintptr_t to, char *place)
{
    return syscall(SYS_mremap, from, 0ul, to - from, MREMAP_MAYMOVE | MREMAP_FIXED,
                   place) == (long)(uintptr_t)place;
}

/* Share all mappings of [begin, begin + size) at @a place. */
static bool fv_pages_share_all(uintptr_t begin, size_t size, char *place)
{
    const uintptr_t end = begin + size;
    uintptr_t from, to;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    bool is_shared = maps != NULL;

    while (is_shared && (fgets(line, sizeof(line), maps) != NULL)) {
        if ((sscanf(line, "%lx-%lx", &from, &to) == 2) && (to > begin) &&
            (from < end)) {
            from = (from > begin) ? from : begin;
            is_shared =
                fv_pages_share(from, (to < end) ? to : end, place + (from - begin));
        }
    }

    if (maps != NULL) {
        fclose(maps);
    }
    return is_shared;
}

void *fv_pages_pin(const void *addr, size_t length, size_t *size_p)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = (uintptr_t)addr & ~(page - 1);
    const size_t size = (((uintptr_t)addr + length + page - 1) & ~(page - 1)) - begin;
    char *place = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (place == MAP_FAILED) {
        return NULL;
    }
    if (!fv_pages_share_all(begin, size, place)) {
        munmap(place, size);
        return NULL;
    }

    *size_p = size;
    return place;
}

/* Fields of a mapping in smaps; in kB. */
typedef struct fv_mapping {
    uintptr_t from, to;
    unsigned long page, anonymous, huge;
    bool is_gpu, is_advised;
} fv_mapping_t;

/* Up to the last line of a mapping. */
static bool fv_mapping_read(FILE *smaps, fv_mapping_t *mapping)
{
    uintptr_t from, to;
    char line[512];

    memset(mapping, 0, sizeof(*mapping));
    while (fgets(line, sizeof(line), smaps) != NULL) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
            mapping->from = from;
            mapping->to = to;
            mapping->is_gpu = strstr(line, "/memfd:hipcpu") != NULL;
        }
        (void)sscanf(line, "KernelPageSize: %lu kB", &mapping->page);
        (void)sscanf(line, "Anonymous: %lu kB", &mapping->anonymous);
        (void)sscanf(line, "AnonHugePages: %lu kB", &mapping->huge);
        if (strncmp(line, "VmFlags:", 8) == 0) {
            mapping->is_advised = strstr(line, " hg") != NULL;
            return true;
        }
    }

    return false;
}

/* Registration allocates untouched pages, large ones where madvise() requested them. */
static bool fv_mapping_is_large(const fv_mapping_t *mapping)
{
    return mapping->is_gpu || (mapping->page * 1024 >= FV_LARGE_PAGE) ||
           ((mapping->huge == mapping->anonymous) &&
            ((mapping->huge > 0) || mapping->is_advised));
}

static bool fv_range_is_large(const void *addr, size_t length)
{
    const uintptr_t begin = (uintptr_t)addr, end = begin + length;
    FILE *smaps = fopen("/proc/self/smaps", "re");
    fv_mapping_t mapping;
    bool is_large = smaps != NULL;

    while (is_large && fv_mapping_read(smaps, &mapping)) {
        if ((mapping.to > begin) && (mapping.from < end)) {
            is_large = fv_mapping_is_large(&mapping);
        }
    }

    if (smaps != NULL) {
        fclose(smaps);
    }
    return is_large;
}

uint32_t fv_entries(const fv_caps_t *caps, const void *addr, size_t length,
                    bool is_dmabuf)
{
    uint64_t page, entries = 1;

    if (caps->max_entries == 0) {
        return 0;
    }

    page =
        (is_dmabuf || fv_range_is_large(addr, length)) ? FV_LARGE_PAGE : FV_SMALL_PAGE;
    while (entries * page < length) {
        entries *= 2;
    }
    return (entries < UINT32_MAX) ? (uint32_t)entries : UINT32_MAX;
}

int fv_entries_check(unsigned device, uint32_t entries)
{
    const uint32_t most = (uint32_t)fv.device[device].caps.max_entries;
    uint64_t used = 0;
    unsigned i;

    if (entries > most) {
        return ENOMEM;
    }

    for (i = 0; (most != 0) && (i < FV_MAX_MRS); i++) {
        used += (fv.wire->mr[i].used && (fv.wire->mr[i].device == device))
                    ? fv.wire->mr[i].entries
                    : 0;
    }

    return (used + entries > most) ? EINVAL : 0;
}
