/* SPDX-License-Identifier: BSD-3-Clause */

#include "store/publication.h"

#include <stdlib.h>
#include <string.h>

#define MKV_PUBLISH_FLAGS ((uint32_t)(MKV_PUBLISH_REPLACE | MKV_PUBLISH_KEEP))

mkv_publication_t *mkv_publication_find(mkv_ctx_t *ctx, const void *key, size_t length)
{
    mkv_store_t *store = ctx->store;
    mkv_publication_t *publication;

    if (store == NULL) {
        return NULL;
    }
    mkv_list_for_each(publication, mkv_store_bucket(store, key, length),
                      mkv_publication_t, hash)
    {
        if ((publication->key_length == length) &&
            !memcmp(publication->key, key, length)) {
            return publication;
        }
    }
    return NULL;
}

/* ---- The end --------------------------------------------------------------------- */

static void mkv_publication_free(mkv_publication_t *publication)
{
    mkv_list_del(&publication->hash);
    mkv_list_del(&publication->list);
    mkv_stretch_put(&publication->stretch);
    mkv_event_unreserve(publication->ctx, 1);
    free(publication);
}

/* Nobody finds it and nobody reads it */
static void mkv_publication_check_end(mkv_publication_t *publication)
{
    mkv_news_t *event;

    if (!mkv_list_is_empty(&publication->hash) || (publication->num_leases > 0)) {
        return;
    }
    event = mkv_event_add(publication->ctx, MKV_EV_EXPIRED);
    if (event != NULL) {
        event->id = publication->id;
        event->value = publication->reason;
        event->user_data = publication->user_data;
    }
    mkv_publication_free(publication);
}

void mkv_publication_unlist(mkv_publication_t *publication, mkv_expired_t reason)
{
    publication->reason = reason;
    publication->deadline = MKV_NEVER;
    mkv_list_del(&publication->hash);
    mkv_publication_check_end(publication);
}

void mkv_publication_get(mkv_publication_t *publication)
{
    ++publication->num_leases;
}

void mkv_publication_put(mkv_publication_t *publication)
{
    --publication->num_leases;
    mkv_publication_check_end(publication);
}

uint64_t mkv_publications_expire(mkv_ctx_t *ctx, uint64_t now)
{
    mkv_publication_t *publication, *next;
    uint64_t deadline = MKV_NEVER;

    mkv_list_for_each_safe(publication, next, &ctx->store->publications,
                           mkv_publication_t, list)
    {
        if (now >= publication->deadline) {
            mkv_publication_unlist(publication, MKV_EXPIRED_TIME);
        } else if (publication->deadline < deadline) {
            deadline = publication->deadline;
        }
    }
    return deadline;
}

void mkv_publications_cleanup(mkv_ctx_t *ctx)
{
    mkv_publication_t *publication, *next;

    mkv_list_for_each_safe(publication, next, &ctx->store->publications,
                           mkv_publication_t, list)
    {
        mkv_publication_free(publication);
    }
}

/* ---- The beginning --------------------------------------------------------------- */

static mkv_status_t mkv_publish_check(mkv_ctx_t *ctx,
                                      const mkv_publish_params_t *params)
{
    if ((params->flags & ~MKV_PUBLISH_FLAGS) || (params->flags == MKV_PUBLISH_FLAGS)) {
        return mkv_error(&ctx->log,
                         (params->flags == MKV_PUBLISH_FLAGS) ? MKV_ERR_INVALID
                                                              : MKV_ERR_UNSUPPORTED,
                         "publish: flags 0x%x, expected one of 0x%x or none",
                         params->flags, MKV_PUBLISH_FLAGS);
    }
    return mkv_key_check(&ctx->log, "publish", params->key, params->key_length);
}

static mkv_publication_t *mkv_publication_make(mkv_ctx_t *ctx,
                                               const mkv_publish_params_t *params)
{
    mkv_store_t *store = mkv_store_get(ctx);
    mkv_publication_t *publication =
        calloc(1, sizeof(*publication) + params->key_length);

    if ((store == NULL) || (publication == NULL) ||
        (mkv_event_reserve(ctx, 1) != MKV_OK)) {
        free(publication);
        return NULL;
    }
    publication->ctx = ctx;
    publication->id = ++store->last_id;
    publication->user_data = params->user_data;
    publication->deadline = MKV_NEVER;
    if (params->ttl_ms > 0) {
        publication->deadline = mkv_ctx_now(ctx) + params->ttl_ms * MKV_NSEC_PER_MSEC;
        mkv_ctx_deadline(ctx, publication->deadline);
    }
    publication->key_length = params->key_length;
    memcpy(publication->key, params->key, params->key_length);
    mkv_list_init(&publication->list);
    mkv_list_init(&publication->hash);
    return publication;
}

mkv_status_t mkv_publication_add(mkv_ctx_t *ctx, const mkv_publish_params_t *params,
                                 mkv_publication_t **publication_p)
{
    mkv_status_t status = mkv_publish_check(ctx, params);
    mkv_publication_t *former, *publication;
    mkv_stretch_t stretch;

    if (status == MKV_OK) {
        status = mkv_stretch_hold(ctx, "publish", params->region, params->offset,
                                  params->length, &stretch);
    }
    if (status != MKV_OK) {
        return status;
    }
    former = mkv_publication_find(ctx, params->key, params->key_length);
    if ((former != NULL) && (params->flags != MKV_PUBLISH_REPLACE)) {
        mkv_stretch_put(&stretch);
        *publication_p = NULL;
        return (params->flags == MKV_PUBLISH_KEEP)
                   ? MKV_OK
                   : mkv_error(&ctx->log, MKV_ERR_DUPLICATE,
                               "publish: the key is taken by publication %llu",
                               (unsigned long long)former->id);
    }
    publication = mkv_publication_make(ctx, params);
    if (publication == NULL) {
        mkv_stretch_put(&stretch);
        return mkv_error(&ctx->log, MKV_ERR_NOMEM, "no memory for a publication");
    }
    publication->stretch = stretch;
    if (former != NULL) {
        mkv_publication_unlist(former, MKV_EXPIRED_REPLACED);
    }
    mkv_list_add_tail(&ctx->store->publications, &publication->list);
    mkv_list_add_tail(mkv_store_bucket(ctx->store, params->key, params->key_length),
                      &publication->hash);
    *publication_p = publication;
    return MKV_OK;
}
