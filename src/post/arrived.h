/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_ARRIVED_H
#define MKV_ARRIVED_H

/**
 * @file
 * Posts that notify the peer when they have arrived: leg->pushed and leg->flushed. The
 * caller holds the context's lock.
 */

#include "post/post.h"

/** Notify the peer that the post has arrived, and free the post. */
void mkv_post_arrived(mkv_post_t *post);

/** A flush has ended, or failed with the transfer: notify the peer of its posts. */
void mkv_posts_arrived(mkv_leg_t *leg);

#endif
