/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_LEG_H
#define MKV_LEG_H

/**
 * @file
 * Legs: their messages and when to send them; leg_receive.h handles received ones.
 */

#include "xfer/xfer.h"

#include <stdbool.h>

/** Listener of legs, for posts on them: ctx->leg_listener. */
typedef struct mkv_leg_listener {
    /** The leg or its transfer has failed: drop posts that were not posted to UCX. */
    void (*ended)(mkv_leg_t *leg);
    /** Whether the leg's first post waits for a gate. */
    bool (*has_gate)(const mkv_leg_t *leg);
    /** Bytes of the posts that are given to UCX and have not ended. */
    uint64_t (*moving)(const mkv_leg_t *leg);
    /** Passive, bound: the peer requests to put, or for a WRITE to get, a part of a
     * plan. */
    void (*pull)(mkv_leg_t *leg, const mkv_msg_t *msg);
    /** Active: a requested part has arrived, or the owner cannot move it. */
    void (*pulled)(mkv_leg_t *leg, const mkv_msg_t *msg);
    /** The peer moves no more: forget its requests. */
    void (*settled)(mkv_leg_t *leg);
    /** The leg is freed; nothing that UCX could still complete is left. */
    void (*freed)(mkv_leg_t *leg);
} mkv_leg_listener_t;

/** Bucket of the legs of a transfer's id. */
mkv_list_t *mkv_leg_bucket(mkv_ctx_t *ctx, uint64_t id);
mkv_leg_t *mkv_leg_find(mkv_peer_t *peer, uint64_t id, uint32_t epoch);

/**
 * Give an event to the leg's state.
 *
 * @return MKV_OK, MKV_ERR_INVALID or MKV_ERR_PROTOCOL: the event is invalid in the
 *         state, which is logged.
 */
mkv_status_t mkv_leg_take(mkv_leg_t *leg, mkv_leg_event_t event);

/** Send in the name of the leg. @return As mkv_message_send(). */
mkv_status_t mkv_leg_send(mkv_leg_t *leg, mkv_msg_t *msg);

/** Encode a message of the leg, behind those in @a packets. @return As
 * mkv_message_send(). */
mkv_status_t mkv_leg_prepare(mkv_leg_t *leg, mkv_msg_t *msg, mkv_list_t *packets);

/** Send a message without which the other side would hang; no memory fails the peer. */
void mkv_leg_send_or_fail(mkv_leg_t *leg, mkv_msg_t *msg);

/** Notify the other side that the leg has failed, alone or with its transfer. */
void mkv_leg_terminate(mkv_leg_t *leg, mkv_status_t status, const char *text);

/** Send FIN or DRAINED if due; request a flush before. */
void mkv_leg_step(mkv_leg_t *leg);

/** Whether a call on @a num legs skips this leg because it has failed. */
static inline bool mkv_leg_is_left_out(const mkv_leg_t *leg, uint32_t num)
{
    return (num > 1) && (leg->status < MKV_OK);
}

/** Set the error text of a failed leg. @return Its status. */
mkv_status_t mkv_leg_error(const mkv_leg_t *leg);

/** Whether a part requested by PULL has neither arrived nor been refused. */
bool mkv_leg_is_pulling(const mkv_leg_t *leg);

/** The transfer has failed and was not quiet in time. */
void mkv_leg_check_late_drain(mkv_leg_t *leg);

/** Nothing touches this side's blocks for this leg any more. */
bool mkv_leg_is_quiet(const mkv_leg_t *leg);

/**
 * @param [out] text  Set unless MKV_OK.
 *
 * @return MKV_OK, or MKV_ERR_LENGTH: not every layer got the same units.
 */
mkv_status_t mkv_leg_check_seal(mkv_leg_t *leg, char *text, size_t size);

void mkv_leg_cleanup(mkv_leg_t *leg);

#endif
