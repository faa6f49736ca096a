/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_INBOX_H
#define MKV_INBOX_H

/**
 * @file
 * Messages of peers: checked, put in order, delivered.
 */

#include "peer/peer.h"

/** Receive active messages. @return MKV_OK, MKV_ERR_TRANSPORT. */
mkv_status_t mkv_inbox_open(mkv_ctx_t *ctx);
void mkv_inbox_close(mkv_ctx_t *ctx);

/** Body of UCX's handler; separate for tests. */
void mkv_inbox_receive(mkv_ctx_t *ctx, const void *data, size_t length);

/** Deliver messages that waited until the peer became ready. */
void mkv_inbox_resume(mkv_peer_t *peer);

#endif
