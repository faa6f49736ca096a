/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_HEARTBEAT_H
#define MKV_HEARTBEAT_H

/**
 * @file
 * Timers of a connection: a HELLO without an answer, a missing message, a silent peer.
 */

#include "peer/peer.h"

/** Count a message of the peer, of any type and in any order. */
static inline void mkv_heartbeat_received(mkv_peer_t *peer)
{
    ++peer->beat.num_received;
}

/** Note whether a message is missing, when received ones were delivered or kept. */
void mkv_heartbeat_watch_gap(mkv_peer_t *peer);

/** Answer a PING. */
void mkv_heartbeat_answer(mkv_peer_t *peer);

/**
 * Whether no message came from the peer since the last call by the same caller. A first
 * call, and one that finds the peer alive, sends a PING.
 *
 * @param [inout] seen  Caller's state, 0 at first.
 */
bool mkv_heartbeat_is_silent(mkv_peer_t *peer, uint64_t *seen);

/**
 * Repeat HELLO, ping, or fail the connection.
 * @return The next time to look.
 */
uint64_t mkv_heartbeat_check(mkv_peer_t *peer, uint64_t now);

#endif
