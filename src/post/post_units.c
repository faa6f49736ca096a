/* SPDX-License-Identifier: BSD-3-Clause */

#include "post/post_units.h"

#include "cache/blocks.h"
#include "post/post_cursor.h"

static const mkv_unit_set_t *mkv_leg_exposed_set(const mkv_leg_t *leg,
                                                 uint32_t component)
{
    static const mkv_unit_set_t none;
    uint32_t i;

    for (i = 0; i < leg->num_units; ++i) {
        if (leg->units[i].component == component) {
            return &leg->sets[i];
        }
    }
    return &none;
}

/* A part of a run, or all of it; 0 blocks: nothing is selected of it */
static uint32_t mkv_run_select(const mkv_run_t *whole, const mkv_sel_t *sel,
                               mkv_run_t *run)
{
    if (mkv_sel_has_positions(sel)) {
        return mkv_run_clip(whole, sel->pos_lo, sel->pos_hi, run);
    }
    *run = *whole;
    return run->count;
}

static int mkv_part_find_foreign(const mkv_plan_part_t *part, const mkv_unit_set_t *set,
                                 const mkv_sel_t *sel, uint32_t *id_p)
{
    mkv_run_t run;
    size_t i;

    for (i = 0; i < part->num_runs; ++i) {
        if ((mkv_run_select(&part->runs[i], sel, &run) > 0) &&
            mkv_unit_set_find(set, run.remote, run.count, 0, id_p)) {
            return 1;
        }
    }
    return 0;
}

/* Puts of one post have no order: a block that occurs twice would hold either */
static mkv_status_t mkv_part_find_twice(const mkv_plan_part_t *part, uint32_t *id_p)
{
    mkv_status_t status = MKV_OK;
    mkv_unit_set_t seen = {0};
    size_t i;

    for (i = 0; (status == MKV_OK) && (i < part->num_runs); ++i) {
        if (mkv_unit_set_find(&seen, part->runs[i].remote, part->runs[i].count, 1,
                              id_p)) {
            status = MKV_ERR_DUPLICATE;
        } else if (mkv_unit_set_add(&seen, part->runs[i].remote, part->runs[i].count) !=
                   0) {
            status = MKV_ERR_NOMEM;
        }
    }
    mkv_unit_set_cleanup(&seen);
    return status;
}

/* Whether any pair of the component is selected */
static int mkv_sel_has_component(const mkv_sel_t *sel, const mkv_map_t *map,
                                 uint32_t component)
{
    uint32_t i;

    for (i = 0; i < map->num_pairs; ++i) {
        if ((map->pairs[i].component == component) &&
            mkv_sel_has_pair(sel, map, &map->pairs[i])) {
            return 1;
        }
    }
    return 0;
}

static mkv_status_t mkv_post_check_part(const mkv_leg_t *leg, const mkv_plan_t *plan,
                                        uint32_t index, const mkv_sel_t *sel)
{
    const mkv_log_t *log = &leg->xfer->ctx->log;
    uint32_t component = plan->map->components[index].component, id;
    const mkv_plan_part_t *part = &plan->parts[index];
    mkv_status_t status = MKV_OK;

    if (mkv_part_find_foreign(part, mkv_leg_exposed_set(leg, component), sel, &id)) {
        return mkv_error(log, MKV_ERR_BOUNDS,
                         "post: component %u: peer %s has not exposed block %u to "
                         "transfer %llu",
                         component, leg->peer->name, id,
                         (unsigned long long)leg->xfer->id);
    }
    if (leg->xfer->mode == MKV_WRITE) {
        status = mkv_part_find_twice(part, &id);
    }
    if (status == MKV_ERR_DUPLICATE) {
        mkv_error(log, status,
                  "post: component %u: block %u of peer %s occurs twice in the plan",
                  component, id, leg->peer->name);
    }
    return status;
}

mkv_status_t mkv_post_check_units(mkv_leg_t *leg, const mkv_plan_t *plan,
                                  const mkv_sel_t *sel)
{
    static const mkv_sel_t all = {.size = sizeof(all)};
    mkv_status_t status = MKV_OK;
    uint32_t i;

    if ((plan->flags & MKV_PLAN_UNCHECKED) || (leg->checked_plan == plan->serial)) {
        return MKV_OK;
    }
    for (i = 0; (status == MKV_OK) && (i < plan->map->num_components); ++i) {
        status = mkv_post_check_part(leg, plan, i, &all);
    }
    if (status == MKV_OK) {
        leg->checked_plan = plan->serial;
        return MKV_OK;
    }
    for (i = 0, status = MKV_OK; (status == MKV_OK) && (i < plan->map->num_components);
         ++i) {
        if (mkv_sel_has_component(sel, plan->map, i)) {
            status = mkv_post_check_part(leg, plan, i, sel);
        }
    }
    return status;
}

static uint64_t mkv_part_sum(const mkv_plan_part_t *part, const mkv_sel_t *sel)
{
    uint64_t sum = 0;
    mkv_run_t run;
    uint32_t block;
    size_t i;

    if (!mkv_sel_has_positions(sel)) {
        return part->sum;
    }
    for (i = mkv_runs_find(part->runs, part->num_runs, sel->pos_lo);
         (i < part->num_runs) && (part->runs[i].pos < sel->pos_hi); ++i) {
        if (mkv_run_clip(&part->runs[i], sel->pos_lo, sel->pos_hi, &run) > 0) {
            for (block = 0; block < run.count; ++block) {
                sum += mkv_unit_mix(run.remote + block);
            }
        }
    }
    return sum;
}

void mkv_post_sum_units(const mkv_post_t *post)
{
    const mkv_map_t *map = post->plan->map;
    uint64_t sums[MKV_MAX_COMPONENTS];
    uint32_t i;

    post->leg->is_unchecked |= (post->plan->flags & MKV_PLAN_UNCHECKED) != 0;
    for (i = 0; i < map->num_components; ++i) {
        sums[i] = mkv_part_sum(&post->plan->parts[i], &post->sel);
    }
    for (i = 0; i < map->num_pairs; ++i) {
        if (mkv_sel_has_pair(&post->sel, map, &map->pairs[i])) {
            post->leg->posted_sums[i] += sums[map->pairs[i].component];
        }
    }
}
