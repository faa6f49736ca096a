/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The cache of mappings of peers' memory. Threads of the opener open them, so that no
 * caller waits for the driver.
 *
 * map->lock guards everything here and is never held during a driver call. A region is
 * in one bucket as long as it can be found, and in the idle list, least recently used
 * first, while it has no reference. A region that can no longer be found (its peer
 * died) waits for its last reference.
 *
 * A region enters its bucket when it is first requested, so that no handle is opened
 * twice. The thread that opens it holds a reference. A region that failed to open can
 * be found as long as it has a reference, and its status is the reason.
 */

#include "xgmi/memory/xgmi_map.h"

#include "base/muct_log.h"
#include "base/muct_tuning.h"
#include "xgmi/memory/xgmi_closer.h"
#include "xgmi/memory/xgmi_mapping.h"
#include "xgmi/memory/xgmi_opener.h"
#include "xgmi/memory/xgmi_way.h"

#include <ucs/datastruct/list.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* How long closing may take when address space is short. */
#define MUCT_XGMI_MAP_CLOSE_LIMIT_MS 1000

/* Calls of hipIpcOpenMemHandle() for one allocation of a living peer. */
#define MUCT_XGMI_MAP_OPEN_TRIES 3

/* How long pending opens and closes may take when the cache is destroyed. */
#define MUCT_XGMI_MAP_END_LIMIT_MS 10000


#define MUCT_XGMI_MAP_NUM_BUCKETS 8192

/* Number of evicted regions that are remembered. */
#define MUCT_XGMI_MAP_NUM_EVICTED 4096

typedef struct muct_xgmi_map_region {
    muct_xgmi_region_t super;
    struct muct_xgmi_map_region *next; /* next region of the bucket */
    ucs_list_link_t idle;
    uint64_t owner;
    int device;
    bool is_host;
    bool is_dropped;     /* the region is in no bucket: no search finds it */
    ucs_status_t status; /* UCS_INPROGRESS: it is being opened */
    unsigned refs;
    muct_xgmi_mapping_t mapping;
    uint64_t buffer_id;
    unsigned char handle[MUCT_XGMI_HANDLE_SIZE];
} muct_xgmi_map_region_t;

struct muct_xgmi_map {
    const muct_gpu_t *gpu;
    muct_xgmi_map_config_t config;
    pthread_mutex_t lock;
    pthread_cond_t opened; /* a region was opened or failed to open */
    muct_xgmi_closer_t *closer;
    muct_xgmi_opener_t *opener;
    muct_xgmi_way_t *ways;
    muct_xgmi_map_watch_t *watches;
    _Atomic uint64_t num_opened; /* counts failures as well */
    ucs_list_link_t openings;    /* regions to open, in the order of their requests */
    ucs_list_link_t idle;
    unsigned num_idle;
    size_t idle_size;
    unsigned num_regions;
    bool has_warned; /* a warning about too low limits was logged */
    /* identities of regions that a limit has closed, each at the place of its hash */
    uint64_t evicted[MUCT_XGMI_MAP_NUM_EVICTED];
    muct_xgmi_map_region_t *buckets[MUCT_XGMI_MAP_NUM_BUCKETS];
};


/* A region that is to be opened. */
typedef struct muct_xgmi_map_opening {
    muct_xgmi_opening_t super;
    ucs_list_link_t list;
    uint64_t started_ns; /* 0: it waits behind others of its peer */
    muct_xgmi_map_t *map;
    muct_xgmi_map_region_t *region;
    muct_xgmi_peer_t *peer;
    muct_xgmi_key_t key;
} muct_xgmi_map_opening_t;


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
    muct_debug("unmapping %p length %" PRIu64 " of peer 0x%" PRIx64,
               region->mapping.address, region->super.length, region->owner);
    if (!region->mapping.is_self) {
        muct_xgmi_closer_add(map->closer, region->device, &region->mapping);
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

/* A hash of the region that is never 0. */
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

/* Warn if a region that is mapped again was unmapped by a limit: the limit is too low.
 */
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

static void muct_xgmi_map_close_older(muct_xgmi_map_t *map,
                                      const muct_xgmi_map_region_t *newer)
{
    muct_xgmi_map_region_t *region, **link;

    link = muct_xgmi_map_bucket(map, newer->owner, newer->super.base, newer->device);
    while ((region = *link) != NULL) {
        if ((region != newer) && (region->owner == newer->owner) &&
            (region->super.base == newer->super.base) &&
            (region->device == newer->device) && (region->refs == 0)) {
            *link = region->next;
            muct_xgmi_map_remove_idle(map, region);
            muct_xgmi_map_unmap(map, region);
        } else {
            link = &region->next;
        }
    }
}

static bool muct_xgmi_map_do_overlap(const muct_xgmi_map_region_t *one,
                                     const muct_xgmi_map_region_t *other)
{
    return (one->owner == other->owner) && (one->device == other->device) &&
           (one->super.base < other->super.base + other->super.length) &&
           (other->super.base < one->super.base + one->super.length);
}

static void muct_xgmi_map_close_overlapped(muct_xgmi_map_t *map,
                                           const muct_xgmi_map_region_t *newer)
{
    muct_xgmi_map_region_t *region, *next;

    ucs_list_for_each_safe(region, next, &map->idle, idle)
    {
        if (muct_xgmi_map_do_overlap(region, newer)) {
            muct_xgmi_map_remove_idle(map, region);
            muct_xgmi_map_unlink(map, region);
            muct_xgmi_map_unmap(map, region);
        }
    }
}

static void muct_xgmi_map_count(muct_xgmi_map_t *map,
                                const muct_xgmi_map_region_t *region)
{
    ++map->num_regions;
    muct_xgmi_map_warn_evicted(map, region);
}

/* Locked. Handle the release of the last reference to a region. */
static void muct_xgmi_map_let_go(muct_xgmi_map_t *map, muct_xgmi_map_region_t *region)
{
    if (region->status != UCS_OK) {
        if (!region->is_dropped) {
            muct_xgmi_map_unlink(map, region);
        }
        free(region);
    } else if (region->is_dropped) {
        muct_xgmi_map_unmap(map, region);
    } else {
        ucs_list_add_tail(&map->idle, &region->idle);
        ++map->num_idle;
        map->idle_size += region->super.length;
        muct_xgmi_map_shrink(map, map->config.max_idle_regions,
                             map->config.max_idle_size);
    }
}

static void muct_xgmi_map_unref(muct_xgmi_map_t *map, muct_xgmi_map_region_t *region)
{
    if (--region->refs == 0) {
        muct_xgmi_map_let_go(map, region);
    }
}


/* ---- opening ---- */

/* Close idle regions that may have prevented a region from being opened. @return
 * Whether to open it again. */
static bool muct_xgmi_map_make_room(muct_xgmi_map_t *map,
                                    const muct_xgmi_map_region_t *region,
                                    ucs_status_t status)
{
    if ((status != UCS_ERR_NO_MEMORY) && (status != UCS_ERR_BUSY)) {
        return false;
    }

    pthread_mutex_lock(&map->lock);
    if (status == UCS_ERR_NO_MEMORY) {
        muct_xgmi_map_shrink(map, 0, 0);
    } else {
        muct_xgmi_map_close_overlapped(map, region);
    }
    pthread_mutex_unlock(&map->lock);
    (void)muct_xgmi_closer_wait(map->closer, MUCT_XGMI_MAP_CLOSE_LIMIT_MS);
    return true;
}

static ucs_status_t muct_xgmi_map_open_once(muct_xgmi_map_opening_t *opening)
{
    muct_xgmi_map_t *map = opening->map;
    muct_xgmi_map_region_t *region = opening->region;
    ucs_status_t status;

    status = muct_xgmi_mapping_open(map->gpu, opening->peer, &opening->key,
                                    region->device, &region->mapping);
    if (muct_xgmi_map_make_room(map, region, status)) {
        status = muct_xgmi_mapping_open(map->gpu, opening->peer, &opening->key,
                                        region->device, &region->mapping);
    }
    /* busy: copies to memory that its owner has freed may run for long */
    return (status == UCS_ERR_BUSY) ? UCS_ERR_UNSUPPORTED : status;
}

/*
 * AMD's runtime fails transiently under load (rocm-systems 8178, 11892). A call that
 * took longer than the open timeout is not repeated.
 */
static ucs_status_t muct_xgmi_map_call_driver(muct_xgmi_map_opening_t *opening)
{
    const uint64_t until_ns =
        muct_xgmi_wake_now_ns() +
        (opening->map->config.open_timeout_ms * UINT64_C(1000000));
    unsigned tries = 0;
    ucs_status_t status;

    do {
        status = muct_xgmi_map_open_once(opening);
    } while ((status == UCS_ERR_IO_ERROR) && (++tries < MUCT_XGMI_MAP_OPEN_TRIES) &&
             (muct_xgmi_wake_now_ns() < until_ns));

    return (status == UCS_ERR_IO_ERROR) ? UCS_ERR_UNSUPPORTED : status;
}

/* Locked. */
static void muct_xgmi_map_note_open(muct_xgmi_map_t *map,
                                    muct_xgmi_map_region_t *region)
{
    muct_xgmi_way_t *way;

    way = region->is_dropped ? NULL
                             : muct_xgmi_way_get(&map->ways, region->owner,
                                                 region->device, region->is_host);
    if (way != NULL) {
        way->is_open = true;
    }
    region->super.delta = (uintptr_t)region->mapping.address - region->super.base;
    region->super.is_pageable = muct_xgmi_mapping_is_pageable(&region->mapping);
    muct_xgmi_map_count(map, region);
    muct_xgmi_map_close_older(map, region);
    muct_debug("mapped 0x%" PRIx64 " length %" PRIu64 " of peer 0x%" PRIx64
               " at %p for device %d",
               region->super.base, region->super.length, region->owner,
               region->mapping.address, region->device);
}

/* Locked. */
static void muct_xgmi_map_note_failure(muct_xgmi_map_t *map,
                                       const muct_xgmi_map_region_t *region)
{
    muct_xgmi_way_t *way;

    if ((region->status != UCS_ERR_UNSUPPORTED) || (region->mapping.error == NULL) ||
        region->is_dropped) {
        return;
    }

    way = muct_xgmi_way_get(&map->ways, region->owner, region->device, region->is_host);
    if (way != NULL) {
        muct_xgmi_way_bar(way, muct_xgmi_wake_now_ns(), region->mapping.error);
    }
}

/* Notify the waiting threads; the number of opened regions changes first. */
static void muct_xgmi_map_notify(muct_xgmi_map_t *map)
{
    muct_xgmi_map_watch_t *watch;

    atomic_fetch_add(&map->num_opened, 1);
    pthread_cond_broadcast(&map->opened);
    for (watch = map->watches; watch != NULL; watch = watch->next) {
        if (atomic_exchange(&watch->is_waiting, false)) {
            muct_xgmi_wake_signal(watch->wake);
        }
    }
}

/*
 * Locked. Fail the openings that wait for a stuck thread. @return Whether any failed.
 */
static bool muct_xgmi_map_give_up(muct_xgmi_map_t *map,
                                  const muct_xgmi_map_opening_t *stuck,
                                  unsigned limit_ms)
{
    muct_xgmi_map_opening_t *opening;
    bool has_changed = false;

    if (stuck->region->status == UCS_INPROGRESS) {
        muct_warn("memory 0x%" PRIx64 " length %" PRIu64 " of peer 0x%" PRIx64
                  " has not opened for %u ms: hipIpcOpenMemHandle() of ROCm 7.2 does "
                  "not return when the owner has freed the memory, or is stopped. "
                  "Copies to memory of this peer that is not open yet fail. End "
                  "transfers before memory is freed, and restart this process",
                  stuck->key.base, stuck->key.alloc_length, stuck->key.owner, limit_ms);
    }
    ucs_list_for_each(opening, &map->openings, list)
    {
        if ((opening->key.owner == stuck->key.owner) &&
            (opening->region->status == UCS_INPROGRESS)) {
            opening->region->status = UCS_ERR_TIMED_OUT;
            has_changed = true;
        }
    }
    return has_changed;
}

void muct_xgmi_map_expire(muct_xgmi_map_t *map, unsigned limit_ms)
{
    const muct_xgmi_map_opening_t *opening;
    bool has_changed = false;
    uint64_t now_ns;

    pthread_mutex_lock(&map->lock);
    now_ns = muct_xgmi_wake_now_ns();
    ucs_list_for_each(opening, &map->openings, list)
    {
        if ((opening->started_ns != 0) &&
            (now_ns - opening->started_ns > limit_ms * UINT64_C(1000000))) {
            has_changed |= muct_xgmi_map_give_up(map, opening, limit_ms);
        }
    }
    if (has_changed) {
        muct_xgmi_map_notify(map);
    }
    pthread_mutex_unlock(&map->lock);
}

/* Locked. @return Whether the mapping is still needed: no copy waits for a region that
 * timed out. */
static bool muct_xgmi_map_begin(muct_xgmi_map_opening_t *opening)
{
    opening->started_ns = muct_xgmi_wake_now_ns();
    return opening->region->status == UCS_INPROGRESS;
}

/* Locked. A region that timed out fails until its opening ends here; then it can be
 * opened again. */
static void muct_xgmi_map_end(muct_xgmi_map_t *map, muct_xgmi_map_region_t *region,
                              ucs_status_t status)
{
    if (region->status != UCS_INPROGRESS) {
        if ((status == UCS_OK) && !region->mapping.is_self) {
            muct_xgmi_closer_add(map->closer, region->device, &region->mapping);
        }
        return;
    }
    region->status = status;
    if (status == UCS_OK) {
        muct_xgmi_map_note_open(map, region);
    } else {
        muct_xgmi_map_note_failure(map, region);
    }
}

/* Runs in a thread of the opener; the lock is not held. */
static void muct_xgmi_map_run(muct_xgmi_opening_t *super)
{
    muct_xgmi_map_opening_t *opening =
        ucs_container_of(super, muct_xgmi_map_opening_t, super);
    muct_xgmi_map_t *map = opening->map;
    muct_xgmi_map_region_t *region = opening->region;
    ucs_status_t status = UCS_ERR_TIMED_OUT;
    bool is_needed;

    pthread_mutex_lock(&map->lock);
    is_needed = muct_xgmi_map_begin(opening);
    pthread_mutex_unlock(&map->lock);
    if (is_needed) {
        status = muct_xgmi_map_call_driver(opening);
    }

    pthread_mutex_lock(&map->lock);
    ucs_list_del(&opening->list);
    muct_xgmi_map_end(map, region, status);
    muct_xgmi_map_notify(map);
    muct_xgmi_map_unref(map, region);
    pthread_mutex_unlock(&map->lock);
    muct_xgmi_peer_put(opening->peer);
    free(opening);
}

static ucs_status_t muct_xgmi_map_start_opening(muct_xgmi_map_t *map,
                                                muct_xgmi_map_region_t *region,
                                                muct_xgmi_peer_t *peer,
                                                const muct_xgmi_key_t *key)
{
    muct_xgmi_map_opening_t *opening = malloc(sizeof(*opening));
    ucs_status_t status;

    if (opening == NULL) {
        muct_error("failed to allocate a request to open memory of peer 0x%" PRIx64,
                   key->owner);
        return UCS_ERR_NO_MEMORY;
    }

    opening->super.owner = key->owner;
    opening->super.run = muct_xgmi_map_run;
    opening->started_ns = 0;
    opening->map = map;
    opening->region = region;
    opening->peer = muct_xgmi_peer_ref(peer);
    opening->key = *key;
    status = muct_xgmi_opener_add(map->opener, &opening->super);
    if (status != UCS_OK) {
        muct_xgmi_peer_put(peer);
        free(opening);
        return status;
    }

    ucs_list_add_tail(&map->openings, &opening->list);
    ++region->refs;
    return UCS_OK;
}


/* ---- finding ---- */

/* Locked. Add a new region; only its opener refers to it. */
static ucs_status_t muct_xgmi_map_add(muct_xgmi_map_t *map, muct_xgmi_peer_t *peer,
                                      const muct_xgmi_key_t *key, int device,
                                      muct_xgmi_map_region_t **region_p)
{
    muct_xgmi_map_region_t **bucket =
        muct_xgmi_map_bucket(map, key->owner, key->base, device);
    muct_xgmi_map_region_t *region = calloc(1, sizeof(*region));
    ucs_status_t status;

    if (region == NULL) {
        muct_error("failed to allocate a region of peer 0x%" PRIx64, key->owner);
        return UCS_ERR_NO_MEMORY;
    }

    region->owner = key->owner;
    region->device = device;
    region->is_host = muct_xgmi_key_is_host(key);
    region->super.base = key->base;
    region->super.length = key->alloc_length;
    region->buffer_id = key->buffer_id;
    memcpy(region->handle, key->handle, sizeof(region->handle));
    region->status = UCS_INPROGRESS;
    if (muct_xgmi_mapping_is_there(peer, key, device, &region->mapping)) {
        region->status = UCS_OK;
        muct_xgmi_map_count(map, region);
    } else {
        status = muct_xgmi_map_start_opening(map, region, peer, key);
        if (status != UCS_OK) {
            free(region);
            return status;
        }
    }

    region->next = *bucket;
    *bucket = region;
    *region_p = region;
    return UCS_OK;
}

/* Locked. */
static muct_xgmi_map_region_t *muct_xgmi_map_find(muct_xgmi_map_t *map,
                                                  const muct_xgmi_key_t *key,
                                                  int device)
{
    muct_xgmi_map_region_t *region;

    region = *muct_xgmi_map_bucket(map, key->owner, key->base, device);
    while ((region != NULL) &&
           ((region->owner != key->owner) || (region->super.base != key->base) ||
            (region->device != device) || (region->buffer_id != key->buffer_id) ||
            (region->super.length != key->alloc_length) ||
            memcmp(region->handle, key->handle, sizeof(region->handle)))) {
        region = region->next;
    }
    return region;
}

/* Locked. */
static bool muct_xgmi_map_is_barred(muct_xgmi_map_t *map, const muct_xgmi_key_t *key,
                                    int device)
{
    const muct_xgmi_way_t *way =
        muct_xgmi_way_get(&map->ways, key->owner, device, muct_xgmi_key_is_host(key));

    return (way != NULL) && muct_xgmi_way_is_barred(way, muct_xgmi_wake_now_ns());
}

/* Locked. */
static ucs_status_t muct_xgmi_map_find_or_open(muct_xgmi_map_t *map,
                                               muct_xgmi_peer_t *peer,
                                               const muct_xgmi_key_t *key, int device,
                                               muct_xgmi_map_region_t **region_p)
{
    muct_xgmi_map_region_t *region = muct_xgmi_map_find(map, key, device);
    ucs_status_t status;

    if (region == NULL) {
        if (muct_xgmi_map_is_barred(map, key, device)) {
            return UCS_ERR_UNSUPPORTED;
        }
        status = muct_xgmi_map_add(map, peer, key, device, &region);
        if (status != UCS_OK) {
            return status;
        }
    } else if (region->refs == 0) {
        muct_xgmi_map_remove_idle(map, region);
    }

    if (!UCS_STATUS_IS_ERR(region->status)) {
        ++region->refs;
        *region_p = region;
    }
    return region->status;
}

static void muct_xgmi_map_time_in(unsigned ms, struct timespec *until)
{
    clock_gettime(CLOCK_MONOTONIC, until);
    until->tv_sec += ms / 1000;
    until->tv_nsec += (long)(ms % 1000) * 1000000;
    until->tv_sec += until->tv_nsec / 1000000000;
    until->tv_nsec %= 1000000000;
}

/*
 * Locked. Wait until a time for a region to which the caller has a reference. If the
 * region fails to open, release the reference.
 */
static ucs_status_t muct_xgmi_map_wait(muct_xgmi_map_t *map,
                                       muct_xgmi_map_region_t *region,
                                       const struct timespec *until)
{
    ucs_status_t status;
    int error = 0;

    while ((region->status == UCS_INPROGRESS) && (error == 0)) {
        error = pthread_cond_timedwait(&map->opened, &map->lock, until);
    }
    status = region->status;
    if (UCS_STATUS_IS_ERR(status)) {
        muct_xgmi_map_unref(map, region);
    }
    return status;
}

ucs_status_t muct_xgmi_map_try(muct_xgmi_map_t *map, muct_xgmi_peer_t *peer,
                               const muct_xgmi_key_t *key, int device,
                               const muct_xgmi_region_t **region_p)
{
    muct_xgmi_map_region_t *region = NULL;
    ucs_status_t status;

    pthread_mutex_lock(&map->lock);
    status = muct_xgmi_map_find_or_open(map, peer, key, device, &region);
    pthread_mutex_unlock(&map->lock);
    if (!UCS_STATUS_IS_ERR(status)) {
        *region_p = &region->super;
    }
    return status;
}

ucs_status_t muct_xgmi_map_get(muct_xgmi_map_t *map, muct_xgmi_peer_t *peer,
                               const muct_xgmi_key_t *key, int device,
                               unsigned limit_ms, const muct_xgmi_region_t **region_p)
{
    muct_xgmi_map_region_t *region = NULL;
    struct timespec until;
    ucs_status_t status;

    pthread_mutex_lock(&map->lock);
    status = muct_xgmi_map_find_or_open(map, peer, key, device, &region);
    if (status == UCS_INPROGRESS) {
        muct_xgmi_map_time_in(limit_ms, &until);
        status = muct_xgmi_map_wait(map, region, &until);
    }
    if (status == UCS_INPROGRESS) {
        muct_xgmi_map_unref(map, region);
        status = UCS_ERR_TIMED_OUT;
    }
    pthread_mutex_unlock(&map->lock);
    if (status == UCS_OK) {
        *region_p = &region->super;
    }
    return status;
}

/* Locked. Whether to wait for a mapping, and until when. Only the first mapping of a
 * way is waited for, once. */
static bool muct_xgmi_map_may_wait(muct_xgmi_map_t *map, const muct_xgmi_key_t *key,
                                   int device, struct timespec *until)
{
    muct_xgmi_way_t *way =
        muct_xgmi_way_get(&map->ways, key->owner, device, muct_xgmi_key_is_host(key));

    if ((way == NULL) || way->is_open || way->was_awaited) {
        return false;
    }

    way->was_awaited = true;
    muct_xgmi_map_time_in(map->config.open_timeout_ms, until);
    return true;
}

ucs_status_t muct_xgmi_map_prepare(muct_xgmi_map_t *map, muct_xgmi_peer_t *peer,
                                   const muct_xgmi_key_t *key, int device)
{
    muct_xgmi_map_region_t *region;
    struct timespec until;
    ucs_status_t status;

    pthread_mutex_lock(&map->lock);
    status = muct_xgmi_map_find_or_open(map, peer, key, device, &region);
    if ((status == UCS_INPROGRESS) &&
        muct_xgmi_map_may_wait(map, key, device, &until)) {
        status = muct_xgmi_map_wait(map, region, &until);
    }
    if (!UCS_STATUS_IS_ERR(status)) {
        muct_xgmi_map_unref(map, region);
    }
    pthread_mutex_unlock(&map->lock);
    return status;
}

void muct_xgmi_map_put(muct_xgmi_map_t *map, const muct_xgmi_region_t *super)
{
    pthread_mutex_lock(&map->lock);
    muct_xgmi_map_unref(map, ucs_container_of(super, muct_xgmi_map_region_t, super));
    pthread_mutex_unlock(&map->lock);
}


/* ---- watches ---- */

uint64_t muct_xgmi_map_num_opened(const muct_xgmi_map_t *map)
{
    return atomic_load(&map->num_opened);
}

void muct_xgmi_map_join(muct_xgmi_map_t *map, muct_xgmi_map_watch_t *watch,
                        muct_xgmi_wake_t *wake)
{
    watch->wake = wake;
    atomic_init(&watch->is_waiting, false);
    pthread_mutex_lock(&map->lock);
    watch->next = map->watches;
    map->watches = watch;
    pthread_mutex_unlock(&map->lock);
}

void muct_xgmi_map_leave(muct_xgmi_map_t *map, const muct_xgmi_map_watch_t *watch)
{
    muct_xgmi_map_watch_t **link;

    pthread_mutex_lock(&map->lock);
    for (link = &map->watches; *link != watch; link = &(*link)->next) {
    }
    *link = watch->next;
    pthread_mutex_unlock(&map->lock);
}


/* ---- dead peers, creation and destruction ---- */

void muct_xgmi_map_drop_peer(muct_xgmi_map_t *map, uint64_t owner)
{
    muct_xgmi_map_region_t *region, **link;
    size_t i;

    pthread_mutex_lock(&map->lock);
    muct_xgmi_ways_drop(&map->ways, owner);
    for (i = 0; i < MUCT_XGMI_MAP_NUM_BUCKETS; ++i) {
        link = &map->buckets[i];
        while ((region = *link) != NULL) {
            if (region->owner != owner) {
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
    pthread_condattr_t attr;
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

    status = muct_xgmi_opener_create(&map->opener);
    if (status != UCS_OK) {
        muct_xgmi_closer_destroy(map->closer, 0);
        free(map);
        return status;
    }

    map->gpu = gpu;
    map->config = *config;
    pthread_mutex_init(&map->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&map->opened, &attr);
    pthread_condattr_destroy(&attr);
    ucs_list_head_init(&map->openings);
    ucs_list_head_init(&map->idle);
    *map_p = map;
    return UCS_OK;
}

void muct_xgmi_map_destroy(muct_xgmi_map_t *map)
{
    if (!muct_xgmi_opener_destroy(map->opener, MUCT_XGMI_MAP_END_LIMIT_MS)) {
        muct_warn("peers' memory stays mapped: hipIpcOpenMemHandle() has not returned "
                  "for more than %u ms",
                  MUCT_XGMI_MAP_END_LIMIT_MS);
        return; /* the opener's threads still use the cache */
    }

    muct_xgmi_map_shrink(map, 0, 0);
    muct_xgmi_ways_drop(&map->ways, 0);
    if (map->num_regions > 0) {
        muct_warn("%u regions of peers are still in use and stay mapped",
                  map->num_regions);
    }

    muct_xgmi_closer_destroy(map->closer, MUCT_XGMI_MAP_END_LIMIT_MS);
    pthread_cond_destroy(&map->opened);
    pthread_mutex_destroy(&map->lock);
    free(map);
}
