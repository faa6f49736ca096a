/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_LEG_RECEIVE_H
#define MKV_LEG_RECEIVE_H

/**
 * @file
 * Messages of a transfer, from EXPOSE to DRAINED.
 */

#include "xfer/leg.h"

/** @param [in] data  Bytes that @a msg was decoded from. */
void mkv_leg_receive(mkv_peer_t *peer, const mkv_msg_t *msg, const void *data,
                     size_t length);

/** Handle messages received before their transfer was opened here. */
void mkv_leg_receive_early(mkv_leg_t *leg);

#endif
