/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_HELLO_H
#define MKV_HELLO_H

/**
 * @file
 * How two contexts come to know each other: HELLO, HELLO_ACK and REGIONS.
 */

#include "peer/peer.h"

/** Send this context's description. @return As mkv_message_send(). */
mkv_status_t mkv_hello_send(mkv_peer_t *peer, mkv_msg_type_t type);

/** A HELLO of somebody unknown: make a peer of it. NULL: refused, and logged. */
mkv_peer_t *mkv_hello_accept(mkv_ctx_t *ctx, const mkv_msg_t *msg);

/** A peer's HELLO, HELLO_ACK or REGIONS. */
void mkv_hello_receive(mkv_peer_t *peer, const mkv_msg_t *msg);

/** Tell all peers the regions of a new epoch. */
void mkv_hello_tell_regions(mkv_ctx_t *ctx);

#endif
