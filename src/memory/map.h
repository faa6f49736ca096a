/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_MAP_H
#define MKV_MAP_H

/**
 * @file
 * Corresponding local and remote regions. The caller holds the context's lock.
 */

#include "base/ctx.h"
#include "memory/pair.h"

#include <stdbool.h>

/** Properties of a component that mkv_map_query() does not return. */
typedef struct mkv_map_sharing {
    uint32_t local_parts, remote_parts; /**< Units of plans in a block of each side */
    /** Bit r: rank r sends to the destination */
    uint64_t sources[MKV_MAX_SHARDS / 64];
    /** Bit r: the source sends to rank r */
    uint64_t destinations[MKV_MAX_SHARDS / 64];
} mkv_map_sharing_t;

struct mkv_map {
    mkv_list_t list; /**< remote->maps */
    mkv_ctx_t *ctx;
    mkv_remote_t *remote;
    mkv_pair_t *pairs; /**< Sorted by layer, component, part */
    uint32_t num_pairs;
    mkv_map_component_t *components; /**< Sorted by number of the component */
    uint32_t num_components;
    uint32_t max_pairs;
    mkv_map_sharing_t *sharing; /**< Parallel to components */
    uint32_t flags;             /**< MKV_MAP_* */
    bool has_parts;             /**< A unit of a plan is not a block of both sides */
    uint64_t only_bytes; /**< Bit c: component c has no unit of one size to move */
    int32_t layer_first, layer_last; /**< Range of this side's regions */
    bool is_stale;
    bool lacks_keys;   /**< Keys of some pairs are not received yet */
    unsigned num_uses; /**< Number of plans and legs of the map; it cannot be destroyed
                          before they end */
    mkv_list_t plans;
};

/**
 * Check and pair; the caller has checked the connection and holds the lock once.
 *
 * @param [in] is_whole  Do not release the lock in between.
 *
 * @return As mkv_map_create(), or MKV_INPROGRESS: regions of a side changed meanwhile.
 */
mkv_status_t mkv_map_make(mkv_remote_t *remote, const mkv_map_params_t *params,
                          bool is_whole, mkv_map_t **map_p);

/** @param [in] is_whole  Do not release the lock in between. */
void mkv_map_free(mkv_map_t *map, bool is_whole);

/** The component of this number, or NULL. */
static inline mkv_map_component_t *mkv_map_component(const mkv_map_t *map,
                                                     uint32_t component)
{
    uint32_t i;

    for (i = 0; i < map->num_components; ++i) {
        if (map->components[i].component == component) {
            return &map->components[i];
        }
    }
    return NULL;
}

/** Units of plans in a block of the side. */
static inline uint32_t mkv_map_parts(const mkv_map_t *map, uint32_t index,
                                     bool is_remote)
{
    const mkv_map_sharing_t *sharing = &map->sharing[index];

    return (map->flags & MKV_MAP_TOKENS)
               ? 1
               : (is_remote ? sharing->remote_parts : sharing->local_parts);
}

/** Entries of this side's list for each block: 1, or the tokens of a block. */
static inline uint32_t mkv_map_split(const mkv_map_t *map, uint32_t index)
{
    return (map->flags & MKV_MAP_TOKENS) ? map->sharing[index].local_parts : 1;
}

/** Mark the maps of regions that the peer has dropped, and those that lack keys.
 * @return How many are stale. */
unsigned mkv_maps_refresh(mkv_remote_t *remote);

#endif
