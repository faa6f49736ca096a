/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_AM_H
#define MUCT_RDMA_AM_H

/**
 * @file
 * What the two halves of active messages share: rdma_am.c sends, rdma_am_recv.c
 * receives. Others know the functions in rdma_ep.h.
 */

#include "rdma/ep/rdma_ep.h"

/** Kind of a message, the second of the bytes in front */
enum { MUCT_RDMA_AM_MESSAGE = 0, MUCT_RDMA_AM_CREDIT = 1 };


/** Send a message that only gives the peer credits, if there is a buffer for it; needs
 * room in the send queue, and no credit. */
void muct_rdma_am_send_credits(muct_rdma_ep_t *ep);

#endif
