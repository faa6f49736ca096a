/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_EP_H
#define MUCT_XGMI_EP_H

/**
 * @file
 * Endpoint of mori_xgmi: put, get, lists, messages, flush, check and pending requests
 * to one process.
 *
 * Statuses of operations. UCS_INPROGRESS: the completion is called once, when the copy
 * is over, also when the peer died meanwhile (then with its error) or the endpoint was
 * destroyed (UCS_ERR_CANCELED). UCS_ERR_NO_RESOURCE: nothing happened, add a pending
 * request. UCS_ERR_REJECTED: the key was invalidated; the endpoint lives on.
 * UCS_ERR_UNREACHABLE: the memory cannot be mapped. UCS_ERR_INVALID_ADDR: beyond the
 * registered memory. UCS_ERR_CONNECTION_RESET: the peer's process is dead or its
 * interface is closed; the error handler is called, even if nothing is posted.
 */

#include "xgmi/memory/xgmi_hold.h"
#include "xgmi/xgmi_iface.h"

#include <stdatomic.h>
#include <stdbool.h>


/** A pending request, stored in the private area of the user's request. */
typedef struct muct_xgmi_pending {
    uct_pending_req_t *next;
} muct_xgmi_pending_t;

/** An endpoint. */
typedef struct muct_xgmi_ep {
    uct_base_ep_t super;
    muct_xgmi_peer_t *peer; /**< NULL: the peer was dead from the beginning */
    uint64_t owner;         /**< Incarnation of the peer */
    muct_xgmi_iface_id_t peer_iface;
    const _Atomic uint32_t *peer_generation; /**< Present generation of peer_iface */
    ucs_status_t status;   /**< Status of new operations; the first error stays */
    bool is_reported;      /**< The error was reported to the user */
    bool is_dispatching;   /**< A pending request is being tried */
    unsigned num_not_over; /**< Number of copies and moves that are not over */
    /** By index of the queue: stamp of the last batch with an operation */
    uint64_t stamps[MUCT_XGMI_MAX_QUEUES];
    uint64_t move;         /**< Stamp of the last move */
    muct_xgmi_hold_t hold; /**< Mappings of the waiting operation */
    bool is_opening; /**< The last operation got no resource because a mapping is being
                        opened */
    uint64_t num_opened; /**< Mappings that the cache had opened before the request */
    muct_xgmi_outbox_t *claim;  /**< Place in the peer's box; NULL: it has none */
    muct_xgmi_outbox_t *outbox; /**< The same outbox, set with the first message */
    bool has_sent;   /**< Messages were sent since the last check that the peer lives */
    bool wants_room; /**< The last operation got no resource because the outbox is full
                      */
    uct_pending_req_t *pending;
    uct_pending_req_t **pending_tail;
    ucs_list_link_t list;    /**< Member of the interface's list */
    ucs_list_link_t waiting; /**< Member of the interface's list of endpoints with
                                pending requests */
} muct_xgmi_ep_t;


ucs_status_t muct_xgmi_ep_create(const uct_ep_params_t *params, uct_ep_h *ep_p);
void muct_xgmi_ep_destroy(uct_ep_h ep);

ucs_status_t muct_xgmi_ep_flush(uct_ep_h ep, unsigned flags, uct_completion_t *comp);
ucs_status_t muct_xgmi_ep_fence(uct_ep_h ep, unsigned flags);
ucs_status_t muct_xgmi_ep_check(uct_ep_h ep, unsigned flags, uct_completion_t *comp);
ucs_status_t muct_xgmi_ep_pending_add(uct_ep_h ep, uct_pending_req_t *req,
                                      unsigned flags);
void muct_xgmi_ep_pending_purge(uct_ep_h ep, uct_pending_purge_callback_t cb,
                                void *arg);
int muct_xgmi_ep_is_connected(uct_ep_h ep, const uct_ep_is_connected_params_t *params);


/**
 * Dispatch pending requests, one endpoint after the other, until resources are
 * exhausted.
 *
 * @return Number of completed requests.
 */
unsigned muct_xgmi_ep_dispatch_pending(muct_xgmi_iface_t *iface);


/** Retry pending requests of endpoints whose mapping is open or whose ring has room
 * again. */
void muct_xgmi_ep_retry_apart(muct_xgmi_iface_t *iface);


/** Retry as above, and request a wakeup for endpoints whose ring is still full. Call it
 * before arming. */
void muct_xgmi_ep_arm_apart(muct_xgmi_iface_t *iface);


/** Whether the peer's interface is open; its process may be dead in either case. */
static inline bool muct_xgmi_ep_is_peer_open(const muct_xgmi_ep_t *ep)
{
    return atomic_load_explicit(ep->peer_generation, memory_order_relaxed) ==
           ep->peer_iface.generation;
}


/** Whether no message will be received any more; then the endpoint fails, and an error
 * is logged once for each ring. */
bool muct_xgmi_ep_has_broken_ring(muct_xgmi_ep_t *ep);


/** Fail new operations from now on; the first reason counts. */
void muct_xgmi_ep_set_error(muct_xgmi_ep_t *ep, ucs_status_t status);

#endif
