/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_PULL_H
#define MKV_PULL_H

/**
 * @file
 * The active side of PULL: a post that the owner of the peer's blocks moves. READ,
 * because UCX has lists for puts only; WRITE, where UCX would put by small messages.
 * The caller holds the context's lock.
 */

#include "post/post.h"

/** Whether to request the post from the owner. */
bool mkv_pull_is_wanted(const mkv_post_t *post);

/**
 * Request the post from the owner.
 * @return false: the connection is lost; true: requested, or it moves from here.
 */
bool mkv_pull_request(mkv_post_t *post);

/** Listeners of legs, see mkv_leg_listener_t. */
void mkv_pull_answered(mkv_leg_t *leg, const mkv_msg_t *msg);
void mkv_pulls_drop(mkv_leg_t *leg);

#endif
