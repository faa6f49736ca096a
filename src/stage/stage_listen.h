/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_STAGE_LISTEN_H
#define MKV_STAGE_LISTEN_H

/**
 * @file
 * Staging as a listener of connections. The caller holds the context's lock.
 */

#include "peer/peer.h"

/** Register the listener; at open, once. */
void mkv_stage_listen(mkv_ctx_t *ctx);

/** Free the staging of a peer that is about to be destroyed. */
void mkv_stage_cleanup(mkv_peer_t *peer);

#endif
