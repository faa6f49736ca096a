/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What waits: requests for room, fences, flushes, and checks for an answer.
 */

#include "rdma/rdma_ep.h"

#include "base/muct_log.h"

#include <stdlib.h>

/* ---- requests ---- */

/* Next request of the queue, kept in the part of a request that belongs to us. */
static uct_pending_req_t **muct_rdma_pending_next(uct_pending_req_t *req)
{
    return (uct_pending_req_t **)(void *)req->priv;
}

static void muct_rdma_pending_push(muct_rdma_pending_t *pending, uct_pending_req_t *req)
{
    *muct_rdma_pending_next(req) = NULL;
    if (pending->head == NULL) {
        pending->head = req;
    } else {
        *muct_rdma_pending_next(pending->tail) = req;
    }
    pending->tail = req;
}

static void muct_rdma_pending_push_front(muct_rdma_pending_t *pending,
                                         uct_pending_req_t *req)
{
    *muct_rdma_pending_next(req) = pending->head;
    if (pending->head == NULL) {
        pending->tail = req;
    }
    pending->head = req;
}

static uct_pending_req_t *muct_rdma_pending_pop(muct_rdma_pending_t *pending)
{
    uct_pending_req_t *req = pending->head;

    if (req != NULL) {
        pending->head = *muct_rdma_pending_next(req);
    }
    return req;
}

bool muct_rdma_ep_is_idle(const muct_rdma_ep_t *ep)
{
    unsigned i;

    for (i = 0; i < ep->num_qps; ++i) {
        if (!muct_rdma_sq_is_idle(&ep->chans[i].sq)) {
            return false;
        }
    }

    return true;
}

void muct_rdma_ep_add_work(muct_rdma_ep_t *ep)
{
    if (!ep->has_work) {
        ep->has_work = true;
        ucs_list_add_tail(&muct_rdma_ep_iface(ep)->work, &ep->work);
    }
}

ucs_status_t muct_rdma_ep_pending_add(uct_ep_h tl_ep, uct_pending_req_t *req,
                                      unsigned flags)
{
    muct_rdma_ep_t *ep = (muct_rdma_ep_t *)tl_ep;

    (void)flags;
    if (ep->state == MUCT_RDMA_EP_FAILED) {
        return UCS_ERR_BUSY; /* the operation will say with what */
    }

    /* Only when nothing is on its way does nothing make room later: then everything
     * fits but what waits for credits, which come as a message. */
    if ((ep->state == MUCT_RDMA_EP_CONNECTED) && (ep->pending.head == NULL) &&
        (ep->job == NULL) && (ep->credits > 0) && muct_rdma_ep_is_idle(ep)) {
        return UCS_ERR_BUSY;
    }

    muct_rdma_pending_push(&ep->pending, req);
    muct_rdma_ep_add_work(ep);
    return UCS_OK;
}

void muct_rdma_ep_pending_purge(uct_ep_h tl_ep, uct_pending_purge_callback_t cb,
                                void *arg)
{
    muct_rdma_ep_t *ep = (muct_rdma_ep_t *)tl_ep;
    uct_pending_req_t *req;

    while ((req = muct_rdma_pending_pop(&ep->pending)) != NULL) {
        cb(req, arg);
    }
}

static unsigned muct_rdma_ep_dispatch(muct_rdma_ep_t *ep)
{
    uct_pending_req_t *req;
    ucs_status_t status;
    unsigned count = 0;

    ep->has_event = false;
    ep->is_dispatching = true;
    while ((req = muct_rdma_pending_pop(&ep->pending)) != NULL) {
        status = req->func(req);
        if (status == UCS_OK) {
            ++count;
            continue;
        }

        muct_rdma_pending_push_front(&ep->pending, req);
        if (status != UCS_INPROGRESS) {
            break;
        }
        ++count;
    }
    ep->is_dispatching = false;

    return count;
}

unsigned muct_rdma_ep_progress_work(muct_rdma_ep_t *ep)
{
    unsigned count = 0;

    if (ep->state == MUCT_RDMA_EP_CONNECTED) {
        muct_rdma_am_progress(ep);
        if (ep->job != NULL) {
            muct_rdma_job_progress(ep);
        }
    }

    if ((ep->pending.head != NULL) && ep->has_event) {
        count = muct_rdma_ep_dispatch(ep);
    }

    if ((ep->pending.head != NULL) || (ep->job != NULL) || muct_rdma_am_has_work(ep)) {
        muct_rdma_ep_add_work(ep);
    }

    return count;
}

/* ---- fences ---- */

static bool muct_rdma_ep_passed_fence(muct_rdma_ep_t *ep)
{
    muct_rdma_chan_t *chan;
    unsigned i;

    for (i = 0; i < ep->num_qps; ++i) {
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

    if ((ep->state == MUCT_RDMA_EP_INIT) || (ep->job != NULL) ||
        ((ep->pending.head != NULL) && !ep->is_dispatching)) {
        return UCS_ERR_NO_RESOURCE;
    }

    return (ep->is_fenced && !muct_rdma_ep_passed_fence(ep)) ? UCS_ERR_NO_RESOURCE
                                                             : UCS_OK;
}

ucs_status_t muct_rdma_ep_fence(uct_ep_h tl_ep, unsigned flags)
{
    muct_rdma_ep_t *ep = (muct_rdma_ep_t *)tl_ep;
    muct_rdma_chan_t *chan;
    unsigned i;

    (void)flags;
    if (ep->state != MUCT_RDMA_EP_CONNECTED) {
        return (ep->state == MUCT_RDMA_EP_FAILED) ? ep->status : UCS_OK;
    }

    if (ep->job != NULL) {
        ep->is_job_fenced = true;
        return UCS_OK;
    }

    /* one queue pair is in order, but for reads that are still on their way */
    if (ep->num_qps == 1) {
        if (!muct_rdma_sq_is_idle(&ep->chans[0].sq)) {
            ep->chans[0].sq.next_flags = IBV_SEND_FENCE;
        }
        return UCS_OK;
    }

    for (i = 0; i < ep->num_qps; ++i) {
        chan = &ep->chans[i];
        chan->fence_index = chan->sq.head;
        if (!muct_rdma_sq_is_idle(&chan->sq)) {
            ep->is_fenced = true;
            muct_rdma_sq_kick(&chan->sq);
        }
    }

    return UCS_OK;
}

/* ---- flush ---- */

/* In the place of the last work request's own callback, which it calls first. */
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

/* All or nothing: one for each busy queue pair, so that a failure changes nothing. */
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

    /* the caller's own count stands for one of them */
    comp->count += (int)num - 1;
    for (i = 0; i < ep->num_qps; ++i) {
        if (!muct_rdma_sq_is_idle(&ep->chans[i].sq)) {
            muct_rdma_chan_wait(&ep->chans[i], flushes[--num], comp);
        }
    }

    return UCS_INPROGRESS;
}

/* A read behind the writes: when it is answered, they have arrived in memory. */
static void muct_rdma_chan_read_back(muct_rdma_chan_t *chan, uint64_t address,
                                     uint32_t rkey)
{
    muct_rdma_iface_t *iface = muct_rdma_ep_iface(chan->ep);
    struct ibv_send_wr *wr;

    wr = muct_rdma_sq_begin(&chan->sq, IBV_WR_RDMA_READ);
    wr->num_sge = 1;
    wr->sg_list[0].addr = iface->flush_mem->base + iface->flush_mem->length / 2;
    wr->sg_list[0].length = 1;
    wr->sg_list[0].lkey = iface->flush_mem->mrs[0]->lkey;
    wr->wr.rdma.remote_addr = address;
    wr->wr.rdma.rkey = rkey;
    muct_rdma_sq_end(&chan->sq, wr, NULL, NULL, 1);
}

static void muct_rdma_chan_read_gpu(muct_rdma_chan_t *chan,
                                    muct_rdma_written_t *written)
{
    muct_rdma_chan_read_back(chan, written->address, written->rkey);
    written->address = 0;
}

bool muct_rdma_chan_admit_stray(muct_rdma_chan_t *chan, const muct_rdma_key_t *key)
{
    muct_rdma_written_t *written = &chan->written[MUCT_RDMA_KEY_GPU_UNKNOWN];
    unsigned i;

    if (written->address == 0) {
        return true;
    }

    /* a region is on one GPU, under whichever of its keys */
    for (i = 0; i < key->num_rkeys; ++i) {
        if (key->rkeys[i] == written->rkey) {
            return true;
        }
    }

    muct_rdma_chan_read_gpu(chan, written);
    muct_rdma_sq_kick(&chan->sq);
    return muct_rdma_sq_free(&chan->sq) > 0;
}

static bool muct_rdma_chan_read_gpus(muct_rdma_chan_t *chan)
{
    unsigned i;

    for (i = 0; i <= MUCT_RDMA_KEY_NUM_GPUS; ++i) {
        if (chan->written[i].address == 0) {
            continue;
        }
        if (muct_rdma_sq_free(&chan->sq) == 0) {
            return false;
        }
        muct_rdma_chan_read_gpu(chan, &chan->written[i]);
    }

    chan->has_gpu_writes = false;
    return true;
}

/*
 * Read from all that was written to: a read pushes the writes to the memory it reads
 * from and no others, neither those to another GPU nor, from host memory, those to any.
 * False when there was no room for all. What was read is not read again: it is behind
 * the writes it is for, and new ones are remembered anew.
 */
static bool muct_rdma_chan_flush_remote(muct_rdma_chan_t *chan)
{
    const muct_rdma_ep_addr_t *peer = &chan->ep->peer_ep;

    if (chan->has_gpu_writes && !muct_rdma_chan_read_gpus(chan)) {
        return false;
    }

    if (chan->has_writes) {
        if (muct_rdma_sq_free(&chan->sq) == 0) {
            return false;
        }
        muct_rdma_chan_read_back(chan, peer->flush_addr, peer->flush_rkey);
        chan->has_writes = false;
    }

    return true;
}

static ucs_status_t muct_rdma_ep_flush_remote(muct_rdma_ep_t *ep)
{
    ucs_status_t status = UCS_OK;
    unsigned i;

    for (i = 0; i < ep->num_qps; ++i) {
        if (!muct_rdma_chan_flush_remote(&ep->chans[i])) {
            status = UCS_ERR_NO_RESOURCE; /* the end of those makes room for the rest */
        }
        muct_rdma_sq_ring(&ep->chans[i].sq);
    }

    return status;
}

static ucs_status_t muct_rdma_ep_flush_cancel(muct_rdma_ep_t *ep)
{
    muct_rdma_ep_fail(ep, UCS_ERR_CANCELED, false);
    return UCS_OK;
}

ucs_status_t muct_rdma_ep_flush(uct_ep_h tl_ep, unsigned flags, uct_completion_t *comp)
{
    muct_rdma_ep_t *ep = (muct_rdma_ep_t *)tl_ep;
    ucs_status_t status;
    unsigned i;

    if (flags & UCT_FLUSH_FLAG_CANCEL) {
        return muct_rdma_ep_flush_cancel(ep);
    }

    if (ep->state != MUCT_RDMA_EP_CONNECTED) {
        return (ep->state == MUCT_RDMA_EP_FAILED) ? ep->status : UCS_OK;
    }

    if ((ep->job != NULL) || ((ep->pending.head != NULL) && !ep->is_dispatching)) {
        return UCS_ERR_NO_RESOURCE;
    }

    if (flags & UCT_FLUSH_FLAG_REMOTE) {
        status = muct_rdma_ep_flush_remote(ep);
        if (status != UCS_OK) {
            return status;
        }
    }

    for (i = 0; i < ep->num_qps; ++i) {
        muct_rdma_sq_ring(&ep->chans[i].sq);
    }

    if (muct_rdma_ep_is_idle(ep)) {
        return UCS_OK;
    }

    return (comp != NULL) ? muct_rdma_ep_wait(ep, comp) : UCS_INPROGRESS;
}

/* ---- is the peer there? ---- */

ucs_status_t muct_rdma_ep_check(uct_ep_h tl_ep, unsigned flags, uct_completion_t *comp)
{
    muct_rdma_ep_t *ep = (muct_rdma_ep_t *)tl_ep;
    muct_rdma_chan_t *chan = &ep->chans[0];
    struct ibv_send_wr *wr;

    (void)flags;
    if (ep->state != MUCT_RDMA_EP_CONNECTED) {
        return (ep->state == MUCT_RDMA_EP_FAILED) ? ep->status : UCS_OK;
    }

    /* what is on its way already will tell */
    if ((comp == NULL) && !muct_rdma_sq_is_idle(&chan->sq)) {
        return UCS_OK;
    }

    if (muct_rdma_sq_free(&chan->sq) == 0) {
        return UCS_ERR_NO_RESOURCE;
    }

    /* a write of nothing needs no key, and the peer's device answers it */
    wr = muct_rdma_sq_begin(&chan->sq, IBV_WR_RDMA_WRITE);
    wr->num_sge = 0;
    wr->wr.rdma.remote_addr = 0;
    wr->wr.rdma.rkey = 0;
    muct_rdma_sq_end_only(&chan->sq, wr, (comp != NULL) ? muct_rdma_done_comp : NULL,
                          comp, 0);
    return (comp != NULL) ? UCS_INPROGRESS : UCS_OK;
}
