/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Memory of the lists that UCX reads while a post is in flight. A repeated post finds
 * the block of its predecessor; what is kept is bounded by option ARENA_MAX, oldest
 * first out.
 */

#include "mkv_int.h"

#include <stdlib.h>

void *mkv_arena_get(mkv_ctx_t *ctx, size_t size, mkv_list_t *blocks)
{
    mkv_arena_block_t *block, *best = NULL;

    mkv_list_for_each(block, &ctx->arena, mkv_arena_block_t, list)
    {
        /* twice the size would make the memory of a post double for ever */
        if ((block->size >= size) && (block->size <= 2 * size + 4096) &&
            ((best == NULL) || (block->size < best->size))) {
            best = block;
        }
    }

    if (best != NULL) {
        mkv_list_del(&best->list);
        ctx->arena_bytes -= best->size;
    } else {
        best = malloc(sizeof(*best) + size);
        if (best == NULL) {
            return NULL;
        }
        best->size = size;
        mkv_list_init(&best->list);
        ++ctx->count.arena_allocs;
    }

    mkv_list_add_tail(blocks, &best->list);
    return best->data;
}

static void mkv_arena_trim(mkv_ctx_t *ctx, size_t max)
{
    mkv_arena_block_t *block;

    while (ctx->arena_bytes > max) {
        block = mkv_list_head(&ctx->arena, mkv_arena_block_t, list);
        mkv_list_del(&block->list);
        ctx->arena_bytes -= block->size;
        free(block);
    }
}

void mkv_arena_put(mkv_ctx_t *ctx, mkv_list_t *blocks)
{
    mkv_arena_block_t *block;

    while (!mkv_list_is_empty(blocks)) {
        block = mkv_list_head(blocks, mkv_arena_block_t, list);
        mkv_list_del(&block->list);
        mkv_list_add_tail(&ctx->arena, &block->list);
        ctx->arena_bytes += block->size;
    }
    mkv_arena_trim(ctx, ctx->opts->arena_max);
}

void mkv_arena_cleanup(mkv_ctx_t *ctx)
{
    mkv_arena_trim(ctx, 0);
}
