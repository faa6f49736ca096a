/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_RECOVER_H
#define MUCT_RDMA_RECOVER_H

/**
 * @file
 * Recovery: the connection of an endpoint broke and is made anew, without its user
 * noticing more than a pause.
 *
 *            a queue pair fails, or the peer says that its did
 *   CONNECTED ------------------------------------------------> BREAK
 *       ^                                                         | all are in error
 *       |                                                         v
 *       |                                                       DRAIN
 *       |                                                         | the device has
 *       |                                                         | given back all it
 * had |                                                         v | the peer's offer of
 * this epoch is here   all are there  |
 *       +------------------------------------ OFFER <----------- MAKE
 *
 * BREAK, DRAIN: all queue pairs are put in error and their completions taken until none
 * is missing, so that both sides know what arrived: nothing is lost in a queue that is
 * destroyed. MAKE, OFFER: new queue pairs are made, and their numbers are sent by
 * datagram, again and again, with the number of messages that have arrived. With the
 * peer's offer they are connected, and what has not ended is posted again, but for what
 * has arrived. A side that is connected already answers an offer with its own, which
 * was lost.
 *
 * Steps. Commands to the device take tens of microseconds, and a link that fails breaks
 * all connections over it at once: a progress of an interface uses at most
 * MUCT_RDMA_STEP_COMMANDS of them for recovery, the first endpoint first, and those
 * before all others whose peer is waiting. Each has its patience with the peer from its
 * turn on.
 *
 * Epochs count an endpoint's connections. Whoever begins takes the next one; the other
 * side follows to it. Offers of earlier ones are ignored.
 *
 * Where the device is gone or its link is down, and after a part of RECOVERY_TIMEOUT
 * without an answer, it is tried with another device of both (rdma_move.h): the next
 * epoch, offered over that one, and then the next one for twice the time. The other
 * side follows to the device that the offer comes by. Both may have moved for the same
 * epoch: who has moved goes before who has not, and then the lesser incarnation before
 * the greater.
 *
 * The completion queue failed. Of what it would have told nothing comes: the queue
 * pairs count as drained at once, and others are made by another queue. Where it was
 * the datagrams', too, these have another number then. Offers say it; peers whose
 * connections are well are told by an offer of the connection there is, which they
 * answer (phase TELL).
 *
 * It ends with a failure when RECOVERY_TIMEOUT has passed, when nothing has ended
 * between as many recoveries as RECOVERY says, when the peer says that the endpoint is
 * gone, or when something on its way cannot be repeated; see rdma_replay.c.
 */

#include "rdma/recovery/rdma_ctl_msg.h"

#include <ucs/datastruct/list.h>
#include <ucs/type/status.h>

#include <stdbool.h>

typedef enum {
    MUCT_RDMA_RECOVER_NONE,
    MUCT_RDMA_RECOVER_TELL, /**< Connected; the peer is told where datagrams go */
    MUCT_RDMA_RECOVER_BREAK,
    MUCT_RDMA_RECOVER_DRAIN,
    MUCT_RDMA_RECOVER_MAKE,
    MUCT_RDMA_RECOVER_OFFER
} muct_rdma_recover_phase_t;

/** Part of an endpoint. */
typedef struct muct_rdma_recover {
    muct_rdma_recover_phase_t phase;
    unsigned num_done;   /**< Queue pairs that the phase, or connecting, is through with
                          */
    ucs_status_t cause;  /**< Status to fail with */
    uint32_t epoch;      /**< Of the connection there is, or that is being made */
    uint32_t psn;        /**< First packet number of our queue pairs in it */
    uint32_t received;   /**< Messages that had arrived before it */
    uint32_t ended;      /**< Work requests that had ended when it was made */
    uint32_t rx_flushed; /**< Receives that came back empty, of these queue pairs */
    muct_rdma_dev_addr_t first_peer; /**< The device the endpoint was connected to */
    uint32_t first_ctl_qp;           /**< Where datagrams go there */
    uint64_t peer_incarnation;       /**< Of the peer's device that is reached now */
    uint32_t peer_ctl_qp;            /**< Where they go now */
    uint32_t told_ctl_qp;            /**< Ours, as the endpoint's address says */
    bool has_moved;                  /**< To another device, of either side */
    uint64_t move_ms;                /**< When another device is tried */
    uint64_t patience_ms;            /**< With the present one */
    unsigned tries; /**< Connections made in a row on which nothing has ended */
    bool has_offer;
    muct_rdma_ctl_msg_t offer; /**< The peer's latest */
    uint64_t deadline_ms;
    uint64_t next_ms; /**< When our offer is sent again */
    unsigned interval_ms;
    ucs_list_link_t list; /**< In iface->recovering, in every phase but NONE */
} muct_rdma_recover_t;

/** Commands to the device in a progress of an interface, at most: what making a queue
 * pair takes, and a bit. */
#define MUCT_RDMA_STEP_COMMANDS 4

/** Time after which a sleeper is woken while anything is recovering. */
#define MUCT_RDMA_RECOVER_TICK_MS 10

struct ibv_wc;
struct muct_rdma_chan;
struct muct_rdma_ep;
struct muct_rdma_iface;

/**
 * The connection broke.
 *
 * @param [in] cause  Status to fail with when it cannot be made anew.
 * @return Whether it will be tried. If not, nothing has changed.
 */
bool muct_rdma_recover_begin(struct muct_rdma_ep *ep, ucs_status_t cause);

/**
 * The endpoint's device is gone, or its link is down for too long: go on with another.
 *
 * @return False when there is none; nothing has changed then.
 */
bool muct_rdma_recover_leave(struct muct_rdma_ep *ep, ucs_status_t cause);

/** Tell the peer that datagrams go to another queue pair than it knows, until it says
 * that it knows; does nothing where there is no recovery. */
void muct_rdma_recover_tell_number(struct muct_rdma_ep *ep);

/** The endpoint failed, or is destroyed. */
void muct_rdma_recover_cancel(struct muct_rdma_ep *ep);

/** A completion with an error came in phase BREAK or DRAIN. */
void muct_rdma_recover_flushed(struct muct_rdma_chan *chan, const struct ibv_wc *wc);

/** A completion of the control channel came. */
void muct_rdma_recover_receive(struct muct_rdma_iface *iface, const struct ibv_wc *wc);

/** Whether queue pairs are to be put in error next. */
bool muct_rdma_recover_breaks(const struct muct_rdma_iface *iface);

/** Go on with all endpoints, by so many commands; some may be failed, and destroyed, by
 * it. When there is more to do at once, iface->has_steps says so. */
void muct_rdma_recover_progress(struct muct_rdma_iface *iface, uint64_t now_ms);

/* ---- the control channel, and what is said by it: rdma_offer.c ---- */

/** Have a control channel, if recovery is on and the device can. */
void muct_rdma_recover_open(struct muct_rdma_iface *iface);

/** A completion queue failed: when it was the control channel's, have another one, of
 *  which peers are told. */
void muct_rdma_recover_reopen(struct muct_rdma_iface *iface);

/** The endpoint is connected: datagrams to its peer are prepared for; and it is told
 * where ours go, if the address that it has is of before that changed. */
void muct_rdma_recover_connected(struct muct_rdma_ep *ep);

/** Whether there is somebody to ask, and a way to. */
bool muct_rdma_recover_is_possible(const struct muct_rdma_ep *ep);

/** Send the queue pairs there are; @a is_answer when the endpoint waits for nothing. */
void muct_rdma_recover_send(struct muct_rdma_ep *ep, bool is_answer);

/** Answer that there is no such endpoint. */
void muct_rdma_recover_send_gone(struct muct_rdma_iface *iface,
                                 const muct_rdma_ctl_msg_t *request);

/** Tell the peer, which may never notice by itself, that the endpoint is failing. */
void muct_rdma_recover_tell(struct muct_rdma_ep *ep);

/* ---- queue pairs, a few commands at a time: rdma_renew.c ---- */

/** Whether so many more commands fit in this progress; they are taken from it. */
bool muct_rdma_renew_may_command(struct muct_rdma_ep *ep, unsigned num);

/** Put them in error. @return Whether all are. */
bool muct_rdma_renew_break(struct muct_rdma_ep *ep);

/** Whether all that the device had of them has come back. */
bool muct_rdma_renew_is_drained(const struct muct_rdma_ep *ep);

/** Make new ones, which receive what the old ones have not. UCS_OK when all are there,
 * UCS_INPROGRESS, or an error, logged. */
ucs_status_t muct_rdma_renew_make(struct muct_rdma_ep *ep);

/** Connect them with the peer's offer. UCS_OK when all are, UCS_INPROGRESS, or an
 * error, logged. */
ucs_status_t muct_rdma_renew_connect(struct muct_rdma_ep *ep);

/**
 * Decide what is posted again: of what has not ended, all that has not arrived, and
 * what has arrived without its answer. rdma_replay.c.
 *
 * @param [in] received  Messages the peer has received since the beginning.
 * @return False when something cannot be repeated; logged.
 */
bool muct_rdma_replay_prepare(struct muct_rdma_ep *ep, uint32_t received);

#endif
