/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_POST_LIST_H
#define MKV_POST_LIST_H

/**
 * @file
 * The arrays of one scatter-gather call of UCX.
 *
 * They lie in arena memory of the post, which UCX reads until the call completes. The
 * caller holds the context's lock.
 */

#include "mkv_int.h"

#include <stddef.h>
#include <stdint.h>

/** The arrays of one list. */
typedef struct mkv_lists {
    void **buffers;
    size_t *lengths;
    uint64_t *remotes;
    ucp_mem_h *memhs; /* NULL: one handle and key for all */
    ucp_rkey_h *rkeys;
    size_t num, max;
    uint64_t bytes;
} mkv_lists_t;

/**
 * Get arrays for what one list from the post's cursor on can hold.
 *
 * @param [in] first  The pair under the cursor.
 *
 * @return 1, or 0: no memory.
 */
int mkv_lists_alloc(mkv_lists_t *lists, mkv_post_t *post, const mkv_pair_t *first);

/** Fill the arrays and move the cursor behind what they hold. */
void mkv_lists_build(mkv_lists_t *lists, mkv_post_t *post, const mkv_pair_t *first);

#endif
