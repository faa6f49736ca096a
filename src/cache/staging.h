/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_STAGING_H
#define MKV_STAGING_H

/**
 * @file
 * Registered memory through which small pieces go: a pool for each type of memory and
 * each way, of a few slots. It is made when it is first asked for, and never grows. The
 * caller holds the context's lock.
 */

#include "base/ctx.h"

#define MKV_NUM_SLOTS 8u

/** Of a leg at most, so that a peer that does not answer leaves the others some. */
#define MKV_LEG_SLOTS (MKV_NUM_SLOTS / 2)

/** In ns: who waits for a slot for so long does without, so that a peer which has some
 *  and does nothing holds up nobody else. */
#define MKV_SLOT_PATIENCE (2000 * MKV_NSEC_PER_MSEC)

/** A part of a pool, for one put. */
typedef struct mkv_slot {
    mkv_list_t list; /**< pool->free */
    struct mkv_pool *pool;
    char *base;
    void *user;   /**< Who has it; NULL: it is free */
    void *arrays; /**< Of the copy that fills or empties it; kept with the slot */
    size_t room;  /**< Bytes of them */
} mkv_slot_t;

typedef struct mkv_pool {
    ucs_memory_type_t type;
    char *base;
    bool is_own; /**< Of malloc(), not of UCX */
    ucp_mem_h memh;
    void *key; /**< Packed */
    size_t key_length;
    ucp_rkey_h loop_key; /**< The same for peer/loop.h; NULL: not asked for yet */
    mkv_list_t free;
    mkv_list_t waiting; /**< Whoever waits for a slot, by its own kind of node */
    mkv_slot_t slots[MKV_NUM_SLOTS];
} mkv_pool_t;

/** Bytes of a slot; 0: option STAGING_BELOW is off. */
uint64_t mkv_staging_chunk(const mkv_ctx_t *ctx);

/** @return NULL: UCX has no such memory, which is logged once, and is not asked again.
 */
mkv_pool_t *mkv_pool_get(mkv_ctx_t *ctx, mkv_pool_use_t use, ucs_memory_type_t type);

/** @return NULL: none is free. */
mkv_slot_t *mkv_slot_take(mkv_pool_t *pool, void *user);

void mkv_slot_give(mkv_slot_t *slot);

/** No slot is in UCX's hands any more. */
void mkv_pools_cleanup(mkv_ctx_t *ctx);

#endif
