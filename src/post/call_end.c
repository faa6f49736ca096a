/* SPDX-License-Identifier: BSD-3-Clause */

#include "post/call_end.h"

#include "post/arrived.h"
#include "post/post_cursor.h"
#include "post/post_end.h"

void mkv_post_average_calls(mkv_post_t *post)
{
    if (post->num_inflight > 0) {
        post->call_bytes = post->inflight_bytes / post->num_inflight;
    }
}

bool mkv_post_is_at_end(mkv_post_t *post)
{
    return mkv_leg_is_over(post->leg) || (mkv_post_pair(post) == NULL);
}

void mkv_post_over(mkv_post_t *post)
{
    if (mkv_post_done(post)) {
        mkv_post_arrived(post);
    }
}

/* Not inlined: most calls are not the last */
void mkv_post_none_in_flight(mkv_post_t *post)
{
    if (post->must_repeat || mkv_post_is_at_end(post)) {
        mkv_post_over(post);
    }
}
