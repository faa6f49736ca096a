/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * States of transfers and legs. A transfer:
 *
 *   INIT --all bound--> BOUND --posted--> ACTIVE --all sealed--> SEALED
 *     |                   |                 |                      |
 *     |                   +-----------------+----------------------+--> DONE
 *     |                   |                 |                      | all finished
 *     +-------------------+-----------------+----------------------+--> FAILED, ABORTED
 *
 * A bound leg may be posted on while others are not bound, so INIT may lead to ACTIVE.
 * A transfer without posts goes from BOUND to SEALED. The passive side stays BOUND
 * until it is done. A terminal state never changes; quiet is reported there once,
 * beside it.
 *
 * A leg:
 *
 *   WAITING --EXPOSE--> EXPOSED --BIND--> BOUND --SEAL--> SEALED --FIN--> FINISHED
 *     |                   |                 |                |              ^
 *     |                   |                 +------FIN (passive)------------+
 *     |                   |                 |                |
 *     +-------------------+-----------------+----------------+--FAIL--> TERM
 *     |                   |                 |                |            |
 *     |                   |                 |                |          DRAIN
 *     |                   |                 |                |            v
 *     |                   |                 |                |         DRAINED
 *     +-------------------+-----------------+----------------+--CUT---> LOST
 *
 * A leg that is finished stays so when others fail: its TERM is answered by DRAINED.
 */

#include "xfer/state.h"

/* ---- Transfer -------------------------------------------------------------------- */

#define MKV_XFER_GOES(_change, _state) [MKV_XFER_##_change] = MKV_XFER_##_state + 1

#define MKV_XFER_ENDS MKV_XFER_GOES(FAIL, FAILED), MKV_XFER_GOES(ABORT, ABORTED)

/* A late binding, a second failure and quiet change nothing */
#define MKV_XFER_TERMINAL(_state)                                                      \
    {MKV_XFER_GOES(ALL_BOUND, _state), MKV_XFER_GOES(FAIL, _state),                    \
     MKV_XFER_GOES(ABORT, _state), MKV_XFER_GOES(QUIET, _state)}

/* Entries are the next state plus 1; 0: not allowed */
static const uint8_t mkv_xfer_table[MKV_XFER_NUM_STATES][MKV_XFER_NUM_CHANGES] = {
    [MKV_XFER_INIT] = {MKV_XFER_GOES(ALL_BOUND, BOUND), MKV_XFER_GOES(POSTED, ACTIVE),
                       MKV_XFER_ENDS},
    [MKV_XFER_BOUND] = {MKV_XFER_GOES(POSTED, ACTIVE),
                        MKV_XFER_GOES(ALL_SEALED, SEALED),
                        MKV_XFER_GOES(ALL_FINISHED, DONE), MKV_XFER_ENDS},
    [MKV_XFER_ACTIVE] = {MKV_XFER_GOES(ALL_BOUND, ACTIVE),
                         MKV_XFER_GOES(POSTED, ACTIVE),
                         MKV_XFER_GOES(ALL_SEALED, SEALED), MKV_XFER_ENDS},
    [MKV_XFER_SEALED] = {MKV_XFER_GOES(ALL_FINISHED, DONE), MKV_XFER_ENDS},
    [MKV_XFER_DONE] = MKV_XFER_TERMINAL(DONE),
    [MKV_XFER_FAILED] = MKV_XFER_TERMINAL(FAILED),
    [MKV_XFER_ABORTED] = MKV_XFER_TERMINAL(ABORTED),
};

mkv_status_t mkv_xfer_state_take(mkv_xfer_state_t *state, mkv_xfer_change_t change)
{
    unsigned next = 0;

    if (((unsigned)*state < MKV_XFER_NUM_STATES) &&
        ((unsigned)change < MKV_XFER_NUM_CHANGES)) {
        next = mkv_xfer_table[*state][change];
    }
    if (next == 0) {
        return MKV_ERR_INVALID;
    }
    *state = (mkv_xfer_state_t)(next - 1);
    return MKV_OK;
}

const char *mkv_xfer_state_string(mkv_xfer_state_t state)
{
    static const char *const names[MKV_XFER_NUM_STATES] = {
        "init", "bound", "active", "sealed", "done", "failed", "aborted"};

    return ((unsigned)state < MKV_XFER_NUM_STATES) ? names[state] : "unknown";
}

const char *mkv_xfer_change_string(mkv_xfer_change_t change)
{
    static const char *const names[MKV_XFER_NUM_CHANGES] = {
        "all bound", "posted", "all sealed", "all finished", "fail", "abort", "quiet"};

    return ((unsigned)change < MKV_XFER_NUM_CHANGES) ? names[change] : "unknown";
}

/* ---- Leg ------------------------------------------------------------------------- */

#define MKV_LEG_GOES(_event, _state) [MKV_LEG_##_event] = MKV_LEG_##_state

#define MKV_LEG_ENDS MKV_LEG_GOES(FAIL, TERM), MKV_LEG_GOES(CUT, LOST)

/* The leg has ended already */
#define MKV_LEG_ENDED(_state) MKV_LEG_GOES(FAIL, _state), MKV_LEG_GOES(CUT, _state)

static const uint8_t mkv_leg_table[MKV_LEG_NUM_STATES][MKV_LEG_NUM_EVENTS] = {
    [MKV_LEG_WAITING] = {MKV_LEG_GOES(EXPOSE, EXPOSED), MKV_LEG_ENDS},
    [MKV_LEG_EXPOSED] = {MKV_LEG_GOES(BIND, BOUND), MKV_LEG_ENDS},
    [MKV_LEG_BOUND] = {MKV_LEG_GOES(SEAL, SEALED), MKV_LEG_GOES(FIN, FINISHED),
                       MKV_LEG_ENDS},
    [MKV_LEG_SEALED] = {MKV_LEG_GOES(FIN, FINISHED), MKV_LEG_ENDS},
    [MKV_LEG_FINISHED] = {MKV_LEG_ENDED(FINISHED)},
    [MKV_LEG_TERM] = {MKV_LEG_ENDED(TERM), MKV_LEG_GOES(DRAIN, DRAINED)},
    [MKV_LEG_DRAINED] = {MKV_LEG_ENDED(DRAINED)},
    [MKV_LEG_LOST] = {MKV_LEG_ENDED(LOST)},
};

mkv_status_t mkv_leg_state_take(mkv_leg_state_t *state, mkv_leg_event_t event)
{
    mkv_leg_state_t next = MKV_LEG_NONE;

    if (((unsigned)*state < MKV_LEG_NUM_STATES) &&
        ((unsigned)event < MKV_LEG_NUM_EVENTS)) {
        next = (mkv_leg_state_t)mkv_leg_table[*state][event];
    }
    if (next == MKV_LEG_NONE) {
        return (event <= MKV_LEG_FIN) ? MKV_ERR_PROTOCOL : MKV_ERR_INVALID;
    }
    *state = next;
    return MKV_OK;
}

const char *mkv_leg_state_string(mkv_leg_state_t state)
{
    static const char *const names[MKV_LEG_NUM_STATES] = {
        "none",     "waiting", "exposed", "bound",       "sealed",
        "finished", "failed",  "drained", "disconnected"};

    return ((unsigned)state < MKV_LEG_NUM_STATES) ? names[state] : "unknown";
}

const char *mkv_leg_event_string(mkv_leg_event_t event)
{
    static const char *const names[MKV_LEG_NUM_EVENTS] = {
        "BIND", "FIN", "EXPOSE", "SEAL", "TERM", "DRAINED", "CUT"};

    return ((unsigned)event < MKV_LEG_NUM_EVENTS) ? names[event] : "unknown";
}
