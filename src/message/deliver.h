/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_DELIVER_H
#define MKV_DELIVER_H

/**
 * @file
 * A peer's bytes for the application, as events.
 */

#include "base/event.h"
#include "peer/peer.h"

/**
 * Queue an event with the message's id, header and data, which are copied. An event
 * that cannot be kept is lost and fails the connection: option MAX_QUEUED bounds the
 * bytes of a peer that wait for mkv_poll().
 *
 * @return The event, or NULL.
 */
mkv_news_t *mkv_peer_deliver(mkv_peer_t *peer, mkv_event_type_t type,
                             const mkv_msg_t *msg);

#endif
