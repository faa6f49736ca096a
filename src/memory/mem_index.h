/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_MEM_INDEX_H
#define MKV_MEM_INDEX_H

/**
 * @file
 * Search for the registration that covers a region. The caller holds ctx->mem_lock.
 */

#include "memory/region.h"

/** All mems by type and address; valid while none is made or destroyed. */
typedef struct mkv_mem_index {
    mkv_mem_t **mems;
    uint64_t *ends; /**< Parallel to mems: highest end address of all mems of the same
                       type up to this one, as mems may overlap */
    size_t num;
} mkv_mem_index_t;

/** @return MKV_OK, MKV_ERR_NOMEM; clean up in any case. */
mkv_status_t mkv_mem_index_make(mkv_ctx_t *ctx, mkv_mem_index_t *index);

void mkv_mem_index_cleanup(mkv_mem_index_t *index);

/** @return A registration that covers the whole region, or NULL. */
mkv_mem_t *mkv_mem_find(const mkv_mem_index_t *index, const mkv_region_t *info);

/** @return A registration of another memory type that overlaps [base, end), or NULL. */
mkv_mem_t *mkv_mem_find_other(const mkv_mem_index_t *index, ucs_memory_type_t type,
                              uint64_t base, uint64_t end);

#endif
