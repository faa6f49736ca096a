/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_PLAN_H
#define MKV_PLAN_H

/**
 * @file
 * Block lists merged into runs, once, for every layer and every post.
 */

#include "cache/map.h"

typedef struct mkv_plan_part {
    mkv_run_t *runs;
    size_t num_runs;
    uint32_t num_units;
    uint64_t sum; /**< mkv_unit_mix() of the peer's blocks */
} mkv_plan_part_t;

struct mkv_plan {
    mkv_list_t list; /**< map->plans */
    mkv_ctx_t *ctx;
    mkv_map_t *map;
    uint32_t flags;
    uint64_t serial; /**< Never used twice in one context */
    unsigned num_posts;
    uint64_t num_elements, bytes;
    size_t memory;
    mkv_list_t lists;        /**< Cached lists made from it, oldest use first */
    mkv_plan_part_t parts[]; /**< Parallel to map->components */
};

/** The caller holds the context's lock; no post uses it. */
void mkv_plan_free(mkv_plan_t *plan);

#endif
