/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Queue pairs of an endpoint: each with its send queue, its place in the interface's
 * table and its share of a completion queue.
 */

#include "rdma/ep/rdma_chan.h"

#include "base/muct_log.h"
#include "rdma/ep/rdma_place.h"

#include <ucs/sys/string.h>

#define MUCT_RDMA_LEAST_DEPTH 64 /* two chains */

void muct_rdma_chan_stop(muct_rdma_chan_t *chan)
{
    if (chan->ibv == NULL) {
        return;
    }

    muct_rdma_iface_remove_chan(chan->carrier, chan->place);
    muct_rdma_qp_destroy(chan->ibv);
    muct_rdma_cq_release(chan->cq, chan->cq_entries);
    chan->ibv = NULL;
}

/* Depth of the send queue: many endpoints share the memory of the device's queues. */
static unsigned muct_rdma_chan_depth(const muct_rdma_iface_t *iface)
{
    const unsigned depth = iface->limits.tx_depth;

    return iface->has_auto_depth
               ? muct_rdma_iface_share(iface, depth, MUCT_RDMA_LEAST_DEPTH)
               : depth;
}

/* Create a queue pair in state INIT, with a place in the table. */
static ucs_status_t muct_rdma_chan_create_qp(muct_rdma_chan_t *chan,
                                             muct_rdma_qp_caps_t *caps)
{
    const muct_rdma_limits_t *limits = &muct_rdma_ep_iface(chan->ep)->limits;
    muct_rdma_iface_t *iface = chan->ep->carrier;
    ucs_status_t status;

    caps->send_depth = chan->send_depth;
    caps->recv_depth = chan->recv_depth;
    caps->max_sge = limits->max_sge;
    caps->max_inline = limits->max_inline;
    chan->carrier = iface;
    chan->cq_entries = caps->send_depth + caps->recv_depth;
    status = muct_rdma_cq_reserve(&iface->cqs, chan->cq_entries, &chan->cq);
    if (status != UCS_OK) {
        return status;
    }

    status = muct_rdma_qp_create(iface->domain.pd, chan->cq->ibv, caps, &chan->ibv);
    if (status != UCS_OK) {
        goto err_release;
    }

    status = muct_rdma_iface_add_chan(iface, chan, &chan->place, &chan->id);
    if (status != UCS_OK) {
        goto err_destroy;
    }

    status = muct_rdma_qp_to_init(chan->ibv, &iface->port, iface->limits.has_atomics);
    if (status != UCS_OK) {
        goto err_remove;
    }

    return UCS_OK;

err_remove:
    muct_rdma_iface_remove_chan(iface, chan->place);
err_destroy:
    muct_rdma_qp_destroy(chan->ibv);
    chan->ibv = NULL;
err_release:
    muct_rdma_cq_release(chan->cq, chan->cq_entries);
    return status;
}

static ucs_status_t muct_rdma_chan_create(muct_rdma_ep_t *ep, muct_rdma_chan_t *chan,
                                          unsigned recv_depth)
{
    muct_rdma_iface_t *iface = muct_rdma_ep_iface(ep);
    muct_rdma_sq_params_t params;
    muct_rdma_qp_caps_t caps;
    ucs_status_t status;

    chan->ep = ep;
    chan->send_depth = muct_rdma_chan_depth(iface);
    chan->recv_depth = recv_depth;
    status = muct_rdma_chan_create_qp(chan, &caps);
    if (status != UCS_OK) {
        return status;
    }

    params.ibv = chan->ibv;
    params.id = chan->id;
    params.depth = caps.send_depth;
    params.batch = iface->limits.batch;
    params.max_sge = caps.max_sge;
    params.max_inline = caps.max_inline;
    params.keep = iface->recovery_tries > 0;
    params.dirty = &iface->dirty;
    params.stats = &iface->stats[chan - ep->chans];
    status = muct_rdma_sq_init(&chan->sq, &params);
    if (status != UCS_OK) {
        muct_rdma_chan_stop(chan);
        return status;
    }

    chan->first_qp_num = chan->ibv->qp_num;
    chan->is_given = true;
    return UCS_OK;
}

ucs_status_t muct_rdma_chan_renew(muct_rdma_chan_t *chan)
{
    muct_rdma_qp_caps_t caps;
    ucs_status_t status;

    muct_rdma_chan_stop(chan);
    chan->is_given = false;
    status = muct_rdma_chan_create_qp(chan, &caps);
    if (status != UCS_OK) {
        return status;
    }

    if (caps.max_inline < chan->sq.max_inline) {
        muct_error("qp 0x%x takes %u bytes inline, the one before took %u",
                   chan->ibv->qp_num, caps.max_inline, chan->sq.max_inline);
        return UCS_ERR_IO_ERROR;
    }

    return UCS_OK;
}

void muct_rdma_ep_destroy_chans(muct_rdma_ep_t *ep, unsigned first)
{
    unsigned i;

    for (i = first; i < ep->num_created; ++i) {
        muct_rdma_chan_stop(&ep->chans[i]);
        muct_rdma_sq_purge(&ep->chans[i].sq, UCS_ERR_CANCELED);
        muct_rdma_sq_cleanup(&ep->chans[i].sq);
    }
    ep->num_created = (uint8_t)first;
}

/* Log once that the device cannot follow the user's wish, as for other options. */
void muct_rdma_ep_offer_ece(muct_rdma_ep_t *ep)
{
    muct_rdma_iface_t *iface = ep->carrier;

    muct_rdma_ece_offer(ep->chans[0].ibv, iface->ece, &ep->ece);
    if ((ep->ece.options == 0) && (iface->ece != 0) &&
        (iface->ece != UCS_ULUNITS_AUTO)) {
        iface->ece = 0;
        muct_warn("%s: UCX_MORI_RDMA_ECE is set, but the device or libibverbs has no "
                  "ECE; connections do not use it",
                  muct_rdma_iface_md(iface)->device.name);
    }
}

ucs_status_t muct_rdma_ep_create_chan(muct_rdma_ep_t *ep)
{
    const muct_rdma_limits_t *limits = &muct_rdma_ep_iface(ep)->limits;
    const unsigned receives =
        (ep->num_created == 0) ? limits->rx_depth + MUCT_RDMA_CREDIT_RECEIVES : 0;
    ucs_status_t status;

    status = muct_rdma_chan_create(ep, &ep->chans[ep->num_created], receives);
    if (status == UCS_OK) {
        ++ep->num_created;
    }

    return status;
}
