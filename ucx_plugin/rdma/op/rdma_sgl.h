/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_SGL_H
#define MUCT_RDMA_SGL_H

/**
 * @file
 * Lists of blocks, inside mori_rdma: checked by rdma_sgl_check.c, posted by
 * rdma_sgl_post.c, kept while there is no room by rdma_sgl_defer.c.
 */

#include "rdma/ep/rdma_ep.h"

/** A list as UCX gives it, or as a job keeps it. */
struct muct_rdma_sgl {
    void *const *buffers;
    const size_t *lengths;
    uct_mem_h const *memhs;
    const uint64_t *remote_addrs;
    uct_rkey_t const *rkeys;
    const size_t *counts; /**< NULL: each block once */
    const size_t *strides;
    size_t count;
};

/** The first byte that is not posted yet. */
typedef struct muct_rdma_sgl_pos {
    size_t index;
    size_t repeat;
    size_t offset; /**< In the block */
} muct_rdma_sgl_pos_t;

/** What the check of a list found, and what follows from it. */
typedef struct muct_rdma_sgl_plan {
    enum ibv_wr_opcode opcode;
    size_t total;   /**< Bytes */
    size_t bound;   /**< Most work requests it may need */
    size_t piece;   /**< Most bytes of a work request */
    bool is_plain;  /**< Each block fits one work request, under one key a side */
    size_t run_end; /**< Blocks before it are under the keys of the first */
    uct_completion_t *comp; /**< May be NULL */
} muct_rdma_sgl_plan_t;

/** How often block @a i is repeated. */
static inline size_t muct_rdma_sgl_repeats(const muct_rdma_sgl_t *sgl, size_t i)
{
    return (sgl->counts != NULL) ? sgl->counts[i] : 1;
}

/**
 * Post a checked list from a position on, as far as there is room, and move the
 * position.
 *
 * @return How many parts of it will each take one count of the plan's completion.
 */
int muct_rdma_sgl_post(muct_rdma_ep_t *ep, const muct_rdma_sgl_plan_t *plan,
                       const muct_rdma_sgl_t *sgl, muct_rdma_sgl_pos_t *pos);

/**
 * Copy a list that may need more work requests than the queues ever hold, to go on with
 * it in progress. UCS_INPROGRESS or UCS_ERR_NO_MEMORY.
 */
ucs_status_t muct_rdma_job_start(muct_rdma_ep_t *ep, const muct_rdma_sgl_plan_t *plan,
                                 const muct_rdma_sgl_t *sgl);

/* ---- rdma_sgl_check.c ---- */

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

/** Go on with ep->job, which ends when all of it is posted. */
void muct_rdma_job_progress(muct_rdma_ep_t *ep);

/** End ep->job, posted or not. */
void muct_rdma_job_end(muct_rdma_ep_t *ep, ucs_status_t status);

/** Elements a list may have. */
size_t muct_rdma_ep_max_sgl(const muct_rdma_iface_t *iface);

#endif
