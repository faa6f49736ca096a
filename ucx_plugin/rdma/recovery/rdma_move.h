/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_MOVE_H
#define MUCT_RDMA_MOVE_H

/**
 * @file
 * Another device for an endpoint whose own is gone, whose link is down, or over which
 * no answer comes: recovery (rdma_recover.h) then makes the new queue pairs with
 * another interface of the same worker, the endpoint's carrier. To its user the
 * endpoint stays that of its own interface, whose progress, buffers and requests it
 * keeps.
 *
 * Whom to reach there is known from another endpoint, of that interface, to the same
 * process: UCP has one on each rail. Where UCP uses one rail, there is none.
 *
 * Keys. What is posted names memory by keys of the endpoint's own device. They are
 * changed when the work request is posted: to the other device's key for the same
 * memory, which UCP has registered there for the rails; local memory that is not is
 * registered then. Remote memory without such a key fails the endpoint.
 *
 * An endpoint stays where it is until that connection breaks, too.
 */

#include "rdma/device/rdma_addr.h"
#include "rdma/queue/rdma_sq.h"

struct muct_rdma_ep;
struct muct_rdma_iface;

/** The interface is about to close: fail the endpoints of others that it carries. */
void muct_rdma_move_leave(struct muct_rdma_iface *iface);

/**
 * Choose the next interface that may carry the endpoint, from behind its present one
 * on, as @ref muct_rdma_move_to does.
 *
 * @return False when there is none but the present one; nothing has changed then.
 */
bool muct_rdma_move_choose(struct muct_rdma_ep *ep);

/**
 * The endpoint's next queue pairs are to be those of @a carrier, to a device of the
 * peer's that is told.
 *
 * @param [in] ctl_qp  Where datagrams go there.
 */
void muct_rdma_move_to(struct muct_rdma_ep *ep, struct muct_rdma_iface *carrier,
                       const muct_rdma_dev_addr_t *peer, uint32_t ctl_qp);

/** Keys of a work request; see @ref muct_rdma_sq_move_t. */
bool muct_rdma_move_wr(muct_rdma_sq_t *sq, struct ibv_send_wr *wr);

#endif
