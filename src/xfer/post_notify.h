/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_POST_NOTIFY_H
#define MKV_POST_NOTIFY_H

/**
 * @file
 * Events of posts with MKV_SEL_NOTIFY while their transfer runs. The caller holds the
 * context's lock.
 */

#include "xfer/xfer.h"

/** Add MKV_EV_LOCAL_DONE or MKV_EV_ARRIVED of a local post. Fails the leg if there is
 * no memory. */
void mkv_leg_notify(mkv_leg_t *leg, mkv_event_type_t type, uint32_t value);

/** WRITE, passive: add MKV_EV_ARRIVED of the peer's post. Fails the leg if events that
 *  were not polled fill MAX_QUEUED. */
void mkv_leg_send_arrived(mkv_leg_t *leg, uint32_t value);

#endif
