/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_SGL_CHECK_H
#define MUCT_RDMA_SGL_CHECK_H

/**
 * @file
 * Puts and gets of lists of the operation table; a list is checked before any part of
 * it is posted.
 */

#include "rdma/ep/rdma_ep.h"

ucs_status_t muct_rdma_ep_put_sgl_zcopy(uct_ep_h ep, void *const *buffers,
                                        const size_t *lengths, uct_mem_h const *memhs,
                                        const uint64_t *remote_addrs,
                                        uct_rkey_t const *rkeys, const size_t *counts,
                                        const size_t *strides, size_t count,
                                        uct_completion_t *comp);
ucs_status_t muct_rdma_ep_get_sgl_zcopy(uct_ep_h ep, void *const *buffers,
                                        const size_t *lengths, uct_mem_h const *memhs,
                                        const uint64_t *remote_addrs,
                                        uct_rkey_t const *rkeys, const size_t *counts,
                                        const size_t *strides, size_t count,
                                        uct_completion_t *comp);

/** Entries one uct_iov_t array may have; TX_MAX_SGE is at most that. */
#define MUCT_RDMA_MAX_IOV 32

/**
 * A put or get that needs more work requests than the queues hold. UCS_INPROGRESS,
 * UCS_ERR_NO_RESOURCE, UCS_ERR_NO_MEMORY or UCS_ERR_INVALID_PARAM.
 */
ucs_status_t muct_rdma_ep_iov_job(muct_rdma_ep_t *ep, enum ibv_wr_opcode opcode,
                                  const uct_iov_t *iov, size_t iovcnt,
                                  uint64_t remote_addr, uct_rkey_t rkey,
                                  uct_completion_t *comp);

/** Elements a list may have. */
size_t muct_rdma_ep_max_sgl(const muct_rdma_iface_t *iface);

#endif
