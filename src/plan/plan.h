/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_PLAN_H
#define MKV_PLAN_H

/**
 * @file
 * Block lists merged into runs, once, for every layer and every post; or pieces given
 * by their bytes, once, for every post.
 */

#include "plan/byte_list.h"
#include "memory/map.h"

/** Flag inside the library: the lists are of parts, as in the plan's runs, where blocks
 *  of the two sides differ. */
#define MKV_PLAN_OF_PARTS (1u << 31)

typedef struct mkv_plan_part {
    mkv_run_t *runs;
    size_t num_runs;
    uint32_t num_units;
    uint64_t sum;     /**< mkv_unit_mix() of the peer's blocks */
    bool is_distinct; /**< A post has found no duplicates; atomic */
} mkv_plan_part_t;

struct mkv_plan {
    mkv_list_t list; /**< map->plans */
    mkv_ctx_t *ctx;
    mkv_map_t *map;
    uint32_t flags;
    uint64_t serial; /**< Unique in the context, never reused */
    unsigned num_posts;
    uint64_t num_elements, num_bytes;
    size_t memory;
    mkv_byte_list_t *bytes;  /**< Parallel to map->pairs; NULL: a plan of blocks */
    mkv_list_t lists;        /**< Cached lists made from it, oldest use first */
    mkv_plan_part_t parts[]; /**< Parallel to map->components */
};

/** Like mkv_plan_create(), but mkv_plan_add() follows. The flags are checked. Needs no
 *  lock. */
mkv_status_t mkv_plan_make(mkv_map_t *map, const mkv_units_t *units, size_t num_units,
                           uint32_t flags, mkv_plan_t **plan_p);

/** Make an empty plan, to be entered by mkv_plan_add(). Needs no lock. @return NULL: no
 * memory. */
mkv_plan_t *mkv_plan_new(mkv_map_t *map, uint32_t flags);

/** Enter a new plan into its map; the caller holds the context's lock. */
void mkv_plan_add(mkv_plan_t *plan);

/** The caller holds the context's lock; no post uses it. */
void mkv_plan_free(mkv_plan_t *plan);

#endif
