/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_STAGE_WANT_H
#define MKV_STAGE_WANT_H

/**
 * @file
 * Which pieces of a post go through staging (stage.h). The caller holds the context's
 * lock.
 */

#include "post/post.h"

/** Whether any piece of the leg's posts may. */
bool mkv_leg_may_stage(const mkv_leg_t *leg);

/** Most bytes of one chunk to the peer. */
uint64_t mkv_peer_chunk(const mkv_peer_t *peer);

/** Whether those of this pair do, which is under the post's cursor. */
bool mkv_stage_is_wanted(mkv_post_t *post, const mkv_pair_t *pair);

#endif
