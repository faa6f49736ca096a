/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_EP_AMO_H
#define MUCT_RDMA_EP_AMO_H

/**
 * @file
 * Atomic operations of the operation table.
 */

#include "rdma/ep/rdma_ep.h"

ucs_status_t muct_rdma_ep_atomic_cswap64(uct_ep_h ep, uint64_t compare, uint64_t swap,
                                         uint64_t remote_addr, uct_rkey_t rkey,
                                         uint64_t *result, uct_completion_t *comp);
ucs_status_t muct_rdma_ep_atomic64_post(uct_ep_h ep, unsigned opcode, uint64_t value,
                                        uint64_t remote_addr, uct_rkey_t rkey);
ucs_status_t muct_rdma_ep_atomic64_fetch(uct_ep_h ep, unsigned opcode, uint64_t value,
                                         uint64_t *result, uint64_t remote_addr,
                                         uct_rkey_t rkey, uct_completion_t *comp);

#endif
