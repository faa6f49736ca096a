/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_FETCH_H
#define MKV_FETCH_H

/**
 * @file
 * The fetching side. The caller holds the context's lock.
 */

#include "store/table.h"

/** FETCHED of a peer. */
void mkv_fetch_answered(mkv_peer_t *peer, const mkv_msg_t *msg);

/** End those whose reading has ended. @return How many. */
unsigned mkv_fetches_step(mkv_ctx_t *ctx);

/** Its fetches that do not read yet end with its error; the others end by themselves.
 */
void mkv_fetches_fail(mkv_peer_t *peer);

/** As above, of all whose time is over. @return The next time to look. */
uint64_t mkv_fetches_expire(mkv_ctx_t *ctx, uint64_t now);

/** @param [out] id_p  Of the first one. */
bool mkv_fetches_has(mkv_peer_t *peer, uint64_t *id_p);

void mkv_fetches_cleanup(mkv_ctx_t *ctx);

#endif
