/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_EARLY_H
#define MKV_EARLY_H

/**
 * @file
 * Messages that came before their transfer was opened here: for each (id, epoch) the
 * block lists or the abort of one instance. Both are bounded by count and age, the
 * lists by bytes as well. Aborts never displace lists. When there are too many aborts,
 * the oldest is dropped, and the transfer's open then ends by its deadline.
 */

#include "peer/packet.h"
#include "peer/peer.h"

/**
 * Keep an EXPOSE or REQUEST, and drop an earlier one of its transfer.
 * @return MKV_OK, MKV_ERR_BUSY: too many, MKV_ERR_NOMEM.
 */
mkv_status_t mkv_early_add(mkv_peer_t *peer, const mkv_msg_t *msg, const void *data,
                           size_t length);

/** Keep a TERM. If there is no memory, it is dropped like an expired one. */
void mkv_early_add_abort(mkv_peer_t *peer, const mkv_msg_t *msg, const void *data,
                         size_t length);

/** Find the EXPOSE or REQUEST of a transfer, or NULL. */
mkv_packet_t *mkv_early_find(mkv_peer_t *peer, uint64_t id, uint32_t epoch);

/** Forget the EXPOSE or REQUEST of one instance. */
void mkv_early_cancel(mkv_peer_t *peer, uint64_t from_nonce);

/** Move the packets of a transfer to @a taken, which owns them then. */
void mkv_early_take(mkv_peer_t *peer, uint64_t id, uint32_t epoch, mkv_list_t *taken);

/**
 * Forget old packets, and fail the transfers of block lists among them.
 * @return The next time to look.
 */
uint64_t mkv_early_expire(mkv_peer_t *peer, uint64_t now);

void mkv_early_cleanup(mkv_peer_t *peer);

#endif
