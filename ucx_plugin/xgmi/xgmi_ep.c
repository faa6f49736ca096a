/* SPDX-License-Identifier: BSD-3-Clause */

/* Endpoints, without their puts and gets, which are in xgmi_rma.c and xgmi_sgl.c. */

#include "xgmi/xgmi_ep.h"

#include "base/muct_log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>


/* ---- flush, fence and check ---- */

void muct_xgmi_ep_set_error(muct_xgmi_ep_t *ep, ucs_status_t status)
{
    muct_xgmi_iface_t *iface = ucs_derived_of(ep->super.super.iface, muct_xgmi_iface_t);

    if (ep->status == UCS_OK) {
        ep->status = status;
        muct_xgmi_iface_set_unreported_error(iface);
    }
}

bool muct_xgmi_ep_has_broken_ring(muct_xgmi_ep_t *ep)
{
    if ((ep->outbox == NULL) || !muct_xgmi_outbox_is_broken(ep->outbox)) {
        return false;
    }

    if (!ep->outbox->is_reported) {
        ep->outbox->is_reported = true;
        muct_error("messages to process 0x%" PRIx64 " have ended: it ignores this "
                   "process, or its position in their ring is wrong",
                   ep->owner);
    }
    muct_xgmi_ep_set_error(ep, UCS_ERR_CONNECTION_RESET);
    return true;
}

/* Check that the peer has received the sent messages; copies report errors
 * themselves. */
static ucs_status_t muct_xgmi_ep_look(muct_xgmi_ep_t *ep)
{
    if ((ep->status == UCS_OK) && !muct_xgmi_ep_has_broken_ring(ep) &&
        (!muct_xgmi_ep_is_peer_open(ep) || !muct_xgmi_peer_is_alive(ep->peer))) {
        muct_xgmi_ep_set_error(ep, UCS_ERR_CONNECTION_RESET);
    }

    ep->has_sent = false;
    return ep->status;
}

ucs_status_t muct_xgmi_ep_flush(uct_ep_h tl_ep, unsigned flags, uct_completion_t *comp)
{
    muct_xgmi_ep_t *ep = ucs_derived_of(tl_ep, muct_xgmi_ep_t);
    muct_xgmi_iface_t *iface = ucs_derived_of(tl_ep->iface, muct_xgmi_iface_t);

    /* Copies are visible to all devices when they are over, so local means remote. */
    (void)flags;
    if ((ep->pending != NULL) && !ep->is_dispatching) {
        return UCS_ERR_NO_RESOURCE; /* keep the order: pending requests go first */
    }
    if (ep->num_not_over == 0) {
        return ep->has_sent ? muct_xgmi_ep_look(ep) : ep->status;
    }
    if (comp == NULL) {
        return UCS_INPROGRESS;
    }

    return muct_xgmi_iface_start_flush(iface, ep->stamps, ep->move, comp);
}

ucs_status_t muct_xgmi_ep_fence(uct_ep_h tl_ep, unsigned flags)
{
    return tl_ep->iface->ops.iface_fence(tl_ep->iface, flags);
}

ucs_status_t muct_xgmi_ep_check(uct_ep_h tl_ep, unsigned flags, uct_completion_t *comp)
{
    muct_xgmi_ep_t *ep = ucs_derived_of(tl_ep, muct_xgmi_ep_t);

    (void)flags;
    (void)comp; /* the result is known already */
    (void)muct_xgmi_ep_look(ep);
    return UCS_OK;
}

int muct_xgmi_ep_is_connected(uct_ep_h tl_ep,
                              const uct_ep_is_connected_params_t *params)
{
    muct_xgmi_ep_t *ep = ucs_derived_of(tl_ep, muct_xgmi_ep_t);
    muct_xgmi_iface_addr_t addr;

    return (params->field_mask & UCT_EP_IS_CONNECTED_FIELD_IFACE_ADDR) &&
           (muct_xgmi_iface_addr_unpack(params->iface_addr, &addr) == UCS_OK) &&
           (addr.owner == ep->owner) && (addr.id.slot == ep->peer_iface.slot) &&
           (addr.id.generation == ep->peer_iface.generation);
}


/* ---- pending requests ---- */

static muct_xgmi_pending_t *muct_xgmi_pending(uct_pending_req_t *req)
{
    _Static_assert(sizeof(muct_xgmi_pending_t) <= UCT_PENDING_REQ_PRIV_LEN,
                   "private area of a pending request");
    return (muct_xgmi_pending_t *)req->priv;
}

static void muct_xgmi_ep_pending_push(muct_xgmi_ep_t *ep, uct_pending_req_t *req)
{
    muct_xgmi_pending(req)->next = NULL;
    *ep->pending_tail = req;
    ep->pending_tail = &muct_xgmi_pending(req)->next;
}

static uct_pending_req_t *muct_xgmi_ep_pending_pop(muct_xgmi_ep_t *ep)
{
    uct_pending_req_t *req = ep->pending;

    ep->pending = muct_xgmi_pending(req)->next;
    if (ep->pending == NULL) {
        ep->pending_tail = &ep->pending;
    }

    return req;
}

static void muct_xgmi_ep_pending_push_head(muct_xgmi_ep_t *ep, uct_pending_req_t *req)
{
    muct_xgmi_pending(req)->next = ep->pending;
    if (ep->pending == NULL) {
        ep->pending_tail = &muct_xgmi_pending(req)->next;
    }
    ep->pending = req;
}

/* Whether the memory that a pending operation waits for is still being opened. */
static bool muct_xgmi_ep_is_opening(const muct_xgmi_iface_t *iface,
                                    const muct_xgmi_ep_t *ep)
{
    return ep->is_opening &&
           (ep->num_opened == muct_xgmi_map_num_opened(iface->md->map));
}

/* Whether the ring still has no room for a message. */
static bool muct_xgmi_ep_is_full(muct_xgmi_ep_t *ep)
{
    return ep->wants_room && !muct_xgmi_outbox_is_broken(ep->outbox) &&
           !muct_xgmi_ring_has_room(&ep->outbox->ring, MUCT_XGMI_RING_MAX_MESSAGE);
}

static bool muct_xgmi_ep_is_apart(const muct_xgmi_iface_t *iface, muct_xgmi_ep_t *ep)
{
    return muct_xgmi_ep_is_opening(iface, ep) || muct_xgmi_ep_is_full(ep);
}

static void muct_xgmi_ep_wait(muct_xgmi_iface_t *iface, muct_xgmi_ep_t *ep)
{
    ucs_list_add_tail(muct_xgmi_ep_is_apart(iface, ep) ? &iface->apart_eps
                                                       : &iface->waiting_eps,
                      &ep->waiting);
}

void muct_xgmi_ep_retry_apart(muct_xgmi_iface_t *iface)
{
    muct_xgmi_ep_t *ep, *next;

    ucs_list_for_each_safe(ep, next, &iface->apart_eps, waiting)
    {
        if (!muct_xgmi_ep_is_apart(iface, ep)) {
            ucs_list_del(&ep->waiting);
            ucs_list_add_tail(&iface->waiting_eps, &ep->waiting);
        }
    }
}

void muct_xgmi_ep_arm_apart(muct_xgmi_iface_t *iface)
{
    muct_xgmi_ep_t *ep;

    ucs_list_for_each(ep, &iface->apart_eps, waiting)
    {
        if (ep->wants_room) {
            iface->inbox->may_be_rung = true;
            (void)muct_xgmi_ring_want_room(&ep->outbox->ring,
                                           MUCT_XGMI_RING_MAX_MESSAGE);
        }
    }
    muct_xgmi_ep_retry_apart(iface);
}

ucs_status_t muct_xgmi_ep_pending_add(uct_ep_h tl_ep, uct_pending_req_t *req,
                                      unsigned flags)
{
    muct_xgmi_ep_t *ep = ucs_derived_of(tl_ep, muct_xgmi_ep_t);
    muct_xgmi_iface_t *iface = ucs_derived_of(tl_ep->iface, muct_xgmi_iface_t);

    (void)flags;
    if (!iface->is_out_of_resources && (ep->pending == NULL) &&
        !muct_xgmi_ep_is_apart(iface, ep)) {
        return UCS_ERR_BUSY; /* repeat the operation: it has room now */
    }

    if ((ep->pending == NULL) && !ep->is_dispatching) {
        muct_xgmi_ep_wait(iface, ep);
    }
    muct_xgmi_ep_pending_push(ep, req);
    return UCS_OK;
}

void muct_xgmi_ep_pending_purge(uct_ep_h tl_ep, uct_pending_purge_callback_t cb,
                                void *arg)
{
    const muct_xgmi_iface_t *iface = ucs_derived_of(tl_ep->iface, muct_xgmi_iface_t);
    muct_xgmi_ep_t *ep = ucs_derived_of(tl_ep, muct_xgmi_ep_t);
    uct_pending_req_t *req, *next;

    muct_xgmi_hold_release(&ep->hold, iface->md->map);
    if (ep->pending == NULL) {
        return;
    }

    if (!ep->is_dispatching) {
        ucs_list_del(&ep->waiting);
    }
    req = ep->pending;
    ep->pending = NULL;
    ep->pending_tail = &ep->pending;
    for (; req != NULL; req = next) {
        next = muct_xgmi_pending(req)->next;
        cb(req, arg);
    }
}

/* The endpoint is not in the list of waiting endpoints while its request runs. */
static ucs_status_t muct_xgmi_ep_dispatch_one(muct_xgmi_iface_t *iface,
                                              muct_xgmi_ep_t *ep)
{
    uct_pending_req_t *req;
    ucs_status_t status;

    req = muct_xgmi_ep_pending_pop(ep);
    ep->is_dispatching = true;
    status = req->func(req);
    ep->is_dispatching = false;
    if (status != UCS_OK) {
        muct_xgmi_ep_pending_push_head(ep, req);
    }

    if (ep->pending != NULL) {
        muct_xgmi_ep_wait(iface, ep);
    }
    return status;
}

unsigned muct_xgmi_ep_dispatch_pending(muct_xgmi_iface_t *iface)
{
    unsigned count = 0;
    muct_xgmi_ep_t *ep;

    while (!ucs_list_is_empty(&iface->waiting_eps) && !iface->is_out_of_resources) {
        ep = ucs_list_head(&iface->waiting_eps, muct_xgmi_ep_t, waiting);
        ucs_list_del(&ep->waiting);
        if (!UCS_STATUS_IS_ERR(muct_xgmi_ep_dispatch_one(iface, ep))) {
            ++count;
        } else if (!muct_xgmi_ep_is_apart(iface, ep)) {
            break; /* the shared resources are exhausted */
        }
    }

    return count;
}


/* ---- life ---- */

/*
 * Take a reference to the peer if it is alive.
 *
 * @return UCS_ERR_CONNECTION_RESET: its process or interface has ended.
 */
static ucs_status_t muct_xgmi_ep_get_peer(muct_xgmi_ep_t *ep,
                                          const muct_xgmi_iface_addr_t *addr)
{
    ucs_status_t status = muct_xgmi_peer_get(addr->owner, &ep->peer);

    ep->owner = addr->owner;
    ep->peer_iface = addr->id;
    if (status != UCS_OK) {
        muct_diag("process 0x%" PRIx64 " (pid %u) is dead or not visible here",
                  addr->owner, addr->pid);
        return status;
    }

    ep->peer_generation = muct_xgmi_peer_iface(ep->peer, &ep->peer_iface);
    if ((ep->peer_generation == NULL) || !muct_xgmi_ep_is_peer_open(ep)) {
        muct_diag("interface %u of process 0x%" PRIx64 " (pid %u) is closed",
                  addr->id.slot, addr->owner, addr->pid);
        muct_xgmi_peer_put(ep->peer);
        ep->peer = NULL;
        return UCS_ERR_CONNECTION_RESET;
    }

    return UCS_OK;
}

static ucs_status_t muct_xgmi_ep_check_params(const uct_ep_params_t *params,
                                              muct_xgmi_iface_addr_t *addr)
{
    const uint64_t required = UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR |
                              UCT_EP_PARAM_FIELD_IFACE_ADDR;
    ucs_status_t status;

    if ((params->field_mask & required) != required) {
        muct_error("an endpoint needs interface, device and interface address "
                   "(fields 0x%" PRIx64 ")",
                   params->field_mask);
        return UCS_ERR_INVALID_PARAM;
    }

    status = muct_xgmi_iface_addr_unpack(params->iface_addr, addr);
    if (status != UCS_OK) {
        muct_error("the interface address is of another version");
    }
    return status;
}

ucs_status_t muct_xgmi_ep_create(const uct_ep_params_t *params, uct_ep_h *ep_p)
{
    muct_xgmi_iface_t *iface;
    muct_xgmi_iface_addr_t addr;
    muct_xgmi_ep_t *ep;
    ucs_status_t status, peer_status;

    *ep_p = NULL; /* UCP expects no endpoint after an error */
    status = muct_xgmi_ep_check_params(params, &addr);
    if (status != UCS_OK) {
        return status;
    }

    iface = ucs_derived_of(params->iface, muct_xgmi_iface_t);
    ep = calloc(1, sizeof(*ep));
    if (ep == NULL) {
        muct_error("failed to allocate an endpoint");
        return UCS_ERR_NO_MEMORY;
    }

    ep->status = UCS_OK;
    ep->pending_tail = &ep->pending;
    peer_status = muct_xgmi_ep_get_peer(ep, &addr);
    if ((peer_status != UCS_OK) && (peer_status != UCS_ERR_CONNECTION_RESET)) {
        status = peer_status;
        goto err_free;
    }

    status = UCS_CLASS_INIT(uct_base_ep_t, &ep->super, &iface->super);
    if (status != UCS_OK) {
        goto err_put_peer;
    }

    ucs_list_add_tail(&iface->eps, &ep->list);
    if (ep->peer != NULL) {
        /* the first message tries again, and reports a failure */
        (void)muct_xgmi_iface_claim(iface, ep->owner, ep->peer_iface, true, &ep->claim);
        muct_xgmi_iface_watch_peer(iface, ep->peer);
        muct_xgmi_iface_prepare(iface);
    } else {
        muct_xgmi_ep_set_error(ep, peer_status); /* the next progress reports it */
    }
    muct_xgmi_iface_drop_held(iface);
    *ep_p = &ep->super.super;
    return UCS_OK;

err_put_peer:
    if (ep->peer != NULL) {
        muct_xgmi_peer_put(ep->peer);
    }
err_free:
    free(ep);
    return status;
}

static void muct_xgmi_ep_warn_purged(uct_pending_req_t *req, void *arg)
{
    muct_warn("endpoint %p is destroyed with pending request %p", arg, (void *)req);
}

void muct_xgmi_ep_destroy(uct_ep_h tl_ep)
{
    muct_xgmi_ep_t *ep = ucs_derived_of(tl_ep, muct_xgmi_ep_t);
    muct_xgmi_iface_t *iface = ucs_derived_of(tl_ep->iface, muct_xgmi_iface_t);
    unsigned i;

    muct_xgmi_ep_pending_purge(tl_ep, muct_xgmi_ep_warn_purged, ep);
    for (i = 0; (ep->num_not_over > 0) && (i < iface->num_queues); ++i) {
        muct_xgmi_queue_disown(iface->all[i], ep);
    }
    if (ep->num_not_over > 0) {
        muct_xgmi_moves_disown(&iface->moves, ep);
    }

    ucs_list_del(&ep->list);
    if (ep->peer != NULL) {
        muct_xgmi_iface_unwatch_peer(iface, ep->peer);
    }
    if (ep->claim != NULL) {
        muct_xgmi_outbox_close(ep->claim);
    }
    UCS_CLASS_CLEANUP(uct_base_ep_t, &ep->super);
    if (ep->peer != NULL) {
        muct_xgmi_peer_put(ep->peer);
    }
    free(ep);
}
