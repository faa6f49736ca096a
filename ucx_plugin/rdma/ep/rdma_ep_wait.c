/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Operations and requests that wait for room.
 */

#include "rdma/ep/rdma_ep_wait.h"

#include "base/muct_log.h"

#include <stdlib.h>

/* ---- requests ---- */

/* Link to the next request, stored in the part of a request that belongs to the
 * transport. */
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
        return UCS_ERR_BUSY; /* the operation returns the error */
    }

    /* Refuse a request only if no operation in flight will free resources. Then only
     * credits, which arrive in a message, or buffers, which other endpoints hold,
     * can be missing. */
    if ((ep->state == MUCT_RDMA_EP_CONNECTED) && (ep->pending.head == NULL) &&
        !muct_rdma_ep_is_queued(ep) && (ep->credits > 0) && muct_rdma_ep_is_idle(ep) &&
        !muct_rdma_buf_pool_is_dry(&muct_rdma_ep_iface(ep)->tx_pool)) {
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
    ep->wants_buf = false;
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

/* Whether resources that pending requests wait for may be available now. */
static bool muct_rdma_ep_may_dispatch(const muct_rdma_ep_t *ep)
{
    return (ep->pending.head != NULL) && !ep->is_held &&
           (ep->has_event || (ep->wants_buf && !muct_rdma_buf_pool_is_dry(
                                                   &muct_rdma_ep_iface(ep)->tx_pool)));
}

bool muct_rdma_ep_is_runnable(const muct_rdma_ep_t *ep)
{
    return muct_rdma_ep_may_dispatch(ep) ||
           ((ep->state == MUCT_RDMA_EP_CONNECTED) &&
            (muct_rdma_ep_iface(ep)->listener->is_runnable(ep) ||
             ((ep->job != NULL) && !ep->is_held && (muct_rdma_ep_free(ep) > 0))));
}

ucs_status_t muct_rdma_ep_get_buf(muct_rdma_ep_t *ep, muct_rdma_buf_t **buf_p)
{
    ucs_status_t status = muct_rdma_buf_get(&muct_rdma_ep_iface(ep)->tx_pool, buf_p);

    ep->wants_buf |= (status == UCS_ERR_NO_RESOURCE);
    return status;
}

unsigned muct_rdma_ep_progress_work(muct_rdma_ep_t *ep)
{
    const muct_rdma_ep_listener_t *listener = muct_rdma_ep_iface(ep)->listener;
    unsigned count = 0;

    if (ep->state == MUCT_RDMA_EP_CONNECTED) {
        listener->progress(ep);
    }

    if (muct_rdma_ep_may_dispatch(ep)) {
        count = muct_rdma_ep_dispatch(ep);
    }

    if ((ep->pending.head != NULL) || (ep->job != NULL) || listener->has_work(ep)) {
        muct_rdma_ep_add_work(ep);
    }

    return count;
}
