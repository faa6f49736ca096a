/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_EXPOSE_H
#define MKV_EXPOSE_H

/**
 * @file
 * Block lists of a leg.
 */

#include "xfer/leg.h"

/** Active side: handle the peer's block list. */
void mkv_leg_exposed(mkv_leg_t *leg, const mkv_msg_t *msg);

#endif
