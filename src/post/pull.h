/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_PULL_H
#define MKV_PULL_H

/**
 * @file
 * READ, the reader's side of PULL: a post that the owner of the blocks puts, because
 * UCX has lists for puts only. The caller holds the context's lock.
 */

#include "post/post.h"

/** Whether to request the post from the owner. */
bool mkv_pull_is_wanted(const mkv_post_t *post);

/**
 * Request the post from the owner.
 * @return false: the connection is lost; true: requested, or it goes by gets.
 */
bool mkv_pull_request(mkv_post_t *post);

/** Listeners of legs, see mkv_leg_listener_t. */
void mkv_pull_answered(mkv_leg_t *leg, const mkv_msg_t *msg);
void mkv_pulls_drop(mkv_leg_t *leg);

/**
 * Digest of the selected pairs of regions and the units of each, which both sides must
 * agree on.
 *
 * @param [out] bytes_p  Bytes of the whole post.
 *
 * @return A digest that does not depend on the order of pairs.
 */
uint64_t mkv_pull_digest(const mkv_post_t *post, uint64_t *bytes_p);

#endif
