/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Timers of a connection.
 *
 * Silence is counted in looks, not in time. A process that was stopped itself finds at
 * its first look that much time has passed, and that its peers' messages are still on
 * the wire.
 */

#include "message/heartbeat.h"

#include "message/hello.h"
#include "message/message.h"
#include "peer/packet.h"

#define MKV_HELLO_FIRST_WAIT (1000 * MKV_NSEC_PER_MSEC)
#define MKV_BEATS 4u /* checks within PEER_DEAD */

/* 0: never */
static uint64_t mkv_heartbeat_interval(const mkv_peer_t *peer)
{
    return peer->ctx->opts->peer_dead * MKV_NSEC_PER_MSEC / MKV_BEATS;
}

static bool mkv_heartbeat_has_gap(const mkv_peer_t *peer)
{
    return peer->is_rx_started && !mkv_list_is_empty(&peer->rx_reorder) &&
           (mkv_list_head(&peer->rx_reorder, mkv_packet_t, list)->seq != peer->rx_seq);
}

/* The deadline belongs to one missing message: when it expires, another one may be
 * missing */
void mkv_heartbeat_watch_gap(mkv_peer_t *peer)
{
    if (!mkv_heartbeat_has_gap(peer)) {
        peer->beat.gap_deadline = 0;
    } else if ((peer->beat.gap_deadline == 0) || (peer->beat.gap_seq != peer->rx_seq)) {
        peer->beat.gap_seq = peer->rx_seq;
        peer->beat.gap_deadline =
            mkv_ctx_now(peer->ctx) + peer->ctx->opts->bind_timeout * MKV_NSEC_PER_MSEC;
        mkv_ctx_deadline(peer->ctx, peer->beat.gap_deadline);
    }
}

static void mkv_heartbeat_send(mkv_peer_t *peer, mkv_msg_type_t type)
{
    mkv_msg_t msg = {.type = type};

    if (mkv_message_send(peer, &msg) != MKV_OK) {
        mkv_peer_fail(peer, MKV_ERR_NOMEM, "%s", mkv_last_error());
    }
}

void mkv_heartbeat_answer(mkv_peer_t *peer)
{
    mkv_heartbeat_send(peer, MKV_MSG_PONG);
}

bool mkv_heartbeat_is_silent(mkv_peer_t *peer, uint64_t *seen)
{
    uint64_t now = peer->beat.num_received + 1;

    if (*seen == now) {
        return true;
    }
    *seen = now;
    mkv_heartbeat_send(peer, MKV_MSG_PING);
    return false;
}

/* The repeated HELLO keeps its number, so a peer that took the first one drops it as a
 * duplicate */
static uint64_t mkv_heartbeat_repeat_hello(mkv_peer_t *peer, uint64_t now)
{
    if (peer->state != MKV_CONN_CONNECTING) {
        return MKV_NEVER;
    }
    if (peer->beat.next_hello == 0) {
        peer->beat.hello_wait = MKV_HELLO_FIRST_WAIT;
        peer->beat.next_hello = now + peer->beat.hello_wait;
    } else if (now >= peer->beat.next_hello) {
        (void)mkv_hello_repeat(peer);
        peer->beat.hello_wait *= 2;
        peer->beat.next_hello = now + peer->beat.hello_wait;
    }
    return peer->beat.next_hello;
}

static uint64_t mkv_heartbeat_check_gap(mkv_peer_t *peer, uint64_t now)
{
    if (peer->beat.gap_deadline == 0) {
        return MKV_NEVER;
    }
    if (now < peer->beat.gap_deadline) {
        return peer->beat.gap_deadline;
    }
    mkv_peer_fail(peer, MKV_ERR_PROTOCOL,
                  "a message was lost: %u later ones wait for it since %llu ms",
                  peer->num_reorder, (unsigned long long)peer->ctx->opts->bind_timeout);
    return MKV_NEVER;
}

/* @return false: too many checks in a row found no new message */
static bool mkv_heartbeat_is_alive(mkv_peer_t *peer)
{
    if (peer->beat.num_received != peer->beat.num_received_before) {
        peer->beat.num_received_before = peer->beat.num_received;
        peer->beat.num_silent = 0;
    } else {
        ++peer->beat.num_silent;
    }
    return peer->beat.num_silent < MKV_BEATS;
}

static uint64_t mkv_heartbeat_check_silence(mkv_peer_t *peer, uint64_t now)
{
    uint64_t interval = mkv_heartbeat_interval(peer);

    if ((peer->state != MKV_CONN_READY) || (interval == 0)) {
        return MKV_NEVER;
    }
    if (now < peer->beat.next_look) {
        return peer->beat.next_look;
    }
    if (!mkv_heartbeat_is_alive(peer)) {
        mkv_peer_fail(peer, MKV_ERR_PEER, "no message came from it for %llu ms",
                      (unsigned long long)peer->ctx->opts->peer_dead);
        peer->end = MKV_PEER_END_CUT; /* a suspended process may be silent and alive */
        peer->deadline = now;
        return MKV_NEVER;
    }
    mkv_heartbeat_send(peer, MKV_MSG_PING);
    peer->beat.next_look = now + interval;
    return peer->beat.next_look;
}

uint64_t mkv_heartbeat_check(mkv_peer_t *peer, uint64_t now)
{
    uint64_t next = MKV_NEVER, look;

    if (mkv_conn_is_alive(peer->state)) {
        next = mkv_heartbeat_repeat_hello(peer, now);
        look = mkv_heartbeat_check_gap(peer, now);
        next = (look < next) ? look : next;
        look = mkv_heartbeat_check_silence(peer, now);
        next = (look < next) ? look : next;
    }
    return next;
}
