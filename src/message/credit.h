/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_CREDIT_H
#define MKV_CREDIT_H

/**
 * @file
 * Credits: how much one peer may send before it is polled here. A sender without credit
 * waits.
 */

#include "peer/peer.h"

/** Cost of a caller's message in addition to its bytes, for the records kept with it.
 */
#define MKV_CREDIT_MESSAGE 1024u

/** Whether the peer has room for a message of this size. */
bool mkv_credit_has(const mkv_peer_t *peer, size_t length);

/** It was sent. */
void mkv_credit_sent(mkv_peer_t *peer, size_t length);

/**
 * Account for a received message of this size.
 *
 * @return false: the sender has exceeded its credit.
 */
bool mkv_credit_receive(mkv_peer_t *peer, size_t length);

/** The peer reports how much was polled there. */
void mkv_credit_update(mkv_peer_t *peer, const mkv_msg_t *msg);

/** Report to the peer how much was polled here; in READY. */
void mkv_credit_report(mkv_peer_t *peer);

/** Report to all peers of which enough was polled. @return How many. */
unsigned mkv_credits_report(mkv_ctx_t *ctx);

#endif
