/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_PUBLICATION_H
#define MKV_PUBLICATION_H

/**
 * @file
 * A buffer that peers may fetch by its key. It ends when nobody can find it any more
 * and nobody reads it. The caller holds the context's lock.
 */

#include "store/table.h"

typedef struct mkv_publication {
    mkv_list_t list; /**< store->publications */
    mkv_list_t hash; /**< store->keys; in no list: it has ended for new fetches */
    mkv_ctx_t *ctx;
    uint64_t id;
    mkv_stretch_t stretch;
    uint64_t deadline;
    unsigned num_leases;
    mkv_expired_t reason;
    void *user_data;
    size_t key_length;
    uint8_t key[];
} mkv_publication_t;

/** @return The one that can be fetched by this key, or NULL. */
mkv_publication_t *mkv_publication_find(mkv_ctx_t *ctx, const void *key, size_t length);

/** @return As mkv_publish(), which tells the waiters next. */
mkv_status_t mkv_publication_add(mkv_ctx_t *ctx, const mkv_publish_params_t *params,
                                 mkv_publication_t **publication_p);

/** It is found no longer, and ends with its last lease. */
void mkv_publication_unlist(mkv_publication_t *publication, mkv_expired_t reason);

/** One reader more, and less. */
void mkv_publication_get(mkv_publication_t *publication);
void mkv_publication_put(mkv_publication_t *publication);

/** Unlist those whose time is over. @return The next time to look. */
uint64_t mkv_publications_expire(mkv_ctx_t *ctx, uint64_t now);

/** All, without a word: the context closes. */
void mkv_publications_cleanup(mkv_ctx_t *ctx);

#endif
