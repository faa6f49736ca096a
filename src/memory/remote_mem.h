/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_REMOTE_MEM_H
#define MKV_REMOTE_MEM_H

/**
 * @file
 * Data that a peer announced about itself and its memory. The caller holds the
 * context's lock.
 */

#include "base/ctx.h"
#include "memory/repeat.h"

#include <stdbool.h>

/**
 * Whether UCX accepts list puts to this GPU memory. The lane for lists may not support
 * its key; only a first put shows it (peer/list_put.h).
 */
typedef enum mkv_rmem_lists {
    MKV_RMEM_LISTS_UNKNOWN,
    MKV_RMEM_LISTS_TAKEN,
    MKV_RMEM_LISTS_NONE,
    MKV_RMEM_LISTS_EMULATED /**< None, and UCX puts by messages */
} mkv_rmem_lists_t;

/** A peer's registered memory, with its key unpacked once. */
typedef struct mkv_rmem {
    mkv_list_t list; /**< remote->mems */
    uint32_t id;
    ucs_memory_type_t type;
    uint64_t base, length;
    ucp_rkey_h rkey;    /**< NULL: unknown; received before blocks are exposed */
    unsigned num_pairs; /**< Pairs of maps, and uses by one-sided operations */
    bool is_current;    /**< Listed in the peer's latest table */
    mkv_rmem_lists_t lists;
    mkv_repeat_t *repeat; /**< Array of repeated rkey, for lists; NULL: none yet */
} mkv_rmem_t;

/** The peer as maps and plans see it; a member of mkv_peer_t, which outlives maps. */
typedef struct mkv_remote {
    mkv_ctx_t *ctx;
    mkv_peer_t *peer;      /**< The caller's handle; NULL: closed */
    const char *name;      /**< Name of the peer, for texts */
    mkv_counters_t *count; /**< Counters of the peer */
    ucp_ep_h ep;           /**< Endpoint of the peer, by which its keys are unpacked */
    mkv_blob_info_t info;  /**< Peer's info, pointers removed */
    mkv_list_t mems;       /**< mkv_rmem_t */
    mkv_wire_region_t *regions; /**< Peer's regions; mem indexes region_mems */
    mkv_rmem_t **region_mems;   /**< Parallel to regions */
    uint32_t num_regions;
    uint32_t max_regions;        /**< Room in the two arrays */
    mkv_table_t mems_by_id;      /**< mkv_rmem_t */
    mkv_table_t regions_by_name; /**< mkv_wire_region_t in regions */
    mkv_table_t regions_by_id;
    mkv_table_t granted;  /**< Ids of our registrations with a key at the peer */
    uint64_t epoch;       /**< Epoch of the peer's table known here */
    uint64_t num_updates; /**< Number of changes of regions; each may move entries */
    mkv_list_t maps;      /**< mkv_map_t */
} mkv_remote_t;

/**
 * Take over the peer's latest table of regions, or what was added to it.
 *
 * Maps are not looked at: mkv_maps_refresh() is next, and then mkv_remote_trim().
 *
 * @return MKV_OK, MKV_ERR_NOMEM, MKV_ERR_TRANSPORT: a key cannot be unpacked. The old
 *         table stays then; or MKV_ERR_PROTOCOL.
 */
mkv_status_t mkv_remote_update(mkv_remote_t *remote, const mkv_blob_info_t *info);

/** @return Whether the peer has the key of this registration of ours. */
bool mkv_remote_has_grant(const mkv_remote_t *remote, uint32_t id);

/** Destroy keys that neither the table nor a map refers to. */
void mkv_remote_trim(mkv_remote_t *remote);

/**
 * Drop the table of an ended connection and destroy its keys, also in the transports. A
 * key that a map or an operation uses is destroyed with the last user.
 */
void mkv_remote_withdraw(mkv_remote_t *remote);

/** @return The peer's region with this name, or NULL. */
const mkv_wire_region_t *mkv_remote_find(const mkv_remote_t *remote, uint32_t component,
                                         int32_t layer, uint16_t part,
                                         mkv_rmem_t **rmem_p);

/** @return The peer's region of this number, or NULL. */
const mkv_wire_region_t *mkv_remote_find_id(const mkv_remote_t *remote, uint32_t id,
                                            mkv_rmem_t **rmem_p);

/** Remove a pair that refers to it. */
void mkv_rmem_put(mkv_remote_t *remote, mkv_rmem_t *rmem);

void mkv_remote_cleanup(mkv_remote_t *remote);

#endif
