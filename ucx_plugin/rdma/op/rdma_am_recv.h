/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_AM_RECV_H
#define MUCT_RDMA_AM_RECV_H

/**
 * @file
 * Receiving active messages, and the credits of the peer.
 */

#include "rdma/ep/rdma_ep.h"

/** Post the receives of a new endpoint. @return UCS_OK, or an error, logged. */
ucs_status_t muct_rdma_am_init(muct_rdma_ep_t *ep);

/** Post all receives again, to a new queue pair. UCS_OK or UCS_ERR_IO_ERROR, logged. */
ucs_status_t muct_rdma_am_renew(muct_rdma_ep_t *ep);

/** Give the receive buffers back; the queue pair is destroyed. */
void muct_rdma_am_cleanup(muct_rdma_ep_t *ep);

/** Handle a message that arrived. */
void muct_rdma_am_receive(muct_rdma_ep_t *ep, const struct ibv_wc *wc);

/** Repost receives and send credits while resources allow. */
void muct_rdma_am_progress(muct_rdma_ep_t *ep);

/** Whether @ref muct_rdma_am_progress has pending work. */
bool muct_rdma_am_has_work(const muct_rdma_ep_t *ep);

/** Whether that work can be done now. */
bool muct_rdma_am_is_runnable(const muct_rdma_ep_t *ep);

#endif
