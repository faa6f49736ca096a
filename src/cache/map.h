/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_MAP_H
#define MKV_MAP_H

/**
 * @file
 * Local and remote regions that go together. The caller holds the context's lock.
 */

#include "base/ctx.h"
#include "cache/region.h"
#include "cache/remote_mem.h"

typedef struct mkv_pair {
    mkv_lregion_t *local;
    mkv_mem_t *mem;
    mkv_rmem_t *rmem;
    uint32_t remote_id;
    uint32_t component; /**< Index into map->components */
    int32_t layer;
    uint16_t part;
    uint8_t is_dense; /**< A run of units is one piece on both sides */
    char *local_base;
    uint64_t remote_base;
    uint64_t unit_bytes, local_stride, remote_stride;
} mkv_pair_t;

struct mkv_map {
    mkv_list_t list; /**< remote->maps */
    mkv_ctx_t *ctx;
    mkv_remote_t *remote;
    mkv_pair_t *pairs; /**< By layer, component, part */
    uint32_t num_pairs;
    mkv_map_component_t *components; /**< By number */
    uint32_t num_components;
    int is_stale;
    unsigned num_uses; /**< Plans and legs */
    mkv_list_t plans;
};

/** Check and pair; the caller has checked the connection. @return As mkv_map_create().
 */
mkv_status_t mkv_map_make(mkv_remote_t *remote, const mkv_map_params_t *params,
                          mkv_map_t **map_p);

void mkv_map_free(mkv_map_t *map);

/** The component of this number, or NULL. */
mkv_map_component_t *mkv_map_component(const mkv_map_t *map, uint32_t component);

/** Mark the maps of regions that the peer has dropped. */
void mkv_maps_refresh(mkv_remote_t *remote);

#endif
