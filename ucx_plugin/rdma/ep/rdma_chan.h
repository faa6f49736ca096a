/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_CHAN_H
#define MUCT_RDMA_CHAN_H

/**
 * @file
 * Queue pairs of an endpoint: made, replaced and destroyed.
 */

#include "rdma/ep/rdma_ep.h"

/** Make the next queue pair, in INIT. @return UCS_OK, UCS_ERR_IO_ERROR or
 * UCS_ERR_NO_MEMORY, logged.
 */
ucs_status_t muct_rdma_ep_create_chan(muct_rdma_ep_t *ep);

/** Destroy the channels from @a first on and cancel their work requests. */
void muct_rdma_ep_destroy_chans(muct_rdma_ep_t *ep, unsigned first);

/** Destroy the queue pair if there is one; its work requests stay in the send queue. */
void muct_rdma_chan_stop(muct_rdma_chan_t *chan);

/** Query the ECE that all queue pairs offer, from the first one, which is new. */
void muct_rdma_ep_offer_ece(muct_rdma_ep_t *ep);

/** Replace the queue pair with a new one in INIT. The send queue still refers to the
 * old one. Returns UCS_OK, UCS_ERR_IO_ERROR or UCS_ERR_NO_MEMORY, logged: there is no
 * queue pair then. */
ucs_status_t muct_rdma_chan_renew(muct_rdma_chan_t *chan);

#endif
