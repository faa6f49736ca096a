/* SPDX-License-Identifier: BSD-3-Clause */

#include "post/post_units.h"

#include "plan/blocks.h"
#include "post/post_cursor.h"
#include "xfer/expose.h"

/* Selected part of a run; 0 blocks: no part is selected */
static uint32_t mkv_run_select(const mkv_run_t *whole, const mkv_sel_t *sel,
                               mkv_run_t *run)
{
    if (mkv_sel_has_positions(sel)) {
        return mkv_run_clip(whole, sel->pos_lo, sel->pos_hi, run);
    }
    *run = *whole;
    return run->count;
}

/* The blocks of a run on the side that exposes: the passive one */
static uint32_t mkv_run_exposed(const mkv_leg_t *leg, const mkv_run_t *run)
{
    return leg->xfer->is_active ? run->remote : run->local;
}

static bool mkv_part_find_foreign(const mkv_leg_t *leg, const mkv_plan_part_t *part,
                                  const mkv_unit_set_t *set, const mkv_sel_t *sel,
                                  uint32_t *id_p)
{
    mkv_run_t run;
    size_t i;

    for (i = 0; i < part->num_runs; ++i) {
        if ((mkv_run_select(&part->runs[i], sel, &run) > 0) &&
            mkv_unit_set_find(set, mkv_run_exposed(leg, &run), run.count, 0, id_p)) {
            return true;
        }
    }
    return false;
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

/* Search a plan once, as it does not change, and not at all where no block can occur
 * twice */
static mkv_status_t mkv_part_check_distinct(mkv_plan_part_t *part, uint32_t *id_p)
{
    mkv_status_t status;

    if ((part->num_runs <= 1) ||
        __atomic_load_n(&part->is_distinct, __ATOMIC_RELAXED)) {
        return MKV_OK;
    }
    status = mkv_part_find_twice(part, id_p);
    if (status == MKV_OK) {
        __atomic_store_n(&part->is_distinct, true, __ATOMIC_RELAXED);
    }
    return status;
}

/* Whether any pair of the component is selected */
static bool mkv_sel_has_component(const mkv_sel_t *sel, const mkv_map_t *map,
                                  uint32_t component)
{
    uint32_t i;

    for (i = 0; i < map->num_pairs; ++i) {
        if ((map->pairs[i].component == component) &&
            mkv_sel_has_pair(sel, map, &map->pairs[i])) {
            return true;
        }
    }
    return false;
}

static mkv_status_t mkv_post_check_part(const mkv_leg_t *leg, mkv_plan_t *plan,
                                        uint32_t index, const mkv_sel_t *sel)
{
    const mkv_log_t *log = &leg->xfer->ctx->log;
    uint32_t component = plan->map->components[index].component, id;
    mkv_plan_part_t *part = &plan->parts[index];
    mkv_status_t status = MKV_OK;

    if (mkv_part_find_foreign(leg, part, mkv_leg_exposed_set(leg, component), sel,
                              &id)) {
        return mkv_error(log, MKV_ERR_BOUNDS,
                         "post: component %u: %s%s has not exposed block %u to "
                         "transfer %llu; expected blocks of its exposed lists",
                         component, leg->xfer->is_active ? "peer " : "",
                         leg->xfer->is_active ? leg->peer->name : leg->xfer->ctx->name,
                         id / mkv_map_parts(plan->map, index, leg->xfer->is_active),
                         (unsigned long long)leg->xfer->id);
    }
    if ((leg->xfer->mode == MKV_WRITE) && leg->xfer->is_active) {
        status = mkv_part_check_distinct(part, &id);
    }
    if (status == MKV_ERR_DUPLICATE) {
        mkv_error(log, status,
                  "post: component %u: block %u of peer %s occurs twice in the plan",
                  component, id / mkv_map_parts(plan->map, index, true),
                  leg->peer->name);
    }
    return status;
}

/* Peer's units that an entry of a plan of bytes touches, piece by piece */
static bool mkv_bytes_find_foreign(const mkv_byte_list_t *list, size_t index,
                                   const mkv_extent_t *extent, uint32_t parts,
                                   const mkv_unit_set_t *set, uint32_t *id_p)
{
    uint64_t at = list->pieces[index].remote, i, first, last, swap;

    for (i = 0; i < mkv_byte_list_count(list, index); ++i) {
        first = at / extent->stride;
        last = (at + list->pieces[index].length - 1) / extent->stride;
        if (extent->is_reverse) {
            swap = extent->n_units - 1 - first;
            first = extent->n_units - 1 - last;
            last = swap;
        }
        if (mkv_unit_set_find(set, (uint32_t)first * parts,
                              (uint32_t)(last - first + 1) * parts, 0, id_p)) {
            return true;
        }
        at += (list->steps == NULL) ? 0 : list->steps[index].remote;
    }
    return false;
}

static mkv_status_t mkv_post_check_bytes(const mkv_leg_t *leg, const mkv_plan_t *plan,
                                         const mkv_pair_t *pair)
{
    const mkv_byte_list_t *list = &plan->bytes[pair - plan->map->pairs];
    uint32_t component = plan->map->components[pair->component].component, id;
    const mkv_unit_set_t *set = mkv_leg_exposed_set(leg, component);
    const mkv_log_t *log = &leg->xfer->ctx->log;
    uint32_t parts = plan->map->sharing[pair->component].remote_parts;
    size_t i;

    for (i = 0; i < list->num; ++i) {
        if (mkv_bytes_find_foreign(list, i, &pair->theirs, parts, set, &id)) {
            return mkv_error(
                log, MKV_ERR_BOUNDS,
                "post: component %u layer %d part %u: %llu bytes from %llu "
                "on: peer %s has not exposed block %u to transfer %llu; expected blocks "
                "of its exposed lists",
                component, pair->layer, pair->part,
                (unsigned long long)list->pieces[i].length,
                (unsigned long long)list->pieces[i].remote, leg->peer->name,
                id / mkv_map_parts(plan->map, pair->component, true),
                (unsigned long long)leg->xfer->id);
        }
    }
    if ((leg->xfer->mode == MKV_WRITE) && list->has_overlap) {
        return mkv_error(log, MKV_ERR_DUPLICATE,
                         "post: component %u layer %d part %u: byte %llu of peer %s "
                         "occurs twice in the plan",
                         component, pair->layer, pair->part,
                         (unsigned long long)list->overlap, leg->peer->name);
    }
    return MKV_OK;
}

static mkv_status_t mkv_post_check_plan_bytes(mkv_leg_t *leg, const mkv_plan_t *plan,
                                              const mkv_sel_t *sel)
{
    const mkv_map_t *map = plan->map;
    mkv_status_t status = MKV_OK;
    uint32_t i;

    for (i = 0; (status == MKV_OK) && (i < map->num_pairs); ++i) {
        if (mkv_sel_has_pair(sel, map, &map->pairs[i])) {
            status = mkv_post_check_bytes(leg, plan, &map->pairs[i]);
        }
    }
    if ((status == MKV_OK) && (sel->fields == 0)) {
        __atomic_store_n(&leg->checked_plan, plan->serial, __ATOMIC_RELAXED);
    }
    return status;
}

mkv_status_t mkv_post_check_units(mkv_leg_t *leg, mkv_plan_t *plan,
                                  const mkv_sel_t *sel)
{
    static const mkv_sel_t all = {.size = sizeof(all)};
    mkv_status_t status = MKV_OK;
    uint32_t i;

    if (!leg->xfer->is_active && (mkv_leg_index_exposed(leg) != MKV_OK)) {
        return mkv_error(&leg->xfer->ctx->log, MKV_ERR_NOMEM,
                         "no memory for a set of %u components", leg->num_units);
    }
    if ((plan->flags & MKV_PLAN_UNCHECKED) ||
        (__atomic_load_n(&leg->checked_plan, __ATOMIC_RELAXED) == plan->serial)) {
        return MKV_OK;
    }
    if (plan->bytes != NULL) {
        return mkv_post_check_plan_bytes(leg, plan, sel);
    }
    for (i = 0; (status == MKV_OK) && (i < plan->map->num_components); ++i) {
        status = mkv_post_check_part(leg, plan, i, &all);
    }
    if (status == MKV_OK) {
        __atomic_store_n(&leg->checked_plan, plan->serial, __ATOMIC_RELAXED);
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
            if ((post->plan->bytes != NULL) && (post->plan->bytes[i].num > 0)) {
                post->leg->posted_bytes |= 1ull << map->pairs[i].component;
            }
            post->leg->posted_sums[i] += sums[map->pairs[i].component];
        }
    }
}

static bool mkv_pair_lacks_key(const mkv_plan_t *plan, const mkv_pair_t *pair)
{
    return ((plan->bytes != NULL) || (plan->parts[pair->component].num_units > 0)) &&
           (__atomic_load_n(&pair->rmem->rkey, __ATOMIC_ACQUIRE) == NULL);
}

mkv_status_t mkv_post_check_keys(const mkv_leg_t *leg, const mkv_plan_t *plan,
                                 const mkv_sel_t *sel)
{
    const mkv_map_t *map = plan->map;
    const mkv_pair_t *pair;
    uint32_t i;

    if (!__atomic_load_n(&map->lacks_keys, __ATOMIC_RELAXED)) {
        return MKV_OK;
    }
    for (i = 0; i < map->num_pairs; ++i) {
        pair = &map->pairs[i];
        if (mkv_sel_has_pair(sel, map, pair) && mkv_pair_lacks_key(plan, pair)) {
            return mkv_error(&leg->xfer->ctx->log, MKV_ERR_PAIRING,
                             "post: component %u layer %d part %u: peer %s has no map "
                             "of it and has sent no key",
                             pair->local->info.component, pair->layer, pair->part,
                             leg->peer->name);
        }
    }
    return MKV_OK;
}

/* ---- What both sides of a PULL must agree on --------------------------------------
 */

static inline uint64_t mkv_post_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9fb21c651e98df25ull;
    return hash ^ (hash >> 29);
}

static uint64_t mkv_post_mix_place(uint64_t hash, const mkv_place_t *place,
                                   uint64_t row, uint64_t col)
{
    const uint64_t words[] = {place->base,  place->stride, place->step,
                              place->split, row,           col};
    size_t i;

    for (i = 0; i < sizeof(words) / sizeof(words[0]); ++i) {
        hash = mkv_post_mix(hash, words[i]);
    }
    return hash;
}

/* Add regions and byte ranges: the owner's, the reader's, and the shared ones */
static uint64_t mkv_post_mix_pair(const mkv_pair_t *pair, uint64_t units,
                                  bool is_reader)
{
    const mkv_grid_t *grid = &pair->grid;
    uint64_t here, there, hash = mkv_post_mix(units, pair->unit_bytes);

    here = mkv_post_mix_place(pair->local->id, &pair->here, grid->local_row,
                              grid->local_col);
    there = mkv_post_mix_place(pair->remote_id, &pair->there, grid->remote_row,
                               grid->remote_col);
    hash = mkv_post_mix(mkv_post_mix(hash, grid->length), grid->rows);
    hash = mkv_post_mix(hash, grid->cols);
    hash = mkv_post_mix(hash, is_reader ? there : here);
    return mkv_post_mix(hash, is_reader ? here : there);
}

uint64_t mkv_post_digest(const mkv_post_t *post, uint64_t *bytes_p)
{
    const mkv_map_t *map = post->plan->map;
    bool is_reader = post->leg->xfer->is_active;
    uint64_t digest = 0, units;
    const mkv_pair_t *pair;

    *bytes_p = 0;
    for (pair = map->pairs; pair < map->pairs + map->num_pairs; ++pair) {
        if (mkv_sel_has_pair(&post->sel, map, pair)) {
            units = mkv_post_count_units(post, mkv_post_part(post, pair));
            digest += mkv_post_mix_pair(pair, units, is_reader);
            *bytes_p += units * pair->unit_bytes;
        }
    }
    return digest;
}
