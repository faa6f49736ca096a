/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Two transfers that write to one block at once leave a mixture there, and neither side
 * of either can see it: an allocator that gave a block away before it was quiet. So
 * each block that is exposed to be written to has an owner until its transfer is quiet:
 * one look and one store a block.
 */

#include "xfer/owner.h"

#include <stdlib.h>
#include <string.h>

static bool mkv_owners_apply(const mkv_xfer_t *xfer)
{
    return (xfer->ctx->opts->overlap != MKV_OVERLAP_ALLOW) && !xfer->is_active &&
           (xfer->mode == MKV_WRITE);
}

/* @return Index of the first block that another transfer owns, or the number of blocks.
 */
static uint32_t mkv_owners_find_other(const mkv_xfer_t *xfer, const mkv_units_t *units)
{
    mkv_xfer_t *const *owners = xfer->ctx->owners[units->component];
    uint32_t num_owners = xfer->ctx->num_owners[units->component];
    const uint32_t *blocks = units->local;
    uint32_t num = units->num_local, i;

    for (i = 0; i < num; ++i) {
        if ((blocks[i] < num_owners) && (owners[blocks[i]] != NULL) &&
            (owners[blocks[i]] != xfer)) {
            break;
        }
    }
    return i;
}

mkv_status_t mkv_owners_check(mkv_xfer_t *xfer, const mkv_units_t *units,
                              size_t num_units)
{
    mkv_ctx_t *ctx = xfer->ctx;
    const mkv_xfer_t *other;
    char text[128];
    uint32_t i;
    size_t j;

    for (j = 0; mkv_owners_apply(xfer) && (j < num_units); ++j) {
        i = mkv_owners_find_other(xfer, &units[j]);
        if (i == units[j].num_local) {
            continue;
        }
        other = ctx->owners[units[j].component][units[j].local[i]];
        mkv_text(text, sizeof(text),
                 "expose: component %u block %u is exposed to transfer %llu epoch %u, "
                 "which is not quiet",
                 units[j].component, units[j].local[i], (unsigned long long)other->id,
                 other->epoch);
        if (ctx->opts->overlap == MKV_OVERLAP_REFUSE) {
            return mkv_error(&ctx->log, MKV_ERR_DUPLICATE, "%s", text);
        }
        if (!ctx->has_warned_of_overlap) { /* it may be all transfers from now on */
            ctx->has_warned_of_overlap = true;
            mkv_log_warn(ctx,
                         "transfer %llu: %s; said once, OVERLAP=refuse finds each, "
                         "allow is for who means it",
                         (unsigned long long)xfer->id, text);
        }
    }
    return MKV_OK;
}

/* Room for blocks below @a num */
static bool mkv_owners_grow(mkv_ctx_t *ctx, uint32_t component, uint64_t num)
{
    mkv_xfer_t **owners;

    if (num <= ctx->num_owners[component]) {
        return true;
    }
    num = (num * 3 / 2 > UINT32_MAX) ? UINT32_MAX : num * 3 / 2;
    owners = realloc(ctx->owners[component], num * sizeof(*owners));
    if (owners == NULL) {
        return false;
    }
    memset(owners + ctx->num_owners[component], 0,
           (num - ctx->num_owners[component]) * sizeof(*owners));
    ctx->owners[component] = owners;
    ctx->num_owners[component] = (uint32_t)num;
    return true;
}

static void mkv_owners_take_units(mkv_xfer_t *xfer, const mkv_units_t *units)
{
    const uint32_t *blocks = units->local;
    uint32_t num = units->num_local, most = 0, i;
    mkv_ctx_t *ctx = xfer->ctx;
    mkv_xfer_t **owners, **owner;

    for (i = 0; i < num; ++i) {
        most = (blocks[i] > most) ? blocks[i] : most;
    }
    if (!mkv_owners_grow(ctx, units->component, (uint64_t)most + 1)) {
        return;
    }
    owners = ctx->owners[units->component];
    for (i = 0; i < num; ++i) {
        owner = &owners[blocks[i]];
        *owner = (*owner == NULL) ? xfer : *owner;
    }
}

void mkv_owners_take(mkv_xfer_t *xfer, const mkv_units_t *units, size_t num_units)
{
    size_t j;

    for (j = 0; mkv_owners_apply(xfer) && (j < num_units); ++j) {
        mkv_owners_take_units(xfer, &units[j]);
    }
}

static void mkv_owners_give_units(mkv_xfer_t *xfer, const mkv_units_t *units)
{
    uint32_t num_owners = xfer->ctx->num_owners[units->component];
    mkv_xfer_t **owners = xfer->ctx->owners[units->component];
    const uint32_t *blocks = units->local;
    uint32_t num = units->num_local, i;

    for (i = 0; i < num; ++i) {
        if ((blocks[i] < num_owners) && (owners[blocks[i]] == xfer)) {
            owners[blocks[i]] = NULL;
        }
    }
}

void mkv_owners_give(mkv_xfer_t *xfer)
{
    const mkv_leg_t *leg;
    uint32_t i, j;

    for (i = 0; mkv_owners_apply(xfer) && (i < xfer->num_legs); ++i) {
        leg = &xfer->legs[i];
        for (j = 0; (leg->units != NULL) && (j < leg->num_units); ++j) {
            mkv_owners_give_units(xfer, &leg->units[j]);
        }
    }
}

void mkv_owners_cleanup(mkv_ctx_t *ctx)
{
    uint32_t i;

    for (i = 0; i < MKV_MAX_COMPONENTS; ++i) {
        free(ctx->owners[i]);
    }
}
