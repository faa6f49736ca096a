/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_RMA_H
#define MUCT_XGMI_RMA_H

/**
 * @file
 * Puts and gets of one piece, and functions that lists share with them.
 *
 * An operation is over when its batch is. It then belongs to its endpoint, or to no
 * endpoint if that was destroyed meanwhile: copies cannot be called back, so the
 * completion waits for the end of the copy in any case.
 */

#include "xgmi/xgmi_ep.h"


/** Ends an operation whose argument is the user's completion, or NULL. */
void muct_xgmi_ep_zcopy_done(muct_xgmi_op_t *op, ucs_status_t status);


/** Log the access. @return UCS_ERR_INVALID_ADDR. */
ucs_status_t muct_xgmi_ep_out_of_bounds(const muct_xgmi_rkey_t *rkey, uint64_t raddr,
                                        uint64_t length);


/** Check that the range may be used. */
static inline ucs_status_t muct_xgmi_ep_check_range(const muct_xgmi_rkey_t *rkey,
                                                    uint64_t raddr, uint64_t length)
{
    return muct_xgmi_key_has(&rkey->key, raddr, length)
               ? UCS_OK
               : muct_xgmi_ep_out_of_bounds(rkey, raddr, length);
}


/**
 * End an operation without a completion. A refused copy fails the endpoint, because
 * nothing else reports it to the user.
 *
 * @return The status to report to the user.
 */
static inline ucs_status_t muct_xgmi_ep_op_over(muct_xgmi_op_t *op, ucs_status_t status)
{
    muct_xgmi_ep_t *ep = op->owner;

    if (ep == NULL) {
        return UCS_ERR_CANCELED;
    }

    --ep->num_not_over;
    if (ucs_unlikely(status != UCS_OK)) {
        muct_xgmi_ep_set_error(ep, status);
    }

    return ep->status;
}


/**
 * End an operation that has a completion: a copy that the runtime refused fails this
 * operation alone, and the endpoint lives on.
 *
 * @return The status to report to the user.
 */
static inline ucs_status_t muct_xgmi_ep_comp_op_over(muct_xgmi_op_t *op,
                                                     ucs_status_t status)
{
    muct_xgmi_ep_t *ep = op->owner;

    if (ucs_likely(!op->is_refused) || (ep == NULL)) {
        return muct_xgmi_ep_op_over(op, status);
    }

    --ep->num_not_over;
    return (ep->status == UCS_OK) ? status : ep->status;
}


/**
 * Hold all memory that an operation needs while some of it is being opened.
 *
 * @param [in] device  Device of the local memory, unless @a memhs has it.
 * @param [in] memhs   Local memory by entry, or NULL.
 * @param [in] rkeys   Remote memory by entry.
 * @param [in] count   Entries.
 *
 * @return UCS_ERR_NO_RESOURCE  Add a pending request; it is retried after an opening.
 * @return another error        A mapping cannot be opened.
 */
ucs_status_t muct_xgmi_ep_await(muct_xgmi_ep_t *ep, int device, uct_mem_h const *memhs,
                                uct_rkey_t const *rkeys, size_t count);


/** Handle a failed look-up. If the memory is still being opened, the endpoint waits
 * for it. */
ucs_status_t muct_xgmi_ep_not_found(muct_xgmi_ep_t *ep, const muct_xgmi_queue_t *queue,
                                    uct_rkey_t rkey, ucs_status_t status);


/** Release the mappings that a waiting operation held. */
static inline void muct_xgmi_ep_let_go(muct_xgmi_ep_t *ep, muct_xgmi_map_t *map)
{
    muct_xgmi_hold_release(&ep->hold, map);
    ep->is_opening = false;
}


/** Set that pending requests are accepted from now on. @return @a status. */
static inline ucs_status_t muct_xgmi_ep_no_resource(muct_xgmi_ep_t *ep,
                                                    ucs_status_t status)
{
    if (status == UCS_ERR_NO_RESOURCE) {
        ep->is_opening = false;
        ep->wants_room = false;
        ucs_derived_of(ep->super.super.iface, muct_xgmi_iface_t)->is_out_of_resources =
            true;
    }

    return status;
}


/** Whether the endpoint accepts new operations; pending requests go first. */
static inline ucs_status_t muct_xgmi_ep_may_post(muct_xgmi_ep_t *ep)
{
    if (ucs_unlikely(ep->status != UCS_OK)) {
        return ep->status;
    }

    if (ucs_unlikely(!muct_xgmi_ep_is_peer_open(ep))) {
        muct_xgmi_ep_set_error(ep, UCS_ERR_CONNECTION_RESET);
        return UCS_ERR_CONNECTION_RESET;
    }

    if (ucs_unlikely((ep->pending != NULL) && !ep->is_dispatching)) {
        return UCS_ERR_NO_RESOURCE;
    }
    if (ucs_unlikely(ucs_derived_of(ep->super.super.iface, muct_xgmi_iface_t)
                         ->moves.is_fenced)) {
        return muct_xgmi_ep_no_resource(ep, UCS_ERR_NO_RESOURCE);
    }

    return UCS_OK;
}


/**
 * Make memory ready to be the local end of copies of the open batch. Kernels must not
 * use memory that the runtime refused to pin, so the batch is copied by calls then.
 *
 * @return Difference of the device's address and the host's.
 */
static inline uint64_t muct_xgmi_ep_use_local(muct_xgmi_queue_t *queue,
                                              muct_xgmi_mem_t *mem)
{
    uint64_t delta;

    if (ucs_likely(!mem->is_host)) {
        return 0;
    }
    if (!muct_pin_use(queue->gpu, &mem->pin, &delta)) {
        queue->is_by_calls = true;
        return 0;
    }

    return delta;
}


/** Turn the entries added since the last commit into an operation. */
static inline void muct_xgmi_ep_commit(muct_xgmi_ep_t *ep, muct_xgmi_queue_t *queue,
                                       muct_xgmi_op_done_t done, void *arg)
{
    ep->stamps[queue->index] = queue->stamp;
    muct_xgmi_queue_commit(queue, done, ep, arg);
    ++ep->num_not_over;
    if (ucs_unlikely(ep->hold.num > 0)) {
        muct_xgmi_ep_let_go(ep, queue->map);
    }
}


/** Operations of one piece, for the endpoint's operation table. */
ucs_status_t muct_xgmi_ep_put_short(uct_ep_h ep, const void *buffer, unsigned length,
                                    uint64_t remote_addr, uct_rkey_t rkey);
ssize_t muct_xgmi_ep_put_bcopy(uct_ep_h ep, uct_pack_callback_t pack_cb, void *arg,
                               uint64_t remote_addr, uct_rkey_t rkey);
ucs_status_t muct_xgmi_ep_put_zcopy(uct_ep_h ep, const uct_iov_t *iov, size_t iovcnt,
                                    uint64_t remote_addr, uct_rkey_t rkey,
                                    uct_completion_t *comp);
ucs_status_t muct_xgmi_ep_get_bcopy(uct_ep_h ep, uct_unpack_callback_t unpack_cb,
                                    void *arg, size_t length, uint64_t remote_addr,
                                    uct_rkey_t rkey, uct_completion_t *comp);
ucs_status_t muct_xgmi_ep_get_zcopy(uct_ep_h ep, const uct_iov_t *iov, size_t iovcnt,
                                    uint64_t remote_addr, uct_rkey_t rkey,
                                    uct_completion_t *comp);

#endif
