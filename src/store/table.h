/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_TABLE_H
#define MKV_TABLE_H

/**
 * @file
 * What keyed buffers of a context share. The caller holds the context's lock.
 */

#include "base/event.h"
#include "cache/region.h"
#include "peer/peer.h"

#define MKV_KEY_BUCKETS 1024u

typedef struct mkv_store {
    mkv_list_t keys[MKV_KEY_BUCKETS]; /**< Publications that can be fetched */
    mkv_list_t publications;          /**< All whose buffers are not the caller's yet */
    mkv_list_t leases;
    mkv_list_t waiters;    /**< Fetches of peers for keys that are not there yet */
    mkv_list_t fetches;    /**< Of this side */
    mkv_list_t ended;      /**< Of these, whose operation is quiet */
    unsigned num_answered; /**< Waiters, by time, since the last step */
    uint64_t last_id;      /**< Of publications, leases and fetches */
} mkv_store_t;

/** A stretch of a committed region, held so that the region cannot be dropped. */
typedef struct mkv_stretch {
    mkv_lregion_t *region;
    uint64_t offset, length;
} mkv_stretch_t;

/** The context's; made when it is needed first. NULL: no memory. */
mkv_store_t *mkv_store_get(mkv_ctx_t *ctx);

mkv_list_t *mkv_store_bucket(mkv_store_t *store, const void *key, size_t length);

/**
 * Find and hold.
 *
 * @param [in] what  For texts, as "publish".
 *
 * @return MKV_OK, MKV_ERR_INVALID: no bytes, MKV_ERR_NOTFOUND: no such region,
 *         MKV_ERR_BUSY: not committed, MKV_ERR_BOUNDS.
 */
mkv_status_t mkv_stretch_hold(mkv_ctx_t *ctx, const char *what, mkv_region_id_t region,
                              uint64_t offset, uint64_t length, mkv_stretch_t *stretch);
void mkv_stretch_put(mkv_stretch_t *stretch);

static inline uint8_t *mkv_stretch_memory(const mkv_stretch_t *stretch)
{
    return (uint8_t *)stretch->region->info.base + stretch->offset;
}

/** The processor may touch it. */
static inline bool mkv_stretch_is_host(const mkv_stretch_t *stretch)
{
    return stretch->region->info.mem_type == UCS_MEMORY_TYPE_HOST;
}

/** @return MKV_OK, MKV_ERR_INVALID: empty, or longer than MKV_MAX_KEY. */
mkv_status_t mkv_key_check(const mkv_log_t *log, const char *what, const void *key,
                           size_t length);

#endif
