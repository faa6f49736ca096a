/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_OUTBOX_H
#define MUCT_XGMI_OUTBOX_H

/**
 * @file
 * Messages to an interface of another process, or of this one: a ring in its box
 * (xgmi_box.h). All endpoints of an interface to another one share a ring. An endpoint
 * claims it when it is made, and gives it memory with the first message.
 *
 * Threads. One at a time.
 */

#include "xgmi/message/xgmi_box.h"

#include <ucs/datastruct/list.h>
#include <ucs/type/status.h>


/** The sender's side of a ring. */
typedef struct muct_xgmi_outbox {
    ucs_list_link_t list; /**< Member of the outboxes of the sender's interface */
    unsigned num_endpoints;
    bool is_reported; /**< The failure was reported to the users of the endpoints */
    bool is_quiet;    /**< Log a failure at level DEBUG only */
    uint64_t owner;   /**< Incarnation of the receiver */
    muct_xgmi_iface_id_t id;
    muct_xgmi_box_t *box;
    muct_xgmi_box_place_t *place;
    unsigned index;           /**< Index of the place in the box */
    muct_xgmi_ring_tx_t ring; /**< bytes is NULL before the first message */
    int bell_fd; /**< Receiver's wakeup pipe; -1 before the first message */
} muct_xgmi_outbox_t;


/**
 * Take a ring of an interface's box. It takes no memory there.
 *
 * @param [in] dir      Folder in shared memory.
 * @param [in] owner    Incarnation of the receiver.
 * @param [in] id       Interface of the receiver.
 * @param [in] self     Incarnation of this process.
 * @param [in] self_id  Interface of this process, whose bell the receiver rings when
 *                      there is room again.
 * @param [in] is_quiet Log a failure at level DEBUG only: it will be tried again.
 *
 * @return UCS_OK, or with the reason in the log
 * @return UCS_ERR_UNREACHABLE    The receiver has no box any more.
 * @return UCS_ERR_EXCEEDS_LIMIT  Its box has no place for another sender; not logged.
 * @return UCS_ERR_NO_MEMORY      There is no memory, or this process is at its limit of
 *                                open files.
 */
ucs_status_t muct_xgmi_outbox_claim(const char *dir, uint64_t owner,
                                    muct_xgmi_iface_id_t id, uint64_t self,
                                    muct_xgmi_iface_id_t self_id, bool is_quiet,
                                    muct_xgmi_outbox_t **outbox_p);


/** Find the place of an interface that is a sender of a box already. @return NULL if
 * there is none. */
muct_xgmi_box_place_t *muct_xgmi_outbox_place_of(muct_xgmi_box_t *box, uint64_t sender,
                                                 muct_xgmi_iface_id_t sender_id);


/** Whether an interface of a process is a sender of a box already or can become one. */
bool muct_xgmi_outbox_has_place(muct_xgmi_box_t *box, uint64_t sender,
                                muct_xgmi_iface_id_t sender_id);


/**
 * Prepare for messages, unless another endpoint has done it.
 *
 * @return UCS_OK, or with the reason in the log
 * @return UCS_ERR_UNREACHABLE  The receiver has no box any more.
 * @return UCS_ERR_NO_MEMORY    There is no room in shared memory for a ring, or as
 * above.
 * @return UCS_ERR_IO_ERROR     Another process wrote to the ring.
 */
ucs_status_t muct_xgmi_outbox_begin(muct_xgmi_outbox_t *outbox, const char *dir);


/**
 * Share the outbox of an earlier endpoint, unless its ring is broken.
 *
 * @param [in] outboxes  Members come from @ref muct_xgmi_outbox_claim; the caller adds
 *                       them.
 *
 * @return NULL: there is none.
 */
muct_xgmi_outbox_t *muct_xgmi_outbox_share(ucs_list_link_t *outboxes, uint64_t owner,
                                           muct_xgmi_iface_id_t id);


/** Undo one claim or share. The last call removes the outbox from the list and returns
 * the ring; messages in it will be received. */
void muct_xgmi_outbox_close(muct_xgmi_outbox_t *outbox);


/** Send the message that was reserved in the ring, and wake a receiver that sleeps. */
void muct_xgmi_outbox_commit(muct_xgmi_outbox_t *outbox, uint8_t id, size_t length);


/** Whether no message will be received any more: the receiver ignores this sender, or
 * its position in the ring is wrong. */
static inline bool muct_xgmi_outbox_is_broken(const muct_xgmi_outbox_t *outbox)
{
    return (atomic_load(&outbox->place->ring.is_broken) != 0) ||
           muct_xgmi_ring_has_wrong_head(&outbox->ring);
}

#endif
