/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_XFER_H
#define MKV_XFER_H

/**
 * @file
 * One side's state of a transfer, and of its legs, one for each peer. The caller
 * holds the context's lock.
 */

#include "plan/unit_set.h"
#include "base/event.h"
#include "memory/map.h"
#include "peer/peer.h"
#include "xfer/state.h"

#include <stdbool.h>

/** Limits in flight to a peer, above which UCX gets no more. */
typedef struct mkv_limits {
    uint64_t ops, bytes;
} mkv_limits_t;

typedef struct mkv_leg {
    mkv_list_t hash;  /**< ctx->buckets */
    mkv_list_t list;  /**< peer->legs */
    mkv_list_t busy;  /**< peer->busy_legs */
    mkv_list_t flush; /**< peer->flush_waiting or _running */
    struct mkv_xfer *xfer;
    mkv_peer_t *peer;
    mkv_map_t *map;
    uint32_t index;
    uint64_t remote_nonce; /**< 0 until received from the other side */

    mkv_list_t posts;   /**< Posts that UCX has in part or not at all, in order */
    mkv_list_t running; /**< Posts that were posted to UCX completely */
    mkv_list_t pulled;  /**< Active: posts that the passive side moves on request */
    /** Complete posts that wait for a flush, behind which the peer is notified. READ,
     *  passive: posts moved on request; WRITE, active: posts with MKV_SEL_NOTIFY */
    mkv_list_t pushed;
    mkv_list_t flushed;    /**< Posts of pushed that a running flush covers */
    mkv_list_t push_plans; /**< Passive: plans received from the active side */
    uint64_t pulled_plan;  /**< Active: serial of the last plan sent */
    uint32_t num_pulls;    /**< Active: number of pulls and serial of the last */
    bool is_pull_refused;  /**< Active: the passive side has refused to move a post */
    uint64_t *posted; /**< Units posted so far, by pair of the map; NULL on a side that
                         cannot post */
    uint64_t *posted_sums; /**< Sums of their mkv_unit_mix() */
    uint64_t checked_plan; /**< Serial of a wholly exposed plan; 0: none */
    uint64_t posted_bytes; /**< Bit i: bytes were posted to components[i] of the map */
    unsigned num_scatters; /**< WRITE, passive: copies from staging to our blocks */
    bool is_unchecked;     /**< A plan with MKV_PLAN_UNCHECKED was posted */
    uint64_t bytes;        /**< Completed bytes; by MKV_ADD() */

    /** Exposed lists: local ids on the passive side, remote ids on the active side. The
     *  ids follow in the same allocation */
    mkv_units_t *units;
    uint32_t *expect; /**< Parallel to units: blocks that the passive side expects to be
                         moved */
    mkv_unit_set_t *sets; /**< Parallel to units: the same ids as sets; on the passive
                             side NULL until the peer names units */
    uint64_t *sums; /**< Active, parallel to units: sums of the ids' mkv_unit_mix() */
    uint32_t num_units;
    void *meta;
    size_t meta_length;
    void *done_data; /**< Active side's bytes for its DONE */
    size_t done_length;
    struct mkv_packet *fin; /**< WRITE, active: FIN, encoded while the blocks move */
    uint64_t fin_bytes; /**< Bytes that fin reports; fin is sent only if they match */

    mkv_leg_state_t state; /**< Changed by mkv_leg_take() alone; atomic */
    const char *waits;   /**< Text of the condition that the leg waited for at its last
                            change; NULL: none; atomic */
    mkv_status_t status; /**< MKV_INPROGRESS until it is complete or fails; atomic */
    char *error;         /**< Set before a failing status; NULL: none, or no memory */
    bool is_quiet; /**< Value of mkv_leg_attr_t::is_quiet at the last change; atomic */
    mkv_leg_puts_t puts;
    uint64_t seen;  /**< State of mkv_peer_check_late_drain(); 0 at first */
    bool is_owner;  /**< The exposed blocks are counted in ctx->owners: owner.c */
    bool is_answer; /**< The leg failed by a TERM of an instance that had no nonce of
                       this side yet; our own TERM answers it */
    bool is_peer_drained; /**< The peer cannot touch our memory any more */
} mkv_leg_t;

enum {
    MKV_TIMEOUT_BIND,
    MKV_TIMEOUT_XFER,
    MKV_TIMEOUT_RELEASE,
    MKV_TIMEOUT_DRAIN,
    MKV_NUM_TIMEOUTS
};

/** Size of a transfer's error text, with the terminating zero. */
enum { MKV_XFER_TEXT = sizeof(((mkv_xfer_attr_t *)NULL)->error) };

/** Steps of a transfer, in mkv_xfer_attr_t's order. */
typedef enum mkv_xfer_time {
    MKV_TIME_EXPOSED,
    MKV_TIME_BOUND,
    MKV_TIME_POSTED,
    MKV_TIME_MOVED,
    MKV_TIME_SEALED,
    MKV_TIME_FLUSHED,
    MKV_TIME_ENDED,
    MKV_TIME_QUIET,
    MKV_NUM_TIMES
} mkv_xfer_time_t;

_Static_assert(MKV_NUM_TIMES <= 8, "a byte has a bit for each");

struct mkv_xfer {
    mkv_list_t list;  /**< ctx->xfers */
    mkv_list_t dirty; /**< ctx->dirty_xfers */
    mkv_ctx_t *ctx;
    uint64_t id;
    uint32_t epoch;
    uint64_t nonce;
    mkv_mode_t mode;
    mkv_role_t role;
    bool is_active;
    mkv_priority_t priority;
    mkv_limits_t limits;     /**< Limits of a peer's credits in flight for its posts */
    mkv_xfer_state_t state;  /**< Changed by mkv_xfer_take() alone; atomic */
    mkv_status_t status;     /**< Set before a terminal state, as the text; atomic */
    const char *error;       /**< Text of the status; "": none */
    char *error_text;        /**< Memory of that text, to be freed */
    const mkv_leg_t *failed; /**< The first leg that failed; NULL: none */
    bool is_quiet, is_quarantined; /**< Atomic */
    bool has_done_data; /**< mkv_xfer_seal_data() has stored bytes for DONE in a leg */
    uint8_t times_due;  /**< Bit i: the next step sets times[i]: trace.h */
    uint64_t open_time, deadline;
    mkv_status_t deadline_status;
    uint64_t timeouts[MKV_NUM_TIMEOUTS]; /**< Timeouts in ns */
    uint64_t times[MKV_NUM_TIMES];       /**< ns since open_time; 0: not yet; atomic */
    void *user_data;
    void (*ended)(void *arg, mkv_status_t status);
    void *ended_arg;
    mkv_expect_t *expect;
    size_t num_expect;
    uint64_t posted, completed, bytes, num_ucp_calls; /**< By MKV_ADD() */
    unsigned num_events; /**< Event nodes that are reserved for the transfer */
    uint32_t num_legs;
    mkv_leg_t legs[];
};

static inline bool mkv_xfer_is_terminal(const mkv_xfer_t *xfer)
{
    return __atomic_load_n(&xfer->state, __ATOMIC_ACQUIRE) >= MKV_XFER_DONE;
}

/** MKV_INPROGRESS, MKV_OK, or the first error. Needs no lock. */
static inline mkv_status_t mkv_xfer_result(const mkv_xfer_t *xfer)
{
    mkv_xfer_state_t state = __atomic_load_n(&xfer->state, __ATOMIC_ACQUIRE);

    if (state < MKV_XFER_DONE) {
        return MKV_INPROGRESS;
    }
    return (state == MKV_XFER_DONE) ? MKV_OK
                                    : __atomic_load_n(&xfer->status, __ATOMIC_RELAXED);
}

/** The leg has failed, alone or with its transfer, or the transfer is done. */
static inline bool mkv_leg_is_over(const mkv_leg_t *leg)
{
    return (__atomic_load_n(&leg->status, __ATOMIC_ACQUIRE) < MKV_OK) ||
           mkv_xfer_is_terminal(leg->xfer);
}

/** Queue the transfer for the next step. */
static inline void mkv_xfer_dirty(mkv_xfer_t *xfer)
{
    mkv_list_queue(&xfer->ctx->dirty_xfers, &xfer->dirty);
}

/**
 * Give an event to the transfer's state.
 *
 * @return MKV_OK, MKV_ERR_INVALID: the event is invalid in the state, which is logged.
 */
mkv_status_t mkv_xfer_take(mkv_xfer_t *xfer, mkv_xfer_change_t change);

/** Finish legs that can finish, and raise the events. */
void mkv_xfer_step(mkv_xfer_t *xfer);

/** Fail the transfer; later failures change nothing. */
void mkv_xfer_fail(mkv_xfer_t *xfer, mkv_status_t status, const char *fmt, ...)
    MKV_PRINTF(3, 4);

void mkv_xfer_check_deadline(mkv_xfer_t *xfer, uint64_t now);

/** @param [in] which  MKV_TIMEOUT_*. */
void mkv_xfer_set_deadline(mkv_xfer_t *xfer, unsigned which);

/** Change to BOUND if every leg that has not failed is bound. */
void mkv_xfer_check_bound(mkv_xfer_t *xfer);

/** Active side: change to SEALED if every leg that has not failed is sealed. */
void mkv_xfer_check_sealed(mkv_xfer_t *xfer);

/**
 * Fail a leg. A source continues with its other legs, as each destination has blocks of
 * its own. A destination needs all legs, so its transfer fails. No effect on a leg that
 * is over or complete.
 */
void mkv_leg_fail(mkv_leg_t *leg, mkv_status_t status, const char *fmt, ...)
    MKV_PRINTF(3, 4);

/** Let queries see a possible change of the condition that the leg waits for. */
void mkv_leg_note(mkv_leg_t *leg);

/** Name the leg that waits and its condition, at the last change; empty: none. Needs no
 * lock. */
void mkv_xfer_waiting(const mkv_xfer_t *xfer, char *text, size_t size);

/** Free a transfer of any state; no callback of UCX refers to it any more. */
void mkv_xfer_free(mkv_xfer_t *xfer);

#endif
