/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_RECOVER_H
#define MUCT_RDMA_RECOVER_H

/**
 * @file
 * Recovery: re-establish the broken connection of an endpoint. The user notices a
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
 * is missing. Both sides then have the number of messages that arrived: no completion
 * is lost in a destroyed queue. MAKE, OFFER: new queue pairs are made. Their numbers
 * are sent by datagram, again and again, with the number of messages that have arrived.
 * When the peer's offer has arrived, they are connected. All that has not ended is
 * posted again, except what has arrived. A side that is connected already answers an
 * offer with its own, which was lost.
 *
 * Steps. Commands to the device take tens of microseconds, and a link that fails breaks
 * all connections over it at once. A progress of an interface therefore uses at most
 * MUCT_RDMA_STEP_COMMANDS of them for recovery. It serves the first endpoint first, and
 * endpoints with a waiting peer before all others. The time an endpoint waits for its
 * peer counts from the endpoint's turn.
 *
 * Epochs count an endpoint's connections. The side that begins takes the next epoch,
 * and the other side adopts it. Offers of earlier epochs are ignored.
 *
 * Devices. Another device of both sides is tried (rdma_move.h) if the device is gone,
 * its link is down, or no answer came in a part of RECOVERY_TIMEOUT. That is the next
 * epoch, offered over that device; the next device then gets twice the time. The other
 * side moves to the device over which the offer arrives. Both may have moved for the
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
 * endpoint is gone, or when an unfinished operation cannot be repeated; see
 * rdma_replay.c.
 */

#include "rdma/ep/rdma_ep.h"

/** Most commands to the device in a progress of an interface: a few more than a queue
 * pair needs. */
#define MUCT_RDMA_STEP_COMMANDS 4

/** Time after which a blocked worker is woken while an endpoint recovers. */
#define MUCT_RDMA_RECOVER_TICK_MS 10

/**
 * Begin recovery of a broken connection.
 *
 * @param [in] cause  Status to fail with if recovery fails.
 * @return Whether recovery has begun. If not, nothing has changed.
 */
bool muct_rdma_recover_begin(muct_rdma_ep_t *ep, ucs_status_t cause);

/**
 * Move the endpoint to another device, because its own is removed or its link is down
 * for too long.
 *
 * @return False when there is none; nothing has changed then.
 */
bool muct_rdma_recover_leave(muct_rdma_ep_t *ep, ucs_status_t cause);

/** Send the peer our new control qp until it acknowledges the number. Does nothing if
 * recovery is off. */
void muct_rdma_recover_announce_number(muct_rdma_ep_t *ep);

/** End the recovery of an endpoint that failed or is destroyed. */
void muct_rdma_recover_cancel(muct_rdma_ep_t *ep);

/** Handle a completion of the control channel. */
void muct_rdma_recover_receive(muct_rdma_iface_t *iface, const struct ibv_wc *wc);

/** Whether queue pairs are to be put in error next. */
bool muct_rdma_recover_breaks(const muct_rdma_iface_t *iface);

/** Continue the recovery of all endpoints within the budget of commands. Endpoints may
 * be failed and destroyed by it. iface->has_steps is set when there is more to do at
 * once. */
void muct_rdma_recover_progress(muct_rdma_iface_t *iface, uint64_t now_ms);

/** Make a control channel, if recovery is on and the device supports one. */
void muct_rdma_recover_open(muct_rdma_iface_t *iface);

/** Handle a failed completion queue: if the control channel used it, make another
 * channel, and notify the peers. */
void muct_rdma_recover_reopen(muct_rdma_iface_t *iface);

/** Prepare for datagrams to the peer of an endpoint that is now connected. Send the
 * peer our control qp if its number has changed since the address was packed. */
void muct_rdma_recover_connected(muct_rdma_ep_t *ep);

#endif
