/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_EP_FLUSH_H
#define MUCT_RDMA_EP_FLUSH_H

/**
 * @file
 * Order and end of an endpoint's operations: flush, fence, check, and whether a new
 * operation has to wait.
 */

#include "rdma/ep/rdma_ep.h"

ucs_status_t muct_rdma_iface_flush(uct_iface_h iface, unsigned flags,
                                   uct_completion_t *comp);
ucs_status_t muct_rdma_iface_fence(uct_iface_h iface, unsigned flags);

ucs_status_t muct_rdma_ep_flush(uct_ep_h ep, unsigned flags, uct_completion_t *comp);
ucs_status_t muct_rdma_ep_fence(uct_ep_h ep, unsigned flags);
ucs_status_t muct_rdma_ep_check(uct_ep_h ep, unsigned flags, uct_completion_t *comp);

/**
 * Whether operations have to wait: not connected, failed, requests waiting or a fence
 * not passed. UCS_OK when not.
 */
ucs_status_t muct_rdma_ep_check_slow(muct_rdma_ep_t *ep);

/** Whether no exceptional condition delays operations. */
static inline bool muct_rdma_ep_is_ready(const muct_rdma_ep_t *ep)
{
    /* two branches, because every operation runs this */
    return (((unsigned)ep->state ^ MUCT_RDMA_EP_CONNECTED) | ep->is_fenced) == 0 &&
           ((uintptr_t)ep->pending.head | (uintptr_t)ep->job | (uintptr_t)ep->pull) ==
               0;
}

/** Whether an operation may go on; all exceptional conditions in one branch. */
static inline ucs_status_t muct_rdma_ep_check_ready(muct_rdma_ep_t *ep)
{
    if (__builtin_expect(!muct_rdma_ep_is_ready(ep), 0)) {
        return muct_rdma_ep_check_slow(ep);
    }

    return UCS_OK;
}

/** The first write to a GPU since the last flush. */
void muct_rdma_chan_wrote_gpu(muct_rdma_chan_t *chan, const muct_rdma_key_t *key);

/** Mark the endpoint as having operations to flush. */
static inline void muct_rdma_chan_wrote(muct_rdma_chan_t *chan,
                                        const muct_rdma_key_t *key)
{
    chan->has_writes = true;
    if ((key->flags & MUCT_RDMA_KEY_FLAG_GPU) &&
        !(chan->gpus_written & (1ull << key->gpu))) {
        muct_rdma_chan_wrote_gpu(chan, key);
    }
}

#endif
