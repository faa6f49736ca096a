/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_POST_END_H
#define MKV_POST_END_H

/**
 * @file
 * Creation and end of a post. The caller holds the context's lock.
 */

#include "post/post.h"

/**
 * Make a post of a part of a plan, counted for the check at the seal and in no list.
 * @return NULL: no memory.
 */
mkv_post_t *mkv_post_create(mkv_leg_t *leg, mkv_plan_t *plan, const mkv_sel_t *sel);

/** Free a post that is in any list; no call of it is in flight. */
void mkv_post_free(mkv_post_t *post);

/** Free all posts of a list. */
void mkv_posts_free(mkv_list_t *posts);

/** Restart the post, before all queued posts of the leg. */
void mkv_post_again(mkv_post_t *post);

/** Whether a complete list has arrived at the peer and is visible there without a
 * flush.
 */
bool mkv_post_lists_arrive(const mkv_post_t *post);

/**
 * End a post without calls in flight and without pieces to post.
 *
 * @return true: notify the peer now that the post has arrived (arrived.h); false: the
 *         post is freed, or waits for a flush.
 */
bool mkv_post_done(mkv_post_t *post);

#endif
