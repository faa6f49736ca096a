/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_SERVE_H
#define MKV_SERVE_H

/**
 * @file
 * The owner's side of a fetch: the answer, the lease under which a peer reads, and
 * those who wait for a key. The caller holds the context's lock.
 */

#include "store/publication.h"

/** FETCH and RELEASE of a peer. */
void mkv_serve_fetch(mkv_peer_t *peer, const mkv_msg_t *msg);
void mkv_serve_release(mkv_peer_t *peer, const mkv_msg_t *msg);

/** A key is there now: answer who waits for it. */
void mkv_serve_waiters(mkv_ctx_t *ctx, mkv_publication_t *publication);

/** Answer those whose time is over. @return The next time to look. */
uint64_t mkv_serve_expire(mkv_ctx_t *ctx, uint64_t now);

/** The peer waits for nothing any more. */
void mkv_serve_forget(mkv_peer_t *peer);

/** The peer can read nothing any more: its leases end. */
void mkv_serve_end_leases(mkv_peer_t *peer);

void mkv_serve_cleanup(mkv_ctx_t *ctx);

#endif
