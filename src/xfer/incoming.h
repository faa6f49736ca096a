/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_INCOMING_H
#define MKV_INCOMING_H

/**
 * @file
 * Requests of peers for transfers that are not open here.
 */

#include "peer/peer.h"

/** Keep a REQUEST for a transfer that is not open, and notify the application. */
void mkv_incoming_receive(mkv_peer_t *peer, const mkv_msg_t *request, const void *data,
                          size_t length);

#endif
