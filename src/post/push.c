/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Requests are checked like a caller's post, against the blocks exposed to the peer.
 * Each then becomes a post of the passive side's leg and takes credits. For a READ it
 * goes as lists and waits for a flush; for a WRITE it consists of gets. A request for
 * blocks which were not exposed fails the transfer. If the move is not possible for
 * other reasons, the request is refused, and the peer moves the blocks itself.
 */

#include "post/push.h"

#include "peer/path.h"
#include "plan/plan_sel.h"
#include "post/post.h"
#include "post/post_cursor.h"
#include "post/post_end.h"
#include "post/post_units.h"
#include "xfer/trace.h"

#include <stdlib.h>

/** A plan of the reader, in the form that posts of this side need. */
typedef struct mkv_push_plan {
    mkv_list_t list; /**< leg->push_plans */
    uint64_t serial; /**< Number that the active side has given to the plan */
    mkv_plan_t *plan;
    uint64_t bytes; /**< Memory of the plan, as counted in peer->push_bytes */
} mkv_push_plan_t;

/* ---- Plans ----------------------------------------------------------------------- */

static bool mkv_push_has_room(const mkv_leg_t *leg, uint64_t bytes)
{
    uint64_t max = leg->xfer->ctx->opts->max_queued;

    return (bytes <= max) && (leg->peer->push_bytes <= max - bytes);
}

/* Count the units of runs in blocks that both sides have; a plan has at most 2^32 */
static mkv_status_t mkv_push_count_units(const mkv_map_t *map,
                                         const mkv_wire_units_t *units, uint64_t limit,
                                         uint32_t *num_p)
{
    const mkv_map_component_t *component = mkv_map_component(map, units->component);
    uint64_t num_local, num_remote, total = 0;
    uint32_t index, i;
    mkv_run_t run;

    if (component == NULL) {
        return MKV_ERR_PAIRING;
    }
    index = (uint32_t)(component - map->components);
    num_local = component->local_units * mkv_map_parts(map, index, false);
    num_remote = component->remote_units * mkv_map_parts(map, index, true);
    for (i = 0; i < units->num; ++i) {
        mkv_wire_run(units->ids, i, &run);
        if (((uint64_t)run.remote + run.count > num_local) ||
            ((uint64_t)run.local + run.count > num_remote)) {
            return mkv_error(&map->ctx->log, MKV_ERR_BOUNDS,
                             "component %u: %u blocks from %u here and %u there on, "
                             "the regions have %llu and %llu",
                             units->component, run.count, run.remote, run.local,
                             (unsigned long long)num_local,
                             (unsigned long long)num_remote);
        }
        total += run.count;
        if ((total > limit) || (total > UINT32_MAX)) {
            return MKV_ERR_BUSY;
        }
    }
    *num_p = (uint32_t)total;
    return MKV_OK;
}

static void mkv_push_expand(const mkv_wire_units_t *wire, uint32_t *local,
                            uint32_t *remote)
{
    uint32_t i, k, at = 0;
    mkv_run_t run;

    for (i = 0; i < wire->num; ++i) {
        mkv_wire_run(wire->ids, i, &run);
        for (k = 0; k < run.count; ++k, ++at) {
            local[at] = run.remote + k; /* the reader's remote block is our local one */
            remote[at] = run.local + k;
        }
    }
}

/* Copy the units of each component into one block, which the caller frees */
static mkv_status_t mkv_push_units(mkv_leg_t *leg, const mkv_msg_t *msg,
                                   mkv_units_t *units, uint32_t **ids_p)
{
    uint64_t limit = leg->xfer->ctx->opts->max_queued / (2 * sizeof(uint32_t));
    uint64_t total = 0;
    mkv_status_t status;
    uint32_t *ids;
    uint32_t i;

    for (i = 0; i < msg->num_units; ++i) {
        units[i] = (mkv_units_t){.component = msg->units[i].component};
        status = mkv_push_count_units(leg->map, &msg->units[i], limit - total,
                                      &units[i].num_local);
        if (status != MKV_OK) {
            return status;
        }
        units[i].num_remote = units[i].num_local;
        total += units[i].num_local;
    }
    *ids_p = ids = malloc(2 * total * sizeof(*ids) + 1);
    if (ids == NULL) {
        return MKV_ERR_NOMEM;
    }
    for (i = 0; i < msg->num_units; ids += 2 * (size_t)units[i].num_local, ++i) {
        mkv_push_expand(&msg->units[i], ids, ids + units[i].num_local);
        units[i].local = ids;
        units[i].remote = ids + units[i].num_local;
    }
    return MKV_OK;
}

/* Bytes of the plan that is made of these runs, at most */
static uint64_t mkv_push_plan_bytes(const mkv_map_t *map, const mkv_msg_t *msg)
{
    uint64_t bytes = sizeof(mkv_push_plan_t) + sizeof(mkv_plan_t) +
                     map->num_components * sizeof(mkv_plan_part_t);
    uint32_t i;

    for (i = 0; i < msg->num_units; ++i) {
        bytes += (uint64_t)msg->units[i].num * sizeof(mkv_run_t);
    }
    return bytes;
}

static mkv_status_t mkv_push_plan_add(mkv_leg_t *leg, const mkv_msg_t *msg,
                                      mkv_plan_t **plan_p)
{
    uint64_t bytes = mkv_push_plan_bytes(leg->map, msg);
    mkv_units_t units[MKV_MAX_COMPONENTS];
    mkv_status_t status = MKV_ERR_NOMEM;
    mkv_push_plan_t *entry;
    uint32_t *ids = NULL;

    if (!mkv_push_has_room(leg, bytes)) {
        return MKV_ERR_BUSY;
    }
    entry = malloc(sizeof(*entry));

    if (entry != NULL) {
        status = mkv_push_units(leg, msg, units, &ids);
    }
    if (status == MKV_OK) {
        status = mkv_plan_make(leg->map, units, msg->num_units,
                               MKV_PLAN_KEEP_ORDER | MKV_PLAN_OF_PARTS, &entry->plan);
    }
    free(ids);
    if (status != MKV_OK) {
        free(entry);
        return status;
    }
    mkv_plan_add(entry->plan);
    entry->serial = msg->plan;
    entry->bytes = bytes;
    leg->peer->push_bytes += bytes;
    mkv_list_init(&entry->list);
    mkv_list_add_tail(&leg->push_plans, &entry->list);
    *plan_p = entry->plan;
    return MKV_OK;
}

static mkv_status_t mkv_push_plan(mkv_leg_t *leg, const mkv_msg_t *msg,
                                  mkv_plan_t **plan_p)
{
    mkv_push_plan_t *entry;

    mkv_list_for_each(entry, &leg->push_plans, list)
    {
        if (entry->serial == msg->plan) {
            *plan_p = entry->plan;
            return MKV_OK;
        }
    }
    return (msg->num_units > 0) ? mkv_push_plan_add(leg, msg, plan_p)
                                : MKV_ERR_NOTFOUND; /* its runs were refused */
}

/* ---- Posts ----------------------------------------------------------------------- */

static void mkv_push_answer(mkv_leg_t *leg, uint32_t serial, mkv_status_t code,
                            uint64_t bytes)
{
    mkv_msg_t msg = {
        .type = MKV_MSG_PULLED, .serial = serial, .code = code, .bytes = bytes};

    mkv_leg_send_or_fail(leg, &msg);
}

/* Gets that UCX emulates are no better than the puts that they replace */
static bool mkv_push_is_emulated(const mkv_leg_t *leg, const mkv_sel_t *sel)
{
    const mkv_map_t *map = leg->map;
    mkv_path_key_t key = {.kind = MKV_CALL_GET};
    const mkv_pair_t *pair;

    for (pair = map->pairs; pair < map->pairs + map->num_pairs; ++pair) {
        key.local = pair->mem->type;
        key.remote = pair->rmem->type;
        if (mkv_sel_has_pair(sel, map, pair) && mkv_path_is_emulated(leg->peer, &key)) {
            return true;
        }
    }
    return false;
}

static mkv_status_t mkv_push_check(mkv_leg_t *leg, const mkv_msg_t *msg,
                                   mkv_plan_t **plan_p)
{
    mkv_status_t status;

    if ((leg->xfer->ctx->opts->read_by == MKV_READ_GET) || leg->map->is_stale ||
        (msg->sel.fields & MKV_SEL_NOTIFY) ||
        ((leg->xfer->role == MKV_DST) && mkv_push_is_emulated(leg, &msg->sel))) {
        return MKV_ERR_UNSUPPORTED;
    }
    status = mkv_push_plan(leg, msg, plan_p);
    if (status == MKV_OK) {
        status = mkv_plan_check_sel(*plan_p, &msg->sel);
    }
    if (status == MKV_OK) {
        status = mkv_post_check_keys(leg, *plan_p, &msg->sel);
    }
    return (status == MKV_OK) ? mkv_post_check_units(leg, *plan_p, &msg->sel) : status;
}

/* The pairs may differ when maps were made at different times, or with different flags
 */
static mkv_status_t mkv_push_post(mkv_leg_t *leg, const mkv_msg_t *msg,
                                  mkv_plan_t *plan)
{
    mkv_post_t *post;
    uint64_t bytes;

    if (!mkv_push_has_room(leg, sizeof(*post))) {
        return MKV_ERR_BUSY;
    }
    post = mkv_post_create(leg, plan, &msg->sel);
    if (post == NULL) {
        return MKV_ERR_NOMEM;
    }
    if ((mkv_post_digest(post, &bytes) != msg->digest) || (bytes != msg->bytes)) {
        mkv_post_free(post);
        return MKV_ERR_PAIRING;
    }
    post->is_push = true;
    leg->peer->push_bytes += sizeof(*post);
    post->has_arrived = (leg->xfer->role == MKV_DST); /* gets arrive when they end */
    mkv_xfer_stamp(leg->xfer, MKV_TIME_POSTED);
    post->serial = msg->serial;
    mkv_list_add_tail(&leg->posts, &post->list);
    mkv_leg_queue(leg); /* progress starts it, as this is a callback of UCX */
    return MKV_OK;
}

void mkv_push_receive(mkv_leg_t *leg, const mkv_msg_t *msg)
{
    mkv_plan_t *plan = NULL;
    mkv_status_t status = mkv_push_check(leg, msg, &plan);

    if (status == MKV_ERR_BOUNDS) {
        mkv_leg_fail(leg, status,
                     "peer %s, leg %u: it requested blocks that it must not have: %s",
                     leg->peer->name, leg->index, mkv_last_error());
        return;
    }
    if (status == MKV_OK) {
        status = mkv_push_post(leg, msg, plan);
    }
    if (status != MKV_OK) {
        mkv_push_answer(leg, msg->serial, status, 0);
    }
}

void mkv_push_arrived(mkv_post_t *post)
{
    MKV_COUNT(post->leg->peer, pulls_served, 1);
    MKV_COUNT(post->leg->peer, bytes_pushed, post->bytes);
    mkv_push_answer(post->leg, post->serial, MKV_OK, post->bytes);
}

/* Free a plan with UCX callbacks pending together with its map, not earlier */
void mkv_push_cleanup(mkv_leg_t *leg)
{
    mkv_push_plan_t *entry;

    mkv_posts_free(&leg->pulled);
    while (!mkv_list_is_empty(&leg->push_plans)) {
        entry = mkv_list_head(&leg->push_plans, mkv_push_plan_t, list);
        mkv_list_del(&entry->list);
        leg->peer->push_bytes -= entry->bytes;
        if (entry->plan->num_posts == 0) {
            mkv_plan_free(entry->plan);
        }
        free(entry);
    }
}
