/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_STAGE_H
#define MKV_STAGE_H

/**
 * @file
 * Lists of short pieces on their way to a peer: gathered into a slot of staging, put
 * there as a whole, and scattered by the peer. The caller holds the context's lock.
 */

#include "peer/list_put.h"
#include "xfer/xfer.h"

#include <stdbool.h>

/** Whether a list of the leg goes by way of staging, as mkv_stage_takes(). */
bool mkv_stage_takes_list(const mkv_leg_t *leg, const mkv_pair_t *first,
                          const mkv_list_put_t *put, uint64_t bytes);

/**
 * Whether a list of the leg goes by way of staging. If so, this call has allocated our
 * side of it.
 *
 * @param [in] first  Pair of the first piece; all pieces have its memory types.
 * @param [in] bytes  Bytes of all pieces.
 */
static inline bool mkv_stage_takes(const mkv_leg_t *leg, const mkv_pair_t *first,
                                   const mkv_list_put_t *put, uint64_t bytes)
{
    return (leg->xfer->ctx->opts->stage_below != 0) &&
           mkv_stage_takes_list(leg, first, put, bytes);
}

/**
 * Queue a list, which mkv_stage_pump() moves.
 *
 * @param [in] put   Its arrays stay until it is done.
 * @param [in] done  Called once, from mkv_stage_pump(), mkv_stage_leg_ended() or
 *                   progress: all pieces have arrived, or the leg is over, and UCX is
 *                   done with the arrays. With is_refused all pieces must be put
 *                   otherwise; some may have arrived.
 *
 * @return false: no memory.
 */
bool mkv_stage_give(mkv_leg_t *leg, const mkv_list_put_t *put,
                    void (*done)(void *arg, bool is_refused), void *arg);

/** Fill the free slots with queued lists, if there are any. */
void mkv_stage_pump(mkv_peer_t *peer);

/** The leg is over: end its lists, except those that UCX still reads. */
void mkv_stage_leg_ended(mkv_leg_t *leg);

/** Handle STAGED. */
void mkv_stage_answered(mkv_peer_t *peer, const mkv_msg_t *msg);

/** The peer is destroyed. */
void mkv_stage_free(mkv_peer_t *peer);

#endif
