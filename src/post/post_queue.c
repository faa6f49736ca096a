/* SPDX-License-Identifier: BSD-3-Clause */

/* A post as the user asks for it: checked, counted and queued, and its gates. */

#include "post/post.h"

#include "base/abi.h"
#include "xfer/leg.h"
#include "post/gate.h"
#include "post/post_calls.h"
#include "post/post_cursor.h"
#include "post/post_units.h"

#include <stdlib.h>
#include <string.h>

#define MKV_SEL_ALL                                                                    \
    ((uint32_t)(MKV_SEL_COMPONENTS | MKV_SEL_LAYERS | MKV_SEL_POSITIONS))

static mkv_status_t mkv_post_check_fields(const mkv_log_t *log, const mkv_sel_t *sel)
{
    if (sel->fields & ~MKV_SEL_ALL) {
        return mkv_error(log, MKV_ERR_UNSUPPORTED,
                         "sel: fields 0x%x, libmorikv %s knows 0x%x", sel->fields,
                         mkv_version_string(), MKV_SEL_ALL);
    }
    if ((!(sel->fields & MKV_SEL_COMPONENTS) && (sel->component_mask != 0)) ||
        (!(sel->fields & MKV_SEL_LAYERS) && ((sel->layer_lo | sel->layer_hi) != 0)) ||
        (!(sel->fields & MKV_SEL_POSITIONS) && ((sel->pos_lo | sel->pos_hi) != 0))) {
        return mkv_error(log, MKV_ERR_INVALID,
                         "sel: component_mask 0x%llx, layers [%d, %d), positions [%u, "
                         "%u), but fields is 0x%x: expected MKV_SEL_* of what is given",
                         (unsigned long long)sel->component_mask, sel->layer_lo,
                         sel->layer_hi, sel->pos_lo, sel->pos_hi, sel->fields);
    }
    return MKV_OK;
}

static mkv_status_t mkv_post_check_sel(const mkv_plan_t *plan, const mkv_sel_t *sel)
{
    const mkv_log_t *log = &plan->ctx->log;
    mkv_status_t status = mkv_post_check_fields(log, sel);
    uint32_t max = 0;
    uint32_t i;

    if (status != MKV_OK) {
        return status;
    }
    if ((sel->layer_lo > sel->layer_hi) || (sel->pos_lo > sel->pos_hi)) {
        return mkv_error(log, MKV_ERR_INVALID, "layers [%d, %d), positions [%u, %u)",
                         sel->layer_lo, sel->layer_hi, sel->pos_lo, sel->pos_hi);
    }
    if (!mkv_sel_has_positions(sel)) {
        return MKV_OK;
    }
    if (!(plan->flags & MKV_PLAN_KEEP_ORDER)) {
        return mkv_error(log, MKV_ERR_INVALID,
                         "a range of positions needs a plan with MKV_PLAN_KEEP_ORDER");
    }
    for (i = 0; i < plan->map->num_components; ++i) {
        max = (plan->parts[i].num_units > max) ? plan->parts[i].num_units : max;
    }
    if (sel->pos_hi > max) {
        return mkv_error(log, MKV_ERR_BOUNDS, "positions [%u, %u), but the plan has %u",
                         sel->pos_lo, sel->pos_hi, max);
    }
    return MKV_OK;
}

static mkv_status_t mkv_post_check(mkv_xfer_t *xfer, uint32_t index,
                                   const mkv_plan_t *plan)
{
    const mkv_log_t *log = &xfer->ctx->log;
    mkv_leg_t *leg;

    if (!xfer->is_active || (index >= xfer->num_legs)) {
        return mkv_error(log, MKV_ERR_INVALID, "post: leg %u of %u, %s side", index,
                         xfer->num_legs, xfer->is_active ? "active" : "passive");
    }
    if (mkv_xfer_is_terminal(xfer)) {
        return mkv_error(log, (xfer->status == MKV_OK) ? MKV_ERR_INVALID : xfer->status,
                         "the transfer has ended: %s", xfer->error);
    }
    leg = &xfer->legs[index];
    if ((plan->map != leg->map) || (leg->state != MKV_LEG_BOUND)) {
        return mkv_error(log, MKV_ERR_INVALID, "post: leg %u %s", index,
                         (plan->map != leg->map)
                             ? "has another map than the plan"
                             : ((leg->state > MKV_LEG_BOUND)
                                    ? "is sealed"
                                    : "has no block list of its peer yet"));
    }
    if (leg->map->is_stale) {
        return mkv_error(log, MKV_ERR_STALE,
                         "peer %s has dropped regions of the map; make a new one",
                         leg->peer->name);
    }
    return MKV_OK;
}

static mkv_post_t *mkv_post_alloc(mkv_ctx_t *ctx)
{
    mkv_list_uses_t lists = {0};
    mkv_post_t *post;

    if (!mkv_list_is_empty(&ctx->free_posts)) {
        post = mkv_list_head(&ctx->free_posts, mkv_post_t, list);
        mkv_list_del(&post->list);
        lists = post->lists; /* with room, and empty */
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

static void mkv_post_set_gate(mkv_post_t *post, const mkv_gate_t *gate)
{
    if (gate == NULL) {
        post->gate_state = MKV_GATE_OPEN;
        return;
    }
    post->gate = *gate;
    post->gate_state = (gate->ready != NULL) ? MKV_GATE_ASK : MKV_GATE_WAIT;
    (void)mkv_gates_take(post->plan->ctx); /* it may have been signalled before */
    post->plan->ctx->num_asking_gates += (gate->ready != NULL);
}

static mkv_status_t mkv_xfer_post_locked(mkv_xfer_t *xfer, uint32_t index,
                                         mkv_plan_t *plan, const mkv_sel_t *sel,
                                         const mkv_gate_t *gate)
{
    mkv_status_t status;
    mkv_post_t *post;
    mkv_leg_t *leg;

    status = mkv_post_check(xfer, index, plan);
    if (status == MKV_OK) {
        status = mkv_post_check_sel(plan, sel);
    }
    if (status == MKV_OK) {
        status = mkv_post_check_units(&xfer->legs[index], plan, sel);
    }
    if (status != MKV_OK) {
        return status;
    }
    post = mkv_post_alloc(xfer->ctx);
    if (post == NULL) {
        return mkv_error(&xfer->ctx->log, MKV_ERR_NOMEM, "no memory for a post");
    }

    leg = &xfer->legs[index];
    post->leg = leg;
    post->plan = plan;
    post->sel = *sel;
    mkv_post_set_gate(post, gate);
    mkv_post_rewind(post);
    mkv_post_count(post, leg->posted);
    mkv_post_sum_units(post);
    ++plan->num_posts;
    xfer->posted += post->num_elements;
    (void)mkv_xfer_take(xfer, MKV_XFER_POSTED);
    MKV_COUNT(leg->peer, plan_posts, 1);
    MKV_COUNT(leg->peer, elements_posted, post->num_elements);
    mkv_list_add_tail(&leg->posts, &post->list);
    mkv_leg_queue(leg);
    (void)mkv_peer_pump(leg->peer);
    return MKV_OK;
}

mkv_status_t mkv_xfer_post(mkv_xfer_t *xfer, uint32_t leg, mkv_plan_t *plan,
                           const mkv_sel_t *sel, const mkv_gate_t *gate)
{
    mkv_sel_t my_sel = {.size = sizeof(my_sel)};
    mkv_gate_t my_gate = {.size = sizeof(my_gate)};
    mkv_ctx_t *ctx = xfer->ctx;
    mkv_status_t status = MKV_OK;

    if (sel != NULL) {
        status = mkv_struct_read(&ctx->log, &mkv_struct_sel, sel, &my_sel);
    }
    if ((gate != NULL) && (status == MKV_OK)) {
        status = mkv_struct_read(&ctx->log, &mkv_struct_gate, gate, &my_gate);
    }
    if ((gate != NULL) && (status == MKV_OK) && (my_gate.ready == NULL) &&
        (my_gate.value == 0)) {
        status =
            mkv_error(&ctx->log, MKV_ERR_INVALID,
                      "gate %llu: value 0 is there from the beginning, expected at "
                      "least 1, or a callback",
                      (unsigned long long)my_gate.id);
    }
    if (status != MKV_OK) {
        return status;
    }

    mkv_enter(ctx);
    status = mkv_xfer_post_locked(xfer, leg, plan, &my_sel,
                                  (gate != NULL) ? &my_gate : NULL);
    mkv_leave(ctx);
    return status;
}

void mkv_posts_cleanup(mkv_ctx_t *ctx)
{
    mkv_calls_t *calls;
    mkv_post_t *post;

    while ((calls = ctx->free_calls) != NULL) {
        ctx->free_calls = calls->next;
        free(calls);
    }
    while (!mkv_list_is_empty(&ctx->free_posts)) {
        post = mkv_list_head(&ctx->free_posts, mkv_post_t, list);
        mkv_list_del(&post->list);
        free(post->lists.lists);
        free(post);
    }
}

static int mkv_leg_has_gate(const mkv_leg_t *leg)
{
    return !mkv_list_is_empty(&leg->posts) &&
           (mkv_list_head(&leg->posts, mkv_post_t, list)->gate_state != MKV_GATE_OPEN);
}

void mkv_posts_listen(mkv_ctx_t *ctx)
{
    static const mkv_leg_listener_t listener = {
        .ended = mkv_leg_cancel_posts,
        .has_gate = mkv_leg_has_gate,
    };

    ctx->leg_listener = &listener;
}
