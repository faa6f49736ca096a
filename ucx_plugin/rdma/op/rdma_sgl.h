/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_SGL_H
#define MUCT_RDMA_SGL_H

/**
 * @file
 * Lists of blocks, inside mori_rdma, and how a checked list is posted.
 */

#include "rdma/ep/rdma_ep.h"

/** A list, as passed by UCX or as copied for a queued request. */
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
    size_t offset; /**< Offset in the block */
} muct_rdma_sgl_pos_t;

/** Result of the check of a list, and the resulting plan. */
typedef struct muct_rdma_sgl_plan {
    enum ibv_wr_opcode opcode;
    size_t total;   /**< Bytes */
    size_t bound;   /**< Upper bound of its work requests */
    size_t piece;   /**< Most bytes of a work request */
    bool is_plain;  /**< Each block fits one work request with one key on each side */
    size_t run_end; /**< Blocks before this index have the keys of the first one */
    uct_completion_t *comp; /**< May be NULL */
} muct_rdma_sgl_plan_t;

/** Repetitions of block @a i. */
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

#endif
