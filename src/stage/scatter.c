/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The receiver's side. A slot is the peer's until STAGE, and ours until STAGED. All
 * places of a STAGE are checked against the exposed blocks before a byte is copied. The
 * leg is not drained while copies to its blocks run, so the blocks are not quiet.
 */

#include "stage/scatter.h"

#include "message/message.h"
#include "stage/loop.h"
#include "stage/stage_buf.h"
#include "xfer/expose.h"
#include "xfer/leg.h"

#include <stdlib.h>

typedef struct mkv_staging {
    mkv_stage_buf_t *buf;
    uint32_t busy; /* bit i: a copy from slot i to blocks is in flight */
} mkv_staging_t;

/** A copy, with its arrays behind it. */
typedef struct mkv_scatter {
    mkv_leg_t *leg;
    unsigned slot;
    mkv_list_put_t put;
} mkv_scatter_t;

/* ---- Answers --------------------------------------------------------------------- */

static void mkv_scatter_send(mkv_peer_t *peer, mkv_msg_t *msg)
{
    mkv_status_t status;

    if (mkv_conn_is_cut_off(peer->state)) {
        return;
    }
    status = mkv_message_send(peer, msg);
    if (status != MKV_OK) {
        mkv_peer_fail(peer, status, "%s", mkv_last_error());
    }
}

static void mkv_scatter_answer(mkv_peer_t *peer, uint32_t slot, mkv_status_t code)
{
    mkv_msg_t msg = {.type = MKV_MSG_STAGED, .serial = slot, .code = code};

    mkv_scatter_send(peer, &msg);
}

/* ---- Staging --------------------------------------------------------------------- */

/* Whether regions of this type exist, which copies could go to */
static bool mkv_ctx_has_type(const mkv_ctx_t *ctx, uint32_t type)
{
    const mkv_mem_t *mem;

    mkv_list_for_each(mem, &ctx->mems, list)
    {
        if ((uint32_t)mem->type == type) {
            return true;
        }
    }
    return false;
}

static void mkv_staging_open(mkv_peer_t *peer, ucs_memory_type_t type)
{
    mkv_staging_t *staging = calloc(1, sizeof(*staging));

    if (staging == NULL) {
        return;
    }
    staging->buf = mkv_stage_buf_create(peer->ctx, type);
    if (staging->buf == NULL) {
        free(staging);
        return;
    }
    peer->staging = staging;
}

static void mkv_staging_wanted(mkv_peer_t *peer, const mkv_msg_t *msg)
{
    mkv_msg_t answer = {.type = MKV_MSG_STAGED,
                        .serial = MKV_STAGE_WANTED,
                        .code = MKV_ERR_UNSUPPORTED};
    mkv_ctx_t *ctx = peer->ctx;

    if ((peer->staging == NULL) && (msg->value != UCS_MEMORY_TYPE_HOST) &&
        mkv_ctx_has_type(ctx, msg->value) && mkv_loop_takes_lists(ctx)) {
        mkv_staging_open(peer, (ucs_memory_type_t)msg->value);
    }
    if ((peer->staging != NULL) && ((uint32_t)peer->staging->buf->type == msg->value)) {
        answer.code = MKV_OK;
        answer.address = peer->staging->buf->base;
        answer.bytes = peer->staging->buf->slot;
        answer.data = peer->staging->buf->key;
        answer.length = peer->staging->buf->key_length;
    }
    mkv_scatter_send(peer, &answer);
}

/* ---- Places ---------------------------------------------------------------------- */

/* Bytes from the address on that lie inside a region, in one unit if there are gaps */
static uint64_t mkv_extent_room(const mkv_extent_t *extent, uint64_t address)
{
    uint64_t at = address - extent->base;
    bool is_dense = (extent->unit_bytes == extent->stride);
    uint64_t end = is_dense ? extent->n_units * extent->unit_bytes
                            : at / extent->stride * extent->stride + extent->unit_bytes;

    return ((at < extent->length) && (at / extent->stride < extent->n_units) &&
            (at < end))
               ? end - at
               : 0;
}

/* @return Bytes that the pair has exposed from the address on, at most @a length. */
static uint64_t mkv_pair_room(mkv_leg_t *leg, const mkv_pair_t *pair, uint64_t address,
                              uint64_t length)
{
    const mkv_extent_t *mine = &pair->mine;
    uint64_t room = mkv_extent_room(mine, address), first, last;
    uint32_t parts = mkv_map_parts(leg->map, pair->component, false), id;
    const mkv_unit_set_t *set;

    room = (room < length) ? room : length;
    if (leg->xfer->is_active) {
        return room; /* the owner may put to all blocks of the pair by itself */
    }
    set = (room > 0) ? mkv_leg_exposed_units(leg, pair) : NULL;
    if (set == NULL) {
        return 0;
    }
    first = (address - mine->base) / mine->stride;
    last = (address - mine->base + room - 1) / mine->stride;
    id = (uint32_t)(mine->is_reverse ? mine->n_units - 1 - last : first);
    return mkv_unit_set_find(set, id * parts, (uint32_t)(last - first + 1) * parts,
                             false, &id)
               ? 0
               : room;
}

/*
 * The registration that holds a piece, of which every byte is exposed. A piece may lie
 * in pairs that adjoin.
 *
 * @param [inout] pair_p  The pair of the last piece, looked at first.
 *
 * @return NULL: a byte is not exposed.
 */
static mkv_mem_t *mkv_scatter_mem(mkv_leg_t *leg, uint64_t address, uint64_t length,
                                  const mkv_pair_t **pair_p)
{
    const mkv_map_t *map = leg->map;
    mkv_mem_t *mem = NULL;
    const mkv_pair_t *pair;
    uint64_t room;

    if (map->num_pairs == 0) { /* all of it comes from other ranks */
        return NULL;
    }
    for (; length > 0; address += room, length -= room) {
        pair = *pair_p;
        room = mkv_pair_room(leg, pair, address, length);
        for (pair = map->pairs; (room == 0) && (pair < map->pairs + map->num_pairs);
             ++pair) {
            room = mkv_pair_room(leg, pair, address, length);
            *pair_p = pair;
        }
        if ((room == 0) || ((mem != NULL) && ((*pair_p)->mem != mem))) {
            return NULL;
        }
        mem = (*pair_p)->mem;
    }
    return mem;
}

/* @return false: the number of pieces or bytes is not what it must be. */
static bool mkv_scatter_count(const mkv_msg_t *msg, size_t *num_p)
{
    mkv_places_t places;
    uint64_t bytes = 0;
    size_t i;

    *num_p = 0;
    for (i = 0; i < msg->length / MKV_PLACES_BYTES; ++i) {
        mkv_wire_places(msg, i, &places);
        bytes += (uint64_t)places.count * places.length;
        *num_p += places.count;
        if ((places.length == 0) || (places.count == 0) || (bytes > msg->bytes) ||
            (*num_p > MKV_STAGE_PIECES)) {
            return false;
        }
    }
    return (bytes == msg->bytes) && (bytes > 0);
}

/* ---- Copies ---------------------------------------------------------------------- */

static mkv_scatter_t *mkv_scatter_create(mkv_leg_t *leg, const mkv_msg_t *msg,
                                         size_t num)
{
    mkv_stage_buf_t *buf = leg->peer->staging->buf;
    mkv_scatter_t *scatter = malloc(sizeof(*scatter) + num * 32);
    char *p = (char *)(scatter + 1);

    if (scatter == NULL) {
        return NULL;
    }
    scatter->leg = leg;
    scatter->slot = msg->serial;
    scatter->put =
        (mkv_list_put_t){.buffers = (void **)p,
                         .lengths = (size_t *)(p + num * 8),
                         .memhs = mkv_repeat_get(&buf->memhs, buf->memh, num),
                         .remotes = (uint64_t *)(p + num * 16),
                         .rkeys = p + num * 24};
    if (scatter->put.memhs == NULL) {
        free(scatter);
        return NULL;
    }
    return scatter;
}

/* @return false: the bytes must not go there, or UCX has no key. */
static bool mkv_scatter_add(mkv_scatter_t *scatter, const mkv_places_t *places,
                            const mkv_pair_t **pair_p, uint64_t *from)
{
    const mkv_stage_buf_t *buf = scatter->leg->peer->staging->buf;
    mkv_list_put_t *put = &scatter->put;
    uint64_t address = places->address;
    mkv_mem_t *mem;
    uint32_t i;

    for (i = 0; i < places->count; ++i, address += places->stride) {
        mem = mkv_scatter_mem(scatter->leg, address, places->length, pair_p);
        if ((mem == NULL) || (mem->type != buf->type)) {
            return false;
        }
        put->buffers[put->num] = (void *)(uintptr_t)*from;
        put->lengths[put->num] = places->length;
        put->remotes[put->num] = address;
        ((ucp_rkey_h *)put->rkeys)[put->num] =
            mkv_loop_key(scatter->leg->xfer->ctx, mem);
        if (((ucp_rkey_h *)put->rkeys)[put->num++] == NULL) {
            return false;
        }
        *from += places->length;
    }
    return true;
}

static bool mkv_scatter_fill(mkv_scatter_t *scatter, const mkv_msg_t *msg)
{
    const mkv_stage_buf_t *buf = scatter->leg->peer->staging->buf;
    uint64_t from = mkv_stage_buf_slot(buf, scatter->slot);
    const mkv_pair_t *pair = scatter->leg->map->pairs;
    mkv_places_t places;
    size_t i;

    for (i = 0; i < msg->length / MKV_PLACES_BYTES; ++i) {
        mkv_wire_places(msg, i, &places);
        if (!mkv_scatter_add(scatter, &places, &pair, &from)) {
            return false;
        }
    }
    return true;
}

static void mkv_scatter_cb(void *request, ucs_status_t status, void *user_data)
{
    mkv_scatter_t *scatter = user_data;
    mkv_leg_t *leg = scatter->leg;
    mkv_peer_t *peer = leg->peer;

    mkv_loop_ended(peer->ctx, request, status);
    --leg->num_scatters;
    --peer->ctx->num_scatters;
    mkv_xfer_dirty(leg->xfer);
    peer->staging->busy &= ~(1u << scatter->slot);
    mkv_scatter_answer(peer, scatter->slot,
                       (status == UCS_OK) ? MKV_OK : MKV_ERR_UNSUPPORTED);
    mkv_peer_put(peer);
    free(scatter);
    if (request != NULL) {
        ucp_request_free(request);
    }
}

static void mkv_scatter_start(mkv_scatter_t *scatter)
{
    mkv_peer_t *peer = scatter->leg->peer;
    ucs_status_ptr_t request;

    ++scatter->leg->num_scatters;
    ++peer->ctx->num_scatters;
    peer->staging->busy |= 1u << scatter->slot;
    mkv_peer_get(peer);
    request = mkv_loop_put(peer->ctx, &scatter->put, mkv_scatter_cb, scatter);
    if (!UCS_PTR_IS_PTR(request)) {
        mkv_scatter_cb(NULL, UCS_PTR_RAW_STATUS(request), scatter);
    }
}

/* ---- STAGE ----------------------------------------------------------------------- */

/* The passive side of a WRITE, or a READ that waits for posts which its owner moves */
static bool mkv_scatter_is_due(const mkv_leg_t *leg)
{
    if (leg->xfer->role != MKV_DST) {
        return false;
    }
    return leg->xfer->is_active ? !mkv_list_is_empty(&leg->pulled)
                                : (leg->state == MKV_LEG_BOUND);
}

/* @return MKV_OK: the copy runs; else the code of the answer. */
static mkv_status_t mkv_scatter_begin(mkv_leg_t *leg, const mkv_msg_t *msg)
{
    mkv_scatter_t *scatter;
    size_t num;

    if (!mkv_scatter_is_due(leg) || (leg->map->flags & MKV_MAP_TOKENS)) {
        mkv_leg_fail(leg, MKV_ERR_PROTOCOL, "peer %s, leg %u: it sent STAGE while %s",
                     leg->peer->name, leg->index, mkv_leg_state_string(leg->state));
        return MKV_ERR_PROTOCOL;
    }
    if (!mkv_scatter_count(msg, &num)) {
        mkv_leg_fail(leg, MKV_ERR_LENGTH,
                     "peer %s, leg %u: it sent STAGE of %llu bytes with places of "
                     "others",
                     leg->peer->name, leg->index, (unsigned long long)msg->bytes);
        return MKV_ERR_LENGTH;
    }
    if (!mkv_loop_takes_lists(leg->peer->ctx) ||
        (!leg->xfer->is_active && (mkv_leg_index_exposed(leg) != MKV_OK))) {
        return MKV_ERR_UNSUPPORTED;
    }
    scatter = mkv_scatter_create(leg, msg, num);
    if (scatter == NULL) {
        return MKV_ERR_UNSUPPORTED;
    }
    if (!mkv_scatter_fill(scatter, msg)) {
        free(scatter);
        mkv_leg_fail(leg, MKV_ERR_BOUNDS,
                     "peer %s, leg %u: it sent STAGE with bytes of a block that was "
                     "not exposed to it",
                     leg->peer->name, leg->index);
        return MKV_ERR_BOUNDS;
    }
    mkv_scatter_start(scatter);
    return MKV_OK;
}

/* The instance of the transfer that the message names, if it can still take bytes */
static mkv_leg_t *mkv_scatter_leg(mkv_peer_t *peer, const mkv_msg_t *msg)
{
    mkv_leg_t *leg = mkv_leg_find(peer, msg->id, msg->epoch);

    return ((leg != NULL) && (leg->xfer->nonce == msg->to_nonce) &&
            (leg->remote_nonce == msg->from_nonce) && !mkv_leg_is_over(leg))
               ? leg
               : NULL;
}

static void mkv_scatter_filled(mkv_peer_t *peer, const mkv_msg_t *msg)
{
    const mkv_staging_t *staging = peer->staging;
    mkv_leg_t *leg = mkv_scatter_leg(peer, msg);
    mkv_status_t code = MKV_ERR_ABORTED;

    if ((staging == NULL) || (msg->serial >= MKV_STAGE_SLOTS) ||
        ((staging->busy >> msg->serial) & 1) || (msg->bytes > staging->buf->slot)) {
        mkv_peer_fail(peer, MKV_ERR_PROTOCOL,
                      "it sent STAGE of %llu bytes in slot %u, which it does not have",
                      (unsigned long long)msg->bytes, msg->serial);
        return;
    }
    if (leg != NULL) {
        code = mkv_scatter_begin(leg, msg);
    }
    if (code != MKV_OK) {
        mkv_scatter_answer(peer, msg->serial, code);
    }
}

void mkv_scatter_receive(mkv_peer_t *peer, const mkv_msg_t *msg)
{
    if (!(peer->ctx->features & MKV_FEATURE_STAGE)) {
        mkv_peer_fail(peer, MKV_ERR_PROTOCOL,
                      "it sent STAGE, although nothing is staged here");
    } else if (msg->serial == MKV_STAGE_WANTED) {
        mkv_staging_wanted(peer, msg);
    } else {
        mkv_scatter_filled(peer, msg);
    }
}

void mkv_scatter_free(mkv_peer_t *peer)
{
    if (peer->staging != NULL) {
        mkv_stage_buf_destroy(peer->ctx, peer->staging->buf);
        free(peer->staging);
        peer->staging = NULL;
    }
}
