/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/kv_perf/caches.h"
#include "perf/base/error.h"

#include <inttypes.h>
#include <string.h>


static unsigned perf_caches_num(const perf_caches_t *caches)
{
    return caches->side->geometry.model.num_components;
}

int perf_caches_open(perf_memory_t *memory, const perf_engine_side_t *side,
                     bool is_check, perf_caches_t *caches)
{
    unsigned i;

    memset(caches, 0, sizeof(*caches));
    caches->side = side;
    for (i = 0; i < perf_caches_num(caches); ++i) {
        if (perf_pool_create(memory, &side->shapes[i], is_check, &caches->pools[i]) !=
            0) {
            return -1;
        }
    }
    return 0;
}

void perf_caches_close(perf_caches_t *caches)
{
    unsigned i;

    for (i = 0; i < PERF_MAX_COMPONENTS; ++i) {
        if (caches->pools[i] != NULL) {
            perf_pool_destroy(caches->pools[i]);
        }
    }
}

/* Describe a unit's layout, for peers with another number of ranks. */
static void perf_caches_describe(const perf_caches_t *caches, unsigned component,
                                 mkv_region_t *region)
{
    const perf_geometry_t *geometry = &caches->side->geometry;
    const perf_component_t *what = &geometry->model.components[component];
    const perf_share_t *share = &geometry->shares[component];

    region->component = component;
    region->tokens_per_unit = (what->keep == PERF_KEEP_STATE) ? 0 : share->entries;
    region->flags = (what->num_groups == 0) ? MKV_REGION_REPLICATED : 0;
    if (caches->side->shapes[component].cells.num_groups == 0) { /* blocks are alike */
        return;
    }
    region->outer = what->outer;
    region->inner_bytes = share->inner_bytes;
    if (what->num_groups == 0) {
        return;
    }
    region->flags = caches->side->shapes[component].cells.has_heads_first
                        ? MKV_REGION_HEADS_FIRST
                        : 0;
    region->num_groups = what->num_groups;
    memcpy(region->groups, what->groups, what->num_groups * sizeof(what->groups[0]));
}

int perf_caches_add(const perf_caches_t *caches, perf_session_t *kv,
                    ucs_memory_type_t type)
{
    const perf_geometry_t *geometry = &caches->side->geometry;
    mkv_region_t like;
    unsigned i;

    for (i = 0; i < perf_caches_num(caches); ++i) {
        memset(&like, 0, sizeof(like));
        perf_caches_describe(caches, i, &like);
        if (perf_session_add_pool(kv, caches->pools[i], type, &like,
                                  geometry->model.components[i].layers) != 0) {
            return -1;
        }
    }
    return 0;
}

/* Keys of the blocks that are not here yet. */
static const uint64_t *perf_caches_keys(const perf_caches_t *caches, unsigned component,
                                        const perf_list_t *list)
{
    return list->keys +
           (size_t)list->num_shared * caches->side->shapes[component].num_keys;
}

int perf_caches_fill(perf_caches_t *caches, const perf_admitted_t *admitted)
{
    const perf_list_t *list;
    unsigned i;
    int ret = 0;

    for (i = 0; (ret == 0) && (i < perf_caches_num(caches)); ++i) {
        list = &admitted->lists[i];
        ret = perf_pool_fill(caches->pools[i], list->blocks + list->num_shared,
                             perf_caches_keys(caches, i, list),
                             list->num - list->num_shared);
    }
    return ret;
}

void perf_caches_expect(perf_caches_t *caches, const perf_admitted_t *admitted)
{
    const perf_list_t *list;
    unsigned i;

    for (i = 0; i < perf_caches_num(caches); ++i) {
        list = &admitted->lists[i];
        perf_pool_expect(caches->pools[i], list->blocks + list->num_shared,
                         perf_caches_keys(caches, i, list),
                         list->num - list->num_shared);
    }
}

int perf_caches_check(perf_caches_t *caches, const perf_admitted_t *admitted)
{
    const perf_list_t *list;
    unsigned i;
    int ret = 0;

    for (i = 0; (ret == 0) && (i < perf_caches_num(caches)); ++i) {
        list = &admitted->lists[i];
        ret = perf_pool_check(caches->pools[i], list->blocks + list->num_shared,
                              list->num - list->num_shared);
    }
    return ret;
}

int perf_caches_check_all(perf_caches_t *caches)
{
    unsigned i;
    int ret = 0;

    for (i = 0; (ret == 0) && (i < perf_caches_num(caches)); ++i) {
        ret = perf_pool_check_all(caches->pools[i]);
    }
    return ret;
}

size_t perf_caches_units(const perf_caches_t *caches, const perf_admitted_t *admitted,
                         uint32_t start, mkv_units_t *units)
{
    const perf_list_t *list;
    uint32_t skip;
    unsigned i;

    for (i = 0; i < perf_caches_num(caches); ++i) {
        list = &admitted->lists[i];
        skip = (caches->side->slots[i] == NULL)
                   ? start / caches->side->geometry.block_tokens
                   : 0;
        units[i] = (mkv_units_t){.component = i,
                                 .num_local = list->num - skip,
                                 .local = list->blocks + skip};
    }
    return i;
}

static const mkv_units_t *perf_units_find(const mkv_event_t *event, uint32_t component)
{
    size_t i;

    for (i = 0; i < event->num_units; ++i) {
        if (event->units[i].component == component) {
            return &event->units[i];
        }
    }
    return NULL;
}

/* Number of the peer's blocks that a list of our blocks corresponds to. */
static uint32_t perf_caches_peer_num(const perf_caches_t *caches,
                                     const perf_admitted_t *admitted,
                                     unsigned component, uint32_t start, uint32_t num)
{
    const uint32_t block = caches->side->peer_block_tokens;

    if (caches->side->slots[component] != NULL) {
        return num;
    }
    return (admitted->table->tokens - start + block - 1) / block;
}

uint32_t perf_caches_start(const perf_caches_t *caches, const perf_admitted_t *admitted)
{
    const perf_engine_side_t *side = caches->side;
    const uint32_t block = side->geometry.block_tokens;
    const uint32_t start = admitted->lists[0].num_shared * block;

    return (block > side->peer_block_tokens) ? start
                                             : start - start % side->peer_block_tokens;
}

int perf_caches_pair(const perf_caches_t *caches, const perf_admitted_t *admitted,
                     const mkv_event_t *event, uint32_t start, mkv_units_t *units,
                     size_t *num_p)
{
    const uint32_t tokens = admitted->table->tokens;
    const mkv_units_t *remote;
    uint32_t num, expected;
    size_t i;

    if (start > tokens) {
        perf_error("request %" PRIu64 " has %u tokens here; the other side shows them "
                   "from token %u on; do both use the same trace and options?",
                   event->id, tokens, start);
        return -1;
    }

    *num_p = perf_caches_units(caches, admitted, start, units);
    for (i = 0; i < *num_p; ++i) {
        remote = perf_units_find(event, units[i].component);
        num = (remote == NULL) ? 0 : remote->num_local + remote->num_remote;
        expected = perf_caches_peer_num(caches, admitted, i, start, units[i].num_local);
        if (num != expected) {
            perf_error("request %" PRIu64 " has %u blocks of %s here; the other side "
                       "shows %u, expected %u; do both use the same trace and options?",
                       event->id, units[i].num_local,
                       caches->side->geometry.model.components[i].name, num, expected);
            return -1;
        }
        units[i].num_remote = num;
        units[i].remote = (remote == NULL) ? NULL : remote->remote;
    }
    return 0;
}

uint64_t perf_caches_pieces(const mkv_map_t *map, const mkv_units_t *units,
                            size_t num_units)
{
    mkv_map_attr_t attr = {.size = sizeof(attr)};
    uint64_t pieces = 0, num;
    uint32_t i;
    size_t k;

    if (mkv_map_query(map, &attr) != MKV_OK) {
        return 0;
    }
    for (i = 0; i < attr.num_components; ++i) {
        for (k = 0; k < num_units; ++k) {
            if (units[k].component == attr.components[i].component) {
                /* the side with smaller blocks has more */
                num = (units[k].num_local > units[k].num_remote) ? units[k].num_local
                                                                 : units[k].num_remote;
                pieces += num * attr.components[i].num_pairs;
            }
        }
    }
    return pieces;
}
