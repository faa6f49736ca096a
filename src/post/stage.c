/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A chunk:
 *
 *   ASKED --gathered, and STAGED--> MOVING --put--> MOVED --> FLUSHING --> SCATTERING
 *     |                               |               |           |           |
 *     |                               +---------------+-----------+-----------+--> gone
 *     +--STAGED, none--> REFUSED --gathered--> gone: the post goes once more, as lists
 *
 * To its post it is a call of UCX: the post ends when the peer says SCATTERED, or when
 * the leg is over and UCX has given back what it had of the chunk. It has a slot of our
 * staging until it is put. A leg has half of the slots at most, so that a peer that
 * does not answer leaves the others some.
 */

#include "post/stage.h"

#include "peer/backend.h"
#include "peer/message.h"
#include "post/call_end.h"
#include "post/copy.h"
#include "post/post_calls.h"
#include "post/post_cursor.h"
#include "post/post_path.h"
#include "post/stage_want.h"
#include "xfer/leg.h"

#include <stdlib.h>

#define MKV_SCATTER_OVERHEAD 512u /* of the message, beside the places but two */

typedef enum mkv_chunk_state {
    MKV_CHUNK_ASKED,
    MKV_CHUNK_REFUSED,
    MKV_CHUNK_MOVING,
    MKV_CHUNK_MOVED,
    MKV_CHUNK_FLUSHING,
    MKV_CHUNK_SCATTERING
} mkv_chunk_state_t;

typedef struct mkv_chunk {
    mkv_list_t list; /**< leg->chunks */
    mkv_leg_t *leg;
    mkv_post_t *post;
    uint32_t serial;
    mkv_chunk_state_t state;
    bool is_gathered;
    mkv_copy_t copy; /**< copy.slot is NULL once it is put */
    mkv_path_key_t path;
    bool is_asked;            /**< The put, for its path */
    uint64_t remote;          /**< Where the peer's staging is; 0: not told */
    mkv_wire_places_t places; /**< Those that may grow; count 0: none */
    mkv_wbuf_t wire;          /**< The others */
    uint64_t max_bytes;       /**< Of the slots of both sides */
    size_t max_wire;          /**< Of the message */
} mkv_chunk_t;

/* ---- Slots ----------------------------------------------------------------------- */

static bool mkv_leg_has_slot(mkv_leg_t *leg, mkv_pool_t *pool)
{
    if ((leg->num_slots < MKV_LEG_SLOTS) && !mkv_list_is_empty(&pool->free)) {
        return true;
    }
    if (mkv_list_is_empty(&leg->slot_wait)) {
        mkv_list_add_tail(&pool->waiting, &leg->slot_wait);
        leg->slot_deadline = mkv_ctx_now(leg->xfer->ctx) + MKV_SLOT_PATIENCE;
        mkv_ctx_deadline(leg->xfer->ctx, leg->slot_deadline);
    }
    return false;
}

/* The one that waits longest is the first. @return MKV_NEVER: nobody waits; 0: some
 * have gone on, and progress is due */
static uint64_t mkv_pool_expire(mkv_pool_t *pool, uint64_t now)
{
    uint64_t next = MKV_NEVER;
    mkv_leg_t *leg;

    while (!mkv_list_is_empty(&pool->waiting)) {
        leg = mkv_list_head(&pool->waiting, mkv_leg_t, slot_wait);
        if (leg->slot_deadline > now) {
            return (next == 0) ? 0 : leg->slot_deadline;
        }
        next = 0;
        mkv_list_del(&leg->slot_wait);
        leg->is_unstaged = true;
        mkv_leg_queue(leg);
    }
    return next;
}

uint64_t mkv_chunks_expire(mkv_ctx_t *ctx, uint64_t now)
{
    uint64_t next = MKV_NEVER, each;
    unsigned type;

    for (type = 0; type < UCS_MEMORY_TYPE_LAST; ++type) {
        if (ctx->pools[MKV_POOL_SEND][type] != NULL) {
            each = mkv_pool_expire(ctx->pools[MKV_POOL_SEND][type], now);
            next = (each < next) ? each : next;
        }
    }
    return next;
}

bool mkv_stage_must_wait(mkv_post_t *post)
{
    const mkv_pair_t *pair = mkv_leg_may_stage(post->leg) ? mkv_post_pair(post) : NULL;

    return (pair != NULL) && mkv_stage_is_wanted(post, pair) &&
           !mkv_leg_has_slot(post->leg, mkv_pool_get(post->plan->ctx, MKV_POOL_SEND,
                                                     pair->mem->type));
}

/* ---- Its end --------------------------------------------------------------------- */

/* The one that waits longest, and the leg that had it, are pumped again */
static void mkv_chunk_give_slot(mkv_chunk_t *chunk)
{
    mkv_slot_t *slot = chunk->copy.slot;
    mkv_leg_t *leg;

    if (slot == NULL) {
        return;
    }
    chunk->copy.slot = NULL;
    --chunk->leg->num_slots;
    mkv_slot_give(slot);
    if (!mkv_list_is_empty(&chunk->leg->slot_wait)) {
        mkv_list_del(&chunk->leg->slot_wait);
        mkv_leg_queue(chunk->leg);
    }
    if (!mkv_list_is_empty(&slot->pool->waiting)) {
        leg = mkv_list_head(&slot->pool->waiting, mkv_leg_t, slot_wait);
        mkv_list_del(&leg->slot_wait);
        mkv_leg_queue(leg);
    }
}

/* Nothing of it is in UCX's hands; the post may end with it */
static void mkv_chunk_end(mkv_chunk_t *chunk)
{
    mkv_post_t *post = chunk->post;

    mkv_chunk_give_slot(chunk);
    mkv_list_del(&chunk->list);
    mkv_wbuf_cleanup(&chunk->wire);
    free(chunk);
    mkv_post_put_credit(post);
    if (post->num_inflight == 0) {
        mkv_post_none_in_flight(post);
    }
}

static bool mkv_chunk_is_in_flight(const mkv_chunk_t *chunk)
{
    return !chunk->is_gathered || (chunk->state == MKV_CHUNK_MOVING);
}

void mkv_chunks_drop(mkv_leg_t *leg)
{
    mkv_chunk_t *chunk, *next;

    mkv_list_del(&leg->slot_wait);
    leg->num_moved = 0;
    mkv_list_for_each_safe(chunk, next, &leg->chunks, mkv_chunk_t, list)
    {
        if (!mkv_chunk_is_in_flight(chunk)) {
            mkv_chunk_end(chunk);
        }
    }
}

static void mkv_chunk_refused(mkv_chunk_t *chunk, mkv_status_t code)
{
    mkv_leg_t *leg = chunk->leg;

    mkv_log_debug(leg->xfer->ctx,
                  "transfer %llu, peer %s: it stages nothing (%s), by single pieces",
                  (unsigned long long)leg->xfer->id, leg->peer->name,
                  mkv_status_string(code));
    if (code == MKV_ERR_UNSUPPORTED) {
        leg->peer->staging_refused |= 1u << chunk->path.remote;
    }
    leg->is_unstaged = true;
    chunk->post->must_repeat = true;
    chunk->state = MKV_CHUNK_REFUSED;
    if (chunk->is_gathered) {
        mkv_chunk_end(chunk);
    }
}

/* ---- Moving ---------------------------------------------------------------------- */

static void mkv_chunk_moved(void *request, ucs_status_t status, void *user_data)
{
    mkv_chunk_t *chunk = user_data;
    mkv_leg_t *leg = chunk->leg;

    if (chunk->is_asked && (request != NULL)) {
        mkv_path_note(leg->peer, &chunk->path, request);
    }
    chunk->state = MKV_CHUNK_MOVED;
    mkv_chunk_give_slot(chunk);
    if (mkv_leg_is_over(leg)) {
        mkv_chunk_end(chunk);
    } else if (status != UCS_OK) {
        mkv_leg_fail(leg, mkv_status_of_ucs(status),
                     "peer %s, leg %u: put of %llu bytes of small pieces failed: %s",
                     leg->peer->name, leg->index, (unsigned long long)chunk->copy.bytes,
                     ucs_status_string(status));
    } else if (!mkv_post_is_refused(chunk->post, &chunk->path)) {
        ++leg->num_moved;
        mkv_xfer_dirty(leg->xfer);
    }
    if (request != NULL) {
        ucp_request_free(request);
    }
}

static void mkv_chunk_put(mkv_chunk_t *chunk)
{
    mkv_peer_t *peer = chunk->leg->peer;
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_MEMH,
                                 .cb.send = mkv_chunk_moved,
                                 .user_data = chunk,
                                 .memh = chunk->copy.slot->pool->memh};
    ucs_status_ptr_t request;

    chunk->state = MKV_CHUNK_MOVING;
    chunk->is_asked = !mkv_path_is_known(peer, &chunk->path);
    param.op_attr_mask |= chunk->is_asked ? UCP_OP_ATTR_FLAG_NO_IMM_CMPL : 0;
    chunk->leg->puts = MKV_PUTS_GIVEN;
    MKV_ADD(chunk->leg->xfer->num_ucp_calls, 1);
    MKV_COUNT(peer, ucp_calls, 1);
    MKV_COUNT(peer, chunks_staged, 1);
    MKV_COUNT(peer, pieces_staged, chunk->copy.num);
    request = ucp_put_nbx(peer->ep, chunk->copy.slot->base, chunk->copy.bytes,
                          chunk->remote, peer->staging[chunk->path.remote], &param);
    if (!UCS_PTR_IS_PTR(request)) {
        mkv_chunk_moved(NULL, UCS_PTR_RAW_STATUS(request), chunk);
    }
}

static void mkv_chunk_gathered(void *arg, ucs_status_t status)
{
    mkv_chunk_t *chunk = arg;
    mkv_leg_t *leg = chunk->leg;

    chunk->is_gathered = true;
    if (mkv_leg_is_over(leg) || (chunk->state == MKV_CHUNK_REFUSED)) {
        mkv_chunk_end(chunk);
    } else if (status != UCS_OK) {
        mkv_leg_fail(leg, mkv_status_of_ucs(status),
                     "peer %s, leg %u: %zu small pieces cannot be gathered: %s",
                     leg->peer->name, leg->index, chunk->copy.num,
                     ucs_status_string(status));
    } else if (chunk->remote != 0) {
        mkv_chunk_put(chunk);
    }
}

void mkv_chunks_flushing(mkv_leg_t *leg)
{
    mkv_chunk_t *chunk;

    if (leg->num_moved == 0) {
        return;
    }
    leg->num_moved = 0;
    mkv_list_for_each(chunk, &leg->chunks, mkv_chunk_t, list)
    {
        chunk->state =
            (chunk->state == MKV_CHUNK_MOVED) ? MKV_CHUNK_FLUSHING : chunk->state;
    }
}

static void mkv_chunk_scatter(mkv_chunk_t *chunk)
{
    mkv_msg_t msg = {.type = MKV_MSG_SCATTER,
                     .serial = chunk->serial,
                     .bytes = chunk->copy.bytes,
                     .data = chunk->wire.data,
                     .length = chunk->wire.length};

    chunk->state = MKV_CHUNK_SCATTERING;
    mkv_leg_send_or_fail(chunk->leg, &msg);
}

void mkv_chunks_flushed(mkv_leg_t *leg)
{
    mkv_chunk_t *chunk;

    mkv_list_for_each(chunk, &leg->chunks, mkv_chunk_t, list)
    {
        if (chunk->state == MKV_CHUNK_FLUSHING) {
            mkv_chunk_scatter(chunk);
        }
    }
}

/* ---- Gathering ------------------------------------------------------------------- */

static void mkv_chunk_close_places(mkv_chunk_t *chunk)
{
    if (chunk->places.count > 0) {
        mkv_wire_put_places(&chunk->wire, &chunk->places);
        chunk->places.count = 0;
    }
}

static void mkv_chunk_add_place(mkv_chunk_t *chunk, const mkv_piece_t *piece)
{
    uint64_t offset = piece->remote - piece->pair->theirs.base;
    mkv_wire_places_t *places = &chunk->places;

    if ((places->count > 0) && (places->region == piece->pair->remote_id) &&
        (places->length == piece->length) &&
        ((places->count == 1) ||
         (offset == places->offset + places->count * places->stride))) {
        places->stride =
            (places->count == 1) ? offset - places->offset : places->stride;
        ++places->count;
        return;
    }
    mkv_chunk_close_places(chunk);
    *places = (mkv_wire_places_t){.region = piece->pair->remote_id,
                                  .length = (uint32_t)piece->length,
                                  .count = 1,
                                  .offset = offset};
}

/* One more piece fits: into the slots, the copy and the message */
static bool mkv_chunk_fits(const mkv_chunk_t *chunk, size_t length)
{
    return (chunk->copy.bytes + length <= chunk->max_bytes) &&
           (chunk->copy.num < chunk->copy.max) &&
           (chunk->wire.length <= chunk->max_wire);
}

/* Pieces of the pair; false: the chunk is full, or UCX has no key for it */
static bool mkv_chunk_gather_pair(mkv_chunk_t *chunk, const mkv_pair_t *pair)
{
    mkv_post_t *post = chunk->post;
    const mkv_plan_part_t *part = mkv_post_part(post, pair);
    const mkv_stretch_t stretch = mkv_post_stretch(post, pair);
    mkv_cursor_t before = post->at;
    mkv_piece_t piece;

    while (mkv_post_next_of(post, &stretch, part, &piece)) {
        if (!mkv_chunk_fits(chunk, piece.length) ||
            !mkv_copy_add(&chunk->copy, pair->mem, piece.local, piece.length)) {
            post->at = before;
            return false;
        }
        mkv_chunk_add_place(chunk, &piece);
        before = post->at;
    }
    return true;
}

/* From the cursor on, as far as memory types are the same */
static void mkv_chunk_gather(mkv_chunk_t *chunk)
{
    mkv_post_t *post = chunk->post;
    const mkv_pair_t *pair;

    do {
        pair = mkv_post_pair(post);
    } while ((pair != NULL) && (pair->mem->type == chunk->path.local) &&
             (pair->rmem->type == chunk->path.remote) &&
             mkv_stage_is_wanted(post, pair) && mkv_chunk_gather_pair(chunk, pair));
    mkv_chunk_close_places(chunk);
}

/* With a slot; NULL: no memory. There was one when it was looked for. */
static mkv_chunk_t *mkv_chunk_create(mkv_post_t *post, const mkv_pair_t *pair)
{
    mkv_ctx_t *ctx = post->plan->ctx;
    uint64_t left = post->num_elements - post->elements;
    uint64_t max = ctx->opts->sgl_max;
    mkv_chunk_t *chunk = calloc(1, sizeof(*chunk));

    if (chunk == NULL) {
        return NULL;
    }
    max = (max < left) ? max : left;
    max = (max < MKV_COPY_MAX_PIECES) ? max : MKV_COPY_MAX_PIECES;
    mkv_list_init(&chunk->list);
    mkv_wbuf_init(&chunk->wire);
    chunk->leg = post->leg;
    chunk->post = post;
    chunk->path = mkv_post_path(post, pair, false);
    chunk->max_bytes = mkv_peer_chunk(post->leg->peer);
    chunk->max_wire = mkv_message_max(post->leg->peer) - MKV_SCATTER_OVERHEAD;
    chunk->copy = (mkv_copy_t){
        .ctx = ctx, .is_gather = true, .done = mkv_chunk_gathered, .arg = chunk};
    chunk->copy.slot =
        mkv_slot_take(mkv_pool_get(ctx, MKV_POOL_SEND, pair->mem->type), chunk);
    ++post->leg->num_slots;
    if (mkv_copy_begin(&chunk->copy, max)) {
        return chunk;
    }
    mkv_chunk_give_slot(chunk);
    free(chunk);
    return NULL;
}

static bool mkv_chunk_ask(mkv_chunk_t *chunk)
{
    mkv_leg_t *leg = chunk->leg;
    mkv_msg_t msg = {.type = MKV_MSG_STAGE,
                     .serial = ++leg->num_chunks,
                     .value = chunk->path.remote,
                     .bytes = chunk->copy.bytes};

    chunk->serial = msg.serial;
    mkv_leg_send_or_fail(leg, &msg);
    return !mkv_conn_is_cut_off(leg->peer->state);
}

/* The post owes it to itself from now on that the chunk ends */
static bool mkv_chunk_give(mkv_chunk_t *chunk)
{
    mkv_post_t *post = chunk->post;

    post->elements += chunk->copy.num;
    post->bytes += chunk->copy.bytes;
    mkv_post_take_credit(post, chunk->copy.bytes);
    mkv_post_average_calls(post);
    mkv_list_add_tail(&post->leg->chunks, &chunk->list);
    if (!mkv_chunk_ask(chunk)) {
        chunk->is_gathered = true; /* the connection's end takes it away */
        return false;
    }
    mkv_copy_start(&chunk->copy);
    return true;
}

bool mkv_stage_issue(mkv_post_t *post, const mkv_pair_t *pair)
{
    mkv_leg_t *leg = post->leg;
    mkv_chunk_t *chunk;

    if (!mkv_leg_has_slot(
            leg, mkv_pool_get(post->plan->ctx, MKV_POOL_SEND, pair->mem->type))) {
        return false;
    }
    chunk = mkv_chunk_create(post, pair);
    if (chunk != NULL) {
        mkv_chunk_gather(chunk);
        if ((chunk->copy.num > 0) && !chunk->wire.has_failed) {
            return mkv_chunk_give(chunk) && !mkv_leg_is_over(leg);
        }
        mkv_chunk_give_slot(chunk);
        mkv_wbuf_cleanup(&chunk->wire);
        free(chunk);
    }
    mkv_leg_fail(leg, MKV_ERR_NOMEM,
                 "peer %s, leg %u: no memory to gather small pieces", leg->peer->name,
                 leg->index);
    return false;
}

/* ---- What the peer says ---------------------------------------------------------- */

static mkv_chunk_t *mkv_chunk_find(mkv_leg_t *leg, uint32_t serial)
{
    mkv_chunk_t *chunk;

    mkv_list_for_each(chunk, &leg->chunks, mkv_chunk_t, list)
    {
        if (chunk->serial == serial) {
            return chunk;
        }
    }
    return NULL;
}

static bool mkv_chunk_take_key(const mkv_chunk_t *chunk, const mkv_msg_t *msg)
{
    mkv_peer_t *peer = chunk->leg->peer;
    ucp_rkey_h *rkey = &peer->staging[chunk->path.remote];

    if ((*rkey == NULL) && (msg->length > 0) &&
        (ucp_ep_rkey_unpack(peer->ep, msg->data, rkey) != UCS_OK)) {
        *rkey = NULL;
    }
    return *rkey != NULL;
}

static void mkv_chunk_granted(mkv_chunk_t *chunk, const mkv_msg_t *msg)
{
    mkv_leg_t *leg = chunk->leg;

    if (msg->code != MKV_OK) {
        mkv_chunk_refused(chunk, (mkv_status_t)msg->code);
    } else if ((msg->offset == 0) || !mkv_chunk_take_key(chunk, msg)) {
        mkv_leg_fail(leg, MKV_ERR_TRANSPORT,
                     "peer %s, leg %u: its staging at 0x%llx has no key that UCX takes",
                     leg->peer->name, leg->index, (unsigned long long)msg->offset);
    } else {
        chunk->remote = msg->offset;
        if (chunk->is_gathered) {
            mkv_chunk_put(chunk);
        }
    }
}

void mkv_stage_answered(mkv_leg_t *leg, const mkv_msg_t *msg)
{
    mkv_chunk_t *chunk = mkv_chunk_find(leg, msg->serial);

    if (mkv_leg_is_over(leg)) {
        return;
    }
    if ((chunk != NULL) && (msg->type == MKV_MSG_STAGED) &&
        (chunk->state == MKV_CHUNK_ASKED) && (chunk->remote == 0)) {
        mkv_chunk_granted(chunk, msg);
    } else if ((chunk != NULL) && (msg->type == MKV_MSG_SCATTERED) &&
               (chunk->state == MKV_CHUNK_SCATTERING) &&
               (msg->bytes == chunk->copy.bytes)) {
        mkv_chunk_end(chunk);
    } else {
        mkv_leg_fail(leg, MKV_ERR_PROTOCOL,
                     "peer %s, leg %u: it sent %s of chunk %u, which does not wait for "
                     "it",
                     leg->peer->name, leg->index, mkv_msg_string(msg->type),
                     msg->serial);
    }
}
