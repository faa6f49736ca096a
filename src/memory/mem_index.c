/* SPDX-License-Identifier: BSD-3-Clause */

/* Registrations in the order of their addresses. */

#include "memory/mem_index.h"

#include <stdlib.h>

static int mkv_mem_compare(const void *a, const void *b)
{
    const mkv_mem_t *ma = *(mkv_mem_t *const *)a;
    const mkv_mem_t *mb = *(mkv_mem_t *const *)b;

    if (ma->type != mb->type) {
        return (ma->type < mb->type) ? -1 : 1;
    }
    return (ma->base < mb->base) ? -1 : (ma->base > mb->base);
}

mkv_status_t mkv_mem_index_make(mkv_ctx_t *ctx, mkv_mem_index_t *index)
{
    size_t num = mkv_list_length(&ctx->mems);
    mkv_mem_t *mem;
    uint64_t end;
    size_t i;

    index->num = 0;
    index->mems = calloc(num + 1, sizeof(*index->mems));
    index->ends = calloc(num + 1, sizeof(*index->ends));
    if ((index->mems == NULL) || (index->ends == NULL)) {
        return mkv_error(&ctx->log, MKV_ERR_NOMEM,
                         "no memory to sort %zu registrations", num);
    }
    mkv_list_for_each(mem, &ctx->mems, list)
    {
        index->mems[index->num++] = mem;
    }
    qsort(index->mems, num, sizeof(*index->mems), mkv_mem_compare);
    for (i = 0; i < num; ++i) {
        end = index->mems[i]->base + index->mems[i]->length;
        index->ends[i] =
            ((i > 0) && (index->mems[i - 1]->type == index->mems[i]->type) &&
             (index->ends[i - 1] > end))
                ? index->ends[i - 1]
                : end;
    }
    return MKV_OK;
}

void mkv_mem_index_cleanup(mkv_mem_index_t *index)
{
    free(index->mems);
    free(index->ends);
}

/* Number of registrations that begin at this address or before */
static size_t mkv_mem_index_below(const mkv_mem_index_t *index, ucs_memory_type_t type,
                                  uint64_t base)
{
    size_t low = 0, high = index->num, middle;

    while (low < high) {
        middle = low + (high - low) / 2;
        if ((index->mems[middle]->type < type) ||
            ((index->mems[middle]->type == type) &&
             (index->mems[middle]->base <= base))) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

mkv_mem_t *mkv_mem_find(const mkv_mem_index_t *index, const mkv_region_t *info)
{
    uint64_t base = (uintptr_t)info->base, end = base + info->length;
    size_t i = mkv_mem_index_below(index, info->mem_type, base);

    for (; (i > 0) && (index->mems[i - 1]->type == info->mem_type) &&
           (index->ends[i - 1] >= end);
         --i) {
        if (end <= index->mems[i - 1]->base + index->mems[i - 1]->length) {
            return index->mems[i - 1];
        }
    }
    return NULL;
}

mkv_mem_t *mkv_mem_find_other(const mkv_mem_index_t *index, ucs_memory_type_t type,
                              uint64_t base, uint64_t end)
{
    unsigned other;
    size_t i;

    for (other = 0; other < UCS_MEMORY_TYPE_LAST; ++other) {
        i = mkv_mem_index_below(index, (ucs_memory_type_t)other, end - 1);
        if ((other == (unsigned)type) || (i == 0) || (index->ends[i - 1] <= base) ||
            (index->mems[i - 1]->type != (ucs_memory_type_t)other)) {
            continue;
        }
        while (index->mems[i - 1]->base + index->mems[i - 1]->length <= base) {
            --i; /* an earlier registration may extend further */
        }
        return index->mems[i - 1];
    }
    return NULL;
}
