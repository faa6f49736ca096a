/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The request for the first post of a plan has all runs of the plan, later ones have
 * the plan's number. A pulled post waits in leg->pulled until it has arrived, is
 * refused, or until the transfer has failed and the owner is proven to move nothing
 * more.
 */

#include "post/pull.h"
#include "post/post_calls.h"

#include "peer/backend.h"
#include "peer/list_put.h"
#include "message/message.h"
#include "post/call_end.h"
#include "post/post_cursor.h"
#include "post/post_end.h"
#include "post/post_units.h"
#include "xfer/leg.h"

/*
 * A list costs one UCX call on either side, as the lane is the same. But if only the
 * GPU of the side with host memory reaches that memory, this side moves the data: it
 * puts from the memory and gets into it.
 */
static bool mkv_pull_may_put(mkv_peer_t *peer, ucs_memory_type_t from,
                             ucs_memory_type_t to)
{
    return mkv_peer_may_sgl(peer, from, to) &&
           ((to != UCS_MEMORY_TYPE_HOST) || !mkv_peer_needs_list_query(peer, from, to));
}

static bool mkv_pull_is_worth_it(const mkv_post_t *post)
{
    const mkv_map_t *map = post->plan->map;
    mkv_peer_t *peer = post->leg->peer;
    const mkv_pair_t *pair;

    if (post->num_elements < peer->ctx->tuning.push_min) {
        return false;
    }
    for (pair = map->pairs; pair < map->pairs + map->num_pairs; ++pair) {
        if (mkv_sel_has_pair(&post->sel, map, pair) &&
            !mkv_pull_may_put(peer, pair->rmem->type, pair->mem->type)) {
            return false;
        }
    }
    return true;
}

/*
 * UCX puts from GPU memory to private host memory of this host by small messages, each
 * with a copy that it waits for. The owner's GPU reaches both sides.
 */
static bool mkv_pull_avoids_messages(const mkv_post_t *post)
{
    const mkv_map_t *map = post->plan->map;
    bool is_emulated = false;
    const mkv_pair_t *pair;

    for (pair = map->pairs; pair < map->pairs + map->num_pairs; ++pair) {
        if (!mkv_sel_has_pair(&post->sel, map, pair)) {
            continue;
        }
        if (pair->mem->type == UCS_MEMORY_TYPE_HOST) {
            return false;
        }
        is_emulated |= (pair->rmem->type == UCS_MEMORY_TYPE_HOST) &&
                       (pair->rmem->lists == MKV_RMEM_LISTS_EMULATED);
    }
    return is_emulated && post->leg->peer->is_same_host;
}

bool mkv_pull_is_wanted(const mkv_post_t *post)
{
    const mkv_leg_t *leg = post->leg;
    uint64_t read_by = leg->xfer->ctx->opts->read_by;

    if (!leg->xfer->is_active || leg->is_pull_refused || post->is_too_long ||
        !mkv_post_may_be_pulled(post) || (read_by == MKV_READ_GET) ||
        (post->num_elements == 0) ||
        !mkv_peer_has_feature(leg->peer, MKV_FEATURE_PUSH)) {
        return false;
    }
    if (leg->xfer->role == MKV_SRC) {
        return mkv_pull_avoids_messages(post);
    }
    return (read_by == MKV_READ_PUSH) || mkv_pull_is_worth_it(post);
}

static void mkv_pull_add_runs(const mkv_plan_t *plan, mkv_msg_t *msg)
{
    const mkv_plan_part_t *part;
    uint32_t i;

    for (i = 0; i < plan->map->num_components; ++i) {
        part = &plan->parts[i];
        msg->units[i] =
            (mkv_wire_units_t){.component = plan->map->components[i].component,
                               .num = (uint32_t)part->num_runs,
                               .ids = (const uint8_t *)part->runs};
    }
    msg->num_units = plan->map->num_components;
}

bool mkv_pull_request(mkv_post_t *post)
{
    mkv_leg_t *leg = post->leg;
    mkv_msg_t msg = {.type = MKV_MSG_PULL, .plan = post->plan->serial};
    mkv_status_t status;

    msg.serial = leg->num_pulls + 1;
    msg.digest = mkv_post_digest(post, &msg.bytes);
    msg.sel = post->sel;
    msg.sel.fields &= ~(uint32_t)MKV_SEL_NOTIFY; /* the notification is local */
    if (leg->pulled_plan != post->plan->serial) {
        mkv_pull_add_runs(post->plan, &msg);
    }
    status = mkv_leg_send(leg, &msg);
    if (status == MKV_ERR_LENGTH) {
        post->is_too_long = true;
        return true;
    }
    if (status != MKV_OK) {
        mkv_peer_fail(leg->peer, status, "%s", mkv_last_error());
        return false;
    }

    leg->pulled_plan = post->plan->serial;
    post->serial = ++leg->num_pulls;
    post->pull_bytes = msg.bytes;
    mkv_list_del(&post->list);
    mkv_list_add_tail(&leg->pulled, &post->list);
    MKV_COUNT(leg->peer, pulls_sent, 1);
    return true;
}

static mkv_post_t *mkv_pull_find(mkv_leg_t *leg, uint32_t serial)
{
    mkv_post_t *post;

    mkv_list_for_each(post, &leg->pulled, list)
    {
        if (post->serial == serial) {
            return post;
        }
    }
    return NULL;
}

static void mkv_pull_refused(mkv_post_t *post, mkv_status_t code)
{
    mkv_leg_t *leg = post->leg;

    mkv_log_debug(
        leg->xfer->ctx, "transfer %llu, peer %s: it does not %s (%s), moving from here",
        (unsigned long long)leg->xfer->id, leg->peer->name,
        (leg->xfer->mode == MKV_READ) ? "put" : "get", mkv_status_string(code));
    MKV_COUNT(leg->peer, pulls_refused, 1);
    leg->is_pull_refused = true;
    mkv_post_again(post);
}

void mkv_pull_answered(mkv_leg_t *leg, const mkv_msg_t *msg)
{
    mkv_post_t *post = mkv_pull_find(leg, msg->serial);
    mkv_xfer_t *xfer = leg->xfer;

    if (post == NULL) {
        mkv_leg_fail(leg, MKV_ERR_PROTOCOL,
                     "peer %s, leg %u: it sent PULLED of post %u, which does not wait",
                     leg->peer->name, leg->index, msg->serial);
    } else if (mkv_leg_is_over(leg)) {
        mkv_post_free(post);
        mkv_xfer_dirty(xfer);
    } else if (msg->code != MKV_OK) {
        mkv_pull_refused(post, (mkv_status_t)msg->code);
    } else if (msg->bytes != post->pull_bytes) {
        mkv_leg_fail(leg, MKV_ERR_LENGTH,
                     "peer %s, leg %u: it moved %llu bytes of a post, %llu expected",
                     leg->peer->name, leg->index, (unsigned long long)msg->bytes,
                     (unsigned long long)post->pull_bytes);
    } else {
        post->elements = post->num_elements;
        post->bytes = post->pull_bytes;
        mkv_post_over(post); /* a trial put of it may still be in flight */
    }
}

void mkv_pulls_drop(mkv_leg_t *leg)
{
    mkv_posts_free(&leg->pulled);
}
