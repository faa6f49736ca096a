/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_CARRIER_H
#define MUCT_RDMA_CARRIER_H

/**
 * @file
 * Interfaces of a worker that may carry each other's endpoints (rdma_move.h), and the
 * local keys of an endpoint with the device that carries it.
 */

#include "rdma/ep/rdma_ep.h"

/** Let the interface carry endpoints of others from now on. */
void muct_rdma_carrier_enter(muct_rdma_iface_t *iface);

/** Undo @ref muct_rdma_carrier_enter. */
void muct_rdma_carrier_leave(muct_rdma_iface_t *iface);

/** Interfaces of the worker of @a of, in no order, itself included.
 *
 * @param [in] after  NULL for the first.
 * @return NULL after the last one. */
muct_rdma_iface_t *muct_rdma_carrier_next(const muct_rdma_iface_t *of,
                                          const muct_rdma_iface_t *after);

/** Local key with the carrier's device. False when there is none, logged. */
bool muct_rdma_carrier_lkey(const muct_rdma_ep_t *ep, uint64_t address, uint64_t length,
                            uint32_t *lkey_p);

/** Same for a remote key by which the peer may write. */
bool muct_rdma_carrier_rkey(const muct_rdma_ep_t *ep, uint64_t address, uint64_t length,
                            uint32_t *rkey_p);

#endif
