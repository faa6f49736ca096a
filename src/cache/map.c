/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Which local region goes with which remote one, and everything that must be equal for
 * that. Checked here once, so that a plan needs to check block numbers only.
 */

#include "cache/map.h"

#include "base/abi.h"

#include <stdlib.h>
#include <string.h>

mkv_map_component_t *mkv_map_component(const mkv_map_t *map, uint32_t component)
{
    uint32_t i;

    for (i = 0; i < map->num_components; ++i) {
        if (map->components[i].component == component) {
            return &map->components[i];
        }
    }
    return NULL;
}

/* ---- Checks ---------------------------------------------------------------------- */

static mkv_status_t mkv_map_check_topology(mkv_remote_t *remote, uint32_t flags)
{
    const mkv_topology_t *mine = &remote->ctx->params.topology;
    const mkv_topology_t *theirs = &remote->info.topology;
    const mkv_log_t *log = &remote->ctx->log;

    if (mine->tp_size != theirs->tp_size) {
        return mkv_error(log, MKV_ERR_TOPOLOGY,
                         "peer %s: tp size is %u here and %u there, expected equal",
                         remote->name, mine->tp_size, theirs->tp_size);
    }
    if (!(flags & MKV_MAP_ANY_RANK) && (mine->tp_rank != theirs->tp_rank)) {
        return mkv_error(log, MKV_ERR_TOPOLOGY,
                         "peer %s: tp rank is %u here and %u there, expected equal (or "
                         "MKV_MAP_ANY_RANK for replicated data)",
                         remote->name, mine->tp_rank, theirs->tp_rank);
    }
    return MKV_OK;
}

/* Zero is "not stated" */
static int mkv_map_differ(uint64_t mine, uint64_t theirs)
{
    return (mine != 0) && (theirs != 0) && (mine != theirs);
}

static mkv_status_t mkv_map_check_layout(mkv_remote_t *remote)
{
    const mkv_open_params_t *mine = &remote->ctx->params;
    const mkv_blob_info_t *theirs = &remote->info;
    const struct {
        uint64_t mine, theirs;
        mkv_status_t status;
        const char *what;
    } checks[] = {
        {mine->page_tokens, theirs->page_tokens, MKV_ERR_PAGE, "tokens per page"},
        {mine->dtype, theirs->dtype, MKV_ERR_DTYPE, "data type"},
        {mine->total_kv_heads, theirs->total_kv_heads, MKV_ERR_GEOMETRY, "kv heads"},
        {mine->model, theirs->model, MKV_ERR_GEOMETRY, "model fingerprint"},
    };
    size_t i;

    for (i = 0; i < sizeof(checks) / sizeof(checks[0]); ++i) {
        if (mkv_map_differ(checks[i].mine, checks[i].theirs)) {
            return mkv_error(&remote->ctx->log, checks[i].status,
                             "peer %s: %s is %llu here and %llu there", remote->name,
                             checks[i].what, (unsigned long long)checks[i].mine,
                             (unsigned long long)checks[i].theirs);
        }
    }
    return MKV_OK;
}

static mkv_status_t mkv_map_check_pair(mkv_remote_t *remote, const mkv_region_t *mine,
                                       const mkv_wire_region_t *theirs)
{
    const struct {
        int is_bad;
        mkv_status_t status;
        const char *what;
        uint64_t mine, theirs;
    } checks[] = {
        {mine->unit_bytes != theirs->unit_bytes, MKV_ERR_GEOMETRY, "unit size",
         mine->unit_bytes, theirs->unit_bytes},
        {mkv_map_differ(mine->tokens_per_unit, theirs->tokens_per_unit), MKV_ERR_PAGE,
         "tokens per unit", mine->tokens_per_unit, theirs->tokens_per_unit},
        {mkv_map_differ(mine->dtype, theirs->dtype), MKV_ERR_DTYPE, "data type",
         mine->dtype, theirs->dtype},
    };
    size_t i;

    for (i = 0; i < sizeof(checks) / sizeof(checks[0]); ++i) {
        if (checks[i].is_bad) {
            return mkv_error(&remote->ctx->log, checks[i].status,
                             "peer %s: component %u layer %d part %u: %s is %llu here "
                             "and %llu there",
                             remote->name, mine->component, mine->layer, mine->part,
                             checks[i].what, (unsigned long long)checks[i].mine,
                             (unsigned long long)checks[i].theirs);
        }
    }
    return MKV_OK;
}

/* ---- Pairing --------------------------------------------------------------------- */

static int mkv_map_wants(const mkv_map_params_t *params, uint32_t component)
{
    size_t i;

    if (params->components == NULL) {
        return 1;
    }
    for (i = 0; i < params->num_components; ++i) {
        if (params->components[i] == component) {
            return 1;
        }
    }
    return 0;
}

static mkv_lregion_t *mkv_map_find_local(mkv_ctx_t *ctx,
                                         const mkv_wire_region_t *theirs)
{
    mkv_lregion_t *region;

    mkv_list_for_each(region, &ctx->regions, mkv_lregion_t, list)
    {
        if ((region->mem != NULL) && (region->info.component == theirs->component) &&
            (region->info.layer == theirs->layer) &&
            (region->info.part == theirs->part)) {
            return region;
        }
    }
    return NULL;
}

/* Regions that only one side has; both sides see the same difference */
static mkv_status_t mkv_map_check_unpaired(mkv_remote_t *remote,
                                           const mkv_map_params_t *params)
{
    uint32_t num_mine = 0, num_theirs = 0, i;
    mkv_region_t missing = {.size = 0};
    const char *where = NULL;
    mkv_rmem_t *rmem;
    mkv_lregion_t *region;

    mkv_list_for_each(region, &remote->ctx->regions, mkv_lregion_t, list)
    {
        if ((region->mem == NULL) || !mkv_map_wants(params, region->info.component)) {
            continue;
        }
        ++num_mine;
        if (!(region->info.flags & MKV_REGION_OPTIONAL) &&
            (mkv_remote_find(remote, region->info.component, region->info.layer,
                             region->info.part, &rmem) == NULL)) {
            missing = region->info;
            where = "there";
        }
    }
    for (i = 0; i < remote->num_regions; ++i) {
        if (!mkv_map_wants(params, remote->regions[i].component)) {
            continue;
        }
        ++num_theirs;
        if (!(remote->regions[i].flags & MKV_REGION_OPTIONAL) &&
            (mkv_map_find_local(remote->ctx, &remote->regions[i]) == NULL)) {
            missing.component = remote->regions[i].component;
            missing.layer = remote->regions[i].layer;
            missing.part = remote->regions[i].part;
            where = "here";
        }
    }

    if (where == NULL) {
        return MKV_OK;
    }
    return mkv_error(
        &remote->ctx->log, MKV_ERR_PAIRING,
        "peer %s: %u regions here and %u there; component %u layer %d part "
        "%u is missing %s",
        remote->name, num_mine, num_theirs, missing.component, missing.layer,
        missing.part, where);
}

static void mkv_map_set_pair(mkv_pair_t *pair, mkv_lregion_t *mine,
                             const mkv_wire_region_t *theirs, mkv_rmem_t *rmem)
{
    pair->local = mine;
    pair->mem = mine->mem;
    pair->rmem = rmem;
    pair->remote_id = theirs->id;
    pair->component = mine->info.component; /* an index later */
    pair->layer = mine->info.layer;
    pair->part = mine->info.part;
    pair->local_base = mine->info.base;
    pair->remote_base = theirs->base;
    pair->unit_bytes = theirs->unit_bytes;
    pair->local_stride = mine->info.unit_stride;
    pair->remote_stride = theirs->unit_stride;
    pair->is_dense = (pair->local_stride == pair->unit_bytes) &&
                     (pair->remote_stride == pair->unit_bytes);
}

static int mkv_pair_compare(const void *a, const void *b)
{
    const mkv_pair_t *pa = a;
    const mkv_pair_t *pb = b;

    if (pa->layer != pb->layer) {
        return (pa->layer < pb->layer) ? -1 : 1;
    }
    if (pa->component != pb->component) {
        return (pa->component < pb->component) ? -1 : 1;
    }
    return (int)pa->part - (int)pb->part;
}

static mkv_status_t mkv_map_pair(mkv_map_t *map, const mkv_map_params_t *params)
{
    mkv_remote_t *remote = map->remote;
    const mkv_wire_region_t *theirs;
    mkv_lregion_t *region;
    mkv_rmem_t *rmem = NULL;
    mkv_status_t status;

    mkv_list_for_each(region, &map->ctx->regions, mkv_lregion_t, list)
    {
        if ((region->mem == NULL) || !mkv_map_wants(params, region->info.component)) {
            continue;
        }
        theirs = mkv_remote_find(remote, region->info.component, region->info.layer,
                                 region->info.part, &rmem);
        if (theirs == NULL) {
            continue;
        }
        status = mkv_map_check_pair(remote, &region->info, theirs);
        if (status != MKV_OK) {
            return status;
        }
        mkv_map_set_pair(&map->pairs[map->num_pairs++], region, theirs, rmem);
    }

    if (map->num_pairs == 0) {
        return mkv_error(&map->ctx->log, MKV_ERR_PAIRING,
                         "peer %s: none of %u regions here pairs with one of %u there",
                         remote->name, map->ctx->num_regions, remote->num_regions);
    }
    qsort(map->pairs, map->num_pairs, sizeof(*map->pairs), mkv_pair_compare);
    return MKV_OK;
}

/* ---- Components ------------------------------------------------------------------ */

static uint64_t mkv_pair_remote_units(const mkv_map_t *map, const mkv_pair_t *pair)
{
    mkv_rmem_t *rmem;

    return mkv_remote_find(map->remote, pair->local->info.component, pair->layer,
                           pair->part, &rmem)
        ->n_units;
}

static int mkv_component_compare(const void *a, const void *b)
{
    const mkv_map_component_t *ca = a;
    const mkv_map_component_t *cb = b;

    return (ca->component < cb->component) ? -1 : (ca->component > cb->component);
}

static void mkv_map_sum_components(mkv_map_t *map)
{
    mkv_map_component_t *component;
    mkv_pair_t *pair;
    uint64_t units;
    uint32_t i;

    for (i = 0; i < map->num_pairs; ++i) {
        pair = &map->pairs[i];
        component = mkv_map_component(map, pair->component);
        if (component == NULL) {
            component = &map->components[map->num_components++];
            component->component = pair->component;
            component->local_units = component->remote_units = UINT64_MAX;
        }
        ++component->num_pairs;
        component->bytes_per_unit += pair->unit_bytes;
        units = pair->local->info.n_units;
        if (units < component->local_units) {
            component->local_units = units;
        }
        units = mkv_pair_remote_units(map, pair);
        if (units < component->remote_units) {
            component->remote_units = units;
        }
    }

    qsort(map->components, map->num_components, sizeof(*map->components),
          mkv_component_compare);
    for (i = 0; i < map->num_pairs; ++i) {
        pair = &map->pairs[i];
        pair->component =
            (uint32_t)(mkv_map_component(map, pair->component) - map->components);
    }
}

/* ---- Life ------------------------------------------------------------------------ */

static void mkv_map_take_refs(mkv_map_t *map)
{
    uint32_t i;

    for (i = 0; i < map->num_pairs; ++i) {
        ++map->pairs[i].local->num_maps;
        ++map->pairs[i].rmem->num_pairs;
    }
    mkv_list_add_tail(&map->remote->maps, &map->list);
}

mkv_status_t mkv_map_make(mkv_remote_t *remote, const mkv_map_params_t *params,
                          mkv_map_t **map_p)
{
    mkv_ctx_t *ctx = remote->ctx;
    mkv_status_t status;
    mkv_map_t *map;

    status = mkv_map_check_topology(remote, params->flags);
    if (status == MKV_OK) {
        status = mkv_map_check_layout(remote);
    }
    if ((status == MKV_OK) && !(params->flags & MKV_MAP_INTERSECT)) {
        status = mkv_map_check_unpaired(remote, params);
    }
    if (status != MKV_OK) {
        return status;
    }

    map = calloc(1, sizeof(*map));
    if (map == NULL) {
        return mkv_error(&ctx->log, MKV_ERR_NOMEM, "no memory for a map");
    }
    mkv_list_init(&map->list);
    mkv_list_init(&map->plans);
    map->ctx = ctx;
    map->remote = remote;
    map->pairs = calloc(ctx->num_regions + 1, sizeof(*map->pairs));
    map->components = calloc(MKV_MAX_COMPONENTS, sizeof(*map->components));
    if ((map->pairs == NULL) || (map->components == NULL)) {
        status = mkv_error(&ctx->log, MKV_ERR_NOMEM,
                           "no memory for a map of %u regions", ctx->num_regions);
    } else {
        status = mkv_map_pair(map, params);
    }
    if (status != MKV_OK) {
        goto err_free;
    }

    mkv_map_sum_components(map);
    mkv_map_take_refs(map);
    *map_p = map;
    return MKV_OK;

err_free:
    free(map->components);
    free(map->pairs);
    free(map);
    return status;
}

mkv_status_t mkv_map_query(const mkv_map_t *map, mkv_map_attr_t *attr)
{
    mkv_map_attr_t values = {.size = sizeof(values)};

    mkv_enter(map->ctx);
    values.peer = map->remote->peer;
    values.num_pairs = map->num_pairs;
    values.layer_lo = map->pairs[0].layer;
    values.layer_hi = map->pairs[map->num_pairs - 1].layer + 1;
    values.num_components = map->num_components;
    values.components = map->components;
    values.is_stale = map->is_stale;
    mkv_leave_quietly(map->ctx);
    return mkv_struct_write(&map->ctx->log, &mkv_struct_map_attr, &values, attr);
}

void mkv_map_free(mkv_map_t *map)
{
    uint32_t i;

    for (i = 0; i < map->num_pairs; ++i) {
        --map->pairs[i].local->num_maps;
        mkv_rmem_put(map->remote, map->pairs[i].rmem);
    }
    mkv_list_del(&map->list);
    free(map->components);
    free(map->pairs);
    free(map);
}

mkv_status_t mkv_map_destroy(mkv_map_t *map)
{
    mkv_ctx_t *ctx = map->ctx;

    mkv_enter(ctx);
    if (map->num_uses > 0) {
        return mkv_leave_status(
            ctx, mkv_error(&ctx->log, MKV_ERR_BUSY,
                           "the map of peer %s is used by %u plans and transfers",
                           map->remote->name, map->num_uses));
    }
    mkv_map_free(map);
    return mkv_leave_status(ctx, MKV_OK);
}

static int mkv_map_is_current(const mkv_map_t *map)
{
    const mkv_wire_region_t *theirs;
    const mkv_pair_t *pair;
    mkv_rmem_t *rmem;
    uint32_t i;

    for (i = 0; i < map->num_pairs; ++i) {
        pair = &map->pairs[i];
        theirs = mkv_remote_find(map->remote, pair->local->info.component, pair->layer,
                                 pair->part, &rmem);
        if ((theirs == NULL) || (theirs->id != pair->remote_id)) {
            return 0;
        }
    }
    return 1;
}

void mkv_maps_refresh(mkv_remote_t *remote)
{
    mkv_map_t *map;

    mkv_list_for_each(map, &remote->maps, mkv_map_t, list)
    {
        map->is_stale |= !mkv_map_is_current(map);
    }
}
