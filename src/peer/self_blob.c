/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The blob that describes a context, made from its regions and memory. Keys are granted
 * to single peers (message/grant.h). Keys of regions that are open to one-sided
 * operations are for all peers.
 */

#include "peer/self_blob.h"

#include "memory/region.h"

#include <stdlib.h>
#include <string.h>

static bool mkv_blob_has_key(const mkv_audience_t *audience, const mkv_mem_t *mem)
{
    return (audience->remote != NULL) &&
           mkv_remote_has_grant(audience->remote, mem->id);
}

static void mkv_blob_add_key(mkv_wire_mem_t *wire, const mkv_mem_t *mem)
{
    wire->rkey = mem->rkey;
    wire->rkey_length = (uint32_t)mem->rkey_length;
}

static void mkv_blob_add_mem(const mkv_audience_t *audience, mkv_blob_info_t *info,
                             mkv_mem_t *mem)
{
    mkv_wire_mem_t *wire = &info->mems[info->num_mems];

    mem->index = info->num_mems++;
    wire->id = mem->id;
    wire->mem_type = mem->type;
    wire->base = mem->base;
    wire->length = mem->length;
    if (mkv_blob_has_key(audience, mem)) {
        mkv_blob_add_key(wire, mem);
    }
}

static void mkv_blob_add_region(mkv_blob_info_t *info, const mkv_lregion_t *region)
{
    mkv_wire_region_t *wire = &info->regions[info->num_regions++];

    wire->id = region->id;
    wire->component = region->info.component;
    wire->layer = region->info.layer;
    wire->part = region->info.part;
    wire->flags = region->info.flags;
    wire->mem = region->mem->index;
    if (region->info.flags & MKV_REGION_ONE_SIDED) {
        mkv_blob_add_key(&info->mems[wire->mem], region->mem);
    }
    wire->base = (uintptr_t)region->info.base;
    wire->length = region->info.length;
    wire->unit_bytes = region->info.unit_bytes;
    wire->unit_stride = region->info.unit_stride;
    wire->n_units = region->info.n_units;
    wire->tokens_per_unit = region->info.tokens_per_unit;
    wire->dtype = region->info.dtype;
    wire->shape = (mkv_wire_shape_t){.outer = region->info.outer,
                                     .inner_bytes = region->info.inner_bytes,
                                     .num_groups = region->info.num_groups,
                                     .rank = region->info.shard_rank,
                                     .size = region->info.shard_size};
    memcpy(wire->shape.groups, region->info.groups, sizeof(wire->shape.groups));
}

/* The list is in order of time, and regions that are not committed are its end */
static mkv_list_t *mkv_blob_first_since(mkv_ctx_t *ctx, uint64_t since, size_t *num_p)
{
    const mkv_lregion_t *region;
    mkv_list_t *item = &ctx->regions;

    *num_p = 0;
    while (item->prev != &ctx->regions) {
        region = mkv_container_of(item->prev, mkv_lregion_t, list);
        if ((region->mem != NULL) && (region->epoch <= since)) {
            break;
        }
        item = item->prev;
        ++*num_p;
    }
    return item;
}

/* Regions from @a first on, and all memory or, of a part of the regions, theirs */
static void mkv_blob_add_regions(mkv_ctx_t *ctx, const mkv_audience_t *audience,
                                 mkv_list_t *first, mkv_blob_info_t *info)
{
    mkv_lregion_t *region;
    mkv_list_t *item;
    mkv_mem_t *mem;

    mkv_list_for_each(mem, &ctx->mems, list)
    {
        if (audience->since != 0) {
            break;
        }
        if (mem->num_regions > 0) { /* 0: the registration is being made or released */
            mkv_blob_add_mem(audience, info, mem);
        }
    }
    for (item = first; item != &ctx->regions; item = item->next) {
        region = mkv_container_of(item, mkv_lregion_t, list);
        if ((audience->since != 0) && (region->mem != NULL)) {
            region->mem->index = UINT32_MAX; /* not in the table */
        }
    }
    for (item = first; item != &ctx->regions; item = item->next) {
        region = mkv_container_of(item, mkv_lregion_t, list);
        if (region->mem == NULL) {
            continue;
        }
        if (region->mem->index == UINT32_MAX) {
            mkv_blob_add_mem(audience, info, region->mem);
        }
        mkv_blob_add_region(info, region);
    }
}

static mkv_status_t mkv_blob_fill_regions(mkv_ctx_t *ctx,
                                          const mkv_audience_t *audience,
                                          mkv_blob_info_t *info)
{
    mkv_list_t *first;
    size_t num;

    first = mkv_blob_first_since(ctx, audience->since, &num);
    info->mems =
        calloc(((audience->since != 0) ? num : mkv_list_length(&ctx->mems)) + 1,
               sizeof(*info->mems));
    info->regions = calloc(num + 1, sizeof(*info->regions));
    if ((info->mems == NULL) || (info->regions == NULL)) {
        return MKV_ERR_NOMEM;
    }
    mkv_blob_add_regions(ctx, audience, first, info);
    return MKV_OK;
}

mkv_status_t mkv_ctx_blob(mkv_ctx_t *ctx, mkv_blob_kind_t kind,
                          const mkv_audience_t *audience, mkv_wbuf_t *wbuf)
{
    mkv_status_t status = MKV_ERR_NOMEM;
    mkv_blob_info_t info;

    memset(&info, 0, sizeof(info));
    info.process = ctx->process;
    mkv_text(info.name, sizeof(info.name), "%s", ctx->name);
    info.address = ctx->address;
    info.address_length = ctx->address_length;
    info.topology = ctx->params.topology;
    info.page_tokens = ctx->params.page_tokens;
    info.dtype = ctx->params.dtype;
    info.total_kv_heads = ctx->params.total_kv_heads;
    info.model = ctx->params.model;
    info.claim = audience->claim;
    info.epoch = ctx->epoch;
    info.connection = audience->connection;
    info.proof = audience->proof;
    info.max_message = ctx->opts->max_message;
    info.max_queued = ctx->opts->max_queued;
    info.features = ctx->features;
    info.has_regions = (kind == MKV_BLOB_FULL);
    info.since = audience->since;
    if (info.has_regions && (mkv_blob_fill_regions(ctx, audience, &info) != MKV_OK)) {
        goto out;
    }
    status = mkv_blob_encode(&info, wbuf);

out:
    mkv_blob_info_cleanup(&info);
    return (status == MKV_OK)
               ? MKV_OK
               : mkv_error(&ctx->log, status, "no memory for the description");
}

mkv_status_t mkv_blob(mkv_ctx_t *ctx, mkv_blob_kind_t kind, void *buffer,
                      size_t *length_p)
{
    static const mkv_audience_t anybody;
    size_t room = *length_p;
    mkv_status_t status;
    mkv_wbuf_t wbuf;

    MKV_HOLD(ctx, "blob", return MKV_ERR_INVALID);
    mkv_wbuf_init(&wbuf);
    mkv_enter(ctx);
    status = mkv_ctx_blob(ctx, kind, &anybody, &wbuf);
    mkv_leave_quietly(ctx);
    if (status == MKV_OK) {
        *length_p = wbuf.length;
        if (wbuf.length > room) {
            status =
                mkv_error(&ctx->log, MKV_ERR_LENGTH,
                          "the blob has %zu bytes, room is %zu; expected room for all",
                          wbuf.length, room);
        } else {
            memcpy(buffer, wbuf.data, wbuf.length);
        }
    }
    mkv_wbuf_cleanup(&wbuf);
    return status;
}
