/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Memory of the lists that UCX reads while a post is in flight. A later post finds the
 * block of its predecessor, with its contents if requested. list_cache_max bounds the
 * unused memory that is kept; the oldest is freed first.
 *
 * Sizes are rounded up to one of four classes between powers of two. Unused blocks wait
 * in the list of their class, so the search takes equally long however many there are.
 */

#include "plan/list_cache.h"

#include <stdlib.h>

static bool mkv_list_cache_reserve(mkv_list_uses_t *uses)
{
    size_t max = (uses->max == 0) ? 1 : 2 * uses->max;
    mkv_cached_list_t **blocks;

    if (uses->num < uses->max) {
        return true;
    }
    blocks = realloc(uses->lists, max * sizeof(*blocks));
    if (blocks == NULL) {
        return false;
    }
    uses->lists = blocks;
    uses->max = max;
    return true;
}

/* The class of a size, and the size that its blocks have */
static unsigned mkv_list_class(size_t *size_p)
{
    size_t size = (*size_p < 256) ? 256 : *size_p, step;
    unsigned power = 63u - (unsigned)__builtin_clzll(size - 1); /* 2^power < size */

    step = (size_t)1 << (power - 2);
    size = (size + step - 1) & ~(step - 1);
    *size_p = size;
    return 4 * power + (unsigned)(size / step) - 5;
}

static void mkv_list_cache_unlink(mkv_ctx_t *ctx, mkv_cached_list_t *block)
{
    if (!mkv_list_is_empty(&block->list)) {
        mkv_list_del(&block->list);
        mkv_list_del(&block->alike);
        ctx->list_cache_bytes -= block->size;
    }
}

static void mkv_list_cache_use(mkv_ctx_t *ctx, mkv_cached_list_t *block,
                               mkv_list_uses_t *uses)
{
    mkv_list_cache_unlink(ctx, block);
    ++block->num_users;
    uses->lists[uses->num++] = block;
}

static mkv_cached_list_t *mkv_list_cache_new(mkv_ctx_t *ctx, size_t size)
{
    mkv_cached_list_t *block = malloc(sizeof(*block) + size);

    if (block != NULL) {
        block->size = size;
        block->num_users = 0;
        mkv_list_init(&block->list);
        mkv_list_init(&block->alike);
        mkv_list_init(&block->owner);
        ++ctx->count.lists_allocated;
    }
    return block;
}

mkv_cached_list_t *mkv_list_cache_get(mkv_ctx_t *ctx, size_t size,
                                      mkv_list_uses_t *uses)
{
    const mkv_list_t *alike = &ctx->list_classes[mkv_list_class(&size)];
    mkv_cached_list_t *block;

    if (!mkv_list_cache_reserve(uses)) {
        return NULL;
    }
    if (mkv_list_is_empty(alike)) {
        block = mkv_list_cache_new(ctx, size);
    } else {
        block = mkv_list_head(alike, mkv_cached_list_t, alike); /* the oldest */
        mkv_list_del(&block->owner);
    }
    if (block != NULL) {
        mkv_list_cache_use(ctx, block, uses);
    }
    return block;
}

bool mkv_list_cache_share(mkv_ctx_t *ctx, mkv_cached_list_t *block,
                          mkv_list_uses_t *uses)
{
    if (!mkv_list_cache_reserve(uses)) {
        return false;
    }
    mkv_list_cache_use(ctx, block, uses);
    return true;
}

static void mkv_list_cache_trim(mkv_ctx_t *ctx, size_t max)
{
    mkv_cached_list_t *block;

    while (ctx->list_cache_bytes > max) {
        block = mkv_list_head(&ctx->list_cache, mkv_cached_list_t, list);
        mkv_list_cache_unlink(ctx, block);
        mkv_list_del(&block->owner);
        free(block);
    }
}

void mkv_list_cache_put(mkv_ctx_t *ctx, mkv_list_uses_t *uses)
{
    mkv_cached_list_t *block;
    size_t size, i;

    for (i = 0; i < uses->num; ++i) {
        block = uses->lists[i];
        if (--block->num_users == 0) {
            size = block->size;
            mkv_list_add_tail(&ctx->list_cache, &block->list);
            mkv_list_add_tail(&ctx->list_classes[mkv_list_class(&size)], &block->alike);
            ctx->list_cache_bytes += block->size;
        }
    }
    uses->num = 0;
    mkv_list_cache_trim(ctx, ctx->tuning.list_cache_max);
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
