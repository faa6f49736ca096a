/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_LISTEN_H
#define MKV_LISTEN_H

/**
 * @file
 * Listeners of connections. The caller holds the context's lock.
 */

#include "peer/peer.h"

#include <stdbool.h>

/** A user of connections: transfers, one-sided operations, ... */
typedef struct mkv_peer_listener {
    const char *what;  /**< Name for logs, as "transfers" */
    uint64_t messages; /**< Bit t: messages of type t go to this listener alone */
    /** The connection has ended, for the reason in status and error. */
    void (*ended)(mkv_peer_t *peer);
    /** The peer may be harmless now: see mkv_peer_is_harmless(). */
    void (*look)(mkv_peer_t *peer);
    /** @a msg was decoded from @a data. */
    void (*receive)(mkv_peer_t *peer, const mkv_msg_t *msg, const void *data,
                    size_t length);
    /**
     * Forget outdated state.
     * @return The next time to look.
     */
    uint64_t (*expire)(mkv_peer_t *peer, uint64_t now);
    /** The listener does not need the connection. NULL: a flush is all it needs. */
    bool (*is_idle)(mkv_peer_t *peer);
    /** The listener has something open; @a id_p is the number of the first. */
    bool (*has_open)(mkv_peer_t *peer, uint64_t *id_p);
} mkv_peer_listener_t;

/** Add @a listener; at open, in the order in which listeners are to be called. */
void mkv_peer_listen(mkv_ctx_t *ctx, const mkv_peer_listener_t *listener);

/* Call the members of the same names of all listeners */
void mkv_peer_notify_ended(mkv_peer_t *peer);
void mkv_peer_notify_look(mkv_peer_t *peer);
void mkv_peer_notify_message(mkv_peer_t *peer, const mkv_msg_t *msg, const void *data,
                             size_t length);
uint64_t mkv_peer_listeners_expire(mkv_peer_t *peer, uint64_t now);
bool mkv_peer_listeners_are_idle(mkv_peer_t *peer);

/** @return Listener that has something open, or NULL. */
const mkv_peer_listener_t *mkv_peer_find_open_listener(mkv_peer_t *peer,
                                                       uint64_t *id_p);

#endif
