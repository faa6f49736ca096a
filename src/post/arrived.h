/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_ARRIVED_H
#define MKV_ARRIVED_H

/**
 * @file
 * Posts that the peer is told of when they have arrived: leg->pushed and flushed. The
 * caller holds the context's lock.
 */

#include "post/post.h"

/** The post has arrived at the peer, which is told; frees it. */
void mkv_post_arrived(mkv_post_t *post);

/** A flush has ended, or failed with the transfer: the posts that it covers have
 *  arrived at the peer, which is told. */
void mkv_posts_arrived(mkv_leg_t *leg);

#endif
