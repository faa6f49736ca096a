/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_SPAN_H
#define MKV_SPAN_H

/**
 * @file
 * Memory to register for new regions. The caller holds ctx->mem_lock.
 */

#include "memory/mem_index.h"

#include <stdbool.h>

/** Memory range of one registration. */
typedef struct mkv_span {
    uint64_t base, end;
    ucs_memory_type_t type;
    uint32_t component;
    bool is_stated; /**< The caller has named the allocation: adjoining ranges are not
                       joined with it, overlapping ones are */
} mkv_span_t;

/** Memory to register for the region: its whole allocation if known, else the region.
 */
mkv_span_t mkv_region_span(const mkv_region_t *info);

/** Sort, and join spans that one registration can cover. @return How many are left. */
size_t mkv_spans_join(mkv_span_t *spans, size_t num);

/**
 * UCX asserts that memory has the type of its registration. Sorts by address.
 *
 * @param [in] index  Registrations that exist.
 *
 * @return MKV_OK, MKV_ERR_INVALID: memory is given with two types.
 */
mkv_status_t mkv_spans_check_types(mkv_ctx_t *ctx, const mkv_mem_index_t *index,
                                   mkv_span_t *spans, size_t num);

#endif
