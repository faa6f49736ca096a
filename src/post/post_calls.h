/* SPDX-License-Identifier: BSD-3-Clause */

/**
 * @file
 * State of UCX calls in flight for their completion.
 *
 * Calls that follow each other in a post share a group. A group lies at a multiple of
 * its size, and the user data of a call is the group's address plus the call's number,
 * so that a call takes no memory of its own. The caller holds the context's lock.
 */

#ifndef MKV_POST_CALLS_H
#define MKV_POST_CALLS_H

#include "peer/path.h"
#include "post/post_list.h"

#include <stdint.h>
#include <stdlib.h>

/** Calls of one group; also its size and alignment in bytes. */
#define MKV_CALLS_MAX 64u

typedef enum mkv_query_state {
    MKV_QUERY_NONE,
    MKV_QUERY_SENT, /**< The call has not returned */
    MKV_QUERY_DONE  /**< The callback has run within the call */
} mkv_query_state_t;

typedef struct mkv_calls {
    struct mkv_calls *next; /* ctx->free_calls */
    mkv_post_t *post;
    const mkv_lists_t
        *lists; /* lists of the group's only call; NULL: calls of single pieces */
    mkv_cursor_t from;       /* the piece of call 0, the first of the list */
    mkv_query_state_t query; /* query of the only call for its path */
    ucs_status_t answer;     /* status of a callback within the call */
    unsigned num_inflight;
} mkv_calls_t;

_Static_assert(sizeof(mkv_calls_t) <= MKV_CALLS_MAX, "numbers fit below the address");

/** Credit of the peer for one call. */
static inline void mkv_post_put_credit(mkv_post_t *post)
{
    mkv_peer_t *peer = post->leg->peer;
    uint64_t bytes = post->inflight_bytes;

    if ((post->num_inflight > 1) && (post->call_bytes < bytes)) {
        bytes = post->call_bytes;
    }

    --post->num_inflight;
    post->inflight_bytes -= bytes;
    --peer->inflight_ops;
    peer->inflight_bytes -= bytes;
}

static inline void mkv_post_take_credit(mkv_post_t *post, uint64_t bytes)
{
    mkv_peer_t *peer = post->leg->peer;

    ++post->num_inflight;
    post->inflight_bytes += bytes;
    ++peer->inflight_ops;
    peer->inflight_bytes += bytes;
}

/** Get a group for calls from the post's cursor on; NULL: no memory. */
static inline mkv_calls_t *mkv_calls_get(mkv_post_t *post)
{
    mkv_ctx_t *ctx = post->plan->ctx;
    mkv_calls_t *calls = ctx->free_calls;

    if (calls != NULL) {
        ctx->free_calls = calls->next;
    } else {
        calls = aligned_alloc(MKV_CALLS_MAX, MKV_CALLS_MAX);
        if (calls == NULL) {
            return NULL;
        }
    }
    calls->post = post;
    calls->lists = NULL;
    calls->from = post->at;
    calls->num_inflight = 0;
    calls->query = MKV_QUERY_NONE;
    return calls;
}

static inline void *mkv_calls_user_data(mkv_calls_t *calls, unsigned index)
{
    return (char *)calls + index;
}

static inline mkv_calls_t *mkv_calls_of(void *user_data)
{
    return (mkv_calls_t *)((uintptr_t)user_data & ~(uintptr_t)(MKV_CALLS_MAX - 1));
}

static inline unsigned mkv_calls_index(const void *user_data)
{
    return (unsigned)((uintptr_t)user_data % MKV_CALLS_MAX);
}

/** Return the group, unless calls of it are in flight. */
static inline void mkv_calls_put(mkv_calls_t *calls)
{
    mkv_ctx_t *ctx = calls->post->plan->ctx;

    if (calls->num_inflight == 0) {
        calls->next = ctx->free_calls;
        ctx->free_calls = calls;
    }
}

/* ---- UCX paths of calls ---------------------------------------------------------- */

/** Key of the path that calls of a pair take. The first call is queried for it. */
static inline mkv_path_key_t mkv_post_path(const mkv_post_t *post,
                                           const mkv_pair_t *pair, bool is_list)
{
    mkv_path_key_t key = {.kind = is_list                              ? MKV_CALL_LIST
                                  : (post->leg->xfer->role == MKV_SRC) ? MKV_CALL_PUT
                                                                       : MKV_CALL_GET,
                          .local = pair->mem->type,
                          .remote = pair->rmem->type};

    return key;
}

/** Whether the owner of the other memory can move such a post. */
static inline bool mkv_post_may_be_pulled(const mkv_post_t *post)
{
    return (post->plan->bytes == NULL) &&
           (!post->plan->map->has_parts ||
            mkv_peer_has_feature(post->leg->peer, MKV_FEATURE_PUSH_PARTS));
}

/** Query this request of the group for its path. */
void mkv_calls_note(const mkv_calls_t *calls, void *request);

/**
 * Whether strict mode rejects the path of these calls. If so, this call fails the
 * transfer.
 */
bool mkv_post_is_refused(mkv_post_t *post, const mkv_path_key_t *key);

#endif
