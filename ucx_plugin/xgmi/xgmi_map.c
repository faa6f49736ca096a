/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * map->lock guards everything here. A region is in one bucket as long as it can be
 * found, and in the idle list, least recently used first, while nobody refers to it.
 * One that can be found no longer (its peer died) waits for its last reference.
 */

#include "xgmi/xgmi_map.h"

#include "base/muct_log.h"

#include <ucs/datastruct/list.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MUCT_XGMI_MAP_NUM_BUCKETS 1024

typedef struct muct_xgmi_map_region {
    muct_xgmi_region_t super;
    struct muct_xgmi_map_region *next; /* in the bucket */
    ucs_list_link_t idle;
    uint64_t owner;
    int device;
    int is_self;    /* nothing to unmap */
    int is_dropped; /* not in a bucket */
    unsigned refs;
    void *mapped;
    uint64_t buffer_id;
    unsigned char handle[MUCT_XGMI_HANDLE_SIZE];
} muct_xgmi_map_region_t;

struct muct_xgmi_map {
    const muct_gpu_t *gpu;
    muct_xgmi_map_config_t config;
    pthread_mutex_t lock;
    ucs_list_link_t idle;
    unsigned num_idle;
    size_t idle_size;
    unsigned num_regions;
    muct_xgmi_map_region_t *buckets[MUCT_XGMI_MAP_NUM_BUCKETS];
};


static muct_xgmi_map_region_t **muct_xgmi_map_bucket(muct_xgmi_map_t *map,
                                                     uint64_t owner, uint64_t base,
                                                     int device)
{
    /* allocations begin at 2 MiB or 4 KiB: fold the high bits down */
    uint64_t hash =
        (owner ^ (base >> 12) ^ (uint64_t)device) * UINT64_C(0x9e3779b97f4a7c15);

    return &map->buckets[(hash >> 32) % MUCT_XGMI_MAP_NUM_BUCKETS];
}

static void muct_xgmi_map_unlink(muct_xgmi_map_t *map, muct_xgmi_map_region_t *region)
{
    muct_xgmi_map_region_t **link;

    link = muct_xgmi_map_bucket(map, region->owner, region->super.base, region->device);
    while (*link != region) {
        link = &(*link)->next;
    }
    *link = region->next;
}

static void muct_xgmi_map_unmap(muct_xgmi_map_t *map, muct_xgmi_map_region_t *region)
{
    int prev, ret;

    if (!region->is_self &&
        (muct_gpu_push_device(map->gpu, region->device, &prev) == UCS_OK)) {
        ret = map->gpu->ipc_close_mem_handle(region->mapped);
        if (ret != MUCT_HIP_SUCCESS) {
            muct_warn("hipIpcCloseMemHandle(%p of peer 0x%" PRIx64 ") failed: %s",
                      region->mapped, region->owner,
                      muct_gpu_error_name(map->gpu, ret));
        }
        muct_gpu_pop_device(map->gpu, region->device, prev);
    }

    muct_debug("unmapped %p length %" PRIu64 " of peer 0x%" PRIx64, region->mapped,
               region->super.length, region->owner);
    --map->num_regions;
    free(region);
}

static void muct_xgmi_map_remove_idle(muct_xgmi_map_t *map,
                                      muct_xgmi_map_region_t *region)
{
    ucs_list_del(&region->idle);
    --map->num_idle;
    map->idle_size -= region->super.length;
}

static void muct_xgmi_map_shrink(muct_xgmi_map_t *map, unsigned max_regions,
                                 size_t max_size)
{
    muct_xgmi_map_region_t *region;

    while ((map->num_idle > max_regions) || (map->idle_size > max_size)) {
        region = ucs_list_head(&map->idle, muct_xgmi_map_region_t, idle);
        muct_xgmi_map_remove_idle(map, region);
        muct_xgmi_map_unlink(map, region);
        muct_xgmi_map_unmap(map, region);
    }
}

/* Another device of this process: no handle, but the devices must see each other. */
static ucs_status_t muct_xgmi_map_open_self(muct_xgmi_map_t *map,
                                            const muct_xgmi_key_t *key,
                                            muct_xgmi_map_region_t *region)
{
    int ret, can_access = 0;

    region->is_self = 1;
    region->mapped = (void *)(uintptr_t)key->base;
    if (key->device == region->device) {
        return UCS_OK;
    }

    ret = map->gpu->device_can_access_peer(&can_access, region->device, key->device);
    if ((ret != MUCT_HIP_SUCCESS) || !can_access) {
        muct_diag("device %d cannot access device %u: hipDeviceCanAccessPeer() = %s",
                  region->device, key->device, muct_gpu_error_name(map->gpu, ret));
        return UCS_ERR_UNSUPPORTED;
    }

    ret = map->gpu->device_enable_peer_access(key->device, 0);
    (void)muct_gpu_forget(map->gpu, ret);
    if ((ret != MUCT_HIP_SUCCESS) && (ret != MUCT_HIP_PEER_ALREADY_ENABLED)) {
        muct_diag("hipDeviceEnablePeerAccess(%u) on device %d failed: %s", key->device,
                  region->device, muct_gpu_error_name(map->gpu, ret));
        return UCS_ERR_UNREACHABLE;
    }

    return UCS_OK;
}

static ucs_status_t muct_xgmi_map_status(int hip_error)
{
    switch (hip_error) {
    case MUCT_HIP_OUT_OF_MEMORY:
        return UCS_ERR_NO_MEMORY;
    case MUCT_HIP_INVALID_CONTEXT: /* a handle of a process with this one's pid */
    case MUCT_HIP_PEER_UNSUPPORTED:
        return UCS_ERR_UNSUPPORTED;
    default:
        return UCS_ERR_UNREACHABLE;
    }
}

static ucs_status_t muct_xgmi_map_open_ipc(muct_xgmi_map_t *map,
                                           const muct_xgmi_key_t *key,
                                           muct_xgmi_map_region_t *region)
{
    muct_hip_ipc_mem_handle_t handle;
    int ret;

    memcpy(&handle, key->handle, sizeof(handle));
    ret = map->gpu->ipc_open_mem_handle(&region->mapped, handle, map->gpu->ipc_flags);
    if (ret == MUCT_HIP_OUT_OF_MEMORY) {
        (void)muct_gpu_forget(map->gpu, ret);
        muct_xgmi_map_shrink(map, 0, 0);
        ret =
            map->gpu->ipc_open_mem_handle(&region->mapped, handle, map->gpu->ipc_flags);
    }
    if (ret == MUCT_HIP_SUCCESS) {
        return UCS_OK;
    }

    muct_diag("hipIpcOpenMemHandle(peer 0x%" PRIx64 " address 0x%" PRIx64
              " length %" PRIu64 ") on device %d failed: %s",
              region->owner, key->base, key->alloc_length, region->device,
              muct_gpu_error_name(map->gpu, ret));
    return muct_xgmi_map_status(ret);
}

static ucs_status_t muct_xgmi_map_open(muct_xgmi_map_t *map, muct_xgmi_peer_t *peer,
                                       const muct_xgmi_key_t *key,
                                       muct_xgmi_map_region_t *region)
{
    ucs_status_t status;
    int prev;

    status = muct_gpu_push_device(map->gpu, region->device, &prev);
    if (status != UCS_OK) {
        return UCS_ERR_UNREACHABLE;
    }

    status = muct_xgmi_peer_is_self(peer) ? muct_xgmi_map_open_self(map, key, region)
                                          : muct_xgmi_map_open_ipc(map, key, region);
    muct_gpu_pop_device(map->gpu, region->device, prev);
    return status;
}

static ucs_status_t muct_xgmi_map_add(muct_xgmi_map_t *map, muct_xgmi_peer_t *peer,
                                      const muct_xgmi_key_t *key, int device,
                                      muct_xgmi_map_region_t **bucket,
                                      muct_xgmi_map_region_t **region_p)
{
    muct_xgmi_map_region_t *region;
    ucs_status_t status;

    if (!muct_xgmi_peer_is_alive(peer)) {
        muct_diag("peer 0x%" PRIx64 " is dead", key->owner);
        return UCS_ERR_UNREACHABLE;
    }

    region = calloc(1, sizeof(*region));
    if (region == NULL) {
        muct_error("failed to allocate a region of peer 0x%" PRIx64, key->owner);
        return UCS_ERR_NO_MEMORY;
    }

    region->owner = key->owner;
    region->device = device;
    region->super.base = key->base;
    region->super.length = key->alloc_length;
    region->buffer_id = key->buffer_id;
    memcpy(region->handle, key->handle, sizeof(region->handle));
    status = muct_xgmi_map_open(map, peer, key, region);
    if (status != UCS_OK) {
        free(region);
        return status;
    }

    region->super.delta = (uintptr_t)region->mapped - key->base;
    region->next = *bucket;
    *bucket = region;
    ++map->num_regions;
    muct_debug("mapped 0x%" PRIx64 " length %" PRIu64 " of peer 0x%" PRIx64
               " at %p for device %d",
               key->base, key->alloc_length, key->owner, region->mapped, device);
    *region_p = region;
    return UCS_OK;
}

ucs_status_t muct_xgmi_map_get(muct_xgmi_map_t *map, muct_xgmi_peer_t *peer,
                               const muct_xgmi_key_t *key, int device,
                               const muct_xgmi_region_t **region_p)
{
    ucs_status_t status = UCS_OK;
    muct_xgmi_map_region_t **bucket, *region;

    pthread_mutex_lock(&map->lock);
    bucket = muct_xgmi_map_bucket(map, key->owner, key->base, device);
    for (region = *bucket; region != NULL; region = region->next) {
        if ((region->owner == key->owner) && (region->super.base == key->base) &&
            (region->device == device) && (region->buffer_id == key->buffer_id) &&
            (region->super.length == key->alloc_length) &&
            !memcmp(region->handle, key->handle, sizeof(region->handle))) {
            break;
        }
    }

    if (region == NULL) {
        status = muct_xgmi_map_add(map, peer, key, device, bucket, &region);
        if (status != UCS_OK) {
            goto out;
        }
    } else if (region->refs == 0) {
        muct_xgmi_map_remove_idle(map, region);
    }

    ++region->refs;
    *region_p = &region->super;
out:
    pthread_mutex_unlock(&map->lock);
    return status;
}

void muct_xgmi_map_put(muct_xgmi_map_t *map, const muct_xgmi_region_t *super)
{
    muct_xgmi_map_region_t *region;

    region = ucs_container_of(super, muct_xgmi_map_region_t, super);
    pthread_mutex_lock(&map->lock);
    if (--region->refs == 0) {
        if (region->is_dropped) {
            muct_xgmi_map_unmap(map, region);
        } else {
            ucs_list_add_tail(&map->idle, &region->idle);
            ++map->num_idle;
            map->idle_size += region->super.length;
            muct_xgmi_map_shrink(map, map->config.max_idle_regions,
                                 map->config.max_idle_size);
        }
    }
    pthread_mutex_unlock(&map->lock);
}

void muct_xgmi_map_drop_peer(muct_xgmi_map_t *map, uint64_t owner)
{
    muct_xgmi_map_region_t *region, **link;
    size_t i;

    pthread_mutex_lock(&map->lock);
    for (i = 0; i < MUCT_XGMI_MAP_NUM_BUCKETS; ++i) {
        link = &map->buckets[i];
        while ((region = *link) != NULL) {
            if (region->owner != owner) {
                link = &region->next;
                continue;
            }

            *link = region->next;
            region->is_dropped = 1;
            if (region->refs == 0) {
                muct_xgmi_map_remove_idle(map, region);
                muct_xgmi_map_unmap(map, region);
            }
        }
    }
    pthread_mutex_unlock(&map->lock);
}

unsigned muct_xgmi_map_num_regions(muct_xgmi_map_t *map)
{
    unsigned num_regions;

    pthread_mutex_lock(&map->lock);
    num_regions = map->num_regions;
    pthread_mutex_unlock(&map->lock);
    return num_regions;
}

ucs_status_t muct_xgmi_map_create(const muct_gpu_t *gpu,
                                  const muct_xgmi_map_config_t *config,
                                  muct_xgmi_map_t **map_p)
{
    muct_xgmi_map_t *map = calloc(1, sizeof(*map));

    if (map == NULL) {
        muct_error("failed to allocate the cache of peer memory");
        return UCS_ERR_NO_MEMORY;
    }

    map->gpu = gpu;
    map->config = *config;
    pthread_mutex_init(&map->lock, NULL);
    ucs_list_head_init(&map->idle);
    *map_p = map;
    return UCS_OK;
}

void muct_xgmi_map_destroy(muct_xgmi_map_t *map)
{
    muct_xgmi_map_shrink(map, 0, 0);
    if (map->num_regions > 0) {
        muct_warn("%u regions of peers are still in use and stay mapped",
                  map->num_regions);
    }

    pthread_mutex_destroy(&map->lock);
    free(map);
}
