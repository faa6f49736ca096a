/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Pairs of a local and a remote region. All properties that must be equal are checked
 * here once, so that a plan needs to check block numbers only.
 */

#include "memory/map.h"

#include "base/abi.h"
#include "memory/match.h"

#include <stdlib.h>
#include <string.h>

/* ---- Rounds ---------------------------------------------------------------------- */

/** One trial to pair all regions, in rounds. */
typedef struct mkv_map_trial {
    const mkv_map_params_t *params;
    mkv_remote_t *remote;
    uint64_t epoch, num_updates; /* state of both sides' regions when the trial began */
    size_t num_steps;
    bool is_whole; /**< Do not pause: changes of regions have ended earlier trials */
} mkv_map_trial_t;

static bool mkv_map_is_void(const mkv_map_trial_t *self)
{
    const mkv_ctx_t *ctx = self->remote->ctx;

    return (ctx->epoch != self->epoch) ||
           (self->remote->num_updates != self->num_updates);
}

/* @return MKV_OK, or MKV_INPROGRESS: regions changed in a pause; begin again. */
static mkv_status_t mkv_map_step(mkv_map_trial_t *self)
{
    return (!self->is_whole && mkv_pause_at(self->remote->ctx, self->num_steps++) &&
            mkv_map_is_void(self))
               ? MKV_INPROGRESS
               : MKV_OK;
}

/* ---- Checks ---------------------------------------------------------------------- */

/* Zero is "not stated" */
static bool mkv_map_differ(uint64_t mine, uint64_t theirs)
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

/* ---- Pairing --------------------------------------------------------------------- */

static bool mkv_map_selects(const mkv_map_params_t *params, uint32_t component)
{
    size_t i;

    if (params->components == NULL) {
        return true;
    }
    for (i = 0; i < params->num_components; ++i) {
        if (params->components[i] == component) {
            return true;
        }
    }
    return false;
}

/* Regions that are not committed or not selected are left out */
static bool mkv_map_takes(const mkv_map_params_t *params, const mkv_lregion_t *region)
{
    return (region->mem != NULL) && mkv_map_selects(params, region->info.component);
}

static bool mkv_map_has_local(const mkv_ctx_t *ctx, const mkv_wire_region_t *theirs)
{
    const mkv_lregion_t *region =
        mkv_region_by_name(ctx, theirs->component, theirs->layer, theirs->part);

    return (region != NULL) && (region->mem != NULL);
}

/** Regions of both sides, and one without a counterpart. */
typedef struct mkv_unpaired {
    uint32_t num_mine, num_theirs, num_waiting;
    mkv_region_t missing;
    const char *where; /**< Side that lacks it; NULL: there is none */
} mkv_unpaired_t;

static void mkv_unpaired_add_mine(mkv_unpaired_t *self, const mkv_map_trial_t *trial,
                                  const mkv_lregion_t *region)
{
    mkv_rmem_t *rmem;

    if (!mkv_map_takes(trial->params, region)) {
        self->num_waiting += mkv_map_selects(trial->params, region->info.component);
        return;
    }
    ++self->num_mine;
    if (!(region->info.flags & MKV_REGION_OPTIONAL) &&
        (mkv_remote_find(trial->remote, region->info.component, region->info.layer,
                         region->info.part, &rmem) == NULL)) {
        self->missing = region->info;
        self->where = "there";
    }
}

static void mkv_unpaired_add_theirs(mkv_unpaired_t *self, const mkv_map_trial_t *trial,
                                    const mkv_wire_region_t *region)
{
    if (!mkv_map_selects(trial->params, region->component)) {
        return;
    }
    ++self->num_theirs;
    if (!(region->flags & MKV_REGION_OPTIONAL) &&
        !mkv_map_has_local(trial->remote->ctx, region)) {
        self->missing.component = region->component;
        self->missing.layer = region->layer;
        self->missing.part = region->part;
        self->where = "here";
    }
}

/* Reject regions without a counterpart; both sides compute the same difference */
static mkv_status_t mkv_map_check_unpaired(mkv_map_trial_t *trial)
{
    mkv_remote_t *remote = trial->remote;
    mkv_unpaired_t unpaired = {0};
    mkv_lregion_t *region;
    uint32_t i;

    mkv_list_for_each(region, &remote->ctx->regions, list)
    {
        mkv_unpaired_add_mine(&unpaired, trial, region);
        if (mkv_map_step(trial) != MKV_OK) {
            return MKV_INPROGRESS;
        }
    }
    for (i = 0; i < remote->num_regions; ++i) {
        mkv_unpaired_add_theirs(&unpaired, trial, &remote->regions[i]);
        if (mkv_map_step(trial) != MKV_OK) {
            return MKV_INPROGRESS;
        }
    }

    if (unpaired.where == NULL) {
        return MKV_OK;
    }
    return mkv_error(
        &remote->ctx->log, MKV_ERR_PAIRING,
        "peer %s: %u regions here and %u there; component %u layer %d part %u is "
        "missing %s%s",
        remote->name, unpaired.num_mine, unpaired.num_theirs,
        unpaired.missing.component, unpaired.missing.layer, unpaired.missing.part,
        unpaired.where,
        (unpaired.num_waiting > 0)
            ? "; regions here wait for mkv_regions_commit()"
            : "; expected on both sides, or MKV_REGION_OPTIONAL");
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

static mkv_status_t mkv_map_pair(mkv_map_t *map, mkv_map_trial_t *trial)
{
    mkv_remote_t *remote = trial->remote;
    const mkv_wire_region_t *theirs;
    mkv_lregion_t *region;
    mkv_rmem_t *rmem = NULL;
    mkv_status_t status;

    mkv_list_for_each(region, &map->ctx->regions, list)
    {
        theirs = mkv_map_takes(trial->params, region)
                     ? mkv_remote_find(remote, region->info.component,
                                       region->info.layer, region->info.part, &rmem)
                     : NULL;
        status = (theirs != NULL) ? mkv_map_match(map, region, theirs, rmem) : MKV_OK;
        if (status == MKV_OK) {
            status = mkv_map_step(trial);
        }
        if (status != MKV_OK) {
            return status;
        }
    }

    if (map->num_components == 0) {
        return mkv_error(&map->ctx->log, MKV_ERR_PAIRING,
                         "peer %s: none of %u regions here pairs with one of %u there",
                         remote->name, map->ctx->num_regions, remote->num_regions);
    }
    return MKV_OK;
}

/* ---- Components ------------------------------------------------------------------ */

static uint32_t mkv_count_bits(const uint64_t *words, size_t num)
{
    uint32_t count = 0;
    size_t i;

    for (i = 0; i < num; ++i) {
        count += (uint32_t)__builtin_popcountll(words[i]);
    }
    return count;
}

/* Components in the order of their numbers; few, and nearly sorted */
static void mkv_map_sort_components(mkv_map_t *map)
{
    mkv_map_component_t component;
    mkv_map_sharing_t sharing;
    uint32_t i, k;

    for (i = 1; i < map->num_components; ++i) {
        for (k = i; (k > 0) &&
                    (map->components[k - 1].component > map->components[k].component);
             --k) {
            component = map->components[k];
            map->components[k] = map->components[k - 1];
            map->components[k - 1] = component;
            sharing = map->sharing[k];
            map->sharing[k] = map->sharing[k - 1];
            map->sharing[k - 1] = sharing;
        }
    }
}

static void mkv_map_sum_components(mkv_map_t *map)
{
    const size_t num_words = MKV_MAX_SHARDS / 64;
    mkv_map_component_t *component;
    mkv_pair_t *pair;
    uint32_t i, index;

    mkv_map_sort_components(map);
    for (i = 0; i < map->num_pairs; ++i) {
        pair = &map->pairs[i];
        for (index = 0; map->components[index].component != pair->component; ++index) {
        }
        component = &map->components[index];
        ++component->num_pairs;
        component->bytes_per_unit +=
            pair->unit_bytes * mkv_map_parts(map, index, false);
        pair->component = index;
    }
    for (i = 0; i < map->num_components; ++i) {
        component = &map->components[i];
        component->num_sources = mkv_count_bits(map->sharing[i].sources, num_words);
        component->num_destinations =
            mkv_count_bits(map->sharing[i].destinations, num_words);
    }
}

/* ---- Life ------------------------------------------------------------------------ */

static void mkv_map_check_keys(mkv_map_t *map)
{
    bool lacks = false;
    uint32_t i;

    for (i = 0; i < map->num_pairs; ++i) {
        lacks |= (map->pairs[i].rmem->rkey == NULL);
    }
    __atomic_store_n(&map->lacks_keys, lacks, __ATOMIC_RELAXED);
}

static void mkv_map_take_refs(mkv_map_t *map)
{
    uint32_t i;

    for (i = 0; i < map->num_pairs; ++i) {
        ++map->pairs[i].local->num_maps;
        ++map->pairs[i].rmem->num_pairs;
    }
    mkv_list_add_tail(&map->remote->maps, &map->list);
}

/* Check the flags, the layout and, unless MKV_MAP_INTERSECT, that all regions pair */
static mkv_status_t mkv_map_check(mkv_map_trial_t *trial)
{
    const mkv_map_params_t *params = trial->params;
    mkv_remote_t *remote = trial->remote;
    mkv_status_t status;

    if ((params->flags & MKV_MAP_SRC) && (params->flags & MKV_MAP_DST)) {
        return mkv_error(&remote->ctx->log, MKV_ERR_INVALID,
                         "peer %s: a map is MKV_MAP_SRC or MKV_MAP_DST, not both",
                         remote->name);
    }
    status = mkv_map_check_layout(remote);
    if ((status == MKV_OK) && !(params->flags & MKV_MAP_INTERSECT)) {
        status = mkv_map_check_unpaired(trial);
    }
    return status;
}

/* Free a map that has not been published */
static void mkv_map_discard(mkv_map_t *map)
{
    free(map->components);
    free(map->sharing);
    free(map->pairs);
    free(map);
}

/* Count layers of this side's regions: the peer, and so the pairs, may lack some */
static void mkv_map_count_layers(mkv_map_t *map, const mkv_map_params_t *params)
{
    const mkv_lregion_t *region;

    map->layer_first = INT32_MAX;
    map->layer_last = INT32_MIN;
    mkv_list_for_each(region, &map->ctx->regions, list)
    {
        if (mkv_map_selects(params, region->info.component)) {
            map->layer_first = (region->info.layer < map->layer_first)
                                   ? region->info.layer
                                   : map->layer_first;
            map->layer_last = (region->info.layer > map->layer_last)
                                  ? region->info.layer
                                  : map->layer_last;
        }
    }
}

/* Make a map without pairs; NULL: no memory */
static mkv_map_t *mkv_map_new(mkv_remote_t *remote, const mkv_map_params_t *params)
{
    mkv_map_t *map = calloc(1, sizeof(*map));

    if (map == NULL) {
        return NULL;
    }
    mkv_list_init(&map->list);
    mkv_list_init(&map->plans);
    map->ctx = remote->ctx;
    map->remote = remote;
    map->flags = params->flags;
    map->components = calloc(MKV_MAX_COMPONENTS, sizeof(*map->components));
    map->sharing = calloc(MKV_MAX_COMPONENTS, sizeof(*map->sharing));
    if ((map->components == NULL) || (map->sharing == NULL)) {
        mkv_map_discard(map);
        return NULL;
    }
    return map;
}

/* Sort and join the pairs, which nothing else sees yet. @return MKV_OK, MKV_ERR_NOMEM.
 */
static mkv_status_t mkv_map_sort(mkv_map_t *map)
{
    if (map->num_pairs > 0) {
        qsort(map->pairs, map->num_pairs, sizeof(*map->pairs), mkv_pair_compare);
    }
    mkv_map_sum_components(map);
    return mkv_pairs_join(map->pairs, map->num_pairs);
}

/* Sort without the lock. @return As mkv_map_sort() or mkv_map_step(). */
static mkv_status_t mkv_map_arrange(mkv_map_t *map, const mkv_map_trial_t *trial)
{
    mkv_status_t status;

    if (trial->is_whole) {
        return mkv_map_sort(map);
    }
    mkv_leave_quietly(map->ctx);
    status = mkv_map_sort(map);
    mkv_enter(map->ctx);
    return ((status == MKV_OK) && mkv_map_is_void(trial)) ? MKV_INPROGRESS : status;
}

mkv_status_t mkv_map_make(mkv_remote_t *remote, const mkv_map_params_t *params,
                          bool is_whole, mkv_map_t **map_p)
{
    mkv_map_trial_t trial = {.params = params,
                             .remote = remote,
                             .epoch = remote->ctx->epoch,
                             .num_updates = remote->num_updates,
                             .is_whole = is_whole};
    mkv_status_t status = mkv_map_check(&trial);
    mkv_map_t *map;

    if (status != MKV_OK) {
        return status;
    }
    map = mkv_map_new(remote, params);
    status = (map == NULL) ? MKV_ERR_NOMEM : mkv_map_pair(map, &trial);
    if (status == MKV_OK) {
        status = mkv_map_arrange(map, &trial);
    }
    if (status != MKV_OK) {
        if (map != NULL) {
            mkv_map_discard(map);
        }
        return (status != MKV_ERR_NOMEM)
                   ? status
                   : mkv_error(&remote->ctx->log, MKV_ERR_NOMEM,
                               "no memory for a map of %u regions",
                               remote->ctx->num_regions);
    }

    mkv_map_count_layers(map, params);
    mkv_map_take_refs(map);
    mkv_map_check_keys(map);
    *map_p = map;
    return MKV_OK;
}

mkv_status_t mkv_map_query(const mkv_map_t *map, mkv_map_attr_t *attr)
{
    mkv_map_attr_t values = {.size = sizeof(values)};

    MKV_HOLD(map->ctx, "map_query", return MKV_ERR_INVALID);
    mkv_enter(map->ctx);
    values.peer = map->remote->peer;
    values.num_pairs = map->num_pairs;
    if (map->num_pairs > 0) {
        values.layer_lo = map->pairs[0].layer;
        values.layer_hi = map->pairs[map->num_pairs - 1].layer + 1;
    }
    values.num_components = map->num_components;
    values.components = map->components;
    values.is_stale = map->is_stale;
    mkv_leave_quietly(map->ctx);
    return mkv_struct_write(&map->ctx->log, &mkv_struct_map_attr, &values, attr);
}

static void mkv_map_drop_last(mkv_map_t *map)
{
    const mkv_pair_t *pair = &map->pairs[--map->num_pairs];

    --pair->local->num_maps;
    mkv_rmem_put(map->remote, pair->rmem);
}

void mkv_map_free(mkv_map_t *map, bool is_whole)
{
    while (map->num_pairs > 0) {
        mkv_map_drop_last(map);
        if (!is_whole) {
            (void)mkv_pause_at(map->ctx, map->num_pairs);
        }
    }
    mkv_list_del(&map->list);
    mkv_map_discard(map);
}

static bool mkv_map_is_current(const mkv_map_t *map)
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
            return false;
        }
    }
    return true;
}

unsigned mkv_maps_refresh(mkv_remote_t *remote)
{
    unsigned num_stale = 0;
    mkv_map_t *map;

    mkv_list_for_each(map, &remote->maps, list)
    {
        if (!mkv_map_is_current(map)) {
            __atomic_store_n(&map->is_stale, true, __ATOMIC_RELAXED);
        }
        if (map->lacks_keys) {
            mkv_map_check_keys(map);
        }
        num_stale += map->is_stale;
    }
    return num_stale;
}
