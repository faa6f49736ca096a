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
 * The endpoint's device is gone, or its link is down for too long: go on with another.
 *
 * @return False when there is none; nothing has changed then.
 */
bool muct_rdma_recover_leave(muct_rdma_ep_t *ep, ucs_status_t cause);

/** Tell the peer that datagrams go to another queue pair than it knows, until it says
 * that it knows; does nothing where there is no recovery. */
void muct_rdma_recover_tell_number(muct_rdma_ep_t *ep);

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

/** A completion queue failed: when it was the control channel's, have another one, of
 *  which peers are told. */
void muct_rdma_recover_reopen(muct_rdma_iface_t *iface);

/** The endpoint is connected: datagrams to its peer are prepared for; and it is told
 * where ours go, if the address that it has is of before that changed. */
void muct_rdma_recover_connected(muct_rdma_ep_t *ep);

#endif
