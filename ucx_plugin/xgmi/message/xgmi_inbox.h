/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_INBOX_H
#define MUCT_XGMI_INBOX_H

/**
 * @file
 * Receiving side of messages: a ring of shared memory for each sender (xgmi_box.h), and
 * a wakeup pipe (xgmi_bell.h) for a thread that sleeps.
 *
 * Senders that may have messages are polled in turn; a sender without messages is not
 * polled until its next one. A sender that writes an impossible value is ignored from
 * then on, which is logged once; other senders are not affected.
 *
 * Threads. One at a time.
 */

#include "xgmi/message/xgmi_box.h"

#include <ucs/type/status.h>


/** Handles a message, which is valid during the call only. */
typedef void (*muct_xgmi_inbox_cb_t)(void *arg,
                                     const muct_xgmi_ring_message_t *message);

/** The receiver's side of a box. */
typedef struct muct_xgmi_inbox {
    muct_xgmi_box_t *box;
    uint64_t owner;
    muct_xgmi_iface_id_t id;
    int box_fd;
    int bell_fd;
    bool is_polling;
    /** An endpoint of this interface waits for room in a ring. The receiver that frees
     *  room writes to the pipe, and does not count that in num_rung */
    bool may_be_rung;
    uint32_t num_rung;  /**< Value of box->num_rung when the pipe was last cleared */
    unsigned num_used;  /**< Value of box->num_used when last read, bounded */
    unsigned last;      /**< Index of the sender that was polled last */
    unsigned num_looks; /**< Senders that the last call polled */
    char dir[256];
    muct_xgmi_ring_rx_t rings[MUCT_XGMI_BOX_RINGS]; /**< bytes NULL: not mapped yet */
    uint16_t empty[MUCT_XGMI_BOX_RINGS]; /**< Polls since a sender's last message */
} muct_xgmi_inbox_t;


/**
 * Create an interface's inbox.
 *
 * @param [in] dir    Folder in shared memory.
 * @param [in] owner  Incarnation of this process.
 * @param [in] id     Of the interface.
 *
 * @return UCS_OK, UCS_ERR_NO_MEMORY, or UCS_ERR_IO_ERROR, with the reason in the log.
 * @return UCS_ERR_EXCEEDS_LIMIT RLIMIT_FSIZE forbids files of this length.
 */
ucs_status_t muct_xgmi_inbox_create(const char *dir, uint64_t owner,
                                    muct_xgmi_iface_id_t id,
                                    muct_xgmi_inbox_t **inbox_p);


/** Destroy the inbox; messages in it are lost. */
void muct_xgmi_inbox_destroy(muct_xgmi_inbox_t *inbox);


/** Whether a peer has ever prepared a ring; a claim alone needs no polling. */
static inline bool muct_xgmi_inbox_is_used(const muct_xgmi_inbox_t *inbox)
{
    return atomic_load_explicit(&inbox->box->is_polled, memory_order_relaxed) != 0;
}


/** Call @a cb for up to @a max messages. @return Number of messages. */
unsigned muct_xgmi_inbox_poll(muct_xgmi_inbox_t *inbox, unsigned max,
                              muct_xgmi_inbox_cb_t cb, void *arg);


/**
 * Fail the endpoints of a sender, which is woken if it waits for room. What it has sent
 * is still received if its ring is mapped. Its place is lost for the life of the inbox,
 * because messages may be in the ring, which stays mapped: the caller may handle one of
 * them.
 */
void muct_xgmi_inbox_refuse(const muct_xgmi_inbox_t *inbox,
                            muct_xgmi_box_place_t *place);


/** Whether a message is pending. */
bool muct_xgmi_inbox_has(muct_xgmi_inbox_t *inbox);


/**
 * Clear the wakeup pipe. Call this before a sender can be requested to write to it, by
 * @ref muct_xgmi_inbox_arm or by a receiver that frees room.
 */
void muct_xgmi_inbox_silence(muct_xgmi_inbox_t *inbox);


/**
 * Prepare for sleep: request a wakeup from the next sender.
 *
 * @return false: a message has arrived already.
 */
bool muct_xgmi_inbox_arm(muct_xgmi_inbox_t *inbox);

#endif
