/* SPDX-License-Identifier: BSD-3-Clause */

#include "memory/span.h"

#include <stdlib.h>

mkv_span_t mkv_region_span(const mkv_region_t *info)
{
    mkv_span_t span = {.type = info->mem_type, .component = info->component};

    span.is_stated = (info->alloc_base != NULL);
    span.base = (uintptr_t)(span.is_stated ? info->alloc_base : info->base);
    span.end = span.base + (span.is_stated ? info->alloc_length : info->length);
    return span;
}

static int mkv_span_compare(const void *a, const void *b)
{
    const mkv_span_t *sa = a;
    const mkv_span_t *sb = b;

    if (sa->type != sb->type) {
        return (sa->type < sb->type) ? -1 : 1;
    }
    return (sa->base < sb->base) ? -1 : (sa->base > sb->base);
}

/* Overlapping memory is one allocation; adjoining memory of a GPU may be two, and a key
 * that spans two allocations cannot be exported. A peer with the key of one component
 * gets no key of adjoining ones. */
static bool mkv_span_joins(const mkv_span_t *a, const mkv_span_t *b)
{
    if (a->type != b->type) {
        return false;
    }
    return (b->base < a->end) ||
           ((b->base == a->end) && (a->type == UCS_MEMORY_TYPE_HOST) && !a->is_stated &&
            !b->is_stated && (a->component == b->component));
}

size_t mkv_spans_join(mkv_span_t *spans, size_t num)
{
    size_t last = 0;
    size_t i;

    if (num == 0) {
        return 0;
    }
    qsort(spans, num, sizeof(*spans), mkv_span_compare);
    for (i = 1; i < num; ++i) {
        if (mkv_span_joins(&spans[last], &spans[i])) {
            spans[last].end =
                (spans[i].end > spans[last].end) ? spans[i].end : spans[last].end;
            spans[last].is_stated |= spans[i].is_stated;
        } else {
            spans[++last] = spans[i];
        }
    }
    return last + 1;
}

static int mkv_span_compare_base(const void *a, const void *b)
{
    const mkv_span_t *sa = a;
    const mkv_span_t *sb = b;

    return (sa->base < sb->base) ? -1 : (sa->base > sb->base);
}

static mkv_status_t mkv_span_refuse(mkv_ctx_t *ctx, const mkv_span_t *span,
                                    ucs_memory_type_t other)
{
    return mkv_error(&ctx->log, MKV_ERR_INVALID,
                     "commit: memory type %d of %llu bytes at 0x%llx, some of which "
                     "another region gives as type %d; expected one type: drop one of "
                     "the regions",
                     (int)span->type, (unsigned long long)(span->end - span->base),
                     (unsigned long long)span->base, (int)other);
}

mkv_status_t mkv_spans_check_types(mkv_ctx_t *ctx, const mkv_mem_index_t *index,
                                   mkv_span_t *spans, size_t num)
{
    uint64_t ends[UCS_MEMORY_TYPE_LAST] = {0};
    unsigned type;
    mkv_mem_t *mem;
    size_t i;

    qsort(spans, num, sizeof(*spans), mkv_span_compare_base);
    for (i = 0; i < num; ++i) {
        mem = mkv_mem_find_other(index, spans[i].type, spans[i].base, spans[i].end);
        if (mem != NULL) {
            return mkv_span_refuse(ctx, &spans[i], mem->type);
        }
        for (type = 0; type < UCS_MEMORY_TYPE_LAST; ++type) {
            if ((type != (unsigned)spans[i].type) && (ends[type] > spans[i].base)) {
                return mkv_span_refuse(ctx, &spans[i], (ucs_memory_type_t)type);
            }
        }
        if (ends[spans[i].type] < spans[i].end) {
            ends[spans[i].type] = spans[i].end;
        }
    }
    return MKV_OK;
}
