/* SPDX-License-Identifier: BSD-3-Clause */

/* Messages of recovery over the control channel. */

#include "rdma/recovery/rdma_offer.h"

#include "base/muct_log.h"

#include <inttypes.h>

bool muct_rdma_recover_is_possible(const muct_rdma_ep_t *ep)
{
    const muct_rdma_iface_t *iface = ep->carrier;

    return ((ep->state == MUCT_RDMA_EP_CONNECTED) ||
            (ep->state == MUCT_RDMA_EP_RECOVERING)) &&
           !iface->is_dead && !iface->cqs.has_failed &&
           muct_rdma_ctl_is_usable(&iface->ctl) && (ep->recover.peer_ctl_qp != 0);
}

/* ---- to the peer ---- */

void muct_rdma_recover_send(muct_rdma_ep_t *ep, bool is_answer)
{
    const muct_rdma_ctl_t *own = &muct_rdma_ep_iface(ep)->ctl;
    muct_rdma_iface_t *iface = ep->carrier;
    muct_rdma_ctl_msg_t msg = {
        .type = MUCT_RDMA_CTL_RENEW,
        .incarnation = ep->peer.incarnation,
        .to = {ep->peer_ep.qp_nums[0], ep->peer_ep.psn},
        .to_ctl_qp = ep->peer_ep.ctl_qp,
        .from = {ep->chans[0].first_qp_num, ep->psn},
        .epoch = ep->recover.epoch,
        .received = ep->recover.received,
        .psn = ep->recover.psn,
        .num_qps = ep->num_qps,
        .ece = ep->ece,
        .is_answer = is_answer,
        .own_ctl_qp = (own->ibv != NULL) ? own->ibv->qp_num : 0,
        .max_reads = ep->dest_reads,
    };
    unsigned i;

    if (iface->ctl.ibv ==
        NULL) { /* the control channel ended with its completion queue */
        return;
    }

    msg.ctl_qp = iface->ctl.ibv->qp_num;
    for (i = 0; i < ep->num_qps; ++i) {
        msg.qp_nums[i] = ep->chans[i].ibv->qp_num;
    }
    muct_rdma_iface_device_address(iface, &msg.dev);
    muct_rdma_ctl_send(&iface->ctl, &ep->peer, ep->recover.peer_ctl_qp, &msg);
}

void muct_rdma_recover_send_gone(muct_rdma_iface_t *iface,
                                 const muct_rdma_ctl_msg_t *request)
{
    muct_rdma_ctl_msg_t msg = {
        .type = MUCT_RDMA_CTL_GONE,
        .incarnation = request->dev.incarnation,
        .to = request->from,
        .from = request->to,
        .epoch = request->epoch,
    };

    muct_rdma_iface_device_address(iface, &msg.dev);
    muct_rdma_ctl_send(&iface->ctl, &request->dev, request->ctl_qp, &msg);
}

void muct_rdma_recover_announce(muct_rdma_ep_t *ep)
{
    const muct_rdma_ctl_msg_t as_answer = {
        .dev = ep->peer,
        .from = {ep->peer_ep.qp_nums[0], ep->peer_ep.psn},
        .to = {ep->chans[0].first_qp_num, ep->psn},
        .epoch = ep->recover.epoch,
        .ctl_qp = ep->recover.peer_ctl_qp,
    };

    if (muct_rdma_recover_is_possible(ep)) {
        muct_rdma_recover_send_gone(ep->carrier, &as_answer);
    }
}
