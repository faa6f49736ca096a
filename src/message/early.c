/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages received before their transfer was opened here.
 */

#include "message/early.h"

#include "message/reply.h"
#include "peer/packet.h"

static void mkv_early_remove(mkv_peer_t *peer, mkv_packet_t *packet)
{
    --peer->num_early;
    peer->early_bytes -= packet->length;
    mkv_packet_free(packet);
}

static void mkv_early_remove_abort(mkv_peer_t *peer, mkv_packet_t *packet)
{
    --peer->num_early_aborts;
    peer->early_abort_bytes -= packet->length;
    mkv_packet_free(packet);
}

static bool mkv_early_has_room_for_aborts(const mkv_peer_t *peer)
{
    return (peer->num_early_aborts <= peer->ctx->tuning.early_messages) &&
           (peer->early_abort_bytes <= peer->ctx->opts->max_queued);
}

static uint64_t mkv_early_timeout(const mkv_ctx_t *ctx)
{
    return 2 * ctx->opts->bind_timeout;
}

static mkv_packet_t *mkv_early_packet(mkv_peer_t *peer, const mkv_msg_t *msg,
                                      const void *data, size_t length)
{
    mkv_packet_t *packet = mkv_packet_copy(data, length);
    mkv_ctx_t *ctx = peer->ctx;

    if (packet != NULL) {
        packet->id = msg->id;
        packet->epoch = msg->epoch;
        packet->from_nonce = msg->from_nonce;
        packet->deadline =
            mkv_ctx_now(ctx) + mkv_early_timeout(ctx) * MKV_NSEC_PER_MSEC;
        mkv_ctx_deadline(ctx, packet->deadline);
        MKV_COUNT(peer, msgs_early, 1);
    }
    return packet;
}

/* A message of a new instance replaces those of ended ones */
static void mkv_early_supersede(mkv_peer_t *peer, uint64_t id, uint32_t epoch)
{
    mkv_list_t taken;

    mkv_list_init(&taken);
    mkv_early_take(peer, id, epoch, &taken);
    mkv_packets_cleanup(&taken);
}

mkv_status_t mkv_early_add(mkv_peer_t *peer, const mkv_msg_t *msg, const void *data,
                           size_t length)
{
    mkv_ctx_t *ctx = peer->ctx;
    mkv_packet_t *packet;

    mkv_early_supersede(peer, msg->id, msg->epoch);
    if ((peer->num_early >= ctx->tuning.early_messages) ||
        (peer->early_bytes + length > ctx->opts->max_queued)) {
        return MKV_ERR_BUSY;
    }
    packet = mkv_early_packet(peer, msg, data, length);
    if (packet == NULL) {
        return MKV_ERR_NOMEM;
    }
    mkv_list_add_tail(&peer->early, &packet->list);
    ++peer->num_early;
    peer->early_bytes += length;
    return MKV_OK;
}

void mkv_early_add_abort(mkv_peer_t *peer, const mkv_msg_t *msg, const void *data,
                         size_t length)
{
    mkv_packet_t *packet = mkv_early_packet(peer, msg, data, length);

    if (packet == NULL) {
        return;
    }
    mkv_list_add_tail(&peer->early_aborts, &packet->list);
    ++peer->num_early_aborts;
    peer->early_abort_bytes += length;
    while (!mkv_early_has_room_for_aborts(peer)) {
        MKV_COUNT(peer, msgs_dropped, 1);
        mkv_early_remove_abort(peer,
                               mkv_list_head(&peer->early_aborts, mkv_packet_t, list));
    }
}

mkv_packet_t *mkv_early_find(mkv_peer_t *peer, uint64_t id, uint32_t epoch)
{
    mkv_packet_t *packet;

    mkv_list_for_each(packet, &peer->early, list)
    {
        if ((packet->id == id) && (packet->epoch == epoch)) {
            return packet;
        }
    }
    return NULL;
}

void mkv_early_cancel(mkv_peer_t *peer, uint64_t from_nonce)
{
    mkv_packet_t *packet, *next;

    mkv_list_for_each_safe(packet, next, &peer->early, list)
    {
        if (packet->from_nonce == from_nonce) {
            mkv_early_remove(peer, packet);
        }
    }
}

/* A list is sent once, and its sender may wait for longer. A request has raised its
 * event, so the side may still be opened. */
static void mkv_early_refuse(mkv_peer_t *peer, const mkv_packet_t *packet)
{
    const mkv_ctx_t *ctx = peer->ctx;
    mkv_msg_t first;
    char text[160];

    if ((mkv_msg_decode(packet->data, packet->length, &first) != MKV_OK) ||
        (first.type != MKV_MSG_EXPOSE)) {
        return;
    }
    mkv_text(text, sizeof(text),
             "%s did not open it in %llu ms, twice its option BIND_TIMEOUT", ctx->name,
             (unsigned long long)mkv_early_timeout(ctx));
    mkv_reply_term(peer, &first, MKV_ERR_BIND_TIMEOUT, text);
}

uint64_t mkv_early_expire(mkv_peer_t *peer, uint64_t now)
{
    uint64_t next_deadline = MKV_NEVER;
    mkv_packet_t *packet, *next;

    mkv_list_for_each_safe(packet, next, &peer->early, list)
    {
        if (now >= packet->deadline) {
            MKV_COUNT(peer, msgs_dropped, 1);
            mkv_early_refuse(peer, packet);
            mkv_early_remove(peer, packet);
        } else if (packet->deadline < next_deadline) {
            next_deadline = packet->deadline;
        }
    }
    mkv_list_for_each_safe(packet, next, &peer->early_aborts, list)
    {
        if (now < packet->deadline) { /* the list is sorted by deadline */
            return (packet->deadline < next_deadline) ? packet->deadline
                                                      : next_deadline;
        }
        mkv_early_remove_abort(peer, packet);
    }
    return next_deadline;
}

void mkv_early_take(mkv_peer_t *peer, uint64_t id, uint32_t epoch, mkv_list_t *taken)
{
    mkv_packet_t *packet, *next;

    mkv_list_for_each_safe(packet, next, &peer->early, list)
    {
        if ((packet->id == id) && (packet->epoch == epoch)) {
            mkv_list_del(&packet->list);
            mkv_list_add_tail(taken, &packet->list);
            --peer->num_early;
            peer->early_bytes -= packet->length;
        }
    }
    mkv_list_for_each_safe(packet, next, &peer->early_aborts, list)
    {
        if ((packet->id == id) && (packet->epoch == epoch)) {
            mkv_list_del(&packet->list);
            mkv_list_add_tail(taken, &packet->list);
            --peer->num_early_aborts;
            peer->early_abort_bytes -= packet->length;
        }
    }
}

void mkv_early_cleanup(mkv_peer_t *peer)
{
    mkv_packets_cleanup(&peer->early);
    mkv_packets_cleanup(&peer->early_aborts);
    peer->num_early = peer->num_early_aborts = 0;
    peer->early_bytes = peer->early_abort_bytes = 0;
}
