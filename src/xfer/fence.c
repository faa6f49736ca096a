/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The caller's fence. Bytes that a NIC has written to a GPU are not seen by a kernel
 * that runs already, and with some NICs not by the next one either, until somebody who
 * knows the GPU has seen to it.
 */

#include "xfer/fence.h"

#include <stdlib.h>

/* Where units of a region lie; neighbours become one range */
typedef struct mkv_ranges {
    mkv_range_t *ranges;
    size_t num, max;
    bool has_failed;
} mkv_ranges_t;

/* @return Whether it belongs to the last range, in front, behind, or as a unit of which
 * another token came before. */
static bool mkv_range_takes(mkv_range_t *last, char *address, uint64_t length)
{
    char *base = last->address;

    if (base == address + length) { /* units that are counted from the end */
        last->address = address;
        last->length += length;
        return true;
    }
    if (base + last->length == address) {
        last->length += length;
        return true;
    }
    return (base == address) || (base + last->length == address + length);
}

static void mkv_ranges_add(mkv_ranges_t *ranges, char *address, uint64_t length)
{
    size_t max = ranges->max * 2 + 64;
    mkv_range_t *grown;

    if ((ranges->num > 0) &&
        mkv_range_takes(&ranges->ranges[ranges->num - 1], address, length)) {
        return;
    }
    if (ranges->num == ranges->max) {
        grown = realloc(ranges->ranges, max * sizeof(*grown));
        if (grown == NULL) {
            ranges->has_failed = true;
            return;
        }
        ranges->ranges = grown;
        ranges->max = max;
    }
    ranges->ranges[ranges->num++] = (mkv_range_t){address, length};
}

/* READ: what came is what the caller has posted, and the whole units of it */
static void mkv_ranges_add_pair(mkv_ranges_t *ranges, const mkv_leg_t *leg,
                                const mkv_pair_t *pair)
{
    uint32_t component = leg->map->components[pair->component].component;
    uint32_t split = mkv_map_split(leg->map, pair->component);
    const mkv_units_t *units;
    uint64_t address;
    uint32_t i, j;

    for (i = 0; i < leg->num_units; ++i) {
        units = &leg->units[i];
        for (j = 0; (units->component == component) && (j < units->num_local); ++j) {
            address = mkv_extent_unit(&pair->mine, units->local[j] / split);
            mkv_ranges_add(ranges, (char *)(uintptr_t)address, pair->mine.unit_bytes);
        }
    }
}

/* Of legs whose peer's policy is the hook. @return Some of their memory is a GPU's. */
static bool mkv_fence_list(const mkv_xfer_t *xfer, mkv_ranges_t *ranges)
{
    const mkv_pair_t *pair;
    bool has_gpu = false;
    const mkv_map_t *map;
    uint32_t i, j;

    for (i = 0; i < xfer->num_legs; ++i) {
        map = xfer->legs[i].map;
        if (mkv_peer_fence(xfer->legs[i].peer) != MKV_FENCE_HOOK) {
            continue;
        }
        for (j = 0; j < map->num_pairs; ++j) {
            pair = &map->pairs[j];
            if (pair->local->info.mem_type == UCS_MEMORY_TYPE_HOST) {
                continue;
            }
            has_gpu = true;
            if (!xfer->is_active) {
                mkv_ranges_add_pair(ranges, &xfer->legs[i], pair);
            }
        }
    }
    return has_gpu;
}

static void mkv_fence_ask(mkv_xfer_t *xfer, const mkv_ranges_t *ranges)
{
    mkv_news_t *event = mkv_event_add(xfer->ctx, MKV_EV_FENCE);

    xfer->fence = MKV_FENCE_ASKED;
    xfer->fence_ranges = ranges->ranges;
    if (event != NULL) {
        event->peer = xfer->legs[0].peer->remote.peer;
        event->xfer = xfer;
        event->id = xfer->id;
        event->epoch = xfer->epoch;
        event->user_data = xfer->user_data;
        event->data = ranges->ranges;
        event->length = ranges->num * sizeof(*ranges->ranges);
    }
}

static mkv_status_t __attribute__((noinline)) mkv_fence_start(mkv_xfer_t *xfer)
{
    mkv_ranges_t ranges = {0};

    if (!mkv_fence_list(xfer, &ranges)) {
        return MKV_OK;
    }
    if (ranges.has_failed) {
        free(ranges.ranges);
        return MKV_ERR_NOMEM;
    }
    mkv_fence_ask(xfer, &ranges);
    return MKV_INPROGRESS;
}

mkv_status_t mkv_fence_check(mkv_xfer_t *xfer)
{
    if (xfer->fence != MKV_FENCE_NOT_ASKED) {
        return (xfer->fence == MKV_FENCE_OVER) ? MKV_OK : MKV_INPROGRESS;
    }
    return (xfer->role == MKV_DST) ? mkv_fence_start(xfer) : MKV_OK;
}

void mkv_fence_cleanup(mkv_xfer_t *xfer)
{
    free(xfer->fence_ranges);
}
