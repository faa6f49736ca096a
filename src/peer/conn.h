/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_CONN_H
#define MKV_CONN_H

/**
 * @file
 * The state of a connection: one enum, one function that changes it. Pure; conn.c draws
 * it.
 */

#include "morikv.h"

#include <stdbool.h>

typedef enum mkv_conn_state {
    MKV_CONN_NONE,       /**< No state; result of an invalid event */
    MKV_CONN_CONNECTING, /**< HELLO is sent, no message has come */
    MKV_CONN_SHAKING, /**< The peer's description has arrived; a flush is checking the
                         other direction */
    MKV_CONN_READY,
    MKV_CONN_FAILED,  /**< Gets no more calls; those in flight return */
    MKV_CONN_ENDING,  /**< Closed by the caller, the ends of transfers still travel */
    MKV_CONN_LEAVING, /**< Flush, BYE and flush are in flight */
    MKV_CONN_CLOSING, /**< UCX closes the endpoint */
    MKV_CONN_GONE,    /**< The endpoint is closed */
    MKV_CONN_NUM_STATES
} mkv_conn_state_t;

typedef enum mkv_conn_event {
    MKV_CONN_HELLO,   /**< The peer's HELLO or HELLO_ACK */
    MKV_CONN_REGIONS, /**< The peer's REGIONS */
    MKV_CONN_BYE,     /**< BYE received: the peer has closed the connection */
    MKV_CONN_FLUSHED, /**< The flush of SHAKING has come back */
    MKV_CONN_FAIL,    /**< The connection cannot go on: memory, protocol, options */
    MKV_CONN_BROKEN,  /**< UCX's error callback */
    MKV_CONN_CLOSE,   /**< The caller closes */
    MKV_CONN_IDLE,    /**< No transfer needs it any more */
    MKV_CONN_LEFT,    /**< BYE was flushed, or cannot be */
    MKV_CONN_DRAINED, /**< No call is in flight */
    MKV_CONN_EXPIRED, /**< The deadline of the state is over */
    MKV_CONN_CLOSED,  /**< The endpoint is closed */
    MKV_CONN_NUM_EVENTS
} mkv_conn_event_t;

/**
 * Take an event.
 *
 * @param [inout] state  Unchanged on an error, and where an event has no effect.
 *
 * @return MKV_OK, or for an event that is invalid in the state: MKV_ERR_PROTOCOL for a
 *         message of the peer, MKV_ERR_INVALID for an event of this side.
 */
mkv_status_t mkv_conn_take(mkv_conn_state_t *state, mkv_conn_event_t event);

const char *mkv_conn_state_string(mkv_conn_state_t state);
const char *mkv_conn_event_string(mkv_conn_event_t event);

/** CONNECTING to READY: neither failed nor closed. */
static inline bool mkv_conn_is_alive(mkv_conn_state_t state)
{
    return state <= MKV_CONN_READY;
}

/** Whether the endpoint must get no more messages and calls. */
static inline bool mkv_conn_is_cut_off(mkv_conn_state_t state)
{
    return (state == MKV_CONN_FAILED) || (state >= MKV_CONN_CLOSING);
}

/** State that the public API reports. */
static inline mkv_peer_state_t mkv_conn_public(mkv_conn_state_t state)
{
    return (state == MKV_CONN_READY)
               ? MKV_PEER_READY
               : (mkv_conn_is_alive(state) ? MKV_PEER_CONNECTING : MKV_PEER_FAILED);
}

#endif
