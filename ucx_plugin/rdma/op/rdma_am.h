/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_AM_H
#define MUCT_RDMA_AM_H

/**
 * @file
 * Sending active messages; rdma_am_recv.h receives them.
 */

#include "rdma/ep/rdma_ep.h"

/** Kind of a message, the second of the bytes in front */
enum {
    MUCT_RDMA_AM_MESSAGE = 0,
    MUCT_RDMA_AM_CREDIT = 1,
    MUCT_RDMA_AM_PULL = 2,  /**< Request for a write; rdma_pull.h */
    MUCT_RDMA_AM_PULLED = 3 /**< Its answer */
};


/** Send a message that only carries credits, if a buffer is free. Needs room in the
 * send queue and consumes no credit. */
void muct_rdma_am_send_credits(muct_rdma_ep_t *ep);

/** Send an internal message of mori_rdma. Needs a credit and room in the send queue;
 * false when there is no buffer. A message that does not fit inline is sent from @a
 * lent, which the caller keeps, or from a buffer of the pool if @a lent is NULL. */
bool muct_rdma_am_send_own(muct_rdma_ep_t *ep, uint8_t kind, uint8_t id,
                           const void *data, size_t length, muct_rdma_buf_t *lent);

/** Whether such a message needs no buffer of the pool, or one is free. */
bool muct_rdma_am_has_place(muct_rdma_ep_t *ep, size_t length);

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

/** Whether a message with @a length bytes after the header fits inline. */
static inline bool muct_rdma_am_is_inline(const muct_rdma_ep_t *ep, size_t length)
{
    return MUCT_RDMA_AM_HEADER + length <= ep->chans[0].sq.max_inline;
}

#endif
