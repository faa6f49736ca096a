/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_OFFER_H
#define MUCT_RDMA_OFFER_H

/**
 * @file
 * Messages of recovery to the peer, by datagram.
 */

#include "rdma/ep/rdma_ep.h"

/** Whether the peer supports recovery and a control channel reaches it. */
bool muct_rdma_recover_is_possible(const muct_rdma_ep_t *ep);

/** Offer the present queue pairs; @a is_answer when the endpoint needs no answer. */
void muct_rdma_recover_send(muct_rdma_ep_t *ep, bool is_answer);

/** Reply that the requested endpoint does not exist. */
void muct_rdma_recover_send_gone(muct_rdma_iface_t *iface,
                                 const muct_rdma_ctl_msg_t *request);

/** Notify the peer, which may never notice by itself, that the endpoint is failing. */
void muct_rdma_recover_announce(muct_rdma_ep_t *ep);

#endif
