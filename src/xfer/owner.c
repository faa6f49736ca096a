/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Two transfers that write to one block at the same time leave mixed data, and no side
 * of either detects it. The cause is an allocator that reused a block before it was
 * quiet. So each block that is exposed for writing has a count of the legs that hold it
 * and are not quiet. A count is a byte, with one load and one store when the block is
 * taken and when it is returned. The other transfer is searched for only when there is
 * an overlap. Counts are modulo 256, so 256 transfers with one block count as none.
 * Lists of tokens are counted apart: their numbers have another meaning, and two
 * transfers may write to two tokens of one block.
 */

#include "xfer/owner.h"

#include <stdlib.h>
#include <string.h>

/* Regions with more blocks get room for the largest exposed id only */
#define MKV_OWNERS_AT_ONCE (1u << 24)

static bool mkv_owners_apply(const mkv_xfer_t *xfer)
{
    return (xfer->ctx->opts->overlap != MKV_OVERLAP_ALLOW) && (xfer->mode == MKV_WRITE);
}

/* ---- Counting -------------------------------------------------------------------- */

/* Count the blocks. The loop reads four counts before it changes one, so that the
 * compiler keeps the ids in registers and adds in memory.
 * @return Not 0 if one of the blocks was counted before. */
static unsigned mkv_owners_count(uint8_t *counts, const uint32_t *blocks, uint32_t num)
{
    const uint32_t *fours = blocks + num / 4 * 4, *end = blocks + num;
    uint32_t a, b, c, d;
    uint8_t seen = 0;

    for (; blocks < fours; blocks += 4) {
        a = blocks[0], b = blocks[1], c = blocks[2], d = blocks[3];
        seen |= counts[a];
        seen |= counts[b];
        seen |= counts[c];
        seen |= counts[d];
        ++counts[a];
        ++counts[b];
        ++counts[c];
        ++counts[d];
    }
    for (; blocks < end; ++blocks) {
        seen |= counts[*blocks];
        ++counts[*blocks];
    }
    return seen;
}

static void mkv_owners_uncount(uint8_t *counts, const uint32_t *blocks, uint32_t num)
{
    const uint32_t *fours = blocks + num / 4 * 4, *end = blocks + num;

    for (; blocks < fours; blocks += 4) {
        --counts[blocks[0]];
        --counts[blocks[1]];
        --counts[blocks[2]];
        --counts[blocks[3]];
    }
    for (; blocks < end; ++blocks) {
        --counts[*blocks];
    }
}

static bool mkv_leg_has_tokens(const mkv_leg_t *leg)
{
    return (leg->map->flags & MKV_MAP_TOKENS) != 0;
}

/* Index of the counts of a component's lists in this leg */
static uint32_t mkv_owners_of(const mkv_leg_t *leg, uint32_t component)
{
    return component + (mkv_leg_has_tokens(leg) ? MKV_MAX_COMPONENTS : 0);
}

static uint8_t *mkv_owners_counts(const mkv_leg_t *leg, uint32_t component)
{
    return leg->xfer->ctx->owners[mkv_owners_of(leg, component)];
}

static bool mkv_owners_count_all(const mkv_leg_t *leg, const mkv_units_t *units,
                                 size_t num_units)
{
    unsigned seen = 0;
    size_t i;

    for (i = 0; i < num_units; ++i) {
        seen |= mkv_owners_count(mkv_owners_counts(leg, units[i].component),
                                 units[i].local, units[i].num_local);
    }
    return seen != 0;
}

static void mkv_owners_uncount_all(const mkv_leg_t *leg, const mkv_units_t *units,
                                   size_t num_units)
{
    size_t i;

    for (i = 0; i < num_units; ++i) {
        mkv_owners_uncount(mkv_owners_counts(leg, units[i].component), units[i].local,
                           units[i].num_local);
    }
}

/* ---- Room ------------------------------------------------------------------------ */

/* Number of counters to have: all blocks of a region unless they are too many, so that
 * the list need not be searched for its largest id */
static uint64_t mkv_owners_needed(const mkv_leg_t *leg, const mkv_units_t *units)
{
    const mkv_map_component_t *component =
        mkv_map_component(leg->map, units->component);
    uint64_t num = (component == NULL) ? 0 : component->local_units;
    uint32_t i, most = 0;

    if (num <= MKV_OWNERS_AT_ONCE) {
        return num;
    }
    for (i = 0; i < units->num_local; ++i) {
        most = (units->local[i] > most) ? units->local[i] : most;
    }
    return (uint64_t)most + 1;
}

static bool mkv_owners_grow(mkv_ctx_t *ctx, uint32_t index, uint64_t num)
{
    uint8_t *counts;

    if (num <= ctx->num_owners[index]) {
        return true;
    }
    counts = calloc(num, 1);
    if (counts == NULL) {
        return false;
    }
    if (ctx->num_owners[index] > 0) {
        memcpy(counts, ctx->owners[index], ctx->num_owners[index]);
    }
    free(ctx->owners[index]);
    ctx->owners[index] = counts;
    ctx->num_owners[index] = num;
    return true;
}

static bool mkv_owners_make_room(const mkv_leg_t *leg, const mkv_units_t *units,
                                 size_t num_units)
{
    size_t i;

    for (i = 0; i < num_units; ++i) {
        if (!mkv_owners_grow(leg->xfer->ctx, mkv_owners_of(leg, units[i].component),
                             mkv_owners_needed(leg, &units[i]))) {
            return false;
        }
    }
    return true;
}

/* ---- Overlaps -------------------------------------------------------------------- */

typedef struct mkv_overlap_at {
    uint32_t component, block;
    bool is_token;
} mkv_overlap_at_t;

/* Whether a block is counted at all */
static bool mkv_owners_find_counted(const mkv_leg_t *leg, const mkv_units_t *units,
                                    size_t num_units, mkv_overlap_at_t *at)
{
    size_t i;
    uint32_t k;

    for (i = 0; i < num_units; ++i) {
        for (k = 0; k < units[i].num_local; ++k) {
            if (mkv_owners_counts(leg, units[i].component)[units[i].local[k]] != 0) {
                at->is_token = mkv_leg_has_tokens(leg);
                at->component = units[i].component;
                at->block = units[i].local[k];
                return true;
            }
        }
    }
    return false;
}

/* Legs of one transfer may share blocks, and a list may name one twice. So the
 * transfer's own counts are taken away meanwhile */
static bool mkv_owners_find_other(mkv_leg_t *mine, const mkv_units_t *units,
                                  size_t num_units, mkv_overlap_at_t *at)
{
    mkv_xfer_t *xfer = mine->xfer;
    mkv_leg_t *leg, *end = xfer->legs + xfer->num_legs;
    bool is_found;

    mkv_owners_uncount_all(mine, units, num_units);
    for (leg = xfer->legs; leg < end; ++leg) {
        if (leg->is_owner) {
            mkv_owners_uncount_all(leg, leg->units, leg->num_units);
        }
    }
    is_found = mkv_owners_find_counted(mine, units, num_units, at);
    for (leg = xfer->legs; leg < end; ++leg) {
        if (leg->is_owner) {
            (void)mkv_owners_count_all(leg, leg->units, leg->num_units);
        }
    }
    (void)mkv_owners_count_all(mine, units, num_units);
    return is_found;
}

static bool mkv_leg_owns(const mkv_leg_t *leg, const mkv_overlap_at_t *at)
{
    uint32_t i, k;

    if (!leg->is_owner || (mkv_leg_has_tokens(leg) != at->is_token)) {
        return false;
    }
    for (i = 0; i < leg->num_units; ++i) {
        for (k = 0; (leg->units[i].component == at->component) &&
                    (k < leg->units[i].num_local);
             ++k) {
            if (leg->units[i].local[k] == at->block) {
                return true;
            }
        }
    }
    return false;
}

static const mkv_xfer_t *mkv_owner_of(const mkv_xfer_t *xfer,
                                      const mkv_overlap_at_t *at)
{
    mkv_ctx_t *ctx = xfer->ctx;
    const mkv_xfer_t *other;
    uint32_t i;

    mkv_list_for_each(other, &ctx->xfers, list)
    {
        for (i = 0; (other != xfer) && (i < other->num_legs); ++i) {
            if (mkv_leg_owns(&other->legs[i], at)) {
                return other;
            }
        }
    }
    return xfer;
}

/* Log the overlap, or refuse it. @return MKV_OK, MKV_ERR_DUPLICATE. */
static mkv_status_t mkv_owners_report(mkv_xfer_t *xfer, const mkv_overlap_at_t *at)
{
    const mkv_xfer_t *other = mkv_owner_of(xfer, at);
    mkv_ctx_t *ctx = xfer->ctx;
    char text[128];

    mkv_text(
        text, sizeof(text),
        "expose: component %u %s %u is exposed to transfer %llu epoch %u, which is "
        "not quiet",
        at->component, at->is_token ? "token" : "block", at->block,
        (unsigned long long)other->id, other->epoch);
    if (ctx->opts->overlap == MKV_OVERLAP_REFUSE) {
        return mkv_error(&ctx->log, MKV_ERR_DUPLICATE, "%s", text);
    }
    ctx->has_warned_of_overlap = true; /* the next overlaps may concern all transfers */
    mkv_log_warn(
        ctx,
        "transfer %llu: %s; further overlaps are not logged, set OVERLAP=refuse to "
        "reject them or OVERLAP=allow if intended",
        (unsigned long long)xfer->id, text);
    return MKV_OK;
}

/* ---- Taking and returning blocks ------------------------------------------------- */

mkv_status_t mkv_owners_take(mkv_leg_t *leg, const mkv_units_t *units, size_t num_units)
{
    mkv_status_t status = MKV_OK;
    mkv_xfer_t *xfer = leg->xfer;
    mkv_overlap_at_t at;

    if (!mkv_owners_apply(xfer) || !mkv_owners_make_room(leg, units, num_units)) {
        return MKV_OK;
    }
    if (mkv_owners_count_all(leg, units, num_units) &&
        !xfer->ctx->has_warned_of_overlap &&
        mkv_owners_find_other(leg, units, num_units, &at)) {
        status = mkv_owners_report(xfer, &at);
    }
    if (status != MKV_OK) {
        mkv_owners_uncount_all(leg, units, num_units);
        return status;
    }
    leg->is_owner = true;
    return MKV_OK;
}

void mkv_owners_return(mkv_leg_t *leg, const mkv_units_t *units, size_t num_units)
{
    if (leg->is_owner) {
        leg->is_owner = false;
        mkv_owners_uncount_all(leg, units, num_units);
    }
}

void mkv_owners_give(mkv_xfer_t *xfer)
{
    uint32_t i;

    for (i = 0; i < xfer->num_legs; ++i) {
        mkv_owners_return(&xfer->legs[i], xfer->legs[i].units, xfer->legs[i].num_units);
    }
}

void mkv_owners_cleanup(mkv_ctx_t *ctx)
{
    uint32_t i;

    for (i = 0; i < 2 * MKV_MAX_COMPONENTS; ++i) {
        free(ctx->owners[i]);
    }
}
