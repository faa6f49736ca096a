/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_AM_H
#define MUCT_RDMA_AM_H

/**
 * @file
 * Active messages: rdma_am.c sends, rdma_am_recv.c receives.
 */

#include "rdma/ep/rdma_ep.h"

/** Kind of a message, the second of the bytes in front */
enum { MUCT_RDMA_AM_MESSAGE = 0, MUCT_RDMA_AM_CREDIT = 1 };


/** Send a message that only gives the peer credits, if there is a buffer for it; needs
 * room in the send queue, and no credit. */
void muct_rdma_am_send_credits(muct_rdma_ep_t *ep);

ucs_status_t muct_rdma_ep_am_short(uct_ep_h ep, uint8_t id, uint64_t header,
                                   const void *payload, unsigned length);
ucs_status_t muct_rdma_ep_am_short_iov(uct_ep_h ep, uint8_t id, const uct_iov_t *iov,
                                       size_t iovcnt);
ssize_t muct_rdma_ep_am_bcopy(uct_ep_h ep, uint8_t id, uct_pack_callback_t pack,
                              void *arg, unsigned flags);
ucs_status_t muct_rdma_ep_am_zcopy(uct_ep_h ep, uint8_t id, const void *header,
                                   unsigned header_length, const uct_iov_t *iov,
                                   size_t iovcnt, unsigned flags,
                                   uct_completion_t *comp);

/** Bytes in front of every active message on the wire. */
#define MUCT_RDMA_AM_HEADER 4

/** Most bytes of an am_short: its own header and payload. */
unsigned muct_rdma_am_max_short(const muct_rdma_iface_t *iface);

/** Post the receives of a new endpoint. UCS_OK, or an error, logged. */
ucs_status_t muct_rdma_am_init(muct_rdma_ep_t *ep);

/** Post all receives again, to a new queue pair. UCS_OK or UCS_ERR_IO_ERROR, logged. */
ucs_status_t muct_rdma_am_renew(muct_rdma_ep_t *ep);

/** Give the receive buffers back; the queue pair is destroyed. */
void muct_rdma_am_cleanup(muct_rdma_ep_t *ep);

/** A message arrived. */
void muct_rdma_am_receive(muct_rdma_ep_t *ep, const struct ibv_wc *wc);

/** Post receives again and give credits, where there is room for it. */
void muct_rdma_am_progress(muct_rdma_ep_t *ep);

/** Whether @ref muct_rdma_am_progress has something left to do. */
bool muct_rdma_am_has_work(const muct_rdma_ep_t *ep);

/** Whether it could do that now. */
bool muct_rdma_am_is_runnable(const muct_rdma_ep_t *ep);

#endif
