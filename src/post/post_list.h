/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_POST_LIST_H
#define MKV_POST_LIST_H

/**
 * @file
 * The arrays of one scatter-gather call of UCX.
 *
 * They lie in the list cache, which UCX reads until the call completes, and are never
 * changed: all posts that need the same list of a plan share them. The caller holds the
 * context's lock.
 */

#include "post/post.h"

#include <stddef.h>
#include <stdint.h>

/** The arrays of one list, and the post that they belong to. */
typedef struct mkv_lists {
    mkv_sel_t sel;
    mkv_cursor_t from, to; /* cursor of the post before and after the entries */
    void **buffers;
    size_t *lengths;
    uint64_t *remotes;
    ucp_mem_h *memhs; /* NULL: all entries share a handle and a key */
    ucp_rkey_h *rkeys;
    size_t num, max;
    uint64_t bytes;
} mkv_lists_t;

/**
 * Get one list from the post's cursor on, and move the cursor after it. Returns the
 * list of an earlier post of the plan if it is cached, else a new one.
 *
 * @param [in] first  The pair under the cursor.
 *
 * @return The list, valid until the post ends; NULL: no memory.
 */
const mkv_lists_t *mkv_lists_get(mkv_post_t *post, const mkv_pair_t *first);

#endif
