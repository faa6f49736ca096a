/* SPDX-License-Identifier: BSD-3-Clause */

/* Opening peers' memory: in threads of the opener, so that nobody waits for it here. */

#include "xgmi/memory/xgmi_map_int.h"

#include "base/muct_log.h"

#include <inttypes.h>
#include <stdlib.h>

/* How long closing may take when address space is short. */
#define MUCT_XGMI_MAP_CLOSE_LIMIT_MS 1000

/* A region that is to be opened. */
typedef struct muct_xgmi_map_opening {
    muct_xgmi_opening_t super;
    muct_xgmi_map_t *map;
    muct_xgmi_map_region_t *region;
    muct_xgmi_peer_t *peer;
    muct_xgmi_key_t key;
} muct_xgmi_map_opening_t;


/* Closes what is idle and may be why a region did not open. @return Whether it may. */
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

static ucs_status_t muct_xgmi_map_call_driver(muct_xgmi_map_opening_t *opening)
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
    /* who copies to what was freed may do so for long */
    return (status == UCS_ERR_BUSY) ? UCS_ERR_UNSUPPORTED : status;
}

/* Locked. */
static void muct_xgmi_map_note_open(muct_xgmi_map_t *map,
                                    muct_xgmi_map_region_t *region)
{
    muct_xgmi_way_t *way;

    way = region->is_dropped
              ? NULL
              : muct_xgmi_way_get(&map->ways, region->owner, region->device);
    if (way != NULL) {
        way->is_open = true;
    }
    region->super.delta = (uintptr_t)region->mapping.address - region->super.base;
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

    way = muct_xgmi_way_get(&map->ways, region->owner, region->device);
    if (way != NULL) {
        muct_xgmi_way_bar(way, region->mapping.error);
    }
}

/* Who waits is told, first by the number. */
static void muct_xgmi_map_tell(muct_xgmi_map_t *map)
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

/* In a thread of the opener, without the lock. */
static void muct_xgmi_map_run(muct_xgmi_opening_t *super)
{
    muct_xgmi_map_opening_t *opening =
        ucs_container_of(super, muct_xgmi_map_opening_t, super);
    muct_xgmi_map_t *map = opening->map;
    muct_xgmi_map_region_t *region = opening->region;
    ucs_status_t status = muct_xgmi_map_call_driver(opening);

    pthread_mutex_lock(&map->lock);
    region->status = status;
    if (status == UCS_OK) {
        muct_xgmi_map_note_open(map, region);
    } else {
        muct_xgmi_map_note_failure(map, region);
    }
    muct_xgmi_map_tell(map);
    muct_xgmi_map_unref(map, region);
    pthread_mutex_unlock(&map->lock);
    muct_xgmi_peer_put(opening->peer);
    free(opening);
}

ucs_status_t muct_xgmi_map_start_opening(muct_xgmi_map_t *map,
                                         muct_xgmi_map_region_t *region,
                                         muct_xgmi_peer_t *peer,
                                         const muct_xgmi_key_t *key)
{
    muct_xgmi_map_opening_t *opening = malloc(sizeof(*opening));
    ucs_status_t status;

    if (opening == NULL) {
        muct_error("failed to allocate the opening of memory of peer 0x%" PRIx64,
                   key->owner);
        return UCS_ERR_NO_MEMORY;
    }

    opening->super.owner = key->owner;
    opening->super.run = muct_xgmi_map_run;
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

    ++region->refs;
    return UCS_OK;
}
