/* SPDX-License-Identifier: BSD-3-Clause */

#include "post/post_end.h"

#include "peer/backend.h"
#include "post/post_cursor.h"
#include "xfer/post_notify.h"
#include "xfer/trace.h"

#include <stdlib.h>
#include <string.h>

static mkv_post_t *mkv_post_alloc(mkv_ctx_t *ctx)
{
    mkv_list_uses_t lists = {0};
    mkv_post_t *post;

    if (!mkv_list_is_empty(&ctx->free_posts)) {
        post = mkv_list_head(&ctx->free_posts, mkv_post_t, list);
        mkv_list_del(&post->list);
        lists = post->lists; /* the list keeps its memory and is empty */
    } else {
        post = malloc(sizeof(*post));
        if (post == NULL) {
            return NULL;
        }
    }
    memset(post, 0, sizeof(*post));
    mkv_list_init(&post->list);
    post->lists = lists;
    return post;
}

mkv_post_t *mkv_post_create(mkv_leg_t *leg, mkv_plan_t *plan, const mkv_sel_t *sel)
{
    mkv_post_t *post = mkv_post_alloc(plan->ctx);

    if (post != NULL) {
        post->leg = leg;
        post->plan = plan;
        post->sel = *sel;
        post->gate_state = MKV_GATE_OPEN;
        ++plan->num_posts;
        mkv_post_rewind(post);
        mkv_post_count(post, leg->posted);
    }
    return post;
}

void mkv_post_free(mkv_post_t *post)
{
    mkv_ctx_t *ctx = post->plan->ctx;

    if (post->gate_state == MKV_GATE_CHECK) {
        --ctx->num_asking_gates;
    }
    if (post->is_push) {
        post->leg->peer->push_bytes -= sizeof(*post);
    }
    mkv_list_cache_put(ctx, &post->lists);
    --post->plan->num_posts;
    mkv_list_del(&post->list);
    mkv_list_add_tail(&ctx->free_posts, &post->list);
}

void mkv_posts_free(mkv_list_t *posts)
{
    while (!mkv_list_is_empty(posts)) {
        mkv_post_free(mkv_list_head(posts, mkv_post_t, list));
    }
}

void mkv_leg_queue(mkv_leg_t *leg)
{
    mkv_list_queue(&leg->peer->busy_legs[leg->xfer->priority], &leg->busy);
    mkv_list_queue(&leg->peer->ctx->busy_peers, &leg->peer->busy_list);
}

void mkv_post_again(mkv_post_t *post)
{
    mkv_leg_t *leg = post->leg;

    mkv_list_cache_put(post->plan->ctx, &post->lists);
    mkv_post_rewind(post);
    mkv_list_del(&post->list);
    mkv_list_add_tail(leg->posts.next, &post->list);
    mkv_leg_queue(leg);
}

static void mkv_post_count_done(const mkv_post_t *post)
{
    mkv_leg_t *leg = post->leg;
    mkv_xfer_t *xfer = leg->xfer;

    MKV_ADD(leg->bytes, post->bytes);
    MKV_ADD(xfer->bytes, post->bytes);
    MKV_ADD(xfer->completed, post->elements);
    MKV_COUNT(leg->peer, elements_completed, post->elements);
    if (xfer->mode == MKV_WRITE) {
        MKV_COUNT(leg->peer, bytes_written, post->bytes);
    } else {
        MKV_COUNT(leg->peer, bytes_read, post->bytes);
    }
}

/*
 * Notify the caller here, unless that fails the leg.
 * @return Whether the peer is notified as well, when a flush has ended.
 */
static bool mkv_post_notify(const mkv_post_t *post)
{
    bool is_source = (post->leg->xfer->role == MKV_SRC);

    if (post->is_push) {
        return true;
    }
    if (post->sel.fields & MKV_SEL_NOTIFY) {
        mkv_leg_notify(post->leg, is_source ? MKV_EV_LOCAL_DONE : MKV_EV_ARRIVED,
                       post->sel.notify);
        return is_source && !mkv_leg_is_over(post->leg);
    }
    return false;
}

/* A flush covers lists as well if FENCE=flush */
bool mkv_post_lists_arrive(const mkv_post_t *post)
{
    const mkv_peer_t *peer = post->leg->peer;

    return mkv_peer_lists_arrive(peer) && (peer->ctx->opts->fence != MKV_FENCE_FLUSH);
}

/* Skip the flush where possible: it would also wait for later puts and delay the notice
 */
static bool mkv_post_has_arrived(const mkv_post_t *post)
{
    return post->has_arrived || (!post->has_pieces && mkv_post_lists_arrive(post));
}

bool mkv_post_done(mkv_post_t *post)
{
    mkv_xfer_t *xfer = post->leg->xfer;
    bool is_over = mkv_leg_is_over(post->leg);

    if (post->must_repeat && !is_over) {
        post->must_repeat = false;
        mkv_post_again(post);
        return false;
    }
    mkv_xfer_stamp_later(xfer, MKV_TIME_MOVED);
    if ((xfer->role == MKV_SRC) && mkv_post_has_arrived(post)) {
        mkv_xfer_stamp_later(xfer, MKV_TIME_FLUSHED);
    }
    mkv_xfer_dirty(xfer);
    if (!is_over && !post->is_push) {
        mkv_post_count_done(post);
    }
    if (!is_over && mkv_post_notify(post)) {
        mkv_list_cache_put(xfer->ctx, &post->lists);
        if (mkv_post_has_arrived(post)) {
            return true;
        }
        mkv_list_del(&post->list);
        mkv_list_add_tail(&post->leg->pushed, &post->list); /* until a flush is over */
        return false;
    }
    mkv_post_free(post);
    return false;
}

void mkv_leg_cancel_posts(mkv_leg_t *leg)
{
    mkv_post_t *post, *next;

    mkv_list_del(&leg->busy);
    mkv_list_for_each_safe(post, next, &leg->posts, list)
    {
        if (post->num_inflight == 0) {
            mkv_post_free(post);
        } else { /* the post was posted in part: it ends with its last completion */
            mkv_list_del(&post->list);
            mkv_list_add_tail(&leg->running, &post->list);
        }
    }
    mkv_posts_free(&leg->pushed);
    mkv_posts_free(&leg->flushed);
}
