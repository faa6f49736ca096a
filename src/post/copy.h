/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_COPY_H
#define MKV_COPY_H

/**
 * @file
 * Copies between a slot of staging and memory of this context: host memory by the
 * processor, at once, and GPU memory as one list to ourselves. The caller holds the
 * context's lock.
 */

#include "cache/region.h"
#include "cache/staging.h"

#include <stdbool.h>

/** Most pieces of one copy, and so of a chunk. */
#define MKV_COPY_MAX_PIECES 65536u

typedef struct mkv_copy {
    mkv_ctx_t *ctx;
    mkv_slot_t *slot;
    bool is_gather; /**< Into the slot */
    uint64_t bytes; /**< Of the slot, so far */
    size_t num, max;
    void **from; /**< Arrays of GPU memory; in the slot's */
    size_t *lengths;
    uint64_t *to;
    ucp_mem_h *memhs;
    ucp_rkey_h *rkeys;
    void (*done)(void *arg, ucs_status_t status);
    void *arg;
} mkv_copy_t;

/** Whether memory of this type can be copied here at all. */
bool mkv_copy_knows(mkv_ctx_t *ctx, ucs_memory_type_t type);

/**
 * Begin.
 *
 * @param [inout] copy  With ctx, slot, is_gather, done and arg set, else zero.
 * @param [in]    max   Pieces.
 *
 * @return Whether there was memory.
 */
bool mkv_copy_begin(mkv_copy_t *copy, size_t max);

/** The next piece, which lies in a registration of the slot's type. @return Whether UCX
 *  gives a key. */
bool mkv_copy_add(mkv_copy_t *copy, mkv_mem_t *mem, char *address, size_t length);

/** All pieces are added: done() is called, from here or from progress. */
void mkv_copy_start(mkv_copy_t *copy);

#endif
