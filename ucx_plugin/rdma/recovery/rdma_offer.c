/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Recovery's side of the control channel: that there is one, and what is said by it.
 */

#include "rdma/recovery/rdma_recover.h"

#include "base/muct_log.h"
#include "rdma/ep/rdma_ep.h"
#include "rdma/recovery/rdma_move.h"

#include <inttypes.h>

void muct_rdma_recover_open(muct_rdma_iface_t *iface)
{
    ucs_status_t status;
    uint32_t place;
    uint64_t id;

    if ((iface->recovery_tries == 0) || iface->has_tried_ctl) {
        return;
    }

    iface->has_tried_ctl = true;
    status = muct_rdma_iface_add_chan(iface, NULL, &place, &id);
    if (status == UCS_OK) {
        status = muct_rdma_ctl_open(&iface->ctl, muct_rdma_iface_md(iface)->pd,
                                    &iface->cqs, id, &iface->path);
    }
    if (status != UCS_OK) {
        muct_debug("%s: connections that break are not made anew: no datagrams",
                   muct_rdma_iface_md(iface)->device.name);
    }
}

/* Peers of all endpoints whose datagrams go by an interface, or would if they came back
 * to it; those of its queue that broke will say it by their offers. */
static void muct_rdma_recover_tell_numbers(const muct_rdma_iface_t *of)
{
    const muct_rdma_iface_t *iface = NULL;
    muct_rdma_ep_t *ep;

    while ((iface = muct_rdma_move_next(of, iface)) != NULL) {
        ucs_list_for_each(ep, &iface->eps, list)
        {
            if ((ep->carrier == of) || (iface == of)) {
                muct_rdma_recover_tell_number(ep);
            }
        }
    }
}

void muct_rdma_recover_reopen(muct_rdma_iface_t *iface)
{
    muct_rdma_ctl_t *ctl = &iface->ctl;
    ucs_status_t status;
    uint32_t place;
    uint64_t id;

    if ((ctl->ibv == NULL) || !ctl->cq->is_broken || iface->is_dead) {
        return;
    }

    /* the place it had, which is free then */
    muct_rdma_iface_remove_chan(iface,
                                (uint32_t)(ctl->id >> MUCT_RDMA_WR_ID_SLOT_SHIFT) &
                                    MUCT_RDMA_WR_ID_SLOT_MASK);
    status = muct_rdma_iface_add_chan(iface, NULL, &place, &id);
    if (status == UCS_OK) {
        status = muct_rdma_ctl_renew(ctl, &iface->cqs, id);
    }
    if (status != UCS_OK) {
        muct_debug(
            "%s: connections that break are not made anew any more: no datagrams",
            muct_rdma_iface_md(iface)->device.name);
        return;
    }

    muct_rdma_recover_tell_numbers(iface);
}

void muct_rdma_recover_connected(muct_rdma_ep_t *ep)
{
    muct_rdma_ctl_t *ctl = &ep->carrier->ctl;

    if (ep->peer_ep.ctl_qp != 0) {
        muct_rdma_ctl_meet(ctl, &ep->peer);
        ep->carrier->async_countdown = 1; /* the next progress prepares for it */
    }

    if ((ep->recover.told_ctl_qp != 0) && (ctl->ibv != NULL) &&
        (ctl->ibv->qp_num != ep->recover.told_ctl_qp)) {
        muct_rdma_recover_tell_number(ep);
    }
}

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

    if (iface->ctl.ibv == NULL) { /* with its completion queue it went for good */
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

void muct_rdma_recover_tell(muct_rdma_ep_t *ep)
{
    const muct_rdma_ctl_msg_t as_if_asked = {
        .dev = ep->peer,
        .from = {ep->peer_ep.qp_nums[0], ep->peer_ep.psn},
        .to = {ep->chans[0].first_qp_num, ep->psn},
        .epoch = ep->recover.epoch,
        .ctl_qp = ep->recover.peer_ctl_qp,
    };

    if (muct_rdma_recover_is_possible(ep)) {
        muct_rdma_recover_send_gone(ep->carrier, &as_if_asked);
    }
}
