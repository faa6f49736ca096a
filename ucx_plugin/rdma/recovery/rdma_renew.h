/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_RENEW_H
#define MUCT_RDMA_RENEW_H

/**
 * @file
 * New queue pairs for an endpoint that recovers, a few commands at a time.
 */

#include "rdma/ep/rdma_ep.h"

/** Handle a completion with an error in phase BREAK or DRAIN. */
void muct_rdma_recover_flushed(muct_rdma_chan_t *chan, const struct ibv_wc *wc);


/** Take commands from this progress call's budget. @return Whether the budget had
 * enough. */
bool muct_rdma_renew_may_command(muct_rdma_ep_t *ep, unsigned num);

/** Move the queue pairs to the error state. @return Whether all are in it. */
bool muct_rdma_renew_break(muct_rdma_ep_t *ep);

/** Whether the device has completed all of their work requests. */
bool muct_rdma_renew_is_drained(const muct_rdma_ep_t *ep);

/** Make new queue pairs with receives for the messages that have not arrived. @return
 * UCS_OK when all are made, UCS_INPROGRESS, or an error, logged. */
ucs_status_t muct_rdma_renew_make(muct_rdma_ep_t *ep);

/** Connect them with the peer's offer. @return UCS_OK when all are connected,
 * UCS_INPROGRESS, or an error, logged. */
ucs_status_t muct_rdma_renew_connect(muct_rdma_ep_t *ep);

#endif
