/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Plans of bytes: pieces of memory by their offsets in two regions.
 *
 * A map never changes, so slow work is done without the context's lock. A piece must
 * not hold bytes between two units of a region, which belong to others; so a check of
 * the units that it touches shows whether it was exposed.
 */

#include "plan/plan.h"

#include "base/abi.h"

#include <stdlib.h>

static mkv_status_t mkv_bytes_check_entry(const mkv_map_t *map,
                                          const mkv_bytes_t *bytes, size_t index)
{
    bool is_known = (bytes->flags | bytes->reserved | bytes->reserved_end[0] |
                     bytes->reserved_end[1]) == 0;
    bool has_steps = (bytes->count != NULL);

    if (!is_known) {
        return mkv_error(&map->ctx->log, MKV_ERR_UNSUPPORTED,
                         "bytes[%zu]: flags or a reserved member is set, which "
                         "libmorikv %s does not support",
                         index, mkv_version_string());
    }
    if ((bytes->num > 0) &&
        ((bytes->local == NULL) || (bytes->remote == NULL) || (bytes->length == NULL) ||
         (has_steps != (bytes->local_stride != NULL)) ||
         (has_steps != (bytes->remote_stride != NULL)))) {
        return mkv_error(&map->ctx->log, MKV_ERR_INVALID,
                         "bytes[%zu]: an array of %llu entries is NULL: local, remote "
                         "and length are needed, and both strides with count",
                         index, (unsigned long long)bytes->num);
    }
    return MKV_OK;
}

/* Pairs are sorted by layer, component, part */
static int mkv_bytes_compare(const mkv_map_t *map, const mkv_bytes_t *bytes,
                             const mkv_pair_t *pair)
{
    uint32_t component = map->components[pair->component].component;

    if (bytes->layer != pair->layer) {
        return (bytes->layer < pair->layer) ? -1 : 1;
    }
    if (bytes->component != component) {
        return (bytes->component < component) ? -1 : 1;
    }
    return (int)bytes->part - (int)pair->part;
}

/* The first pair of these regions; map->num_pairs: there is none */
static uint32_t mkv_bytes_find_pair(const mkv_map_t *map, const mkv_bytes_t *bytes)
{
    uint32_t lo = 0, hi = map->num_pairs, mid;

    while (lo < hi) {
        mid = lo + (hi - lo) / 2;
        if (mkv_bytes_compare(map, bytes, &map->pairs[mid]) > 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return ((lo < map->num_pairs) &&
            (mkv_bytes_compare(map, bytes, &map->pairs[lo]) == 0))
               ? lo
               : map->num_pairs;
}

static mkv_status_t mkv_bytes_fault(const mkv_map_t *map, const mkv_bytes_t *bytes,
                                    const mkv_pair_t *pair, mkv_status_t status,
                                    const mkv_byte_fault_t *fault)
{
    const mkv_extent_t *extent = fault->is_remote ? &pair->theirs : &pair->mine;

    if (status == MKV_ERR_NOMEM) {
        return mkv_error(&map->ctx->log, status, "no memory for %llu pieces",
                         (unsigned long long)bytes->num);
    }
    if (status == MKV_ERR_INVALID) {
        return mkv_error(&map->ctx->log, status,
                         "component %u layer %d part %u: piece %zu: length %llu, "
                         "expected at least 1, and a count of 1 to 2^32 - 1",
                         bytes->component, bytes->layer, bytes->part, fault->index,
                         (unsigned long long)bytes->length[fault->index]);
    }
    return mkv_error(&map->ctx->log, status,
                     "component %u layer %d part %u: piece %zu: bytes [%llu, %llu) of "
                     "the region of %llu %s%s",
                     bytes->component, bytes->layer, bytes->part, fault->index,
                     (unsigned long long)fault->offset, (unsigned long long)fault->end,
                     (unsigned long long)extent->length,
                     fault->is_remote ? "at peer " : "here",
                     fault->is_remote ? map->remote->name : "");
}

/* The first piece of an entry that holds bytes of no unit; its count: none */
static uint64_t mkv_extent_find_gap(const mkv_extent_t *extent, uint64_t offset,
                                    uint64_t length, uint64_t step, uint64_t count)
{
    uint64_t i;

    for (i = 0; i < count; ++i) {
        if (!mkv_extent_holds(extent, offset + i * step, length)) {
            return i;
        }
    }
    return count;
}

static mkv_status_t mkv_bytes_check_gaps(const mkv_map_t *map, const mkv_bytes_t *bytes,
                                         const mkv_pair_t *pair, bool is_remote)
{
    const mkv_extent_t *extent = is_remote ? &pair->theirs : &pair->mine;
    const uint64_t *offsets = is_remote ? bytes->remote : bytes->local;
    const uint64_t *steps = is_remote ? bytes->remote_stride : bytes->local_stride;
    uint64_t count, step, at;
    size_t i;

    for (i = 0; i < bytes->num; ++i) {
        count = (bytes->count == NULL) ? 1 : bytes->count[i];
        step = (bytes->count == NULL) ? 0 : steps[i];
        at = mkv_extent_find_gap(extent, offsets[i], bytes->length[i], step, count);
        if (at < count) {
            return mkv_error(
                &map->ctx->log, MKV_ERR_BOUNDS,
                "component %u layer %d part %u: piece %zu: bytes [%llu, "
                "%llu) %s%s are not all of a unit: units have %llu bytes "
                "of each %llu",
                bytes->component, bytes->layer, bytes->part, i,
                (unsigned long long)(offsets[i] + at * step),
                (unsigned long long)(offsets[i] + at * step + bytes->length[i]),
                is_remote ? "at peer " : "here", is_remote ? map->remote->name : "",
                (unsigned long long)extent->unit_bytes,
                (unsigned long long)extent->stride);
        }
    }
    return MKV_OK;
}

static mkv_status_t mkv_bytes_check_pair(const mkv_map_t *map, const mkv_bytes_t *bytes,
                                         const mkv_pair_t *pair)
{
    mkv_status_t status = MKV_OK;

    if (!mkv_extent_is_dense(&pair->mine)) {
        status = mkv_bytes_check_gaps(map, bytes, pair, 0);
    }
    if ((status == MKV_OK) && !mkv_extent_is_dense(&pair->theirs)) {
        status = mkv_bytes_check_gaps(map, bytes, pair, 1);
    }
    return status;
}

static mkv_status_t mkv_bytes_take(const mkv_map_t *map, const mkv_bytes_t *bytes,
                                   size_t index, mkv_byte_list_t *lists)
{
    mkv_status_t status = mkv_bytes_check_entry(map, bytes, index);
    mkv_byte_fault_t fault = {0};
    const mkv_pair_t *pair;
    uint32_t at;

    if (status != MKV_OK) {
        return status;
    }
    at = mkv_bytes_find_pair(map, bytes);
    if (at == map->num_pairs) {
        return mkv_error(&map->ctx->log, MKV_ERR_PAIRING,
                         "the map has no component %u layer %d part %u",
                         bytes->component, bytes->layer, bytes->part);
    }
    if (lists[at].pieces != NULL) {
        return mkv_error(&map->ctx->log, MKV_ERR_DUPLICATE,
                         "component %u layer %d part %u occurs twice", bytes->component,
                         bytes->layer, bytes->part);
    }
    pair = &map->pairs[at];
    status = mkv_byte_list_make(bytes, pair->mine.length, pair->theirs.length,
                                &lists[at], &fault);
    return (status == MKV_OK) ? mkv_bytes_check_pair(map, bytes, pair)
                              : mkv_bytes_fault(map, bytes, pair, status, &fault);
}

static mkv_status_t mkv_plan_add_bytes(mkv_map_t *map, mkv_byte_list_t *lists,
                                       uint32_t flags, mkv_plan_t **plan_p)
{
    mkv_plan_t *plan = mkv_plan_new(map, flags);
    uint32_t i;

    if (plan == NULL) {
        return mkv_error(&map->ctx->log, MKV_ERR_NOMEM, "no memory for a plan");
    }
    plan->bytes = lists;
    plan->memory += map->num_pairs * sizeof(*lists);
    for (i = 0; i < map->num_pairs; ++i) {
        plan->num_elements += lists[i].num_pieces;
        plan->num_bytes += lists[i].bytes;
        plan->memory += lists[i].num * sizeof(*lists[i].pieces);
        plan->memory +=
            (lists[i].steps != NULL) ? lists[i].num * sizeof(*lists[i].steps) : 0;
    }
    mkv_enter(map->ctx);
    mkv_plan_add(plan);
    mkv_leave(map->ctx);
    *plan_p = plan;
    return MKV_OK;
}

mkv_status_t mkv_plan_create_bytes(mkv_map_t *map, const mkv_bytes_t *bytes,
                                   size_t num_bytes, uint32_t flags,
                                   mkv_plan_t **plan_p)
{
    mkv_byte_list_t *lists;
    mkv_status_t status = MKV_OK;
    uint32_t i;

    MKV_HOLD(map->ctx, "plan_create_bytes", return MKV_ERR_INVALID);
    if (flags & ~(uint32_t)MKV_PLAN_UNCHECKED) {
        return mkv_error(&map->ctx->log, MKV_ERR_UNSUPPORTED,
                         "plan_create_bytes: flags 0x%x, libmorikv %s supports 0x%x",
                         flags, mkv_version_string(), MKV_PLAN_UNCHECKED);
    }
    lists = calloc(map->num_pairs + 1, sizeof(*lists));
    if (lists == NULL) {
        return mkv_error(&map->ctx->log, MKV_ERR_NOMEM, "no memory for a plan");
    }
    for (i = 0; (status == MKV_OK) && (i < num_bytes); ++i) {
        status = mkv_bytes_take(map, &bytes[i], i, lists);
    }
    if (status == MKV_OK) {
        status = mkv_plan_add_bytes(map, lists, flags, plan_p);
    }
    if (status == MKV_OK) {
        return MKV_OK;
    }

    for (i = 0; i < map->num_pairs; ++i) {
        mkv_byte_list_cleanup(&lists[i]);
    }
    free(lists);
    return status;
}
