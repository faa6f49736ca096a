/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_EP_WAIT_H
#define MUCT_RDMA_EP_WAIT_H

/**
 * @file
 * Operations and requests of an endpoint that wait for room.
 */

#include "rdma/ep/rdma_ep.h"

ucs_status_t muct_rdma_ep_pending_add(uct_ep_h ep, uct_pending_req_t *req,
                                      unsigned flags);
void muct_rdma_ep_pending_purge(uct_ep_h ep, uct_pending_purge_callback_t cb,
                                void *arg);

/** Dispatch pending requests and send credits that are due. */
unsigned muct_rdma_ep_progress_work(muct_rdma_ep_t *ep);

/** Schedule @ref muct_rdma_ep_progress_work for this or the next progress. */
void muct_rdma_ep_add_work(muct_rdma_ep_t *ep);

/** Whether @ref muct_rdma_ep_progress_work would do anything now. */
bool muct_rdma_ep_is_runnable(const muct_rdma_ep_t *ep);

/**
 * Take a buffer to send from.
 *
 * @return UCS_OK
 * @return UCS_ERR_NO_RESOURCE  All are in use; waiting requests are called when one is
 * returned.
 * @return UCS_ERR_NO_MEMORY    There are none, for lack of memory to register; logged.
 */
ucs_status_t muct_rdma_ep_get_buf(muct_rdma_ep_t *ep, muct_rdma_buf_t **buf_p);

/** Whether no work request is in flight. */
bool muct_rdma_ep_is_idle(const muct_rdma_ep_t *ep);

#endif
