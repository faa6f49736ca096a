/* SPDX-License-Identifier: BSD-3-Clause */

#include "cache/staging.h"

#include <stdlib.h>

#define MKV_STAGING_ALIGN 4096u

uint64_t mkv_staging_chunk(const mkv_ctx_t *ctx)
{
    return (ctx->opts->staging_below == 0)
               ? 0
               : ctx->opts->staging_size / MKV_NUM_SLOTS / 64 * 64;
}

/* Where UCX has allocated */
static ucs_status_t mkv_pool_locate(mkv_pool_t *pool)
{
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    ucs_status_t status = ucp_mem_query(pool->memh, &attr);

    pool->base = attr.address;
    return status;
}

/* Host memory is ours; a GPU's has to be UCX's, by whichever transport knows it */
static ucs_status_t mkv_pool_map(mkv_ctx_t *ctx, mkv_pool_t *pool, size_t length)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                 UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                 UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE |
                                                 UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                   .length = length,
                                   .memory_type = pool->type};
    ucs_status_t status;
    void *base = NULL;

    pool->is_own = (pool->type == UCS_MEMORY_TYPE_HOST);
    if (pool->is_own && (posix_memalign(&base, MKV_STAGING_ALIGN, length) != 0)) {
        return UCS_ERR_NO_MEMORY;
    }
    pool->base = params.address = base;
    params.flags = pool->is_own ? 0 : UCP_MEM_MAP_ALLOCATE;
    status = ucp_mem_map(ctx->ucp_context, &params, &pool->memh);
    if (status != UCS_OK) {
        pool->memh = NULL;
        return status;
    }
    status = pool->is_own ? UCS_OK : mkv_pool_locate(pool);
    return (status == UCS_OK) ? ucp_rkey_pack(ctx->ucp_context, pool->memh, &pool->key,
                                              &pool->key_length)
                              : status;
}

static void mkv_pool_destroy(mkv_ctx_t *ctx, mkv_pool_t *pool)
{
    unsigned i;

    for (i = 0; i < MKV_NUM_SLOTS; ++i) {
        free(pool->slots[i].arrays);
    }
    if (pool->loop_key != NULL) {
        ucp_rkey_destroy(pool->loop_key);
    }
    if (pool->key != NULL) {
        ucp_rkey_buffer_release(pool->key);
    }
    if (pool->memh != NULL) {
        (void)ucp_mem_unmap(ctx->ucp_context, pool->memh);
    }
    if (pool->is_own) {
        free(pool->base);
    }
    free(pool);
}

static void mkv_pool_init(mkv_pool_t *pool, ucs_memory_type_t type)
{
    pool->type = type;
    mkv_list_init(&pool->free);
    mkv_list_init(&pool->waiting);
}

static void mkv_pool_cut(mkv_pool_t *pool, uint64_t chunk)
{
    mkv_slot_t *slot;
    unsigned i;

    for (i = 0; i < MKV_NUM_SLOTS; ++i) {
        slot = &pool->slots[i];
        slot->pool = pool;
        slot->base = pool->base + i * chunk;
        mkv_list_init(&slot->list);
        mkv_list_add_tail(&pool->free, &slot->list);
    }
}

static mkv_pool_t *mkv_pool_create(mkv_ctx_t *ctx, ucs_memory_type_t type)
{
    uint64_t chunk = mkv_staging_chunk(ctx);
    mkv_pool_t *pool = calloc(1, sizeof(*pool));
    ucs_status_t status = UCS_ERR_NO_MEMORY;

    if (pool != NULL) {
        mkv_pool_init(pool, type);
        status = mkv_pool_map(ctx, pool, chunk * MKV_NUM_SLOTS);
    }
    if ((status == UCS_OK) && (pool->key_length > MKV_MAX_RKEY_SIZE)) {
        status = UCS_ERR_BUFFER_TOO_SMALL;
    }
    if (status == UCS_OK) {
        mkv_pool_cut(pool, chunk);
        return pool;
    }
    mkv_log_warn(ctx,
                 "UCX gives no %llu bytes of memory type %d for staging (%s); small "
                 "pieces of such memory move one by one",
                 (unsigned long long)(chunk * MKV_NUM_SLOTS), (int)type,
                 ucs_status_string(status));
    if (pool != NULL) {
        mkv_pool_destroy(ctx, pool);
    }
    return NULL;
}

mkv_pool_t *mkv_pool_get(mkv_ctx_t *ctx, mkv_pool_use_t use, ucs_memory_type_t type)
{
    mkv_pool_t **pool = &ctx->pools[use][type];

    if ((*pool == NULL) && !((ctx->pools_failed[use] >> type) & 1)) {
        *pool = mkv_pool_create(ctx, type);
        if (*pool == NULL) {
            ctx->pools_failed[use] |= 1u << type;
        }
    }
    return *pool;
}

mkv_slot_t *mkv_slot_take(mkv_pool_t *pool, void *user)
{
    mkv_slot_t *slot;

    if (mkv_list_is_empty(&pool->free)) {
        return NULL;
    }
    slot = mkv_list_head(&pool->free, mkv_slot_t, list);
    mkv_list_del(&slot->list);
    slot->user = user;
    return slot;
}

void mkv_slot_give(mkv_slot_t *slot)
{
    slot->user = NULL;
    mkv_list_add_tail(&slot->pool->free, &slot->list);
}

void mkv_pools_cleanup(mkv_ctx_t *ctx)
{
    unsigned use, type;

    for (use = 0; use < MKV_NUM_POOLS; ++use) {
        for (type = 0; type < UCS_MEMORY_TYPE_LAST; ++type) {
            if (ctx->pools[use][type] != NULL) {
                mkv_pool_destroy(ctx, ctx->pools[use][type]);
            }
        }
    }
}
