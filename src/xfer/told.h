/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_TOLD_H
#define MKV_TOLD_H

/**
 * @file
 * What is told of posts with MKV_SEL_TELL while their transfer runs. The caller holds
 * the context's lock.
 */

#include "xfer/xfer.h"

/** A post of this side's with MKV_SEL_TELL: LOCAL_DONE or ARRIVED. Without memory for
 *  it the leg has failed. */
void mkv_leg_tell(mkv_leg_t *leg, mkv_event_type_t type, uint32_t tell);

/** WRITE, passive: one of the peer's has arrived. What nobody polls is bounded by
 *  MAX_QUEUED: beyond it the leg has failed. */
void mkv_leg_tell_arrived(mkv_leg_t *leg, uint32_t tell);

#endif
