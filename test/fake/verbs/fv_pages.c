/* SPDX-License-Identifier: BSD-3-Clause */
#include "fv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The pages of memory that is registered, and a device's table of them. */

#define FV_SMALL_PAGE 4096u
#define FV_LARGE_PAGE (2u << 20)

bool fv_is_gpu(const void *addr)
{
    const uintptr_t at = (uintptr_t)addr;
    uintptr_t from, to;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
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
