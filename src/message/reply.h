/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_REPLY_H
#define MKV_REPLY_H

/**
 * @file
 * Answers in the name of transfers that are not open here.
 */

#include "peer/peer.h"

/** Answer a TERM: nothing of its transfer is in flight here. */
void mkv_reply_drained(mkv_peer_t *peer, const mkv_msg_t *term);

/** Refuse a first message with the reason: the sender's transfer fails. */
void mkv_reply_term(mkv_peer_t *peer, const mkv_msg_t *first, mkv_status_t status,
                    const char *text);

#endif
