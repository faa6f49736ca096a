/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Order and remote completion: fences, flushes, and checks that the peer answers.
 *
 * An acknowledged write to host memory is complete. A write to a GPU may still be in
 * flight on the peer's PCIe. A flush waits for its end, and a fence orders later
 * operations behind it. Both therefore read a page of that GPU behind the write on the
 * same queue pair (rdma_gpu_page.h). Nothing is read where nothing was written to a
 * GPU.
 */

#include "rdma/ep/rdma_ep_flush.h"

#include "base/muct_log.h"
#include "rdma/ep/rdma_ep_wait.h"

#include <stdlib.h>

/* ---- reads behind the writes ---- */

void muct_rdma_chan_wrote_gpu(muct_rdma_chan_t *chan, const muct_rdma_key_t *key)
{
    muct_rdma_gpu_page_t *page = &chan->ep->gpu_pages[key->gpu];

    page->address = key->page_address;
    page->rkey = key->page_rkey;
    chan->gpus_written |= 1ull << key->gpu;
}

/* Read one byte into a page of ours whose content is never used. */
static void muct_rdma_chan_read_back(muct_rdma_chan_t *chan, bool is_host,
                                     uint64_t address, uint32_t rkey)
{
    muct_rdma_iface_t *iface = muct_rdma_ep_iface(chan->ep);
    struct ibv_send_wr *wr;

    wr = muct_rdma_sq_begin(&chan->sq, IBV_WR_RDMA_READ);
    wr->num_sge = 1;
    wr->sg_list[0].addr = muct_rdma_iface_read_back(iface, is_host);
    wr->sg_list[0].length = 1;
    wr->sg_list[0].lkey = iface->flush_mem->mrs[0]->lkey;
    wr->wr.rdma.remote_addr = address;
    wr->wr.rdma.rkey = rkey;
    muct_rdma_sq_end(&chan->sq, wr, NULL, NULL, 1);
}

/*
 * Read from every GPU written to: a read pushes only writes to the memory that it reads
 * from. False when there was no room for all reads. A posted read is not repeated: it
 * follows the writes to be pushed, and later writes set the GPU's bit again.
 */
static bool muct_rdma_chan_read_gpus(muct_rdma_chan_t *chan)
{
    const muct_rdma_gpu_page_t *page;
    unsigned gpu;

    while (chan->gpus_written != 0) {
        if (muct_rdma_sq_free(&chan->sq) == 0) {
            return false;
        }

        gpu = (unsigned)__builtin_ctzll(chan->gpus_written);
        chan->gpus_written &= chan->gpus_written - 1;
        page = &chan->ep->gpu_pages[gpu];
        muct_rdma_chan_read_back(chan, false, page->address, page->rkey);
    }

    return true;
}

static bool muct_rdma_chan_read_host(muct_rdma_chan_t *chan)
{
    const muct_rdma_ep_addr_t *peer = &chan->ep->peer_ep;

    if (!chan->has_writes) {
        return true;
    }

    if (muct_rdma_sq_free(&chan->sq) == 0) {
        return false;
    }

    muct_rdma_chan_read_back(chan, true, peer->flush_addr, peer->flush_rkey);
    chan->has_writes = false;
    return true;
}

/* Whether a request would follow all writes. The request is sent on the first queue
 * pair, so the others must be idle. */
static bool muct_rdma_ep_may_pull_pages(const muct_rdma_ep_t *ep)
{
    unsigned i;

    for (i = 1; i < ep->num_qps; ++i) {
        if (!muct_rdma_sq_is_idle(&ep->chans[i].sq)) {
            return false;
        }
    }

    return true;
}

/* Variant for a peer that answers no reads; see rdma_pull.c. */
static ucs_status_t muct_rdma_ep_pull_pages(muct_rdma_ep_t *ep, bool has_host)
{
    bool has_writes = false;
    ucs_status_t status;
    uint64_t gpus = 0;
    unsigned i;

    for (i = 0; i < ep->num_qps; ++i) {
        gpus |= ep->chans[i].gpus_written;
        has_writes = has_writes || ep->chans[i].has_writes;
    }

    has_host = has_host && has_writes;
    if ((gpus == 0) && !has_host) {
        return UCS_OK;
    }

    if (!muct_rdma_ep_may_pull_pages(ep)) {
        return UCS_ERR_NO_RESOURCE;
    }

    status = muct_rdma_ep_iface(ep)->listener->pull_pages(ep, gpus, has_host);
    for (i = 0; (status == UCS_OK) && (i < ep->num_qps); ++i) {
        ep->chans[i].gpus_written = 0;
        ep->chans[i].has_writes = ep->chans[i].has_writes && !has_host;
    }
    return (status == UCS_OK) ? UCS_ERR_NO_RESOURCE : status;
}

/* UCS_ERR_NO_RESOURCE: completions of posted reads free resources for the rest. */
static ucs_status_t muct_rdma_ep_post_flush_reads(muct_rdma_ep_t *ep, bool has_host)
{
    ucs_status_t status = UCS_OK;
    unsigned i;

    if (ep->is_pulling) {
        return muct_rdma_ep_pull_pages(ep, has_host);
    }

    for (i = 0; i < ep->num_qps; ++i) {
        if (!muct_rdma_chan_read_gpus(&ep->chans[i]) ||
            (has_host && !muct_rdma_chan_read_host(&ep->chans[i]))) {
            status = UCS_ERR_NO_RESOURCE;
        }
    }

    return status;
}

static void muct_rdma_ep_ring(muct_rdma_ep_t *ep)
{
    unsigned i;

    for (i = 0; i < ep->num_qps; ++i) {
        muct_rdma_sq_ring(&ep->chans[i].sq);
    }
}

/* ---- fences ---- */

/* Order later operations behind everything posted so far. One queue pair is in order,
 * except for reads in flight: its next work request waits for these in the device. The
 * flag also marks the first work request after a fence (rdma_replay.c), so it is set
 * even if there are no reads. */
static void muct_rdma_ep_set_fence(muct_rdma_ep_t *ep)
{
    muct_rdma_chan_t *chan;
    unsigned i;

    ep->is_fenced = false;
    for (i = 0; i < ep->num_qps; ++i) {
        chan = &ep->chans[i];
        chan->sq.next_flags = IBV_SEND_FENCE;
        if (ep->num_qps == 1) {
            break;
        }
        chan->fence_index = chan->sq.head;
        if (!muct_rdma_sq_is_idle(&chan->sq)) {
            ep->is_fenced = true;
            muct_rdma_sq_kick(&chan->sq);
        }
    }
}

/* Post the reads of a fence that found no room, or wait for the operation that it
 * follows. */
static bool muct_rdma_ep_pass_fence(muct_rdma_ep_t *ep)
{
    muct_rdma_chan_t *chan;
    unsigned i;

    if (ep->is_fence_unread) {
        if (muct_rdma_ep_post_flush_reads(ep, false) != UCS_OK) {
            muct_rdma_ep_ring(ep);
            return false;
        }
        ep->is_fence_unread = false;
        muct_rdma_ep_set_fence(ep);
    }

    for (i = 0; ep->is_fenced && (i < ep->num_qps) && (ep->num_qps > 1); ++i) {
        chan = &ep->chans[i];
        if ((int32_t)(chan->sq.tail - chan->fence_index) < 0) {
            return false;
        }
    }

    ep->is_fenced = false;
    return true;
}

ucs_status_t muct_rdma_ep_check_slow(muct_rdma_ep_t *ep)
{
    if (ep->state == MUCT_RDMA_EP_FAILED) {
        return ep->status;
    }

    if ((ep->state != MUCT_RDMA_EP_CONNECTED) || muct_rdma_ep_is_queued(ep) ||
        ((ep->pending.head != NULL) && !ep->is_dispatching)) {
        return UCS_ERR_NO_RESOURCE;
    }

    return (ep->is_fenced && !muct_rdma_ep_pass_fence(ep)) ? UCS_ERR_NO_RESOURCE
                                                           : UCS_OK;
}

ucs_status_t muct_rdma_ep_fence(uct_ep_h tl_ep, unsigned flags)
{
    muct_rdma_ep_t *ep = (muct_rdma_ep_t *)tl_ep;

    (void)flags;
    if ((ep->state == MUCT_RDMA_EP_INIT) || (ep->state == MUCT_RDMA_EP_FAILED)) {
        return (ep->state == MUCT_RDMA_EP_FAILED) ? ep->status : UCS_OK;
    }

    if (muct_rdma_ep_is_queued(ep)) {
        ep->is_job_fenced = true;
        return UCS_OK;
    }

    if (muct_rdma_ep_post_flush_reads(ep, false) == UCS_OK) {
        muct_rdma_ep_set_fence(ep);
    } else {
        ep->is_fence_unread = true;
        ep->is_fenced = true;
        muct_rdma_ep_ring(ep);
    }

    return UCS_OK;
}

/* ---- flush ---- */

/* Wrapper of the last work request's own callback, which it calls first. */
typedef struct muct_rdma_flush {
    muct_rdma_done_t done;
    void *arg;
    uct_completion_t *comp;
} muct_rdma_flush_t;

static void muct_rdma_done_flush(void *arg, ucs_status_t status)
{
    muct_rdma_flush_t *flush = arg;
    uct_completion_t *comp = flush->comp;

    if (flush->done != NULL) {
        flush->done(flush->arg, status);
    }
    free(flush);
    muct_completion_invoke(comp, status);
}

static void muct_rdma_chan_wait(muct_rdma_chan_t *chan, muct_rdma_flush_t *flush,
                                uct_completion_t *comp)
{
    muct_rdma_mark_t *mark = muct_rdma_sq_last_mark(&chan->sq);

    flush->done = mark->done;
    flush->arg = mark->arg;
    flush->comp = comp;
    mark->done = muct_rdma_done_flush;
    mark->arg = flush;
}

/* Whether all operations of the user have ended. Answers of the peer's gets may follow
 * them, without a gap. */
static bool muct_rdma_ep_has_ended(const muct_rdma_ep_t *ep)
{
    const muct_rdma_sq_t *sq = &ep->chans[0].sq;
    unsigned i;

    for (i = 1; i < ep->num_qps; ++i) {
        if (!muct_rdma_sq_is_idle(&ep->chans[i].sq)) {
            return false;
        }
    }

    return muct_rdma_sq_is_idle(sq) ||
           ((sq->head == ep->extra_end) && (sq->bytes == ep->extra_bytes) &&
            ((int32_t)(sq->tail - ep->own_end) >= 0));
}

/* Allocate one wrapper for each busy queue pair, all or none, so that a failure changes
 * nothing. */
static ucs_status_t muct_rdma_ep_wait(muct_rdma_ep_t *ep, uct_completion_t *comp)
{
    muct_rdma_flush_t *flushes[MUCT_RDMA_ADDR_MAX_QPS];
    unsigned i, num = 0;

    for (i = 0; i < ep->num_qps; ++i) {
        if (muct_rdma_sq_is_idle(&ep->chans[i].sq)) {
            continue;
        }

        flushes[num] = malloc(sizeof(*flushes[num]));
        if (flushes[num] == NULL) {
            muct_error("failed to allocate a flush request");
            while (num > 0) {
                free(flushes[--num]);
            }
            return UCS_ERR_NO_MEMORY;
        }
        ++num;
    }

    /* the caller's own count is for one of them */
    comp->count += (int)num - 1;
    for (i = 0; i < ep->num_qps; ++i) {
        if (!muct_rdma_sq_is_idle(&ep->chans[i].sq)) {
            muct_rdma_chan_wait(&ep->chans[i], flushes[--num], comp);
        }
    }

    return UCS_INPROGRESS;
}

static ucs_status_t muct_rdma_ep_flush_cancel(muct_rdma_ep_t *ep)
{
    ep->is_canceled = true; /* this also holds inside callbacks of a failing endpoint */
    muct_rdma_ep_fail(ep, UCS_ERR_CANCELED, false);
    return UCS_OK;
}

ucs_status_t muct_rdma_ep_flush(uct_ep_h tl_ep, unsigned flags, uct_completion_t *comp)
{
    muct_rdma_ep_t *ep = (muct_rdma_ep_t *)tl_ep;
    ucs_status_t status;

    if (flags & UCT_FLUSH_FLAG_CANCEL) {
        return muct_rdma_ep_flush_cancel(ep);
    }

    if ((ep->state == MUCT_RDMA_EP_INIT) || (ep->state == MUCT_RDMA_EP_FAILED)) {
        return (ep->state == MUCT_RDMA_EP_FAILED) ? ep->status : UCS_OK;
    }

    if ((ep->state == MUCT_RDMA_EP_RECOVERING) || muct_rdma_ep_is_queued(ep) ||
        ((ep->pending.head != NULL) && !ep->is_dispatching)) {
        return UCS_ERR_NO_RESOURCE;
    }

    status = muct_rdma_ep_post_flush_reads(ep, (flags & UCT_FLUSH_FLAG_REMOTE) != 0);
    muct_rdma_ep_ring(ep);
    if (status != UCS_OK) {
        return status;
    }

    if (muct_rdma_ep_has_ended(ep)) {
        return UCS_OK;
    }

    return (comp != NULL) ? muct_rdma_ep_wait(ep, comp) : UCS_INPROGRESS;
}

/* ---- check ---- */

ucs_status_t muct_rdma_ep_check(uct_ep_h tl_ep, unsigned flags, uct_completion_t *comp)
{
    muct_rdma_ep_t *ep = (muct_rdma_ep_t *)tl_ep;
    muct_rdma_chan_t *chan = &ep->chans[0];
    struct ibv_send_wr *wr;

    (void)flags;
    if ((ep->state == MUCT_RDMA_EP_INIT) || (ep->state == MUCT_RDMA_EP_FAILED)) {
        return (ep->state == MUCT_RDMA_EP_FAILED) ? ep->status : UCS_OK;
    }

    /* an operation in flight will report whether the peer answers */
    if ((comp == NULL) &&
        ((ep->state == MUCT_RDMA_EP_RECOVERING) || !muct_rdma_sq_is_idle(&chan->sq))) {
        return UCS_OK;
    }

    if (muct_rdma_sq_free(&chan->sq) == 0) {
        return UCS_ERR_NO_RESOURCE;
    }

    /* a write of no bytes needs no key, and the peer's device answers it */
    wr = muct_rdma_sq_begin(&chan->sq, IBV_WR_RDMA_WRITE);
    wr->num_sge = 0;
    wr->wr.rdma.remote_addr = 0;
    wr->wr.rdma.rkey = 0;
    muct_rdma_sq_end_only(&chan->sq, wr, (comp != NULL) ? muct_rdma_done_comp : NULL,
                          comp, 0);
    return (comp != NULL) ? UCS_INPROGRESS : UCS_OK;
}

/* ---- flush and fence of the interface ---- */

ucs_status_t muct_rdma_iface_flush(uct_iface_h tl_iface, unsigned flags,
                                   uct_completion_t *comp)
{
    muct_rdma_iface_t *iface = (muct_rdma_iface_t *)tl_iface;
    ucs_status_t status, result = UCS_OK;
    muct_rdma_ep_t *ep;

    if (comp != NULL) {
        return UCS_ERR_UNSUPPORTED;
    }

    ucs_list_for_each(ep, &iface->eps, list)
    {
        status = muct_rdma_ep_flush(&ep->super.super, flags, NULL);
        if ((status == UCS_INPROGRESS) || (status == UCS_ERR_NO_RESOURCE)) {
            result = UCS_INPROGRESS;
        }
    }

    return result;
}

ucs_status_t muct_rdma_iface_fence(uct_iface_h tl_iface, unsigned flags)
{
    muct_rdma_iface_t *iface = (muct_rdma_iface_t *)tl_iface;
    muct_rdma_ep_t *ep;

    ucs_list_for_each(ep, &iface->eps, list)
    {
        (void)muct_rdma_ep_fence(&ep->super.super, flags);
    }

    return UCS_OK;
}
