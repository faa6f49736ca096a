/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_SCATTER_H
#define MKV_SCATTER_H

/**
 * @file
 * WRITE, the destination's side of STAGE: slots of staging for the source's chunks, and
 * copies from them to what was exposed. The caller holds the context's lock.
 */

#include "xfer/leg.h"

/** Listener of legs, see mkv_leg_listener_t. */
void mkv_scatter_receive(mkv_leg_t *leg, const mkv_msg_t *msg);

/** Who has waited too long for a slot is refused. @return When to look again. */
uint64_t mkv_scatters_expire(mkv_ctx_t *ctx, uint64_t now);

/** The leg is over: it gets no slot any more, and others may wait in vain. */
void mkv_scatters_drop(mkv_leg_t *leg);

/** The peer puts nothing any more: its slots are others'. */
void mkv_scatters_settled(mkv_leg_t *leg);

#endif
