/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_REGION_H
#define MKV_REGION_H

/**
 * @file
 * Regions of this context, and the memory registered for them. The caller holds the
 * context's lock.
 */

#include "base/ctx.h"
#include "memory/repeat.h"

/** Name that pairs regions, as one number. */
static inline uint64_t mkv_region_name(uint32_t component, int32_t layer, uint16_t part)
{
    return ((uint64_t)component << 48) | ((uint64_t)(uint32_t)layer << 16) | part;
}

/** A stretch of memory registered with UCX; holds any number of regions. */
typedef struct mkv_mem {
    mkv_list_t list; /**< ctx->mems */
    uint32_t id;
    ucs_memory_type_t type;
    uint64_t base, length;
    ucp_mem_h memh;
    void *rkey; /**< Packed by ucp_rkey_pack or ucp_memh_pack */
    size_t rkey_length;
    unsigned num_regions;
    uint32_t index;       /**< Index in the table being announced */
    mkv_repeat_t *repeat; /**< Array of repeated memh, for lists; NULL: none yet */
    ucp_rkey_h loop_key;  /**< rkey unpacked, for copies in the process; NULL: none */
} mkv_mem_t;

typedef struct mkv_lregion {
    mkv_list_t list; /**< ctx->regions, by id */
    mkv_region_id_t id;
    mkv_region_t info; /**< Strides and allocation resolved */
    mkv_mem_t *mem;    /**< NULL until committed */
    uint64_t epoch;    /**< First epoch that includes the region; 0 until committed */
    unsigned num_maps;
    unsigned num_ops; /* References of open one-sided operations */
    bool is_leaving;  /**< Being dropped: new operations on the region are refused */
} mkv_lregion_t;

/**
 * Register memory for all regions that have none, and begin a new epoch. The caller
 * holds ctx->mem_lock alone.
 *
 * @return MKV_OK, or as mkv_regions_commit(); then nothing has changed.
 */
mkv_status_t mkv_regions_register(mkv_ctx_t *ctx);

/**
 * Remove regions, and memory that holds none any more; begins a new epoch. The caller
 * holds ctx->mem_lock alone.
 *
 * @return As mkv_regions_drop().
 */
mkv_status_t mkv_regions_remove(mkv_ctx_t *ctx, const mkv_region_id_t *ids,
                                size_t num_ids);

/** @return The region, or NULL: there is none of this number. */
mkv_lregion_t *mkv_region_by_id(mkv_ctx_t *ctx, mkv_region_id_t id);

/** @return The region, or NULL: there is none of this name. */
mkv_lregion_t *mkv_region_by_name(const mkv_ctx_t *ctx, uint32_t component,
                                  int32_t layer, uint16_t part);

/** Remove all regions and memory, at the end of the context.
 * @return MKV_OK, MKV_ERR_TRANSPORT: devices may still reach some of the memory. */
mkv_status_t mkv_regions_cleanup(mkv_ctx_t *ctx);

#endif
