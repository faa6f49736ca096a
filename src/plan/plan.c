/* SPDX-License-Identifier: BSD-3-Clause */

/* Block lists merged into runs, once, for every layer and every post. */

#include "plan/plan.h"

#include "base/abi.h"
#include "plan/blocks.h"
#include "plan/list_cache.h"
#include "plan/unit_set.h"

#include <stdlib.h>
#include <string.h>

/** Number of units of plans in an entry of each side's list. */
typedef struct mkv_plan_grain {
    uint32_t local, remote;
} mkv_plan_grain_t;

static mkv_plan_grain_t mkv_plan_grain(const mkv_map_t *map, uint32_t index,
                                       uint32_t flags)
{
    return (flags & MKV_PLAN_OF_PARTS)
               ? (mkv_plan_grain_t){1, 1}
               : (mkv_plan_grain_t){mkv_map_parts(map, index, false),
                                    mkv_map_parts(map, index, true)};
}

/* Units of plans in two lists; only a part of the last block may be used */
static uint64_t mkv_plan_count_units(const mkv_plan_grain_t *grain,
                                     const mkv_units_t *units)
{
    uint64_t local = (uint64_t)units->num_local * grain->local;
    uint64_t remote = (uint64_t)units->num_remote * grain->remote;

    return (local < remote) ? local : remote;
}

static bool mkv_plan_lists_match(const mkv_plan_grain_t *grain,
                                 const mkv_units_t *units)
{
    uint64_t num = mkv_plan_count_units(grain, units);
    uint32_t local = grain->local, remote = grain->remote;

    return (num <= UINT32_MAX) && ((num + local - 1) / local == units->num_local) &&
           ((num + remote - 1) / remote == units->num_remote);
}

static mkv_status_t mkv_plan_check_blocks(const mkv_map_t *map,
                                          const mkv_map_component_t *component,
                                          const mkv_plan_grain_t *grain,
                                          const mkv_units_t *units)
{
    uint32_t index = (uint32_t)(component - map->components);
    uint64_t num_local =
        component->local_units * mkv_map_parts(map, index, false) / grain->local;
    uint64_t num_remote =
        component->remote_units * mkv_map_parts(map, index, true) / grain->remote;
    const mkv_log_t *log = &map->ctx->log;
    size_t i;

    i = mkv_blocks_find_outside(units->local, units->num_local, num_local);
    if (i < units->num_local) {
        return mkv_error(
            log, MKV_ERR_BOUNDS,
            "component %u: local block %u at position %zu, the regions have "
            "%llu; expected below that",
            units->component, units->local[i], i, (unsigned long long)num_local);
    }
    i = mkv_blocks_find_outside(units->remote, units->num_remote, num_remote);
    if (i < units->num_remote) {
        return mkv_error(log, MKV_ERR_BOUNDS,
                         "component %u: remote block %u at position %zu, peer %s has "
                         "%llu; expected below that",
                         units->component, units->remote[i], i, map->remote->name,
                         (unsigned long long)num_remote);
    }
    return MKV_OK;
}

static mkv_status_t mkv_plan_check_units(const mkv_map_t *map, const mkv_units_t *units,
                                         uint32_t flags)
{
    const mkv_map_component_t *component = mkv_map_component(map, units->component);
    const mkv_log_t *log = &map->ctx->log;
    mkv_plan_grain_t grain;

    if (component == NULL) {
        return mkv_error(
            log, MKV_ERR_PAIRING,
            "the map has no component %u; expected one that regions of both sides have",
            units->component);
    }
    if ((units->num_local > 0) && (map->only_bytes & (1ull << units->component))) {
        return mkv_error(log, MKV_ERR_GEOMETRY,
                         "component %u has memory without units, of another length at "
                         "peer %s; expected mkv_plan_create_bytes()",
                         units->component, map->remote->name);
    }
    grain = mkv_plan_grain(map, (uint32_t)(component - map->components), flags);
    if (!mkv_plan_lists_match(&grain, units)) {
        return mkv_error(
            log, MKV_ERR_LENGTH,
            "component %u: %u blocks here, %u at peer %s; expected equal numbers",
            units->component, units->num_local, units->num_remote, map->remote->name);
    }
    if ((units->num_local > 0) && ((units->local == NULL) || (units->remote == NULL))) {
        return mkv_error(log, MKV_ERR_INVALID,
                         "component %u: a block list is NULL, expected %u blocks",
                         units->component, units->num_local);
    }

    return mkv_plan_check_blocks(map, component, &grain, units);
}

static mkv_status_t mkv_plan_check(const mkv_map_t *map, const mkv_units_t *units,
                                   size_t num_units, uint32_t flags)
{
    uint64_t seen = 0;
    mkv_status_t status;
    size_t i;

    status = mkv_units_check_reserved(&map->ctx->log, units, num_units);
    if (status != MKV_OK) {
        return status;
    }
    for (i = 0; i < num_units; ++i) {
        status = mkv_plan_check_units(map, &units[i], flags);
        if (status != MKV_OK) {
            return status;
        }
        if (seen & (1ull << units[i].component)) {
            return mkv_error(&map->ctx->log, MKV_ERR_DUPLICATE,
                             "component %u occurs twice", units[i].component);
        }
        seen |= 1ull << units[i].component;
    }
    return MKV_OK;
}

static mkv_status_t mkv_plan_merge_units(mkv_plan_t *plan, mkv_plan_part_t *part,
                                         const uint32_t *local, const uint32_t *remote,
                                         uint32_t num)
{
    mkv_status_t status;
    mkv_run_t *runs;
    uint32_t i;

    runs = malloc(num * sizeof(*runs));
    if (runs == NULL) {
        return MKV_ERR_NOMEM;
    }
    part->runs = runs;
    status = mkv_runs_merge(local, remote, num, plan->flags, runs, &part->num_runs);
    if (status != MKV_OK) {
        return status;
    }

    /* Long prompts merge to a few runs; a failed shrink keeps the larger block */
    runs = realloc(part->runs, part->num_runs * sizeof(*runs));
    part->runs = (runs != NULL) ? runs : part->runs;
    part->num_units = num;
    for (i = 0; i < num; ++i) {
        part->sum += mkv_unit_mix(remote[i]);
    }
    plan->memory += part->num_runs * sizeof(*runs);
    return MKV_OK;
}

/* The units that a list of blocks stands for */
static void mkv_blocks_expand(const uint32_t *blocks, uint32_t parts, uint32_t num,
                              uint32_t *units)
{
    uint32_t i;

    for (i = 0; i < num; ++i) {
        units[i] = blocks[i / parts] * parts + i % parts;
    }
}

static mkv_status_t mkv_plan_merge(mkv_plan_t *plan, const mkv_units_t *units)
{
    uint32_t index = (uint32_t)(mkv_map_component(plan->map, units->component) -
                                plan->map->components);
    mkv_plan_grain_t grain = mkv_plan_grain(plan->map, index, plan->flags);
    uint32_t num = (uint32_t)mkv_plan_count_units(&grain, units);
    mkv_status_t status;
    uint32_t *ids;

    if (num == 0) {
        return MKV_OK;
    }
    if ((grain.local == 1) && (grain.remote == 1)) {
        return mkv_plan_merge_units(plan, &plan->parts[index], units->local,
                                    units->remote, num);
    }

    ids = malloc(2 * (size_t)num * sizeof(*ids));
    if (ids == NULL) {
        return MKV_ERR_NOMEM;
    }
    mkv_blocks_expand(units->local, grain.local, num, ids);
    mkv_blocks_expand(units->remote, grain.remote, num, ids + num);
    status = mkv_plan_merge_units(plan, &plan->parts[index], ids, ids + num, num);
    free(ids);
    return status;
}

/* Add a pair with all pairs that adjoin it */
static mkv_stretch_t mkv_map_stretch(const mkv_map_t *map, const mkv_pair_t *pair)
{
    mkv_stretch_t stretch = mkv_stretch_of(pair);
    uint32_t next;

    for (next = pair->next; next != MKV_NO_PAIR; next = map->pairs[next].next) {
        mkv_stretch_add(&stretch, &map->pairs[next]);
    }
    return stretch;
}

static void mkv_plan_sum(mkv_plan_t *plan)
{
    const mkv_plan_part_t *part;
    const mkv_pair_t *pair;
    mkv_stretch_t stretch;
    uint32_t i;

    for (i = 0; i < plan->map->num_pairs; ++i) {
        pair = &plan->map->pairs[i];
        part = &plan->parts[pair->component];
        plan->num_bytes += part->num_units * pair->unit_bytes;
        if (pair->prev == MKV_NO_PAIR) {
            stretch = mkv_map_stretch(plan->map, pair);
            plan->num_elements += stretch.is_dense
                                      ? part->num_runs
                                      : (uint64_t)part->num_units * stretch.pieces;
        }
    }
}

/* Free the plan's memory outside the context's lists */
static void mkv_plan_discard(mkv_plan_t *plan)
{
    uint32_t i;

    for (i = 0; i < plan->map->num_components; ++i) {
        free(plan->parts[i].runs);
    }
    for (i = 0; (plan->bytes != NULL) && (i < plan->map->num_pairs); ++i) {
        mkv_byte_list_cleanup(&plan->bytes[i]);
    }
    free(plan->bytes);
    free(plan);
}

void mkv_plan_free(mkv_plan_t *plan)
{
    mkv_list_cache_forget(&plan->lists);
    mkv_list_del(&plan->list);
    --plan->map->num_uses;
    mkv_plan_discard(plan);
}

mkv_plan_t *mkv_plan_new(mkv_map_t *map, uint32_t flags)
{
    size_t size = sizeof(mkv_plan_t) + map->num_components * sizeof(mkv_plan_part_t);
    mkv_plan_t *plan = calloc(1, size);

    if (plan == NULL) {
        return NULL;
    }
    mkv_list_init(&plan->list);
    mkv_list_init(&plan->lists);
    plan->ctx = map->ctx;
    plan->map = map;
    plan->flags = flags;
    plan->memory = size;
    return plan;
}

void mkv_plan_add(mkv_plan_t *plan)
{
    mkv_map_t *map = plan->map;

    mkv_list_add_tail(&map->plans, &plan->list);
    plan->serial = ++map->ctx->last_plan;
    ++map->num_uses;
    ++map->remote->count->plans_created;
    ++map->ctx->count.plans_created;
}

mkv_status_t mkv_plan_make(mkv_map_t *map, const mkv_units_t *units, size_t num_units,
                           uint32_t flags, mkv_plan_t **plan_p)
{
    mkv_status_t status;
    mkv_plan_t *plan;
    size_t i;

    status = mkv_plan_check(map, units, num_units, flags);
    if (status != MKV_OK) {
        return status;
    }

    plan = mkv_plan_new(map, flags);
    if (plan == NULL) {
        return mkv_error(&map->ctx->log, MKV_ERR_NOMEM, "no memory for a plan");
    }
    for (i = 0; i < num_units; ++i) {
        status = mkv_plan_merge(plan, &units[i]);
        if (status != MKV_OK) {
            mkv_plan_discard(plan);
            return mkv_error(&map->ctx->log, status, "no memory for %u blocks",
                             units[i].num_local);
        }
    }

    mkv_plan_sum(plan);
    *plan_p = plan;
    return MKV_OK;
}

mkv_status_t mkv_plan_create(mkv_map_t *map, const mkv_units_t *units, size_t num_units,
                             uint32_t flags, mkv_plan_t **plan_p)
{
    static const uint32_t known = MKV_PLAN_KEEP_ORDER | MKV_PLAN_UNCHECKED;
    mkv_status_t status;

    MKV_HOLD(map->ctx, "plan_create", return MKV_ERR_INVALID);
    if (flags & ~known) {
        return mkv_error(&map->ctx->log, MKV_ERR_UNSUPPORTED,
                         "plan_create: flags 0x%x, libmorikv %s supports 0x%x", flags,
                         mkv_version_string(), known);
    }
    status = mkv_plan_make(map, units, num_units, flags, plan_p);
    if (status == MKV_OK) {
        mkv_enter(map->ctx);
        mkv_plan_add(*plan_p);
        mkv_leave(map->ctx);
    }
    return status;
}

mkv_status_t mkv_plan_query(const mkv_plan_t *plan, mkv_plan_attr_t *attr)
{
    mkv_plan_attr_t values = {.size = sizeof(values),
                              .num_elements = plan->num_elements,
                              .bytes = plan->num_bytes,
                              .memory = plan->memory};
    uint32_t i;

    MKV_HOLD(plan->ctx, "plan_query", return MKV_ERR_INVALID);
    for (i = 0; (plan->bytes != NULL) && (i < plan->map->num_pairs); ++i) {
        values.num_runs += plan->bytes[i].num;
    }
    for (i = 0; i < plan->map->num_components; ++i) {
        values.num_units += plan->parts[i].num_units;
        values.num_runs += plan->parts[i].num_runs;
    }
    return mkv_struct_write(&plan->ctx->log, &mkv_struct_plan_attr, &values, attr);
}

mkv_status_t mkv_plan_destroy(mkv_plan_t *plan)
{
    mkv_ctx_t *ctx = plan->ctx;

    if (mkv_ctx_is_forked(ctx)) {
        return MKV_OK; /* the object is the parent's */
    }
    MKV_HOLD(ctx, "plan_destroy", return MKV_ERR_INVALID);
    mkv_enter(ctx);
    if (plan->num_posts > 0) {
        return mkv_leave_status(
            ctx, mkv_error(&ctx->log, MKV_ERR_BUSY,
                           "the plan is used by %u posts: wait for their end",
                           plan->num_posts));
    }
    mkv_plan_free(plan);
    return mkv_leave_status(ctx, MKV_OK);
}
