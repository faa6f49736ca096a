/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Replacement of the queue pairs of a recovering endpoint. Each function handles as
 * many queue pairs as this progress call has commands left for, and is called again for
 * the others.
 */

#include "rdma/recovery/rdma_renew.h"
#include "rdma/op/rdma_am_recv.h"

#include "rdma/ep/rdma_chan.h"

#include "rdma/ep/rdma_ep.h"

#include <sys/random.h>

/* Commands to the device for a queue pair */
#define MUCT_RDMA_RENEW_BREAK 1
#define MUCT_RDMA_RENEW_MAKE 3    /* commands: destroy, create, move to INIT */
#define MUCT_RDMA_RENEW_CONNECT 2 /* commands: move to RTR, to RTS */

bool muct_rdma_renew_may_command(muct_rdma_ep_t *ep, unsigned num)
{
    muct_rdma_iface_t *iface = muct_rdma_ep_iface(ep);

    if (iface->commands_left < num) {
        iface->has_steps = true;
        return false;
    }

    iface->commands_left -= num;
    return true;
}

/* Whether this progress call may handle another queue pair. */
static bool muct_rdma_renew_next(muct_rdma_ep_t *ep, unsigned commands)
{
    return (ep->recover.num_done < ep->num_qps) &&
           muct_rdma_renew_may_command(ep, commands);
}

/* A removed device returns no completions, and its event may arrive late. */
static void muct_rdma_renew_break_one(const muct_rdma_chan_t *chan)
{
    muct_rdma_iface_t *carrier = chan->carrier;
    int error = muct_rdma_qp_to_error(chan->ibv);

    if (muct_rdma_mem_finds_gone(muct_rdma_iface_md(carrier)->pd, error)) {
        carrier->is_dead = true;
        carrier->async_countdown = 1; /* the next progress handles the others */
    }
}

bool muct_rdma_renew_break(muct_rdma_ep_t *ep)
{
    muct_rdma_recover_t *recover = &ep->recover;

    while (muct_rdma_renew_next(ep, MUCT_RDMA_RENEW_BREAK)) {
        muct_rdma_renew_break_one(&ep->chans[recover->num_done++]);
    }

    return recover->num_done == ep->num_qps;
}

void muct_rdma_recover_flushed(muct_rdma_chan_t *chan, const struct ibv_wc *wc)
{
    uint32_t index = (uint32_t)wc->wr_id;

    if (wc->wr_id & MUCT_RDMA_WR_ID_RECV) {
        ++chan->ep->recover.rx_flushed;
        return;
    }

    /* those before the first failed one have succeeded; a flushed one need not be the
     * first */
    if ((wc->status != IBV_WC_WR_FLUSH_ERR) && (index != chan->sq.tail)) {
        muct_rdma_sq_complete(&chan->sq, index - 1, UCS_OK);
    }
    chan->flushed = index + 1;
}

bool muct_rdma_renew_is_drained(const muct_rdma_ep_t *ep)
{
    const muct_rdma_chan_t *chan;

    /* no completions arrive from a removed device or a broken queue; the peer
     * reports which messages it received */
    if (ep->chans[0].carrier->is_dead) {
        return true;
    }

    for (chan = ep->chans; chan != ep->chans + ep->num_qps; ++chan) {
        if (!chan->cq->is_broken && chan->is_given &&
            (chan->sq.tail != chan->sq.posted) && (chan->flushed != chan->sq.posted)) {
            return false;
        }
    }

    return ep->chans[0].cq->is_broken ||
           (ep->rx.tail + ep->recover.rx_flushed == ep->rx.head);
}

ucs_status_t muct_rdma_renew_make(muct_rdma_ep_t *ep)
{
    muct_rdma_recover_t *recover = &ep->recover;
    ucs_status_t status;

    while (muct_rdma_renew_next(ep, MUCT_RDMA_RENEW_MAKE)) {
        status = muct_rdma_chan_renew(&ep->chans[recover->num_done]);
        if (status != UCS_OK) {
            return status;
        }
        ++recover->num_done;
    }

    if (recover->num_done < ep->num_qps) {
        return UCS_INPROGRESS;
    }

    muct_rdma_ep_offer_ece(ep);
    recover->rx_flushed = 0;
    status = muct_rdma_am_renew(ep);
    if (status != UCS_OK) {
        return status;
    }

    if (getrandom(&recover->psn, sizeof(recover->psn), 0) != sizeof(recover->psn)) {
        recover->psn += 0x10000; /* the number only separates stray packets of an
                                    earlier connection */
    }
    recover->psn &= 0xffffff;
    recover->received = ep->rx.tail;
    return UCS_OK;
}

ucs_status_t muct_rdma_renew_connect(muct_rdma_ep_t *ep)
{
    muct_rdma_recover_t *recover = &ep->recover;
    muct_rdma_qp_path_t path;
    ucs_status_t status;

    muct_rdma_ep_fill_path(ep, &path);
    if (recover->num_done > 0) {
        path.max_dest_reads = recover->granted_reads;
    } else {
        recover->conn_incarnation = recover->peer_incarnation;
    }
    path.local_psn = recover->psn;
    path.remote_psn = recover->offer.psn;
    muct_rdma_ece_choose(ep->carrier->ece, &ep->ece, &recover->offer.ece, &path.ece);
    while (muct_rdma_renew_next(ep, MUCT_RDMA_RENEW_CONNECT)) {
        status = muct_rdma_qp_connect(ep->chans[recover->num_done].ibv, &path,
                                      recover->offer.qp_nums[recover->num_done]);
        if (status != UCS_OK) {
            return status;
        }
        ++recover->num_done;
        recover->granted_reads = path.max_dest_reads;
    }

    if (recover->num_done < ep->num_qps) {
        return UCS_INPROGRESS;
    }

    if (path.max_dest_reads < ep->dest_reads) {
        ep->dest_reads = path.max_dest_reads; /* fewer reads than our offer announced */
        return UCS_ERR_NO_RESOURCE;
    }

    muct_rdma_ece_agreed(ep->chans[0].ibv, &path.ece, &ep->ece);
    return UCS_OK;
}
