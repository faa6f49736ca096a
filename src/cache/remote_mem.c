/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What a peer told us about its memory. A key is unpacked once per registration of the
 * peer; one that the peer no longer lists is kept until no map refers to it.
 */

#include "cache/remote_mem.h"

#include <stdlib.h>
#include <string.h>

static mkv_rmem_t *mkv_rmem_find(const mkv_remote_t *remote, uint32_t id)
{
    mkv_rmem_t *rmem;

    mkv_list_for_each(rmem, &remote->mems, mkv_rmem_t, list)
    {
        if (rmem->id == id) {
            return rmem;
        }
    }
    return NULL;
}

static void mkv_rmem_destroy(mkv_rmem_t *rmem)
{
    mkv_list_del(&rmem->list);
    mkv_repeat_cleanup(&rmem->repeat);
    if (rmem->rkey != NULL) {
        ucp_rkey_destroy(rmem->rkey);
    }
    free(rmem);
}

static mkv_status_t mkv_rmem_create(mkv_remote_t *remote, const mkv_wire_mem_t *wire)
{
    mkv_rmem_t *rmem = calloc(1, sizeof(*rmem));
    ucs_status_t status;

    if (rmem == NULL) {
        return mkv_error(&remote->ctx->log, MKV_ERR_NOMEM, "no memory for a key");
    }

    status = ucp_ep_rkey_unpack(remote->ep, wire->rkey, &rmem->rkey);
    if (status != UCS_OK) {
        free(rmem);
        return mkv_error(&remote->ctx->log, MKV_ERR_TRANSPORT,
                         "peer %s: ucp_ep_rkey_unpack(%llu bytes at 0x%llx) failed: %s",
                         remote->name, (unsigned long long)wire->length,
                         (unsigned long long)wire->base, ucs_status_string(status));
    }

    rmem->id = wire->id;
    rmem->type = (ucs_memory_type_t)wire->mem_type;
    rmem->base = wire->base;
    rmem->length = wire->length;
    mkv_list_init(&rmem->list);
    mkv_list_add_tail(&remote->mems, &rmem->list);
    return MKV_OK;
}

/* After this every mem of the table has its object */
static mkv_status_t mkv_remote_unpack(mkv_remote_t *remote, const mkv_blob_info_t *info)
{
    mkv_status_t status;
    uint32_t i;

    for (i = 0; i < info->num_mems; ++i) {
        if (mkv_rmem_find(remote, info->mems[i].id) == NULL) {
            status = mkv_rmem_create(remote, &info->mems[i]);
            if (status != MKV_OK) {
                return status;
            }
        }
    }
    return MKV_OK;
}

void mkv_remote_trim(mkv_remote_t *remote)
{
    mkv_rmem_t *rmem, *next;

    mkv_list_for_each_safe(rmem, next, &remote->mems, mkv_rmem_t, list)
    {
        if (!rmem->is_current && (rmem->num_pairs == 0)) {
            mkv_rmem_destroy(rmem);
        }
    }
}

mkv_status_t mkv_remote_update(mkv_remote_t *remote, const mkv_blob_info_t *info)
{
    mkv_wire_region_t *regions;
    mkv_rmem_t **mems, *rmem;
    mkv_status_t status;
    uint32_t i;

    regions = calloc(info->num_regions + 1, sizeof(*regions));
    mems = calloc(info->num_regions + 1, sizeof(*mems));
    if ((regions == NULL) || (mems == NULL)) {
        status = mkv_error(&remote->ctx->log, MKV_ERR_NOMEM, "no memory for %u regions",
                           info->num_regions);
        goto err_free;
    }
    status = mkv_remote_unpack(remote, info);
    if (status != MKV_OK) {
        goto err_free;
    }

    mkv_list_for_each(rmem, &remote->mems, mkv_rmem_t, list)
    {
        rmem->is_current = 0;
    }
    for (i = 0; i < info->num_mems; ++i) {
        rmem = mkv_rmem_find(remote, info->mems[i].id);
        if (rmem != NULL) {
            rmem->is_current = 1;
        }
    }
    memcpy(regions, info->regions, info->num_regions * sizeof(*regions));
    for (i = 0; i < info->num_regions; ++i) {
        mems[i] = mkv_rmem_find(remote, info->mems[regions[i].mem].id);
    }

    free(remote->regions);
    free(remote->region_mems);
    remote->regions = regions;
    remote->region_mems = mems;
    remote->num_regions = info->num_regions;
    remote->epoch = info->epoch;
    return MKV_OK;

err_free:
    free(regions);
    free(mems);
    return status;
}

const mkv_wire_region_t *mkv_remote_find(const mkv_remote_t *remote, uint32_t component,
                                         int32_t layer, uint16_t part,
                                         mkv_rmem_t **rmem_p)
{
    const mkv_wire_region_t *region;
    uint32_t i;

    for (i = 0; i < remote->num_regions; ++i) {
        region = &remote->regions[i];
        if ((region->component == component) && (region->layer == layer) &&
            (region->part == part)) {
            *rmem_p = remote->region_mems[i];
            return region;
        }
    }
    return NULL;
}

void mkv_rmem_put(mkv_remote_t *remote, mkv_rmem_t *rmem)
{
    --rmem->num_pairs;
    mkv_remote_trim(remote);
}

void mkv_remote_cleanup(mkv_remote_t *remote)
{
    mkv_rmem_t *rmem, *next;

    mkv_list_for_each_safe(rmem, next, &remote->mems, mkv_rmem_t, list)
    {
        mkv_rmem_destroy(rmem);
    }
    free(remote->regions);
    free(remote->region_mems);
    remote->regions = NULL;
    remote->region_mems = NULL;
    remote->num_regions = 0;
}
