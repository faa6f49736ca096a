/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_PULL_H
#define MUCT_RDMA_PULL_H

/**
 * @file
 * Gets without reads, for queue pairs that the peer's device has no responder resources
 * left for (ionic has 16 for all of a NIC): we request each piece by a message, the
 * peer's progress writes it to us and sends a message behind the write.
 *
 * An endpoint has at most one pull. Until it has ended, other operations wait behind
 * it, as behind a job (rdma_sgl_defer.h).
 */

#include "rdma/op/rdma_sgl.h"

/** Get a checked list. UCS_INPROGRESS or UCS_ERR_NO_MEMORY. */
ucs_status_t muct_rdma_pull_sgl(muct_rdma_ep_t *ep, const muct_rdma_sgl_t *sgl,
                                uct_completion_t *comp);

/** Get buf->length bytes into a buffer for @ref muct_rdma_done_unpack. UCS_INPROGRESS
 * or UCS_ERR_NO_MEMORY. */
ucs_status_t muct_rdma_pull_buf(muct_rdma_ep_t *ep, muct_rdma_buf_t *buf,
                                uint64_t address, uint32_t rkey);

/** Read a byte of the flush page of each GPU in @a gpus, a bit each, and @a is_host of
 * the host's. UCS_OK, or UCS_ERR_NO_MEMORY, logged. */
ucs_status_t muct_rdma_pull_pages(muct_rdma_ep_t *ep, uint64_t gpus, bool is_host);

/** Handle a message of kind MUCT_RDMA_AM_PULL or MUCT_RDMA_AM_PULLED. False when it is
 * invalid. The endpoint may have failed when this returns. */
bool muct_rdma_pull_receive(muct_rdma_ep_t *ep, uint8_t kind, uint8_t id,
                            const void *data, size_t length);

/** Change our key in a message that is posted, if it is a request, to that of the
 * endpoint's carrier. False when there is none, logged. */
bool muct_rdma_pull_move(const muct_rdma_ep_t *ep, const struct ibv_send_wr *wr);

/** Post the answer of a get without its bytes, where the peer's key is of a device that
 * was left: the peer sends the request again. False when @a wr is no write of a get. */
bool muct_rdma_pull_give_up(muct_rdma_sq_t *sq, struct ibv_send_wr *wr);

/** Send requests, and write the peer's requested pieces, as far as there is room. */
void muct_rdma_pull_progress(muct_rdma_ep_t *ep);

/** Whether @ref muct_rdma_pull_progress has pending work. */
bool muct_rdma_pull_has_work(const muct_rdma_ep_t *ep);

/** Whether that work can be done now. */
bool muct_rdma_pull_is_runnable(const muct_rdma_ep_t *ep);

/** End all gets with @a status; the queue pairs are destroyed. */
void muct_rdma_pull_cleanup(muct_rdma_ep_t *ep, ucs_status_t status);

#endif
