/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_STAGE_BUF_H
#define MKV_STAGE_BUF_H

/**
 * @file
 * Staging: GPU memory that UCX allocates and registers, in slots of one size. The
 * caller holds the context's lock.
 */

#include "base/ctx.h"
#include "memory/repeat.h"

#define MKV_STAGE_SLOTS 4u

/** Pieces of one slot at most; also bounds what a message makes a receiver check. */
#define MKV_STAGE_PIECES 8192u

typedef struct mkv_stage_buf {
    ucs_memory_type_t type;
    uint64_t base;
    uint64_t slot; /**< Bytes of a slot */
    ucp_mem_h memh;
    void *key; /**< Packed by ucp_rkey_pack */
    size_t key_length;
    ucp_rkey_h loop_key; /**< Its key for copies within the process */
    mkv_repeat_t *memhs; /**< memh, for lists */
    mkv_repeat_t *rkeys; /**< loop_key, for lists */
} mkv_stage_buf_t;

/**
 * Allocate all slots, after mkv_loop_takes_lists(). The first failure of a context is
 * logged as a warning.
 *
 * @return NULL: UCX gives no such memory.
 */
mkv_stage_buf_t *mkv_stage_buf_create(mkv_ctx_t *ctx, ucs_memory_type_t type);

/** No call refers to it. NULL: nothing. */
void mkv_stage_buf_destroy(mkv_ctx_t *ctx, mkv_stage_buf_t *buf);

/** Address of a slot. */
static inline uint64_t mkv_stage_buf_slot(const mkv_stage_buf_t *buf, unsigned index)
{
    return buf->base + index * buf->slot;
}

#endif
