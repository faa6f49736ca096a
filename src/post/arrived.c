/* SPDX-License-Identifier: BSD-3-Clause */

#include "post/arrived.h"

#include "post/post_end.h"
#include "post/push.h"
#include "xfer/leg.h"

void mkv_post_arrived(mkv_post_t *post)
{
    mkv_msg_t msg = {.type = MKV_MSG_ARRIVED, .value = post->sel.notify};

    if (post->is_push) {
        mkv_push_arrived(post);
    } else {
        mkv_leg_send_or_fail(post->leg, &msg);
    }
    mkv_post_free(post);
}

void mkv_posts_arrived(mkv_leg_t *leg)
{
    while (!mkv_list_is_empty(&leg->flushed)) {
        mkv_post_arrived(mkv_list_head(&leg->flushed, mkv_post_t, list));
    }
}
