/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_SCATTER_H
#define MKV_SCATTER_H

/**
 * @file
 * Staging that a peer fills, and the copies from it to exposed blocks. The caller holds
 * the context's lock.
 */

#include "peer/peer.h"

/** Handle STAGE. Each has an answer, unless it fails the peer. */
void mkv_scatter_receive(mkv_peer_t *peer, const mkv_msg_t *msg);

/** The peer is destroyed. */
void mkv_scatter_free(mkv_peer_t *peer);

#endif
