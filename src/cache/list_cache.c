/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Memory of the lists that UCX reads while a post is in flight. A later post finds the
 * block of its predecessor, with its contents if it asks for them; what is kept while
 * nobody uses it is bounded by option ARENA_MAX, oldest first out.
 */

#include "cache/list_cache.h"

#include <stdlib.h>

static int mkv_list_cache_reserve(mkv_list_uses_t *uses)
{
    size_t max = (uses->max == 0) ? 1 : 2 * uses->max;
    mkv_cached_list_t **blocks;

    if (uses->num < uses->max) {
        return 1;
    }
    blocks = realloc(uses->lists, max * sizeof(*blocks));
    if (blocks == NULL) {
        return 0;
    }
    uses->lists = blocks;
    uses->max = max;
    return 1;
}

static void mkv_list_cache_use(mkv_ctx_t *ctx, mkv_cached_list_t *block,
                               mkv_list_uses_t *uses)
{
    if (!mkv_list_is_empty(&block->list)) {
        mkv_list_del(&block->list);
        ctx->list_cache_bytes -= block->size;
    }
    ++block->num_users;
    uses->lists[uses->num++] = block;
}

mkv_cached_list_t *mkv_list_cache_get(mkv_ctx_t *ctx, size_t size,
                                      mkv_list_uses_t *uses)
{
    mkv_cached_list_t *block, *best = NULL;

    if (!mkv_list_cache_reserve(uses)) {
        return NULL;
    }
    mkv_list_for_each(block, &ctx->list_cache, mkv_cached_list_t, list)
    {
        /* twice the size would make the memory of a post double for ever */
        if ((block->size >= size) && (block->size <= 2 * size + 4096) &&
            ((best == NULL) || (block->size < best->size))) {
            best = block;
        }
    }

    if (best != NULL) {
        mkv_list_del(&best->owner);
    } else {
        best = malloc(sizeof(*best) + size);
        if (best == NULL) {
            return NULL;
        }
        best->size = size;
        best->num_users = 0;
        mkv_list_init(&best->list);
        mkv_list_init(&best->owner);
        ++ctx->count.arena_allocs;
    }

    mkv_list_cache_use(ctx, best, uses);
    return best;
}

int mkv_list_cache_share(mkv_ctx_t *ctx, mkv_cached_list_t *block,
                         mkv_list_uses_t *uses)
{
    if (!mkv_list_cache_reserve(uses)) {
        return 0;
    }
    mkv_list_cache_use(ctx, block, uses);
    return 1;
}

static void mkv_list_cache_trim(mkv_ctx_t *ctx, size_t max)
{
    mkv_cached_list_t *block;

    while (ctx->list_cache_bytes > max) {
        block = mkv_list_head(&ctx->list_cache, mkv_cached_list_t, list);
        mkv_list_del(&block->list);
        mkv_list_del(&block->owner);
        ctx->list_cache_bytes -= block->size;
        free(block);
    }
}

void mkv_list_cache_put(mkv_ctx_t *ctx, mkv_list_uses_t *uses)
{
    mkv_cached_list_t *block;
    size_t i;

    for (i = 0; i < uses->num; ++i) {
        block = uses->lists[i];
        if (--block->num_users == 0) {
            mkv_list_add_tail(&ctx->list_cache, &block->list);
            ctx->list_cache_bytes += block->size;
        }
    }
    uses->num = 0;
    mkv_list_cache_trim(ctx, ctx->opts->arena_max);
}

void mkv_list_cache_forget(mkv_list_t *owned)
{
    while (!mkv_list_is_empty(owned)) {
        mkv_list_del(owned->next);
    }
}

void mkv_list_cache_cleanup(mkv_ctx_t *ctx)
{
    mkv_list_cache_trim(ctx, 0);
}
