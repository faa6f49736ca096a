/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_REPLY_H
#define MKV_REPLY_H

/**
 * @file
 * Answers in the name of transfers that are not open here.
 */

#include "peer/peer.h"

/** To a TERM: nothing of it is in flight here. */
void mkv_reply_drained(mkv_peer_t *peer, const mkv_msg_t *term);

/** To a first message that is not taken, and why: the sender's transfer fails. */
void mkv_reply_term(mkv_peer_t *peer, const mkv_msg_t *first, mkv_status_t status,
                    const char *text);

#endif
