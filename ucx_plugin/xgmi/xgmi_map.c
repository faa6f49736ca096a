/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * map->lock guards everything here and is never held during a driver call. A region is
 * in one bucket as long as it can be found, and in the idle list, least recently used
 * first, while nobody refers to it. One that can be found no longer (its peer died)
 * waits for its last reference. While a region is being opened it is in its bucket with
 * one reference, and who looks for it waits, so that no handle is opened twice.
 *
 * A bar says that a living peer's memory did not open for a device: nobody tries again.
 */

#include "xgmi/xgmi_map.h"

#include "base/muct_log.h"
#include "xgmi/xgmi_closer.h"

#include <ucs/datastruct/list.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MUCT_XGMI_MAP_NUM_BUCKETS 8192

/* Regions that are remembered after a limit has taken their place. */
#define MUCT_XGMI_MAP_NUM_EVICTED 4096

/* How long closing may take when address space is short, and in the end. */
#define MUCT_XGMI_MAP_CLOSE_LIMIT_MS 1000
#define MUCT_XGMI_MAP_END_LIMIT_MS 10000

typedef struct muct_xgmi_map_region {
    muct_xgmi_region_t super;
    struct muct_xgmi_map_region *next; /* in the bucket */
    ucs_list_link_t idle;
    uint64_t owner;
    int device;
    bool is_self;    /* nothing to unmap */
    bool is_dropped; /* not in a bucket */
    bool is_opening; /* its opener has the only reference */
    unsigned refs;
    void *mapped;
    const char *error; /* why the handle did not open */
    uint64_t buffer_id;
    unsigned char handle[MUCT_XGMI_HANDLE_SIZE];
} muct_xgmi_map_region_t;

/* No way from a device to a peer's memory. */
typedef struct muct_xgmi_bar {
    struct muct_xgmi_bar *next;
    uint64_t owner;
    int device;
} muct_xgmi_bar_t;

struct muct_xgmi_map {
    const muct_gpu_t *gpu;
    muct_xgmi_map_config_t config;
    pthread_mutex_t lock;
    pthread_cond_t opened; /* or failed to */
    muct_xgmi_closer_t *closer;
    muct_xgmi_bar_t *bars;
    ucs_list_link_t idle;
    unsigned num_idle;
    size_t idle_size;
    unsigned num_regions;
    bool has_warned;                             /* of limits that are too low */
    uint64_t evicted[MUCT_XGMI_MAP_NUM_EVICTED]; /* identities, by themselves */
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
    muct_debug("unmapping %p length %" PRIu64 " of peer 0x%" PRIx64, region->mapped,
               region->super.length, region->owner);
    if (!region->is_self) {
        muct_xgmi_closer_add(map->closer, region->device, region->mapped);
    }
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

/* A number that another region is unlikely to have, and never 0. */
static uint64_t muct_xgmi_map_identity(const muct_xgmi_map_region_t *region)
{
    const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t hash = region->owner;

    hash = (hash ^ (hash >> 29) ^ region->super.base) * factor;
    hash = (hash ^ (hash >> 32) ^ region->buffer_id) * factor;
    hash = (hash ^ (hash >> 32) ^ (uint64_t)region->device) * factor;
    return hash | 1;
}

static uint64_t *muct_xgmi_map_evicted(muct_xgmi_map_t *map, uint64_t identity)
{
    return &map->evicted[(identity >> 32) % MUCT_XGMI_MAP_NUM_EVICTED];
}

/* What is mapped again was unmapped by a limit that is too low. */
static void muct_xgmi_map_warn_evicted(muct_xgmi_map_t *map,
                                       const muct_xgmi_map_region_t *region)
{
    uint64_t identity = muct_xgmi_map_identity(region);

    if (map->has_warned || (*muct_xgmi_map_evicted(map, identity) != identity)) {
        return;
    }

    map->has_warned = true;
    muct_warn("peers' memory is unmapped and mapped again while it is in use, which is "
              "slow: %u allocations of %zu bytes are kept; raise "
              "UCX_MORI_XGMI_MAX_IDLE_REGIONS (now %u) or UCX_MORI_XGMI_MAX_IDLE_SIZE "
              "(now %zu)",
              map->num_idle, map->idle_size, map->config.max_idle_regions,
              map->config.max_idle_size);
}

static void muct_xgmi_map_shrink(muct_xgmi_map_t *map, unsigned max_regions,
                                 size_t max_size)
{
    uint64_t identity;
    muct_xgmi_map_region_t *region;

    while ((map->num_idle > max_regions) || (map->idle_size > max_size)) {
        region = ucs_list_head(&map->idle, muct_xgmi_map_region_t, idle);
        identity = muct_xgmi_map_identity(region);
        *muct_xgmi_map_evicted(map, identity) = identity;
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

    region->is_self = true;
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

static void muct_xgmi_map_make_room(muct_xgmi_map_t *map)
{
    pthread_mutex_lock(&map->lock);
    muct_xgmi_map_shrink(map, 0, 0);
    pthread_mutex_unlock(&map->lock);
    (void)muct_xgmi_closer_wait(map->closer, MUCT_XGMI_MAP_CLOSE_LIMIT_MS);
}

/*
 * Why a handle did not open. AMD's runtime has one error for all causes, so what is
 * known says more: when the owner lives and its key holds, there is no way.
 */
static ucs_status_t muct_xgmi_map_status(muct_xgmi_peer_t *peer,
                                         const muct_xgmi_key_t *key, int hip_error)
{
    switch (hip_error) {
    case MUCT_HIP_OUT_OF_MEMORY:
        return UCS_ERR_NO_MEMORY;
    case MUCT_HIP_INVALID_CONTEXT: /* a handle of a process with this one's pid */
    case MUCT_HIP_PEER_UNSUPPORTED:
        return UCS_ERR_UNSUPPORTED;
    default:
        break;
    }

    if (!muct_xgmi_peer_is_alive(peer) ||
        !muct_xgmi_peer_enter(peer, key->slot, key->generation)) {
        return UCS_ERR_UNREACHABLE;
    }
    muct_xgmi_peer_leave(peer, key->slot);
    return UCS_ERR_UNSUPPORTED;
}

static int muct_xgmi_map_call_open(const muct_xgmi_map_t *map,
                                   const muct_xgmi_key_t *key, void **mapped_p)
{
    muct_hip_ipc_mem_handle_t handle;
    int mode, ret;

    memcpy(&handle, key->handle, sizeof(handle));
    mode = muct_gpu_relax(map->gpu);
    ret = map->gpu->ipc_open_mem_handle(mapped_p, handle, map->gpu->ipc_flags);
    muct_gpu_unrelax(map->gpu, mode);
    return ret;
}

static ucs_status_t muct_xgmi_map_open_ipc(muct_xgmi_map_t *map, muct_xgmi_peer_t *peer,
                                           const muct_xgmi_key_t *key,
                                           muct_xgmi_map_region_t *region)
{
    int ret;

    ret = muct_xgmi_map_call_open(map, key, &region->mapped);
    if (ret == MUCT_HIP_OUT_OF_MEMORY) {
        (void)muct_gpu_forget(map->gpu, ret);
        muct_xgmi_map_make_room(map);
        ret = muct_xgmi_map_call_open(map, key, &region->mapped);
    }
    if (ret == MUCT_HIP_SUCCESS) {
        return UCS_OK;
    }

    region->error = muct_gpu_error_name(map->gpu, ret);
    muct_diag("hipIpcOpenMemHandle(peer 0x%" PRIx64 " address 0x%" PRIx64
              " length %" PRIu64 ") on device %d failed: %s",
              region->owner, key->base, key->alloc_length, region->device,
              region->error);
    return muct_xgmi_map_status(peer, key, ret);
}

static ucs_status_t muct_xgmi_map_open(muct_xgmi_map_t *map, muct_xgmi_peer_t *peer,
                                       const muct_xgmi_key_t *key,
                                       muct_xgmi_map_region_t *region)
{
    ucs_status_t status;
    int prev;

    if (!muct_xgmi_peer_is_alive(peer)) {
        muct_diag("peer 0x%" PRIx64 " is dead", key->owner);
        return UCS_ERR_UNREACHABLE;
    }

    status = muct_gpu_push_device(map->gpu, region->device, &prev);
    if (status != UCS_OK) {
        return UCS_ERR_UNREACHABLE;
    }

    status = muct_xgmi_peer_is_self(peer)
                 ? muct_xgmi_map_open_self(map, key, region)
                 : muct_xgmi_map_open_ipc(map, peer, key, region);
    muct_gpu_pop_device(map->gpu, region->device, prev);
    return status;
}

/* Locked. */
static muct_xgmi_bar_t *muct_xgmi_map_find_bar(const muct_xgmi_map_t *map,
                                               uint64_t owner, int device)
{
    muct_xgmi_bar_t *bar = map->bars;

    while ((bar != NULL) && ((bar->owner != owner) || (bar->device != device))) {
        bar = bar->next;
    }
    return bar;
}

/* Locked. Is any memory of the peer mapped for the device? Then there is a way. */
static bool muct_xgmi_map_has_region(const muct_xgmi_map_t *map, uint64_t owner,
                                     int device)
{
    const muct_xgmi_map_region_t *region;
    size_t i;

    for (i = 0; i < MUCT_XGMI_MAP_NUM_BUCKETS; ++i) {
        for (region = map->buckets[i]; region != NULL; region = region->next) {
            if ((region->owner == owner) && (region->device == device) &&
                !region->is_opening) {
                return true;
            }
        }
    }
    return false;
}

/* Locked. */
static void muct_xgmi_map_add_bar(muct_xgmi_map_t *map, uint64_t owner, int device,
                                  const char *error)
{
    muct_xgmi_bar_t *bar;

    if (muct_xgmi_map_has_region(map, owner, device) ||
        (muct_xgmi_map_find_bar(map, owner, device) != NULL)) {
        return;
    }

    muct_warn("device %d has no way to the memory of peer 0x%" PRIx64 " (%s); other "
              "transports carry it. hipIpcOpenMemHandle() needs: access between the "
              "devices; with ROCm 7.2 or HSA_ENABLE_IPC_MODE_LEGACY=0 one network "
              "namespace (docker --network=host); with HSA_ENABLE_IPC_MODE_LEGACY=1 "
              "AMD's own driver and the peer's /dev/dri nodes visible",
              device, owner, error);
    bar = calloc(1, sizeof(*bar));
    if (bar != NULL) {
        bar->owner = owner;
        bar->device = device;
        bar->next = map->bars;
        map->bars = bar;
    }
}

/* Locked. What the peer has freed since, and allocated again at the same place. */
static void muct_xgmi_map_close_older(muct_xgmi_map_t *map,
                                      muct_xgmi_map_region_t **bucket,
                                      const muct_xgmi_map_region_t *newer)
{
    muct_xgmi_map_region_t *region, **link = bucket;

    while ((region = *link) != NULL) {
        if ((region != newer) && (region->owner == newer->owner) &&
            (region->super.base == newer->super.base) &&
            (region->device == newer->device) && (region->refs == 0) &&
            !region->is_opening) {
            *link = region->next;
            muct_xgmi_map_remove_idle(map, region);
            muct_xgmi_map_unmap(map, region);
        } else {
            link = &region->next;
        }
    }
}

/* Locked, but not while the driver is called. */
static ucs_status_t muct_xgmi_map_add(muct_xgmi_map_t *map, muct_xgmi_peer_t *peer,
                                      const muct_xgmi_key_t *key, int device,
                                      muct_xgmi_map_region_t **bucket,
                                      muct_xgmi_map_region_t **region_p)
{
    muct_xgmi_map_region_t *region;
    ucs_status_t status;

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
    region->is_opening = true;
    region->next = *bucket;
    *bucket = region;
    pthread_mutex_unlock(&map->lock);
    status = muct_xgmi_map_open(map, peer, key, region);
    pthread_mutex_lock(&map->lock);
    region->is_opening = false;
    pthread_cond_broadcast(&map->opened);
    if (status != UCS_OK) {
        muct_xgmi_map_unlink(map, region);
        if ((status == UCS_ERR_UNSUPPORTED) && (region->error != NULL)) {
            muct_xgmi_map_add_bar(map, key->owner, device, region->error);
        }
        free(region);
        return status;
    }

    muct_xgmi_map_warn_evicted(map, region);
    ++map->num_regions;
    region->super.delta = (uintptr_t)region->mapped - key->base;
    muct_xgmi_map_close_older(map, bucket, region);
    muct_debug("mapped 0x%" PRIx64 " length %" PRIu64 " of peer 0x%" PRIx64
               " at %p for device %d",
               key->base, key->alloc_length, key->owner, region->mapped, device);
    *region_p = region;
    return UCS_OK;
}

/* Locked. A region that is being opened is waited for. */
static muct_xgmi_map_region_t *muct_xgmi_map_find(muct_xgmi_map_t *map,
                                                  const muct_xgmi_key_t *key,
                                                  int device,
                                                  muct_xgmi_map_region_t **bucket)
{
    muct_xgmi_map_region_t *region = *bucket;

    while (region != NULL) {
        if ((region->owner != key->owner) || (region->super.base != key->base) ||
            (region->device != device) || (region->buffer_id != key->buffer_id) ||
            (region->super.length != key->alloc_length) ||
            memcmp(region->handle, key->handle, sizeof(region->handle))) {
            region = region->next;
        } else if (region->is_opening) {
            pthread_cond_wait(&map->opened, &map->lock);
            region = *bucket;
        } else {
            break;
        }
    }
    return region;
}

ucs_status_t muct_xgmi_map_get(muct_xgmi_map_t *map, muct_xgmi_peer_t *peer,
                               const muct_xgmi_key_t *key, int device,
                               const muct_xgmi_region_t **region_p)
{
    ucs_status_t status = UCS_OK;
    muct_xgmi_map_region_t **bucket, *region;

    pthread_mutex_lock(&map->lock);
    bucket = muct_xgmi_map_bucket(map, key->owner, key->base, device);
    region = muct_xgmi_map_find(map, key, device, bucket);
    if (region == NULL) {
        status = (muct_xgmi_map_find_bar(map, key->owner, device) != NULL)
                     ? UCS_ERR_UNSUPPORTED
                     : muct_xgmi_map_add(map, peer, key, device, bucket, &region);
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

/* Locked; those of one peer, or with 0 all. */
static void muct_xgmi_map_drop_bars(muct_xgmi_map_t *map, uint64_t owner)
{
    muct_xgmi_bar_t **link = &map->bars;
    muct_xgmi_bar_t *bar;

    while ((bar = *link) != NULL) {
        if ((owner == 0) || (bar->owner == owner)) {
            *link = bar->next;
            free(bar);
        } else {
            link = &bar->next;
        }
    }
}

void muct_xgmi_map_drop_peer(muct_xgmi_map_t *map, uint64_t owner)
{
    muct_xgmi_map_region_t *region, **link;
    size_t i;

    pthread_mutex_lock(&map->lock);
    muct_xgmi_map_drop_bars(map, owner);
    for (i = 0; i < MUCT_XGMI_MAP_NUM_BUCKETS; ++i) {
        link = &map->buckets[i];
        while ((region = *link) != NULL) {
            if ((region->owner != owner) || region->is_opening) {
                link = &region->next;
                continue;
            }

            *link = region->next;
            region->is_dropped = true;
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
    ucs_status_t status;

    if (map == NULL) {
        muct_error("failed to allocate the cache of peer memory");
        return UCS_ERR_NO_MEMORY;
    }

    status = muct_xgmi_closer_create(gpu, &map->closer);
    if (status != UCS_OK) {
        free(map);
        return status;
    }

    map->gpu = gpu;
    map->config = *config;
    pthread_mutex_init(&map->lock, NULL);
    pthread_cond_init(&map->opened, NULL);
    ucs_list_head_init(&map->idle);
    *map_p = map;
    return UCS_OK;
}

void muct_xgmi_map_destroy(muct_xgmi_map_t *map)
{
    muct_xgmi_map_shrink(map, 0, 0);
    muct_xgmi_map_drop_bars(map, 0);
    if (map->num_regions > 0) {
        muct_warn("%u regions of peers are still in use and stay mapped",
                  map->num_regions);
    }

    muct_xgmi_closer_destroy(map->closer, MUCT_XGMI_MAP_END_LIMIT_MS);
    pthread_cond_destroy(&map->opened);
    pthread_mutex_destroy(&map->lock);
    free(map);
}
