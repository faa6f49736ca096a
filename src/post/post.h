/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_POST_H
#define MKV_POST_H

/**
 * @file
 * Posts: they turn a plan into UCX calls. The caller holds the context's lock.
 */

#include "plan/list_cache.h"
#include "plan/plan.h"
#include "xfer/xfer.h"

#include <stdbool.h>

typedef enum mkv_gate_state {
    MKV_GATE_OPEN,
    MKV_GATE_CHECK,
    MKV_GATE_WAIT
} mkv_gate_state_t;

/** A place in a plan. */
typedef struct mkv_cursor {
    uint32_t pair;
    uint32_t unit;  /**< Unit in the run, when pieces are single units */
    uint32_t piece; /**< Piece of the unit */
    size_t run;     /**< Run of the pair */
} mkv_cursor_t;

typedef struct mkv_post {
    mkv_list_t list; /**< leg->posts or running */
    mkv_leg_t *leg;
    mkv_plan_t *plan;
    mkv_sel_t sel;
    mkv_gate_t gate;
    mkv_gate_state_t gate_state;

    mkv_cursor_t at;  /**< Next piece to give to UCX */
    uint32_t serial;  /**< Number in PULL and PULLED, if the post is moved on request */
    bool is_push;     /**< Moved by the passive side; the peer waits for PULLED */
    bool has_arrived; /**< The post consists of gets for the peer: no flush follows */
    bool has_pieces;  /**< Some pieces went as single calls, not in a list */
    bool is_too_long; /**< A PULL with the plan's runs is longer than MAX_MESSAGE */
    uint64_t pull_bytes;   /**< Bytes of the whole post, which PULLED has to report */
    bool must_repeat;      /**< UCX refused a list: start again, piece by piece */
    uint64_t num_elements; /**< Elements of the whole post */
    uint64_t elements, bytes; /**< Posted to UCX so far */
    uint64_t num_inflight;    /**< UCX calls and staged lists that have not ended */
    uint64_t call_bytes;      /**< Average bytes of a call in flight */
    uint64_t inflight_bytes;  /**< Bytes of the calls in flight, of the peer's credit */
    mkv_list_uses_t lists;    /**< Lists that calls in flight use */
} mkv_post_t;

/** The leg has posts for UCX. */
void mkv_leg_queue(mkv_leg_t *leg);

/**
 * Post as many calls to UCX as the credits allow.
 *
 * @return Posts that made progress.
 */
unsigned mkv_peer_pump(mkv_peer_t *peer);

/** Drop queued posts; those in flight end with their last completion. */
void mkv_leg_cancel_posts(mkv_leg_t *leg);

/** Register the listener of legs that end. */
void mkv_posts_listen(mkv_ctx_t *ctx);

void mkv_posts_cleanup(mkv_ctx_t *ctx);

#endif
