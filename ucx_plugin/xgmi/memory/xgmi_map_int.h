/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_MAP_INT_H
#define MUCT_XGMI_MAP_INT_H

/**
 * @file
 * The inside of the cache of mappings, for xgmi_map.c and xgmi_map_open.c.
 *
 * map->lock guards everything here and is never held during a driver call. A region is
 * in one bucket as long as it can be found, and in the idle list, least recently used
 * first, while nobody refers to it. One that can be found no longer (its peer died)
 * waits for its last reference.
 *
 * A region is in its bucket from the moment it is asked for, so that no handle is
 * opened twice. Who opens it has a reference. One that did not open can be found as
 * long as somebody has a reference, and tells why.
 */

#include "xgmi/memory/xgmi_closer.h"
#include "xgmi/memory/xgmi_map.h"
#include "xgmi/memory/xgmi_mapping.h"
#include "xgmi/memory/xgmi_opener.h"
#include "xgmi/memory/xgmi_way.h"

#include <ucs/datastruct/list.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define MUCT_XGMI_MAP_NUM_BUCKETS 8192

/* Regions that are remembered after a limit has taken their place. */
#define MUCT_XGMI_MAP_NUM_EVICTED 4096

typedef struct muct_xgmi_map_region {
    muct_xgmi_region_t super;
    struct muct_xgmi_map_region *next; /* in the bucket */
    ucs_list_link_t idle;
    uint64_t owner;
    int device;
    bool is_dropped;     /* not in a bucket */
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
    pthread_cond_t opened; /* or failed to */
    muct_xgmi_closer_t *closer;
    muct_xgmi_opener_t *opener;
    muct_xgmi_way_t *ways;
    muct_xgmi_map_watch_t *watches;
    _Atomic uint64_t num_opened; /* or failed to */
    ucs_list_link_t idle;
    unsigned num_idle;
    size_t idle_size;
    unsigned num_regions;
    bool has_warned;                             /* of limits that are too low */
    uint64_t evicted[MUCT_XGMI_MAP_NUM_EVICTED]; /* identities, by themselves */
    muct_xgmi_map_region_t *buckets[MUCT_XGMI_MAP_NUM_BUCKETS];
};


/** Where a region is, or would be. */
muct_xgmi_map_region_t **muct_xgmi_map_bucket(muct_xgmi_map_t *map, uint64_t owner,
                                              uint64_t base, int device);


/** Locked. Unmap what is idle until it is within limits. */
void muct_xgmi_map_shrink(muct_xgmi_map_t *map, unsigned max_regions, size_t max_size);


/** Locked. Unmap what the peer has freed since, and allocated again at the same place.
 */
void muct_xgmi_map_close_older(muct_xgmi_map_t *map,
                               const muct_xgmi_map_region_t *newer);


/** Locked. Unmap what overlaps a region and is idle: the peer has freed it since. */
void muct_xgmi_map_close_overlapped(muct_xgmi_map_t *map,
                                    const muct_xgmi_map_region_t *newer);


/** Locked. One region more is mapped; warns of limits that had taken it. */
void muct_xgmi_map_count(muct_xgmi_map_t *map, const muct_xgmi_map_region_t *region);


/** Locked. Return a reference. */
void muct_xgmi_map_unref(muct_xgmi_map_t *map, muct_xgmi_map_region_t *region);


/**
 * Locked. Open a region from another thread, which has a reference meanwhile; its
 * status tells when it is done.
 *
 * @return UCS_OK, or UCS_ERR_NO_MEMORY: nothing will be opened.
 */
ucs_status_t muct_xgmi_map_start_opening(muct_xgmi_map_t *map,
                                         muct_xgmi_map_region_t *region,
                                         muct_xgmi_peer_t *peer,
                                         const muct_xgmi_key_t *key);

#endif
