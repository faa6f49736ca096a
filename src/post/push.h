/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_PUSH_H
#define MKV_PUSH_H

/**
 * @file
 * The passive side of PULL: puts of exposed blocks into a reader's memory, or gets into
 * them, without the application. The caller holds the context's lock.
 */

#include "post/post.h"
#include "xfer/leg.h"

/** Notify the active side that a post of it has arrived. */
void mkv_push_arrived(mkv_post_t *post);

/** Listener of legs, see mkv_leg_listener_t. */
void mkv_push_receive(mkv_leg_t *leg, const mkv_msg_t *msg);

/** Free the state of a leg. */
void mkv_push_cleanup(mkv_leg_t *leg);

#endif
