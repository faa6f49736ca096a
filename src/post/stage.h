/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_STAGE_H
#define MKV_STAGE_H

/**
 * @file
 * WRITE, the source's side of STAGE: small pieces of a post are gathered into staging,
 * and put as one chunk into the peer's, whose library scatters them. The caller holds
 * the context's lock.
 */

#include "post/post.h"

/** Whether the pieces under the post's cursor have to wait for a slot: the leg is
 * pumped again when there is one. */
bool mkv_stage_must_wait(mkv_post_t *post);

/**
 * Gather one chunk from the cursor on, and ask the peer where it may go.
 *
 * @return false: nothing more can be given now, or the leg has failed.
 */
bool mkv_stage_issue(mkv_post_t *post, const mkv_pair_t *pair);

/** Legs that have waited too long for a slot go on without. @return When to look again.
 */
uint64_t mkv_chunks_expire(mkv_ctx_t *ctx, uint64_t now);

/** A flush of the peer begins, and has ended. */
void mkv_chunks_flushing(mkv_leg_t *leg);
void mkv_chunks_flushed(mkv_leg_t *leg);

/** The leg is over: forget what waits for the peer. */
void mkv_chunks_drop(mkv_leg_t *leg);

/** Listener of legs, see mkv_leg_listener_t. */
void mkv_stage_answered(mkv_leg_t *leg, const mkv_msg_t *msg);

#endif
