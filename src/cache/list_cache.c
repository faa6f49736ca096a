/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Memory of the lists that UCX reads while a post is in flight. A later post finds the
 * block of its predecessor, with its contents if it asks for them; what is kept while
 * nobody uses it is bounded by option ARENA_MAX, oldest first out.
 */

#include "mkv_int.h"

#include <stdlib.h>

static int mkv_arena_reserve(mkv_arena_uses_t *uses)
{
    size_t max = (uses->max == 0) ? 1 : 2 * uses->max;
    mkv_arena_block_t **blocks;

    if (uses->num < uses->max) {
        return 1;
    }
    blocks = realloc(uses->blocks, max * sizeof(*blocks));
    if (blocks == NULL) {
        return 0;
    }
    uses->blocks = blocks;
    uses->max = max;
    return 1;
}

static void mkv_arena_use(mkv_ctx_t *ctx, mkv_arena_block_t *block,
                          mkv_arena_uses_t *uses)
{
    if (!mkv_list_is_empty(&block->list)) {
        mkv_list_del(&block->list);
        ctx->arena_bytes -= block->size;
    }
    ++block->num_users;
    uses->blocks[uses->num++] = block;
}

mkv_arena_block_t *mkv_arena_get(mkv_ctx_t *ctx, size_t size, mkv_arena_uses_t *uses)
{
    mkv_arena_block_t *block, *best = NULL;

    if (!mkv_arena_reserve(uses)) {
        return NULL;
    }
    mkv_list_for_each(block, &ctx->arena, mkv_arena_block_t, list)
    {
        /* twice the size would make the memory of a post double for ever */
        if ((block->size >= size) && (block->size <= 2 * size + 4096) &&
            ((best == NULL) || (block->size < best->size))) {
            best = block;
        }
    }

    if (best != NULL) {
        mkv_list_del(&best->meaning);
    } else {
        best = malloc(sizeof(*best) + size);
        if (best == NULL) {
            return NULL;
        }
        best->size = size;
        best->num_users = 0;
        mkv_list_init(&best->list);
        mkv_list_init(&best->meaning);
        ++ctx->count.arena_allocs;
    }

    mkv_arena_use(ctx, best, uses);
    return best;
}

int mkv_arena_share(mkv_ctx_t *ctx, mkv_arena_block_t *block, mkv_arena_uses_t *uses)
{
    if (!mkv_arena_reserve(uses)) {
        return 0;
    }
    mkv_arena_use(ctx, block, uses);
    return 1;
}

static void mkv_arena_trim(mkv_ctx_t *ctx, size_t max)
{
    mkv_arena_block_t *block;

    while (ctx->arena_bytes > max) {
        block = mkv_list_head(&ctx->arena, mkv_arena_block_t, list);
        mkv_list_del(&block->list);
        mkv_list_del(&block->meaning);
        ctx->arena_bytes -= block->size;
        free(block);
    }
}

void mkv_arena_put(mkv_ctx_t *ctx, mkv_arena_uses_t *uses)
{
    mkv_arena_block_t *block;
    size_t i;

    for (i = 0; i < uses->num; ++i) {
        block = uses->blocks[i];
        if (--block->num_users == 0) {
            mkv_list_add_tail(&ctx->arena, &block->list);
            ctx->arena_bytes += block->size;
        }
    }
    uses->num = 0;
    mkv_arena_trim(ctx, ctx->opts->arena_max);
}

void mkv_arena_forget(mkv_list_t *meanings)
{
    while (!mkv_list_is_empty(meanings)) {
        mkv_list_del(meanings->next);
    }
}

void mkv_arena_cleanup(mkv_ctx_t *ctx)
{
    mkv_arena_trim(ctx, 0);
}
