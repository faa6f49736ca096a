/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_STATE_H
#define MKV_STATE_H

/**
 * @file
 * The states of a transfer and of a leg, and the functions that change them. Pure;
 * state.c draws them.
 */

#include "morikv.h"

typedef enum mkv_xfer_change {
    MKV_XFER_ALL_BOUND,    /**< Every leg has received the other side's identity */
    MKV_XFER_POSTED,       /**< Something was posted on a leg */
    MKV_XFER_ALL_SEALED,   /**< Nothing more will be posted */
    MKV_XFER_ALL_FINISHED, /**< Every leg is complete and verified */
    MKV_XFER_FAIL,
    MKV_XFER_ABORT,
    MKV_XFER_QUIET, /**< No leg of either side accesses this side's blocks any more */
    MKV_XFER_NUM_CHANGES
} mkv_xfer_change_t;

#define MKV_XFER_NUM_STATES (MKV_XFER_ABORTED + 1)

/**
 * Take an event.
 *
 * @param [inout] state  Unchanged on an error, and where the event has no effect.
 *
 * @return MKV_OK, or MKV_ERR_INVALID: the event is invalid in the state.
 */
mkv_status_t mkv_xfer_state_take(mkv_xfer_state_t *state, mkv_xfer_change_t change);

const char *mkv_xfer_state_string(mkv_xfer_state_t state);
const char *mkv_xfer_change_string(mkv_xfer_change_t change);

typedef enum mkv_leg_state {
    MKV_LEG_NONE,     /**< No state; result of an invalid event */
    MKV_LEG_WAITING,  /**< The block list was not received yet */
    MKV_LEG_EXPOSED,  /**< The block list was sent (passive) or has come (active) */
    MKV_LEG_BOUND,    /**< The nonces were exchanged */
    MKV_LEG_SEALED,   /**< Active: nothing more will be posted */
    MKV_LEG_FINISHED, /**< FIN was sent (active), or has come and is right (passive) */
    MKV_LEG_TERM,     /**< Failed; TERM was sent or received */
    MKV_LEG_DRAINED,  /**< Failed; DRAINED was sent */
    MKV_LEG_LOST,     /**< Failed without a connection for TERM */
    MKV_LEG_NUM_STATES
} mkv_leg_state_t;

typedef enum mkv_leg_event {
    MKV_LEG_BIND,   /**< BIND was sent or received */
    MKV_LEG_FIN,    /**< FIN was sent or received */
    MKV_LEG_EXPOSE, /**< EXPOSE was sent or received */
    MKV_LEG_SEAL,   /**< The caller seals */
    MKV_LEG_FAIL,   /**< TERM was sent or received */
    MKV_LEG_DRAIN,  /**< DRAINED is sent: nothing of ours is in flight */
    MKV_LEG_CUT,    /**< The transfer has failed, and the connection is cut */
    MKV_LEG_NUM_EVENTS
} mkv_leg_event_t;

/**
 * Take an event.
 *
 * @param [inout] state  Unchanged on an error, and where the event has no effect.
 *
 * @return MKV_OK, or for an event that is invalid in the state: MKV_ERR_PROTOCOL for
 *         BIND and FIN, which the peer sends, MKV_ERR_INVALID for the others.
 */
mkv_status_t mkv_leg_state_take(mkv_leg_state_t *state, mkv_leg_event_t event);

const char *mkv_leg_state_string(mkv_leg_state_t state);
const char *mkv_leg_event_string(mkv_leg_event_t event);

/** State of a leg's puts. */
typedef enum mkv_leg_puts {
    MKV_PUTS_ARRIVED, /**< All puts have arrived, or there are none */
    MKV_PUTS_GIVEN,   /**< Puts that may not have arrived yet */
    MKV_PUTS_FLUSHING /**< A flush that covers the puts is queued or in flight */
} mkv_leg_puts_t;

#endif
