/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The life of a connection.
 *
 *   CONNECTING --HELLO--> SHAKING --FLUSHED--> READY
 *        |                   |                   |
 *        +-------------------+-------------------+
 *        |                                       |
 *      BYE, FAIL, BROKEN, EXPIRED              CLOSE
 *        |                                       |
 *        v                                       v
 *      FAILED <-----------BROKEN-------------- ENDING --IDLE--> LEAVING
 *        |                                       |                 |
 *     DRAINED, EXPIRED                        EXPIRED        LEFT, EXPIRED
 *        |                                       |                 |
 *        +-------------------> CLOSING <---------+-----------------+
 *                                 |
 *                              CLOSED
 *                                 v
 *                               GONE
 *
 * A connection fails once and is closed once. For events that come too late to matter,
 * the table holds the state itself. Events without an entry cannot happen in a correct
 * library and are errors.
 */

#include "peer/conn.h"

#define MKV_STAYS(_state, _event) [MKV_CONN_##_event] = MKV_CONN_##_state
#define MKV_GOES(_event, _state) [MKV_CONN_##_event] = MKV_CONN_##_state

/* Late answers of UCX: requests end after the state that issued them */
#define MKV_LATE(_state)                                                               \
    MKV_STAYS(_state, FLUSHED), MKV_STAYS(_state, FAIL), MKV_STAYS(_state, BROKEN)

/* Messages received before this side ended the connection */
#define MKV_MESSAGES(_state)                                                           \
    MKV_STAYS(_state, HELLO), MKV_STAYS(_state, REGIONS), MKV_STAYS(_state, BYE)

#define MKV_ENDS                                                                       \
    MKV_GOES(BYE, FAILED), MKV_GOES(FAIL, FAILED), MKV_GOES(BROKEN, FAILED),           \
        MKV_GOES(CLOSE, ENDING)

static const uint8_t mkv_conn_table[MKV_CONN_NUM_STATES][MKV_CONN_NUM_EVENTS] = {
    [MKV_CONN_CONNECTING] = {MKV_GOES(HELLO, SHAKING), MKV_GOES(EXPIRED, FAILED),
                             MKV_ENDS},
    [MKV_CONN_SHAKING] = {MKV_STAYS(SHAKING, HELLO), MKV_STAYS(SHAKING, REGIONS),
                          MKV_GOES(FLUSHED, READY), MKV_GOES(EXPIRED, FAILED),
                          MKV_ENDS},
    [MKV_CONN_READY] = {MKV_STAYS(READY, HELLO), MKV_STAYS(READY, REGIONS), MKV_ENDS},
    [MKV_CONN_FAILED] = {MKV_MESSAGES(FAILED), MKV_LATE(FAILED),
                         MKV_STAYS(FAILED, CLOSE), MKV_GOES(DRAINED, CLOSING),
                         MKV_GOES(EXPIRED, CLOSING)},
    [MKV_CONN_ENDING] = {MKV_MESSAGES(ENDING), MKV_STAYS(ENDING, FLUSHED),
                         MKV_STAYS(ENDING, FAIL), MKV_GOES(BROKEN, FAILED),
                         MKV_GOES(IDLE, LEAVING), MKV_GOES(EXPIRED, CLOSING)},
    [MKV_CONN_LEAVING] = {MKV_MESSAGES(LEAVING), MKV_LATE(LEAVING),
                          MKV_GOES(LEFT, CLOSING), MKV_GOES(EXPIRED, CLOSING)},
    [MKV_CONN_CLOSING] = {MKV_LATE(CLOSING), MKV_STAYS(CLOSING, CLOSE),
                          MKV_STAYS(CLOSING, LEFT), MKV_GOES(CLOSED, GONE)},
    [MKV_CONN_GONE] = {MKV_LATE(GONE), MKV_STAYS(GONE, CLOSE), MKV_STAYS(GONE, LEFT)},
};

mkv_status_t mkv_conn_take(mkv_conn_state_t *state, mkv_conn_event_t event)
{
    mkv_conn_state_t next = MKV_CONN_NONE;

    if (((unsigned)*state < MKV_CONN_NUM_STATES) &&
        ((unsigned)event < MKV_CONN_NUM_EVENTS)) {
        next = (mkv_conn_state_t)mkv_conn_table[*state][event];
    }
    if (next == MKV_CONN_NONE) {
        return (event <= MKV_CONN_BYE) ? MKV_ERR_PROTOCOL : MKV_ERR_INVALID;
    }
    *state = next;
    return MKV_OK;
}

const char *mkv_conn_state_string(mkv_conn_state_t state)
{
    static const char *const names[MKV_CONN_NUM_STATES] = {
        "none",   "connecting", "shaking hands", "ready", "failed",
        "ending", "leaving",    "closing",       "gone"};

    return ((unsigned)state < MKV_CONN_NUM_STATES) ? names[state] : "unknown";
}

const char *mkv_conn_event_string(mkv_conn_event_t event)
{
    static const char *const names[MKV_CONN_NUM_EVENTS] = {
        "HELLO", "REGIONS", "BYE",  "FLUSHED", "FAIL",    "BROKEN",
        "CLOSE", "IDLE",    "LEFT", "DRAINED", "EXPIRED", "CLOSED"};

    return ((unsigned)event < MKV_CONN_NUM_EVENTS) ? names[event] : "unknown";
}
