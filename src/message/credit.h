/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_CREDIT_H
#define MKV_CREDIT_H

/**
 * @file
 * Credits: bytes that a peer may send before the application polls them. A sender
 * without credit waits.
 */

#include "peer/peer.h"

/** Cost of a caller's message in addition to its bytes, for the records kept with it.
 */
#define MKV_CREDIT_MESSAGE 1024u

/** Whether the peer has room for a message of this size. */
bool mkv_credit_has(const mkv_peer_t *peer, size_t length);

/** Account for a sent message of this size. */
void mkv_credit_sent(mkv_peer_t *peer, size_t length);

/**
 * Account for a received message of this size.
 *
 * @return false: the sender has exceeded its credit.
 */
bool mkv_credit_receive(mkv_peer_t *peer, size_t length);

/** Handle a peer's report of bytes polled there. */
void mkv_credit_update(mkv_peer_t *peer, const mkv_msg_t *msg);

/** Report to a READY peer the bytes polled here. */
void mkv_credit_report(mkv_peer_t *peer);

/** Report polled bytes to each peer with enough new ones. @return Number of reports. */
unsigned mkv_credits_report(mkv_ctx_t *ctx);

#endif
