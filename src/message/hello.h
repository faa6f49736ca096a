/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_HELLO_H
#define MKV_HELLO_H

/**
 * @file
 * Handshake of two contexts: HELLO, HELLO_ACK and REGIONS.
 */

#include "peer/peer.h"

/** Send this context's description. @return As mkv_message_send(). */
mkv_status_t mkv_hello_send(mkv_peer_t *peer, mkv_msg_type_t type);

/**
 * Repeat a HELLO without an answer.
 * @return As mkv_message_send().
 */
mkv_status_t mkv_hello_repeat(mkv_peer_t *peer);

/**
 * A HELLO that belongs to no connection: make a peer of it.
 *
 * @param [in] former  The latest connection with its sender, which is superseded; or
 *                     NULL.
 *
 * @return NULL: refused, and logged, or not newer than the former.
 */
mkv_peer_t *mkv_hello_accept(mkv_ctx_t *ctx, const mkv_msg_t *msg, mkv_peer_t *former);

/** Handle a peer's HELLO, HELLO_ACK or REGIONS. */
void mkv_hello_receive(mkv_peer_t *peer, const mkv_msg_t *msg);

/**
 * Send the description again with newly granted keys.
 * @return As mkv_message_send(); if it fails, so has the peer.
 */
mkv_status_t mkv_hello_send_keys(mkv_peer_t *peer);

/** Send the regions of a new epoch to all peers. */
void mkv_hello_send_regions(mkv_ctx_t *ctx);

#endif
