/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages that came before their transfer was opened here, and the memory of instances
 * that have ended. Both bounded: the store by count, bytes and age, the memory by size.
 */

#include "mkv_int.h"

#include <stdlib.h>
#include <string.h>

void mkv_tombstone_add(mkv_ctx_t *ctx, uint64_t nonce)
{
    if (nonce != 0) {
        ctx->tombstones[nonce % MKV_TOMBSTONES] = nonce;
    }
}

int mkv_tombstone_has(const mkv_ctx_t *ctx, uint64_t nonce)
{
    return (nonce != 0) && (ctx->tombstones[nonce % MKV_TOMBSTONES] == nonce);
}

static void mkv_early_remove(mkv_peer_t *peer, mkv_packet_t *packet)
{
    --peer->num_early;
    peer->early_bytes -= packet->length;
    mkv_packet_free(packet);
}

mkv_status_t mkv_early_add(mkv_peer_t *peer, const mkv_msg_t *msg, const void *data,
                           size_t length)
{
    mkv_ctx_t *ctx = peer->ctx;
    mkv_packet_t *packet;

    if ((peer->num_early >= ctx->opts->early_messages) ||
        (peer->early_bytes + length > ctx->opts->max_queued)) {
        return MKV_ERR_BUSY;
    }
    packet = calloc(1, sizeof(*packet));
    if (packet == NULL) {
        return MKV_ERR_NOMEM;
    }
    packet->data = malloc(length);
    if (packet->data == NULL) {
        free(packet);
        return MKV_ERR_NOMEM;
    }

    memcpy(packet->data, data, length);
    packet->length = length;
    packet->id = msg->id;
    packet->epoch = msg->epoch;
    packet->from_nonce = msg->from_nonce;
    packet->deadline =
        mkv_ctx_now(ctx) + 2 * ctx->opts->bind_timeout * MKV_NSEC_PER_MSEC;
    mkv_ctx_deadline(ctx, packet->deadline);
    mkv_list_init(&packet->list);
    mkv_list_add_tail(&peer->early, &packet->list);
    ++peer->num_early;
    peer->early_bytes += length;
    MKV_COUNT(peer, msgs_early, 1);
    return MKV_OK;
}

void mkv_early_cancel(mkv_peer_t *peer, uint64_t from_nonce)
{
    mkv_packet_t *packet, *next;

    mkv_list_for_each_safe(packet, next, &peer->early, mkv_packet_t, list)
    {
        if (packet->from_nonce == from_nonce) {
            mkv_early_remove(peer, packet);
        }
    }
}

void mkv_early_apply(mkv_leg_t *leg)
{
    mkv_peer_t *peer = leg->peer;
    mkv_packet_t *packet, *next;
    mkv_list_t mine;
    mkv_msg_t msg;

    /* Apart first: handling one may add to or cancel others of the store */
    mkv_list_init(&mine);
    mkv_list_for_each_safe(packet, next, &peer->early, mkv_packet_t, list)
    {
        if ((packet->id == leg->xfer->id) && (packet->epoch == leg->xfer->epoch)) {
            mkv_list_del(&packet->list);
            mkv_list_add_tail(&mine, &packet->list);
            --peer->num_early;
            peer->early_bytes -= packet->length;
        }
    }
    while (!mkv_list_is_empty(&mine)) {
        packet = mkv_list_head(&mine, mkv_packet_t, list);
        if (mkv_msg_decode(packet->data, packet->length, &msg) == MKV_OK) {
            mkv_leg_receive(peer, &msg, packet->data, packet->length);
        }
        mkv_packet_free(packet);
    }
}

uint64_t mkv_early_expire(mkv_peer_t *peer, uint64_t now)
{
    uint64_t next_deadline = MKV_NEVER;
    mkv_packet_t *packet, *next;

    mkv_list_for_each_safe(packet, next, &peer->early, mkv_packet_t, list)
    {
        if (now >= packet->deadline) {
            MKV_COUNT(peer, msgs_dropped, 1);
            mkv_early_remove(peer, packet);
        } else if (packet->deadline < next_deadline) {
            next_deadline = packet->deadline;
        }
    }
    return next_deadline;
}
