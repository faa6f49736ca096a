/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_RECOVER_H
#define MUCT_RDMA_RECOVER_H

/**
 * @file
 * Recovery: the connection of an endpoint broke and is made anew. Its user notices a
 * pause at most.
 *
 *            a queue pair fails here or at the peer
 *   CONNECTED ------------------------------------------------> BREAK
 *       ^                                                         | all are in error
 *       |                                                         v
 *       |                                                       DRAIN
 *       |                                                         | the device has
 *       |                                                         | returned all work
 *       | the peer's offer of                                     v
 *       | this epoch is here                       all are there  |
 *       +------------------------------------ OFFER <----------- MAKE
 *
 * BREAK, DRAIN: all queue pairs are put in error, and completions are polled until none
 * is missing. Both sides then know what arrived: nothing is lost in a queue that is
 * destroyed. MAKE, OFFER: new queue pairs are made. Their numbers are sent by datagram,
 * again and again, with the number of messages that have arrived. When the peer's offer
 * is here, they are connected. All that has not ended is posted again, except what has
 * arrived. A side that is connected already answers an offer with its own, which was
 * lost.
 *
 * Steps. Commands to the device take tens of microseconds, and a link that fails breaks
 * all connections over it at once. A progress of an interface therefore uses at most
 * MUCT_RDMA_STEP_COMMANDS of them for recovery. It serves the first endpoint first, and
 * endpoints with a waiting peer before all others. The time an endpoint waits for its
 * peer counts from the endpoint's turn.
 *
 * Epochs count an endpoint's connections. The side that begins takes the next epoch;
 * the other side follows to it. Offers of earlier epochs are ignored.
 *
 * Devices. Another device of both sides is tried (rdma_move.h) if the device is gone,
 * its link is down, or no answer came in a part of RECOVERY_TIMEOUT. That is the next
 * epoch, offered over that device; the next device then gets twice the time. The other
 * side follows to the device over which the offer comes. Both may have moved for the
 * same epoch: a side that has moved wins over one that has not, and then the lesser
 * incarnation wins.
 *
 * Completion queues. A failed completion queue reports nothing more: its queue pairs
 * count as drained at once, and others are made with another queue. If the control
 * channel used the same queue, it gets another number. Offers carry the number. Peers
 * with a working connection get it by an offer of the present connection, which they
 * answer (phase NOTIFY).
 *
 * Recovery fails when RECOVERY_TIMEOUT has passed, or when nothing has ended during as
 * many recoveries as RECOVERY allows. It also fails when the peer reports that the
 * endpoint is gone, or when something under way cannot be repeated; see rdma_replay.c.
 */

#include "rdma/ep/rdma_ep.h"

/** Commands to the device in a progress of an interface, at most: what making a queue
 * pair takes, and a bit. */
#define MUCT_RDMA_STEP_COMMANDS 4

/** Time after which a sleeper is woken while anything is recovering. */
#define MUCT_RDMA_RECOVER_TICK_MS 10

/**
 * The connection broke.
 *
 * @param [in] cause  Status to fail with when it cannot be made anew.
 * @return Whether it will be tried. If not, nothing has changed.
 */
bool muct_rdma_recover_begin(muct_rdma_ep_t *ep, ucs_status_t cause);

/**
 * The endpoint's device is removed, or its link is down for too long: move to another
 * device.
 *
 * @return False when there is none; nothing has changed then.
 */
bool muct_rdma_recover_leave(muct_rdma_ep_t *ep, ucs_status_t cause);

/** Send the peer our new control qp until it acknowledges the number. Does nothing if
 * recovery is off. */
void muct_rdma_recover_announce_number(muct_rdma_ep_t *ep);

/** The endpoint failed, or is destroyed. */
void muct_rdma_recover_cancel(muct_rdma_ep_t *ep);

/** A completion of the control channel came. */
void muct_rdma_recover_receive(muct_rdma_iface_t *iface, const struct ibv_wc *wc);

/** Whether queue pairs are to be put in error next. */
bool muct_rdma_recover_breaks(const muct_rdma_iface_t *iface);

/** Go on with all endpoints, by so many commands; some may be failed, and destroyed, by
 * it. When there is more to do at once, iface->has_steps says so. */
void muct_rdma_recover_progress(muct_rdma_iface_t *iface, uint64_t now_ms);

/** Have a control channel, if recovery is on and the device can. */
void muct_rdma_recover_open(muct_rdma_iface_t *iface);

/** Handle a failed completion queue: if the control channel used it, make another
 * channel, and notify the peers. */
void muct_rdma_recover_reopen(muct_rdma_iface_t *iface);

/** The endpoint is connected: prepare for datagrams to its peer. Send the peer our
 * control qp if its number has changed since the address was packed. */
void muct_rdma_recover_connected(muct_rdma_ep_t *ep);

#endif
