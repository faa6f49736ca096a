/* SPDX-License-Identifier: BSD-3-Clause */

#include "store/table.h"

#include <stdlib.h>

mkv_store_t *mkv_store_get(mkv_ctx_t *ctx)
{
    mkv_store_t *store = ctx->store;
    unsigned i;

    if (store != NULL) {
        return store;
    }
    store = calloc(1, sizeof(*store));
    if (store == NULL) {
        return NULL;
    }
    for (i = 0; i < MKV_KEY_BUCKETS; ++i) {
        mkv_list_init(&store->keys[i]);
    }
    mkv_list_init(&store->publications);
    mkv_list_init(&store->leases);
    mkv_list_init(&store->waiters);
    mkv_list_init(&store->fetches);
    mkv_list_init(&store->ended);
    ctx->store = store;
    return store;
}

/* FNV-1a */
mkv_list_t *mkv_store_bucket(mkv_store_t *store, const void *key, size_t length)
{
    const uint8_t *bytes = key;
    uint64_t hash = 0xcbf29ce484222325ull;
    size_t i;

    for (i = 0; i < length; ++i) {
        hash = (hash ^ bytes[i]) * 0x100000001b3ull;
    }
    return &store->keys[(hash >> 32) % MKV_KEY_BUCKETS];
}

mkv_status_t mkv_stretch_hold(mkv_ctx_t *ctx, const char *what, mkv_region_id_t id,
                              uint64_t offset, uint64_t length, mkv_stretch_t *stretch)
{
    mkv_lregion_t *region = mkv_region_by_id(ctx, id);

    if (length == 0) {
        return mkv_error(&ctx->log, MKV_ERR_INVALID, "%s: no bytes", what);
    }
    if (region == NULL) {
        return mkv_error(&ctx->log, MKV_ERR_NOTFOUND, "%s: there is no region %u", what,
                         id);
    }
    if (region->mem == NULL) {
        return mkv_error(&ctx->log, MKV_ERR_BUSY, "%s: region %u is not committed",
                         what, id);
    }
    if ((length > region->info.length) || (offset > region->info.length - length)) {
        return mkv_error(&ctx->log, MKV_ERR_BOUNDS,
                         "%s: %llu bytes from byte %llu on, region %u has %llu", what,
                         (unsigned long long)length, (unsigned long long)offset, id,
                         (unsigned long long)region->info.length);
    }
    ++region->num_ops;
    *stretch = (mkv_stretch_t){region, offset, length};
    return MKV_OK;
}

void mkv_stretch_put(mkv_stretch_t *stretch)
{
    --stretch->region->num_ops;
}

mkv_status_t mkv_key_check(const mkv_log_t *log, const char *what, const void *key,
                           size_t length)
{
    if ((key != NULL) && (length > 0) && (length <= MKV_MAX_KEY)) {
        return MKV_OK;
    }
    return mkv_error(log, MKV_ERR_INVALID,
                     "%s: a key of %zu bytes at %p, expected 1 to %u", what, length,
                     key, MKV_MAX_KEY);
}
