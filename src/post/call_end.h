/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_CALL_END_H
#define MKV_CALL_END_H

/**
 * @file
 * Effect of ended UCX calls on their post. The caller holds the context's lock.
 */

#include "post/post.h"

/** Recompute the bytes per call. Call this after calls have taken credit and before a
 * completion can return it. */
void mkv_post_average_calls(mkv_post_t *post);

/** Whether every piece was posted to UCX, or the leg has ended. */
bool mkv_post_is_at_end(mkv_post_t *post);

/** End or repeat a post without calls in flight and without pieces to post. */
void mkv_post_over(mkv_post_t *post);

/** Handle the completion of the last call in flight; the post may have more pieces. */
void mkv_post_none_in_flight(mkv_post_t *post);

#endif
