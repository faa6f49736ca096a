/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A peer's memory as it has announced it. A key is unpacked once per registration of
 * the peer, when the key arrives, which may be after the registration. A key that the
 * peer no longer lists is kept until no map refers to it.
 */

#include "memory/remote_mem.h"

#include "memory/region.h"

#include <stdlib.h>
#include <string.h>

static mkv_rmem_t *mkv_rmem_find(const mkv_remote_t *remote, uint32_t id)
{
    return mkv_table_find(&remote->mems_by_id, id);
}

static void mkv_rmem_destroy(mkv_remote_t *remote, mkv_rmem_t *rmem)
{
    mkv_table_remove(&remote->mems_by_id, rmem->id);
    mkv_list_del(&rmem->list);
    mkv_repeat_cleanup(&rmem->repeat);
    if (rmem->rkey != NULL) {
        ucp_rkey_destroy(rmem->rkey);
    }
    free(rmem);
}

static mkv_status_t mkv_rmem_unpack(mkv_remote_t *remote, mkv_rmem_t *rmem,
                                    const mkv_wire_mem_t *wire)
{
    ucs_status_t status;
    ucp_rkey_h rkey;

    if ((wire->rkey_length == 0) || (rmem->rkey != NULL)) {
        return MKV_OK;
    }
    status = ucp_ep_rkey_unpack(remote->ep, wire->rkey, &rkey);
    if (status != UCS_OK) {
        return mkv_error(&remote->ctx->log, MKV_ERR_TRANSPORT,
                         "peer %s: ucp_ep_rkey_unpack(%llu bytes at 0x%llx) failed: %s",
                         remote->name, (unsigned long long)wire->length,
                         (unsigned long long)wire->base, ucs_status_string(status));
    }
    /* release: other threads read it before they post */
    __atomic_store_n(&rmem->rkey, rkey, __ATOMIC_RELEASE);
    return MKV_OK;
}

static mkv_status_t mkv_rmem_create(mkv_remote_t *remote, const mkv_wire_mem_t *wire)
{
    mkv_rmem_t *rmem = calloc(1, sizeof(*rmem));
    mkv_status_t status;

    if (rmem == NULL) {
        return mkv_error(&remote->ctx->log, MKV_ERR_NOMEM, "no memory for a key");
    }

    if (mkv_table_add(&remote->mems_by_id, wire->id, rmem) != MKV_OK) {
        free(rmem);
        return mkv_error(&remote->ctx->log, MKV_ERR_NOMEM, "no memory for a key");
    }
    status = mkv_rmem_unpack(remote, rmem, wire);
    if (status != MKV_OK) {
        mkv_table_remove(&remote->mems_by_id, wire->id);
        free(rmem);
        return status;
    }

    rmem->id = wire->id;
    rmem->type = (ucs_memory_type_t)wire->mem_type;
    rmem->base = wire->base;
    rmem->length = wire->length;
    mkv_list_init(&rmem->list);
    mkv_list_add_tail(&remote->mems, &rmem->list);
    return MKV_OK;
}

/* An id is never reused: if it names another registration, the key is dropped */
static mkv_status_t mkv_rmem_update(mkv_remote_t *remote, mkv_rmem_t *rmem,
                                    const mkv_wire_mem_t *wire)
{
    if (((uint32_t)rmem->type == wire->mem_type) && (rmem->base == wire->base) &&
        (rmem->length == wire->length)) {
        return mkv_rmem_unpack(remote, rmem, wire);
    }
    return mkv_error(&remote->ctx->log, MKV_ERR_PROTOCOL,
                     "its registration %u changed from %llu bytes at 0x%llx to %llu "
                     "bytes at 0x%llx",
                     wire->id, (unsigned long long)rmem->length,
                     (unsigned long long)rmem->base, (unsigned long long)wire->length,
                     (unsigned long long)wire->base);
}

/* Give every mem of the table its object */
static mkv_status_t mkv_remote_unpack(mkv_remote_t *remote, const mkv_blob_info_t *info)
{
    mkv_status_t status = MKV_OK;
    mkv_rmem_t *rmem;
    uint32_t i;

    for (i = 0; (i < info->num_mems) && (status == MKV_OK); ++i) {
        if (!mkv_wire_mem_is_known(&info->mems[i])) {
            continue; /* UCX cannot unpack its key */
        }
        rmem = mkv_rmem_find(remote, info->mems[i].id);
        status = (rmem == NULL) ? mkv_rmem_create(remote, &info->mems[i])
                                : mkv_rmem_update(remote, rmem, &info->mems[i]);
    }
    return status;
}

/* Names and ids of a table of regions; each is in it once */
static mkv_status_t mkv_remote_index(mkv_remote_t *remote, mkv_wire_region_t *regions,
                                     uint32_t num, mkv_table_t *names, mkv_table_t *ids)
{
    mkv_status_t status = MKV_OK;
    uint32_t i;

    for (i = 0; (i < num) && (status == MKV_OK); ++i) {
        status = mkv_table_add(
            names,
            mkv_region_name(regions[i].component, regions[i].layer, regions[i].part),
            &regions[i]);
        if (status == MKV_OK) {
            status = mkv_table_add(ids, regions[i].id, &regions[i]);
        }
    }
    if (status == MKV_ERR_DUPLICATE) {
        --i;
        return mkv_error(&remote->ctx->log, MKV_ERR_PROTOCOL,
                         "it announces region %u, component %u layer %d part %u, twice",
                         regions[i].id, regions[i].component, regions[i].layer,
                         regions[i].part);
    }
    return (status == MKV_OK)
               ? MKV_OK
               : mkv_error(&remote->ctx->log, status, "no memory for %u regions", num);
}

void mkv_remote_trim(mkv_remote_t *remote)
{
    mkv_rmem_t *rmem, *next;

    mkv_list_for_each_safe(rmem, next, &remote->mems, list)
    {
        if (!rmem->is_current && (rmem->num_pairs == 0)) {
            mkv_rmem_destroy(remote, rmem);
        }
    }
}

static void mkv_remote_forget(mkv_remote_t *remote)
{
    mkv_table_cleanup(&remote->regions_by_name);
    mkv_table_cleanup(&remote->regions_by_id);
    free(remote->regions);
    free(remote->region_mems);
    remote->regions = NULL;
    remote->region_mems = NULL;
    remote->num_regions = remote->max_regions = 0;
}

/* Each key is then destroyed with its last user, unless it is marked as current
 * again. */
static void mkv_remote_mark_old(mkv_remote_t *remote)
{
    mkv_rmem_t *rmem;

    mkv_list_for_each(rmem, &remote->mems, list)
    {
        rmem->is_current = false;
    }
}

/* Memory that the peer no longer announces is freed with its last user */
static void mkv_remote_mark_current(mkv_remote_t *remote, const mkv_blob_info_t *info)
{
    mkv_rmem_t *rmem;
    uint32_t i;

    if (info->since == 0) { /* otherwise nothing was removed */
        mkv_remote_mark_old(remote);
    }
    for (i = 0; i < info->num_mems; ++i) {
        rmem = mkv_rmem_find(remote, info->mems[i].id);
        if (rmem != NULL) {
            rmem->is_current = true;
        }
    }
}

/* A table of `num` regions with room for `max`; the old one stays on errors */
static mkv_status_t mkv_remote_set(mkv_remote_t *remote, const mkv_wire_region_t *old,
                                   uint32_t num, uint32_t max)
{
    mkv_table_t names = {0}, ids = {0};
    mkv_wire_region_t *regions;
    mkv_status_t status;
    mkv_rmem_t **mems;

    regions = calloc((size_t)max + 1, sizeof(*regions));
    mems = calloc((size_t)max + 1, sizeof(*mems));
    if ((regions == NULL) || (mems == NULL)) {
        status = mkv_error(&remote->ctx->log, MKV_ERR_NOMEM, "no memory for %u regions",
                           max);
        goto err_free;
    }
    if (num > 0) {
        memcpy(regions, old, num * sizeof(*regions));
    }
    status = mkv_remote_index(remote, regions, num, &names, &ids);
    if (status != MKV_OK) {
        goto err_free;
    }
    if ((num > 0) && (old == remote->regions)) {
        memcpy(mems, remote->region_mems, num * sizeof(*mems));
    }

    mkv_remote_forget(remote);
    remote->regions_by_name = names;
    remote->regions_by_id = ids;
    remote->regions = regions;
    remote->region_mems = mems;
    remote->num_regions = num;
    remote->max_regions = max;
    return MKV_OK;

err_free:
    mkv_table_cleanup(&names);
    mkv_table_cleanup(&ids);
    free(regions);
    free(mems);
    return status;
}

/* Add a region. A repeated HELLO may have announced it before. */
static mkv_status_t mkv_remote_add(mkv_remote_t *remote, const mkv_blob_info_t *info,
                                   const mkv_wire_region_t *wire)
{
    mkv_wire_region_t *region;
    mkv_status_t status = MKV_OK;

    if (mkv_table_find(&remote->regions_by_id, wire->id) != NULL) {
        return MKV_OK;
    }
    if (remote->num_regions == remote->max_regions) {
        status = mkv_remote_set(remote, remote->regions, remote->num_regions,
                                2 * remote->max_regions + 16);
        if (status != MKV_OK) {
            return status;
        }
    }

    region = &remote->regions[remote->num_regions];
    *region = *wire;
    remote->region_mems[remote->num_regions] =
        mkv_rmem_find(remote, info->mems[wire->mem].id);
    status = mkv_remote_index(remote, region, 1, &remote->regions_by_name,
                              &remote->regions_by_id);
    if (status == MKV_OK) {
        ++remote->num_regions;
    }
    return status;
}

/* Add new regions to those of an epoch received before. An error fails the peer. */
static mkv_status_t mkv_remote_extend(mkv_remote_t *remote, const mkv_blob_info_t *info)
{
    mkv_status_t status;
    uint32_t i;

    if (info->since > remote->epoch) {
        return mkv_error(
            &remote->ctx->log, MKV_ERR_PROTOCOL,
            "the regions continue epoch %llu, but the latest received epoch is %llu",
            (unsigned long long)info->since, (unsigned long long)remote->epoch);
    }
    status = mkv_remote_unpack(remote, info);
    mkv_remote_mark_current(remote, info);
    for (i = 0; (i < info->num_regions) && (status == MKV_OK); ++i) {
        status = mkv_remote_add(remote, info, &info->regions[i]);
    }
    if ((status == MKV_OK) && (info->epoch > remote->epoch)) {
        remote->epoch = info->epoch;
    }
    return status;
}

mkv_status_t mkv_remote_update(mkv_remote_t *remote, const mkv_blob_info_t *info)
{
    mkv_status_t status;
    uint32_t i;

    ++remote->num_updates;
    if (info->since != 0) {
        return mkv_remote_extend(remote, info);
    }

    status = mkv_remote_unpack(remote, info);
    if (status == MKV_OK) {
        status =
            mkv_remote_set(remote, info->regions, info->num_regions, info->num_regions);
    }
    if (status != MKV_OK) {
        return status;
    }

    mkv_remote_mark_current(remote, info);
    for (i = 0; i < info->num_regions; ++i) {
        remote->region_mems[i] =
            mkv_rmem_find(remote, info->mems[info->regions[i].mem].id);
    }
    remote->epoch = info->epoch;
    return MKV_OK;
}

/* Return the region and its memory; NULL stays NULL */
static const mkv_wire_region_t *mkv_remote_found(const mkv_remote_t *remote,
                                                 const mkv_wire_region_t *region,
                                                 mkv_rmem_t **rmem_p)
{
    if (region != NULL) {
        *rmem_p = remote->region_mems[region - remote->regions];
    }
    return region;
}

const mkv_wire_region_t *mkv_remote_find(const mkv_remote_t *remote, uint32_t component,
                                         int32_t layer, uint16_t part,
                                         mkv_rmem_t **rmem_p)
{
    return mkv_remote_found(remote,
                            mkv_table_find(&remote->regions_by_name,
                                           mkv_region_name(component, layer, part)),
                            rmem_p);
}

const mkv_wire_region_t *mkv_remote_find_id(const mkv_remote_t *remote, uint32_t id,
                                            mkv_rmem_t **rmem_p)
{
    return mkv_remote_found(remote, mkv_table_find(&remote->regions_by_id, id), rmem_p);
}

void mkv_remote_withdraw(mkv_remote_t *remote)
{
    if (remote->regions == NULL) {
        return;
    }
    ++remote->num_updates;
    mkv_remote_mark_old(remote);
    mkv_remote_forget(remote);
    mkv_remote_trim(remote);
}

bool mkv_remote_has_grant(const mkv_remote_t *remote, uint32_t id)
{
    return mkv_table_find(&remote->granted, id) != NULL;
}

void mkv_rmem_put(mkv_remote_t *remote, mkv_rmem_t *rmem)
{
    --rmem->num_pairs;
    if (!rmem->is_current && (rmem->num_pairs == 0)) {
        mkv_rmem_destroy(remote, rmem);
    }
}

void mkv_remote_cleanup(mkv_remote_t *remote)
{
    mkv_rmem_t *rmem, *next;

    mkv_list_for_each_safe(rmem, next, &remote->mems, list)
    {
        mkv_rmem_destroy(remote, rmem);
    }
    mkv_remote_forget(remote);
    mkv_table_cleanup(&remote->mems_by_id);
    mkv_table_cleanup(&remote->granted);
}
