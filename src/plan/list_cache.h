/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_LIST_CACHE_H
#define MKV_LIST_CACHE_H

/**
 * @file
 * Memory of the lists that UCX reads while a post is in flight, kept filled for a later
 * post that needs the same list. The caller holds the context's lock.
 */

#include "base/ctx.h"

#include <stdbool.h>

/** Memory for the arrays of one list. */
typedef struct mkv_cached_list {
    mkv_list_t list;    /**< Link in ctx->list_cache while num_users is 0 */
    mkv_list_t alike;   /**< Link in ctx->list_classes while num_users is 0 */
    mkv_list_t owner;   /**< Link in the lists of the plan that the contents are of */
    unsigned num_users; /**< Number of posts that use the contents */
    size_t size;
    char data[];
} mkv_cached_list_t;

/** The lists that one post uses. */
typedef struct mkv_list_uses {
    mkv_cached_list_t **lists;
    size_t num, max;
} mkv_list_uses_t;

/** Get unshared memory of at least @a size bytes; NULL: no memory. */
mkv_cached_list_t *mkv_list_cache_get(mkv_ctx_t *ctx, size_t size,
                                      mkv_list_uses_t *uses);

/** Add a user of a list's contents. @return Whether there was memory for it. */
bool mkv_list_cache_share(mkv_ctx_t *ctx, mkv_cached_list_t *list,
                          mkv_list_uses_t *uses);

/** End of all these uses. */
void mkv_list_cache_put(mkv_ctx_t *ctx, mkv_list_uses_t *uses);

/** Forget the owner of these lists: it will not need their contents again. */
void mkv_list_cache_forget(mkv_list_t *owned);

void mkv_list_cache_cleanup(mkv_ctx_t *ctx);

#endif
