/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_CREDIT_H
#define MKV_CREDIT_H

/**
 * @file
 * How much one peer may send before it is polled here: who sends more, waits.
 */

#include "peer/peer.h"

/** What a message of the caller costs: its bytes, and what is kept beside them. */
#define MKV_CREDIT_MESSAGE 1024u

/** Whether the peer has room for a message of so many bytes. */
bool mkv_credit_has(const mkv_peer_t *peer, size_t length);

/** It was sent. */
void mkv_credit_sent(mkv_peer_t *peer, size_t length);

/** A message of so many bytes came. @return false: there was no room for it. */
bool mkv_credit_receive(mkv_peer_t *peer, size_t length);

/** The peer tells how much was polled there. */
void mkv_credit_told(mkv_peer_t *peer, const mkv_msg_t *msg);

/** Tell the peer how much was polled here; in READY. */
void mkv_credit_tell(mkv_peer_t *peer);

/** Tell all peers of which enough was polled. @return How many. */
unsigned mkv_credits_tell(mkv_ctx_t *ctx);

#endif
