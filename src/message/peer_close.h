/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_PEER_CLOSE_H
#define MKV_PEER_CLOSE_H

/**
 * @file
 * The end of a connection: by failure, by the peer's death, or by close.
 */

#include "peer/peer.h"

#include <stdbool.h>

/** Act on a noted failure: notify the caller and the transfers. */
void mkv_peer_step_failed(mkv_peer_t *peer);

/** Close the endpoint of a failed peer when its calls have come back. */
void mkv_peer_step_waiting(mkv_peer_t *peer);

/**
 * Continue the close by the caller: leave when nothing needs the connection any more.
 * Not below a callback of UCX.
 *
 * @return Number of steps made.
 */
unsigned mkv_peer_step_closing(mkv_peer_t *peer);

/** See mkv_peer_close(). */
mkv_status_t mkv_peer_close_locked(mkv_peer_t *peer, mkv_close_mode_t mode);

/** See mkv_peer_declare_dead(). */
void mkv_peer_declare_dead_locked(mkv_peer_t *peer);

/** Look at deadlines and lost processes. @return The next time to look. */
uint64_t mkv_peer_check(mkv_peer_t *peer, uint64_t now);

/** Whether the peer cannot touch our memory any more, as far as can be proven. */
bool mkv_peer_is_harmless(mkv_peer_t *peer);

/**
 * Check the peer of a failed transfer or operation that was not quiet in time. While
 * the peer lives, nothing happens: the proof still comes over the connection, which
 * serves others meanwhile. If the peer does not answer until the next such call, the
 * connection is cut. The cut ends our own calls or is a proof.
 *
 * @param [in]    has_calls  Calls of ours have not come back.
 * @param [inout] seen       Caller's state, 0 at first.
 * @param [in]    what       Name for the log: "transfer".
 */
void mkv_peer_check_late_drain(mkv_peer_t *peer, bool has_calls, uint64_t *seen,
                               const char *what, uint64_t id);

#endif
