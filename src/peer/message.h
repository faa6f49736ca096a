/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_MESSAGE_H
#define MKV_MESSAGE_H

/**
 * @file
 * Messages to a peer, in the order in which they are sent.
 */

#include "peer/peer.h"

/**
 * Send; from, to and seq are filled in. Nothing is sent over a connection that is being
 * closed.
 *
 * @return MKV_OK, MKV_ERR_NOMEM, MKV_ERR_LENGTH: larger than option MAX_MESSAGE,
 *         MKV_ERR_PEER: no connection.
 */
mkv_status_t mkv_message_send(mkv_peer_t *peer, mkv_msg_t *msg);

/** The largest message that both sides take, in bytes. */
uint64_t mkv_message_max(const mkv_peer_t *peer);

#endif
