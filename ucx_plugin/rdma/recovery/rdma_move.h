/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_MOVE_H
#define MUCT_RDMA_MOVE_H

/**
 * @file
 * Move an endpoint to another device if its own device was removed, its link is
 * down, or no answer arrives over it. Recovery (rdma_recover.h) then makes the new
 * queue pairs with another interface of the same worker, the endpoint's carrier. The
 * user still has an endpoint of its own interface. The progress, buffers and requests
 * of that interface stay in use.
 *
 * The peer's address there comes from another endpoint, of that interface, to the same
 * process: UCP has one on each rail. If UCP uses one rail, there is none.
 *
 * Keys. Posted work requests name memory by keys of the endpoint's own device. The keys
 * are changed when the work request is posted, to the other device's key for the same
 * memory, which UCP has registered there for the rails. Local memory that is not
 * registered there is registered then. Remote memory without such a key fails the
 * endpoint.
 *
 * The endpoint stays with its carrier until that connection breaks, too.
 */

#include "rdma/device/rdma_addr.h"
#include "rdma/queue/rdma_sq.h"

struct muct_rdma_ep;
struct muct_rdma_iface;

/** The interface is about to close: fail endpoints of other interfaces that use its
 * device. */
void muct_rdma_move_leave(struct muct_rdma_iface *iface);

/**
 * Move to the next interface in order that may carry the endpoint, with @ref
 * muct_rdma_move_to.
 *
 * @return False when there is no other interface; nothing has changed then.
 */
bool muct_rdma_move_choose(struct muct_rdma_ep *ep);

/**
 * Make the endpoint's next queue pairs with @a carrier, connected to the given device
 * of the peer.
 *
 * @param [in] ctl_qp  Control qp of that device.
 */
void muct_rdma_move_to(struct muct_rdma_ep *ep, struct muct_rdma_iface *carrier,
                       const muct_rdma_dev_addr_t *peer, uint32_t ctl_qp);

/** Keys of a work request; see @ref muct_rdma_sq_move_t. */
bool muct_rdma_move_wr(muct_rdma_sq_t *sq, struct ibv_send_wr *wr);

#endif
