/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_FLUSH_H
#define MKV_FLUSH_H

/**
 * @file
 * Flushes of a peer's endpoint: one at a time, for all legs that wait for one.
 */

#include "peer/peer.h"

/** Start a flush if a leg waits and none is running. */
void mkv_peer_start_flush(mkv_peer_t *peer);

/** Release the read-back page; all connections are gone. */
void mkv_flush_cleanup(mkv_ctx_t *ctx);

#endif
