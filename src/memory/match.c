/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Two regions of one name, and the part of them that a map moves.
 *
 * Regions that describe the layout of their units are cut by the rule of shape.c, group
 * by group; others move whole units between equal ranks. A larger block is as many
 * units of plans as blocks of the other side fit into it.
 */

#include "memory/match.h"

#include "memory/region_shape.h"

#include <stdlib.h>
#include <string.h>

#define MKV_MAX_OUTER 64u /* pairs of one group, where its pieces form no grid */

typedef struct mkv_match {
    mkv_map_t *map;
    mkv_lregion_t *local;
    mkv_rmem_t *rmem;
    uint32_t remote_id;
    mkv_region_t mine, theirs;
    mkv_shape_t my_shape, their_shape; /* if is_shaped */
    bool is_shaped;
    uint32_t my_tokens, their_tokens; /* of a block, at least 1 */
    uint32_t grain;                   /* tokens of a unit of plans */
} mkv_match_t;

/* ---- Checks ---------------------------------------------------------------------- */

static mkv_status_t mkv_match_unfit(const mkv_match_t *match, mkv_status_t status,
                                    const char *what, uint64_t mine, uint64_t theirs,
                                    const char *expected)
{
    const mkv_remote_t *remote = match->map->remote;

    return mkv_error(
        &remote->ctx->log, status,
        "peer %s: component %u layer %d part %u: %s is %llu here and %llu there, "
        "expected %s",
        remote->name, match->mine.component, match->mine.layer, match->mine.part, what,
        (unsigned long long)mine, (unsigned long long)theirs, expected);
}

static mkv_status_t mkv_match_error(const mkv_match_t *match, mkv_status_t status,
                                    const char *what, uint64_t mine, uint64_t theirs)
{
    return mkv_match_unfit(match, status, what, mine, theirs, "equal");
}

/* Zero is "not stated" */
static bool mkv_match_differ(uint64_t mine, uint64_t theirs)
{
    return (mine != 0) && (theirs != 0) && (mine != theirs);
}

/* Regions that are not cut must have equal ranks and equal sizes */
static mkv_status_t mkv_match_check_whole(const mkv_match_t *match)
{
    const mkv_region_t *mine = &match->mine;
    const mkv_region_t *theirs = &match->theirs;
    const mkv_remote_t *remote = match->map->remote;

    if (mine->shard_size != theirs->shard_size) {
        return mkv_error(&remote->ctx->log, MKV_ERR_TOPOLOGY,
                         "peer %s: tp size is %u here and %u there, expected equal, as "
                         "component %u layer %d part %u does not describe its units "
                         "on both sides",
                         remote->name, mine->shard_size, theirs->shard_size,
                         mine->component, mine->layer, mine->part);
    }
    if (!(match->map->flags & MKV_MAP_ANY_RANK) &&
        (mine->shard_rank != theirs->shard_rank)) {
        return mkv_error(&remote->ctx->log, MKV_ERR_TOPOLOGY,
                         "peer %s: tp rank is %u here and %u there, expected equal (or "
                         "MKV_MAP_ANY_RANK for replicated data)",
                         remote->name, mine->shard_rank, theirs->shard_rank);
    }
    if (!(mine->flags & MKV_REGION_BYTES) && (mine->unit_bytes != theirs->unit_bytes)) {
        return mkv_match_error(match, MKV_ERR_GEOMETRY, "unit size", mine->unit_bytes,
                               theirs->unit_bytes);
    }
    return MKV_OK;
}

static mkv_status_t mkv_match_check_shapes(const mkv_match_t *match)
{
    const mkv_shape_t *mine = &match->my_shape;
    const mkv_shape_t *theirs = &match->their_shape;
    uint32_t i;

    if (mine->outer != theirs->outer) {
        return mkv_match_error(match, MKV_ERR_GEOMETRY, "outer", mine->outer,
                               theirs->outer);
    }
    if (mine->inner != theirs->inner) {
        return mkv_match_error(match, MKV_ERR_GEOMETRY, "inner_bytes", mine->inner,
                               theirs->inner);
    }
    if (mine->num_groups != theirs->num_groups) {
        return mkv_match_error(match, MKV_ERR_GEOMETRY, "num_groups", mine->num_groups,
                               theirs->num_groups);
    }
    for (i = 0; i < mine->num_groups; ++i) {
        if (mine->groups[i] != theirs->groups[i]) {
            return mkv_match_error(match, MKV_ERR_GEOMETRY, "a group's elements",
                                   mine->groups[i], theirs->groups[i]);
        }
    }
    return MKV_OK;
}

static mkv_status_t mkv_match_check_same(const mkv_match_t *match)
{
    unsigned mine = match->mine.flags & MKV_REGION_BYTES;
    unsigned theirs = match->theirs.flags & MKV_REGION_BYTES;

    if (mine != theirs) {
        return mkv_match_error(match, MKV_ERR_GEOMETRY, "MKV_REGION_BYTES", mine,
                               theirs);
    }
    if (mkv_match_differ(match->mine.dtype, match->theirs.dtype)) {
        return mkv_match_error(match, MKV_ERR_DTYPE, "data type", match->mine.dtype,
                               match->theirs.dtype);
    }
    return MKV_OK;
}

static mkv_status_t mkv_match_make_shapes(mkv_match_t *match)
{
    const mkv_log_t *log = &match->map->ctx->log;
    mkv_status_t status = mkv_region_shape(log, "", &match->mine, &match->my_shape);
    char whose[80];

    mkv_text(whose, sizeof(whose), "peer %s: ", match->map->remote->name);
    if (status == MKV_OK) {
        status = mkv_region_shape(log, whose, &match->theirs, &match->their_shape);
    }
    return (status == MKV_OK) ? mkv_match_check_shapes(match) : status;
}

/* ---- Blocks of unequal tokens ---------------------------------------------------- */

static uint32_t mkv_match_tokens(const mkv_region_t *info)
{
    return (info->tokens_per_unit != 0) ? info->tokens_per_unit : 1;
}

static mkv_status_t mkv_match_set_grain(mkv_match_t *match)
{
    uint32_t mine = mkv_match_tokens(&match->mine);
    uint32_t theirs = mkv_match_tokens(&match->theirs), most;
    bool is_known = match->is_shaped && (match->mine.inner_bytes != 0) &&
                    (match->theirs.inner_bytes != 0);

    if (!is_known &&
        !mkv_match_differ(match->mine.tokens_per_unit, match->theirs.tokens_per_unit)) {
        most = (mine > theirs) ? mine : theirs; /* one of them may not be stated */
        mine = theirs = (match->map->flags & MKV_MAP_TOKENS) ? most : 1;
    }
    match->grain = (mine < theirs) ? mine : theirs;
    if ((mine % match->grain != 0) || (theirs % match->grain != 0) ||
        ((mine != theirs) && !is_known)) {
        return mkv_match_unfit(match, MKV_ERR_PAGE, "tokens per unit",
                               match->mine.tokens_per_unit,
                               match->theirs.tokens_per_unit,
                               is_known ? "one to be a multiple of the other"
                                        : "equal, or inner_bytes on both sides");
    }
    if (match->map->flags & MKV_MAP_TOKENS) {
        if (!is_known && (match->grain > 1)) {
            return mkv_match_unfit(match, MKV_ERR_GEOMETRY, "inner_bytes",
                                   match->mine.inner_bytes, match->theirs.inner_bytes,
                                   "both with MKV_MAP_TOKENS");
        }
        match->grain = 1;
    }
    match->my_tokens = mine;
    match->their_tokens = theirs;
    return MKV_OK;
}

/* ---- Components ------------------------------------------------------------------ */

static uint64_t mkv_match_min(uint64_t a, uint64_t b)
{
    return (a < b) ? a : b;
}

static mkv_status_t mkv_match_component(const mkv_match_t *match, uint32_t *index_p)
{
    mkv_map_t *map = match->map;
    mkv_map_component_t *component = mkv_map_component(map, match->mine.component);
    uint32_t my_parts = match->my_tokens / match->grain;
    uint32_t their_parts = match->their_tokens / match->grain;
    mkv_map_sharing_t *sharing;

    if (component == NULL) {
        component = &map->components[map->num_components];
        sharing = &map->sharing[map->num_components++];
        component->component = match->mine.component;
        component->local_units = component->remote_units = UINT64_MAX;
        sharing->local_parts = my_parts;
        sharing->remote_parts = their_parts;
        map->has_parts |= (my_parts != 1) || (their_parts != 1);
    }
    *index_p = (uint32_t)(component - map->components);
    sharing = &map->sharing[*index_p];
    if ((sharing->local_parts != my_parts) || (sharing->remote_parts != their_parts)) {
        return mkv_match_unfit(match, MKV_ERR_GEOMETRY, "tokens per unit",
                               match->my_tokens, match->their_tokens,
                               "those of the component's other regions");
    }
    if ((match->mine.n_units * my_parts > UINT32_MAX) ||
        (match->theirs.n_units * their_parts > UINT32_MAX)) {
        return mkv_match_unfit(match, MKV_ERR_BOUNDS, "blocks times their parts",
                               match->mine.n_units * my_parts,
                               match->theirs.n_units * their_parts, "at most 2^32 - 1");
    }
    if (!(map->flags & MKV_MAP_TOKENS)) {
        my_parts = their_parts = 1;
    }
    component->local_units =
        mkv_match_min(component->local_units, match->mine.n_units * my_parts);
    component->remote_units =
        mkv_match_min(component->remote_units, match->theirs.n_units * their_parts);
    return MKV_OK;
}

/* ---- Pairs ----------------------------------------------------------------------- */

static mkv_extent_t mkv_match_extent(const mkv_region_t *info)
{
    return (mkv_extent_t){.base = (uintptr_t)info->base,
                          .length = info->length,
                          .unit_bytes = info->unit_bytes,
                          .stride = info->unit_stride,
                          .n_units = info->n_units,
                          .is_reverse = (info->flags & MKV_REGION_REVERSE) != 0};
}

static mkv_place_t mkv_match_place(const mkv_extent_t *extent, uint64_t offset,
                                   uint32_t split, uint64_t step)
{
    mkv_place_t place = {.base = extent->base + offset,
                         .stride = extent->stride,
                         .step = step,
                         .split = split};

    if (extent->is_reverse) {
        place.base += (extent->n_units - 1) * extent->stride;
        place.stride = 0 - extent->stride;
    }
    if (place.stride == split * step) {
        place.stride = step; /* units of one block after the other */
        place.split = 1;
    }
    return place;
}

static mkv_status_t mkv_match_add(mkv_match_t *match, uint64_t my_offset,
                                  uint64_t their_offset, const mkv_grid_t *grid)
{
    uint64_t my_step =
        match->is_shaped ? mkv_shape_step(&match->my_shape, match->grain) : 0;
    uint64_t their_step =
        match->is_shaped ? mkv_shape_step(&match->their_shape, match->grain) : 0;
    mkv_map_t *map = match->map;
    mkv_pair_t *pairs, *pair;
    uint32_t max = (map->max_pairs == 0) ? 64 : 2 * map->max_pairs;

    if (map->num_pairs == map->max_pairs) {
        pairs = realloc(map->pairs, max * sizeof(*pairs));
        if (pairs == NULL) {
            return mkv_error(&map->ctx->log, MKV_ERR_NOMEM, "no memory for %u pairs",
                             max);
        }
        map->pairs = pairs;
        map->max_pairs = max;
    }
    pair = &map->pairs[map->num_pairs++];
    memset(pair, 0, sizeof(*pair));
    pair->local = match->local;
    pair->mem = match->local->mem;
    pair->rmem = match->rmem;
    pair->remote_id = match->remote_id;
    pair->component = match->mine.component; /* an index later */
    pair->layer = match->mine.layer;
    pair->part = match->mine.part;
    pair->mine = mkv_match_extent(&match->mine);
    pair->theirs = mkv_match_extent(&match->theirs);
    pair->here = mkv_match_place(&pair->mine, my_offset,
                                 match->my_tokens / match->grain, my_step);
    pair->there = mkv_match_place(&pair->theirs, their_offset,
                                  match->their_tokens / match->grain, their_step);
    pair->grid = *grid;
    mkv_pair_finish(pair);
    return MKV_OK;
}

static mkv_status_t mkv_match_add_whole(mkv_match_t *match)
{
    mkv_grid_t grid = {
        .length = mkv_match_min(match->mine.unit_bytes, match->theirs.unit_bytes),
        .rows = 1,
        .cols = 1};

    if (match->mine.unit_bytes != match->theirs.unit_bytes) {
        match->map->only_bytes |= 1ull << match->mine.component;
    }
    return mkv_match_add(match, 0, 0, &grid);
}

/* ---- Slices ---------------------------------------------------------------------- */

static bool mkv_slice_dim_is_less(const mkv_slice_dim_t *a, const mkv_slice_dim_t *b,
                                  bool is_by_remote)
{
    return is_by_remote ? (a->remote < b->remote) : (a->local < b->local);
}

/* Sort the repetitions by the stride of one side, largest first, and drop those with a
 * count of 1. Both sides take the same side's strides: the digest of a PULL covers the
 * order of pieces. */
static unsigned mkv_slice_sort(mkv_slice_t *slice, bool is_by_remote)
{
    unsigned num = 0, i, k;
    mkv_slice_dim_t dim;

    for (i = 0; i < 3; ++i) {
        if (slice->dims[i].count > 1) {
            slice->dims[num++] = slice->dims[i];
        }
    }
    for (i = 1; i < num; ++i) {
        for (k = i; (k > 0) && mkv_slice_dim_is_less(&slice->dims[k - 1],
                                                     &slice->dims[k], is_by_remote);
             --k) {
            dim = slice->dims[k];
            slice->dims[k] = slice->dims[k - 1];
            slice->dims[k - 1] = dim;
        }
    }
    return num;
}

/* Merge repetitions that are contiguous with the next inner one. @return Number left */
static unsigned mkv_slice_merge(mkv_slice_t *slice, bool is_by_remote)
{
    unsigned num = mkv_slice_sort(slice, is_by_remote), i;

    while ((num > 0) && (slice->dims[num - 1].local == slice->length) &&
           (slice->dims[num - 1].remote == slice->length)) {
        slice->length *= slice->dims[--num].count;
    }
    for (i = num; i > 1; --i) {
        if ((slice->dims[i - 2].local ==
             slice->dims[i - 1].count * slice->dims[i - 1].local) &&
            (slice->dims[i - 2].remote ==
             slice->dims[i - 1].count * slice->dims[i - 1].remote)) {
            slice->dims[i - 1].count *= slice->dims[i - 2].count;
            memmove(&slice->dims[i - 2], &slice->dims[i - 1],
                    (num - i + 1) * sizeof(slice->dims[0]));
            --num;
        }
    }
    return num;
}

/* Pieces of a unit are counted in 32 bits. Rows times columns are no more than the
 * bytes of a unit, which are known to fit into 64. */
static mkv_status_t mkv_match_check_pieces(const mkv_match_t *match, uint64_t outer,
                                           uint64_t pieces)
{
    if ((outer > MKV_MAX_OUTER) || (pieces > UINT32_MAX)) {
        return mkv_error(&match->map->ctx->log, MKV_ERR_GEOMETRY,
                         "peer %s: component %u layer %d part %u: a unit is %llu times "
                         "%llu pieces, expected at most %u times %u",
                         match->map->remote->name, match->mine.component,
                         match->mine.layer, match->mine.part, (unsigned long long)outer,
                         (unsigned long long)pieces, MKV_MAX_OUTER, UINT32_MAX);
    }
    return MKV_OK;
}

/* Whether the peer's strides give the order: the source's, or in maps of both
 * directions those of the lower context id */
static bool mkv_match_is_by_remote(const mkv_match_t *match)
{
    const mkv_map_t *map = match->map;

    return (map->flags & (MKV_MAP_SRC | MKV_MAP_DST))
               ? ((map->flags & MKV_MAP_DST) != 0)
               : (map->ctx->process.ctx_id > map->remote->info.process.ctx_id);
}

static mkv_status_t mkv_match_add_slice(mkv_match_t *match, mkv_slice_t *slice)
{
    unsigned num = mkv_slice_merge(slice, mkv_match_is_by_remote(match)),
             first = (num > 2) ? 1 : 0;
    mkv_grid_t grid = {.length = slice->length, .rows = 1, .cols = 1};
    uint64_t outer = (num > 2) ? slice->dims[0].count : 1;
    uint64_t rows = (num > first + 1) ? slice->dims[first].count : 1;
    uint64_t cols = (num > first) ? slice->dims[num - 1].count : 1, i;
    mkv_status_t status = mkv_match_check_pieces(match, outer, rows * cols);

    grid.rows = (uint32_t)rows;
    grid.cols = (uint32_t)cols;
    if (rows > 1) {
        grid.local_row = slice->dims[first].local;
        grid.remote_row = slice->dims[first].remote;
    }
    if (cols > 1) {
        grid.local_col = slice->dims[num - 1].local;
        grid.remote_col = slice->dims[num - 1].remote;
    }
    for (i = 0; (i < outer) && (status == MKV_OK); ++i) {
        status = mkv_match_add(match, slice->local + i * slice->dims[0].local,
                               slice->remote + i * slice->dims[0].remote, &grid);
    }
    return status;
}

/* ---- Election -------------------------------------------------------------------- */

/* Elect the source among CP ranks that hold the same data */
static bool mkv_match_is_cp_elected(const mkv_match_t *match,
                                    const mkv_topology_t *source,
                                    const mkv_topology_t *destination)
{
    if (!((match->mine.flags | match->theirs.flags) & MKV_REGION_CP_REPLICATED)) {
        return true;
    }
    return source->cp_rank ==
           (uint64_t)destination->cp_rank * source->cp_size / destination->cp_size;
}

static bool mkv_match_is_any(const mkv_match_t *match)
{
    return (match->map->flags & MKV_MAP_ANY_RANK) && match->my_shape.is_replicated &&
           match->their_shape.is_replicated;
}

static bool mkv_match_is_elected(const mkv_match_t *match, uint32_t group, bool is_out)
{
    const mkv_topology_t *mine = &match->map->ctx->params.topology;
    const mkv_topology_t *theirs = &match->map->remote->info.topology;

    if (is_out) {
        return mkv_match_is_cp_elected(match, mine, theirs) &&
               (mkv_match_is_any(match) ||
                mkv_shape_is_elected(&match->my_shape, group, &match->their_shape));
    }
    return mkv_match_is_cp_elected(match, theirs, mine) &&
           (mkv_match_is_any(match) ||
            mkv_shape_is_elected(&match->their_shape, group, &match->my_shape));
}

static bool mkv_match_has_direction(const mkv_match_t *match, uint32_t group)
{
    uint32_t my_cp = match->map->ctx->params.topology.cp_size;
    uint32_t their_cp = match->map->remote->info.topology.cp_size;
    unsigned flags = match->mine.flags | match->theirs.flags;

    return ((flags & MKV_REGION_CP_REPLICATED) && (my_cp != their_cp)) ||
           (!mkv_match_is_any(match) &&
            mkv_shape_has_direction(&match->my_shape, &match->their_shape, group));
}

static mkv_status_t mkv_match_group(mkv_match_t *match, uint32_t group)
{
    bool is_out = mkv_match_is_elected(match, group, true);
    bool is_in = mkv_match_is_elected(match, group, false);
    uint32_t flags = match->map->flags;
    mkv_slice_t slice;

    if (!mkv_shape_slice(&match->my_shape, &match->their_shape, group, match->grain,
                         &slice)) {
        return MKV_OK;
    }
    if (!(flags & (MKV_MAP_SRC | MKV_MAP_DST)) &&
        mkv_match_has_direction(match, group)) {
        return mkv_match_unfit(match, MKV_ERR_TOPOLOGY, "size of the tp group",
                               match->my_shape.size, match->their_shape.size,
                               "MKV_MAP_SRC or MKV_MAP_DST to choose among "
                               "the ranks that hold the same elements");
    }
    return ((flags & MKV_MAP_DST) ? is_in : is_out) ? mkv_match_add_slice(match, &slice)
                                                    : MKV_OK;
}

static void mkv_match_set_ranks(mkv_shape_t shape, const mkv_shape_t *other,
                                bool is_source, uint64_t *ranks)
{
    for (shape.rank = 0; shape.rank < shape.size; ++shape.rank) {
        if (is_source ? mkv_shape_gives(&shape, other)
                      : mkv_shape_gives(other, &shape)) {
            ranks[shape.rank / 64] |= 1ull << (shape.rank % 64);
        }
    }
}

/* Check that the destination gets each byte from exactly one source */
static mkv_status_t mkv_match_prove(const mkv_match_t *match,
                                    mkv_map_sharing_t *sharing)
{
    bool is_in = (match->map->flags & MKV_MAP_DST) != 0;
    const mkv_shape_t *source = is_in ? &match->their_shape : &match->my_shape;
    const mkv_shape_t *target = is_in ? &match->my_shape : &match->their_shape;
    uint64_t element;
    uint32_t group;

    if (mkv_match_is_any(match)) {
        sharing->sources[source->rank / 64] |= 1ull << (source->rank % 64);
        sharing->destinations[target->rank / 64] |= 1ull << (target->rank % 64);
        return MKV_OK;
    }
    if (!mkv_shape_covers(source, target, &group, &element)) {
        return mkv_error(&match->map->ctx->log, MKV_ERR_GEOMETRY,
                         "peer %s: component %u layer %d part %u: element %llu of "
                         "group %u does not come to rank %u of %u exactly once from %u "
                         "ranks",
                         match->map->remote->name, match->mine.component,
                         match->mine.layer, match->mine.part,
                         (unsigned long long)element, group, target->rank, target->size,
                         source->size);
    }
    mkv_match_set_ranks(*source, target, true, sharing->sources);
    mkv_match_set_ranks(*target, source, false, sharing->destinations);
    return MKV_OK;
}

/* ---- Matching -------------------------------------------------------------------- */

static mkv_status_t mkv_match_pairs(mkv_match_t *match, mkv_map_sharing_t *sharing)
{
    mkv_status_t status = MKV_OK;
    uint32_t i;

    if (!match->is_shaped) {
        sharing->sources[0] |= 1;
        sharing->destinations[0] |= 1;
        return mkv_match_add_whole(match);
    }
    status = mkv_match_prove(match, sharing);
    for (i = 0; (status == MKV_OK) && (i < match->my_shape.num_groups); ++i) {
        status = mkv_match_group(match, i);
    }
    return status;
}

/* The peer's region as the peer describes it */
static mkv_region_t mkv_match_remote(const mkv_wire_region_t *wire,
                                     const mkv_topology_t *topology)
{
    mkv_region_t info = {.component = wire->component,
                         .layer = wire->layer,
                         .part = wire->part,
                         .flags = wire->flags,
                         .base = (void *)(uintptr_t)wire->base,
                         .length = wire->length,
                         .unit_bytes = wire->unit_bytes,
                         .unit_stride = wire->unit_stride,
                         .n_units = wire->n_units,
                         .tokens_per_unit = wire->tokens_per_unit,
                         .dtype = wire->dtype,
                         .outer = wire->shape.outer,
                         .inner_bytes = wire->shape.inner_bytes,
                         .num_groups = wire->shape.num_groups,
                         .shard_rank = topology->tp_rank,
                         .shard_size = topology->tp_size};

    memcpy(info.groups, wire->shape.groups, sizeof(info.groups));
    if (wire->shape.size != 0) {
        info.shard_rank = wire->shape.rank;
        info.shard_size = wire->shape.size;
    }
    return info;
}

mkv_status_t mkv_map_match(mkv_map_t *map, mkv_lregion_t *mine,
                           const mkv_wire_region_t *theirs, mkv_rmem_t *rmem)
{
    mkv_match_t match = {.map = map,
                         .local = mine,
                         .rmem = rmem,
                         .remote_id = theirs->id,
                         .mine = mine->info};
    mkv_status_t status;
    bool is_in = (map->flags & MKV_MAP_DST) != 0;
    uint32_t index = 0;

    match.theirs = mkv_match_remote(theirs, &map->remote->info.topology);
    match.is_shaped =
        mkv_region_has_shape(&match.mine) && mkv_region_has_shape(&match.theirs);
    status = mkv_match_check_same(&match);
    if (status == MKV_OK) {
        status = match.is_shaped ? mkv_match_make_shapes(&match)
                                 : mkv_match_check_whole(&match);
    }
    if (status == MKV_OK) {
        status = mkv_match_set_grain(&match);
    }
    if (status == MKV_OK) {
        status = mkv_match_component(&match, &index);
    }
    if (status != MKV_OK) {
        return status;
    }
    map->components[index].dst_bytes_per_unit +=
        is_in ? match.mine.unit_bytes : match.theirs.unit_bytes;
    return mkv_match_pairs(&match, &map->sharing[index]);
}
