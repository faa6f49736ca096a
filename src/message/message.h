/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_MESSAGE_H
#define MKV_MESSAGE_H

/**
 * @file
 * Messages to a peer, in the order in which they are sent.
 */

#include "peer/packet.h"
#include "peer/peer.h"

/**
 * Send; from, to and seq are filled in. Nothing is sent over a connection that is being
 * closed.
 *
 * @return MKV_OK, MKV_ERR_NOMEM, MKV_ERR_LENGTH: larger than option MAX_MESSAGE,
 *         MKV_ERR_PEER: no connection.
 */
mkv_status_t mkv_message_send(mkv_peer_t *peer, mkv_msg_t *msg);

/**
 * Encode what is sent later. Free it with mkv_packet_free() if it is not.
 *
 * @param [out] status_p  MKV_OK, MKV_ERR_NOMEM, MKV_ERR_LENGTH, MKV_ERR_BUSY,
 *                        MKV_ERR_PEER: no connection.
 *
 * @return NULL: see status_p.
 */
mkv_packet_t *mkv_message_prepare(mkv_peer_t *peer, mkv_msg_t *msg,
                                  mkv_status_t *status_p);

/** Send a prepared message and free it, over a connection that is not cut off. */
void mkv_message_send_prepared(mkv_packet_t *packet);

/** Send and free all of the list. */
void mkv_messages_send_prepared(mkv_list_t *packets);

/** The largest message that both sides take, in bytes. */
uint64_t mkv_message_max(const mkv_peer_t *peer);

#endif
