/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_MAP_H
#define MUCT_XGMI_MAP_H

/**
 * @file
 * Cache of peer GPU allocations mapped into this process.
 *
 * Mapping an IPC handle is a driver call that may wait for the peer's process. So a
 * thread of the cache makes the call, and the operation that needs the mapping is tried
 * again. A mapping is kept after its last user puts it back, until the configured
 * limits need its place. A limit that closes mappings which are used again is reported
 * once by a warning. The cache answers one question: "where is this peer's allocation
 * in my address space?"
 *
 * Identity. A mapping is found by (peer incarnation, allocation, local device), never
 * by the remote address alone. Two peers may export the same virtual address, and a
 * peer may free an allocation and get a new one at the same place. The new one may have
 * the same handle, but not the same buffer id.
 *
 * Lifetime. A region handed out by muct_xgmi_map_get() stays mapped until the matching
 * muct_xgmi_map_put(). The caller keeps it for as long as a copy that uses it may be in
 * flight.
 *
 * Threads. All calls on one cache may be made from several threads, except destroy,
 * which must be the last one.
 */

#include "base/muct_gpu.h"
#include "xgmi/memory/xgmi_key.h"
#include "xgmi/peer/xgmi_peer.h"
#include "xgmi/peer/xgmi_wake.h"

#include <stdatomic.h>
#include <stdbool.h>


/** Limits of one cache. */
typedef struct muct_xgmi_map_config {
    unsigned max_idle_regions; /**< Mapped but unused regions to keep */
    size_t max_idle_size;      /**< Sum of their lengths, in bytes */
    unsigned open_timeout_ms;  /**< Limit of preparing a peer's first region */
} muct_xgmi_map_config_t;


typedef struct muct_xgmi_map muct_xgmi_map_t;

/** A mapped allocation; read-only for users. */
typedef struct muct_xgmi_region {
    uint64_t base;    /**< Start of the allocation, owner's address */
    uint64_t length;  /**< Bytes in the whole allocation */
    uint64_t delta;   /**< Add it to the owner's address to get ours; may wrap */
    bool is_pageable; /**< Kernels cannot use it, copy calls can */
} muct_xgmi_region_t;

/** Observer that makes progress and is notified when a region was opened. */
typedef struct muct_xgmi_map_watch {
    struct muct_xgmi_map_watch *next;
    muct_xgmi_wake_t *wake;
    _Atomic bool is_waiting; /**< Signal it once */
} muct_xgmi_map_watch_t;


/**
 * Create an empty cache.
 *
 * @param [in]  gpu     Runtime; must outlive the cache.
 * @param [in]  config  Limits; copied.
 * @param [out] map_p   New cache, owned by the caller. Set only on UCS_OK.
 *
 * @return UCS_OK, or UCS_ERR_NO_MEMORY.
 */
ucs_status_t muct_xgmi_map_create(const muct_gpu_t *gpu,
                                  const muct_xgmi_map_config_t *config,
                                  muct_xgmi_map_t **map_p);


/**
 * Unmap everything and free the cache.
 *
 * Regions must all have been put back; a region still in use is reported with a
 * warning and stays mapped, because unmapping under a running copy is worse than a
 * leak.
 */
void muct_xgmi_map_destroy(muct_xgmi_map_t *map);


/**
 * Find the mapping of a peer's allocation, or begin to open it. Never waits. If a
 * handle of a living peer does not open, a warning reports it once, and it is not tried
 * again for that peer and device.
 *
 * @param [in]  map       Cache.
 * @param [in]  peer      Owner of the allocation.
 * @param [in]  key       Key of any registered part of it; copied.
 * @param [in]  device    Ordinal of the local device that is to use it.
 * @param [out] region_p  Region with one reference for the caller, to be returned with
 *                        @ref muct_xgmi_map_put. Set only on UCS_OK and UCS_INPROGRESS.
 *
 * @return UCS_OK               The region is mapped.
 * @return UCS_INPROGRESS       It is being opened and holds nothing yet. While the
 *                              caller keeps it, the next call returns the result.
 * @return UCS_ERR_UNREACHABLE  The peer is gone or its handle is stale; the reason is
 *                              in the log.
 * @return UCS_ERR_UNSUPPORTED  The devices or processes have no way to each other and
 *                              never will.
 * @return UCS_ERR_NO_MEMORY    Out of host memory or GPU address space, even after
 *                              unmapping every idle region.
 */
ucs_status_t muct_xgmi_map_try(muct_xgmi_map_t *map, muct_xgmi_peer_t *peer,
                               const muct_xgmi_key_t *key, int device,
                               const muct_xgmi_region_t **region_p);


/** Like @ref muct_xgmi_map_try, but blocks until the memory is opened, or the time has
 * expired: UCS_ERR_TIMED_OUT. A thread that posts or makes progress must not call it.
 */
ucs_status_t muct_xgmi_map_get(muct_xgmi_map_t *map, muct_xgmi_peer_t *peer,
                               const muct_xgmi_key_t *key, int device,
                               unsigned limit_ms, const muct_xgmi_region_t **region_p);


/**
 * Begin to open a mapping that will be needed. Only for a peer's first allocation on a
 * device does the call wait for the result, @a open_timeout_ms at most: that result
 * decides whether the peer's memory can be reached at all.
 *
 * @return See @ref muct_xgmi_map_try, but without a reference.
 */
ucs_status_t muct_xgmi_map_prepare(muct_xgmi_map_t *map, muct_xgmi_peer_t *peer,
                                   const muct_xgmi_key_t *key, int device);


/**
 * Fail openings that have taken longer than a limit, and those that wait behind them,
 * with UCS_ERR_TIMED_OUT. A mapping that is opened later is closed, and the memory can
 * then be opened again. Call it periodically.
 */
void muct_xgmi_map_expire(muct_xgmi_map_t *map, unsigned limit_ms);


/**
 * Number of regions that were opened or failed to open. It changes whenever an opening
 * ends, so a caller compares it with an earlier value.
 */
uint64_t muct_xgmi_map_num_opened(const muct_xgmi_map_t *map);


/** Add a watch to be signalled; the cache uses it until @ref muct_xgmi_map_leave. */
void muct_xgmi_map_join(muct_xgmi_map_t *map, muct_xgmi_map_watch_t *watch,
                        muct_xgmi_wake_t *wake);


/** Undo @ref muct_xgmi_map_join. */
void muct_xgmi_map_leave(muct_xgmi_map_t *map, const muct_xgmi_map_watch_t *watch);


/** Return a reference; the last one makes the region idle. */
void muct_xgmi_map_put(muct_xgmi_map_t *map, const muct_xgmi_region_t *region);


/**
 * Forget a dead peer: its idle regions are unmapped now, the others with their last
 * reference. Unmapping is done by a thread of the cache, as it waits for the device.
 */
void muct_xgmi_map_drop_peer(muct_xgmi_map_t *map, uint64_t owner);


/** Regions mapped now, idle ones included, but not those that are being unmapped. */
unsigned muct_xgmi_map_num_regions(muct_xgmi_map_t *map);

#endif
