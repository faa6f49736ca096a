/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/rdma_recover.h"

#include "base/muct_log.h"
#include "rdma/rdma_ep.h"

#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

/* An offer is sent again after this time, and then after twice the time before. */
#define MUCT_RDMA_RECOVER_FIRST_MS 5
#define MUCT_RDMA_RECOVER_LAST_MS 100

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

static bool muct_rdma_recover_is_possible(const muct_rdma_ep_t *ep)
{
    const muct_rdma_iface_t *iface = muct_rdma_ep_iface(ep);

    return ((ep->state == MUCT_RDMA_EP_CONNECTED) ||
            (ep->state == MUCT_RDMA_EP_RECOVERING)) &&
           !iface->is_dead && !iface->cqs.has_failed && (iface->ctl.ibv != NULL) &&
           !iface->ctl.cq->is_broken && (ep->peer_ep.ctl_qp != 0);
}

/* ---- to and from the peer ---- */

static void muct_rdma_recover_send(muct_rdma_ep_t *ep)
{
    muct_rdma_iface_t *iface = muct_rdma_ep_iface(ep);
    muct_rdma_ctl_msg_t msg = {
        .type = MUCT_RDMA_CTL_RENEW,
        .incarnation = ep->peer.incarnation,
        .to = {ep->peer_ep.qp_nums[0], ep->peer_ep.psn},
        .from = {ep->chans[0].first_qp_num, ep->psn},
        .epoch = ep->recover.epoch,
        .received = ep->recover.received,
        .psn = ep->recover.psn,
        .ctl_qp = iface->ctl.ibv->qp_num,
        .num_qps = ep->num_qps,
    };
    unsigned i;

    for (i = 0; i < ep->num_qps; ++i) {
        msg.qp_nums[i] = ep->chans[i].ibv->qp_num;
    }
    muct_rdma_iface_device_address(iface, &msg.dev);
    muct_rdma_ctl_send(&iface->ctl, &ep->peer, ep->peer_ep.ctl_qp, &msg);
}

static void muct_rdma_recover_send_gone(muct_rdma_iface_t *iface,
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
    muct_rdma_iface_t *iface = muct_rdma_ep_iface(ep);
    const muct_rdma_ctl_msg_t as_if_asked = {
        .dev = ep->peer,
        .from = {ep->peer_ep.qp_nums[0], ep->peer_ep.psn},
        .to = {ep->chans[0].first_qp_num, ep->psn},
        .epoch = ep->recover.epoch,
        .ctl_qp = ep->peer_ep.ctl_qp,
    };

    if (muct_rdma_recover_is_possible(ep)) {
        muct_rdma_recover_send_gone(iface, &as_if_asked);
    }
}

static muct_rdma_ep_t *muct_rdma_recover_find(const muct_rdma_iface_t *iface,
                                              const muct_rdma_ctl_msg_t *msg)
{
    muct_rdma_ep_t *ep;

    if (msg->incarnation != muct_rdma_iface_md(iface)->incarnation) {
        return NULL;
    }

    ucs_list_for_each(ep, &iface->eps, list)
    {
        if ((ep->chans[0].first_qp_num == msg->to.qp_num) && (ep->psn == msg->to.psn)) {
            return (ep->state != MUCT_RDMA_EP_FAILED) ? ep : NULL;
        }
    }

    return NULL;
}

/* Whether an answer that there is no such endpoint, or an offer, is for this one. */
static bool muct_rdma_recover_is_peer(const muct_rdma_ep_t *ep,
                                      const muct_rdma_ctl_msg_t *msg)
{
    return (msg->from.qp_num == ep->peer_ep.qp_nums[0]) &&
           (msg->from.psn == ep->peer_ep.psn);
}

/* ---- phases ---- */

static uint32_t muct_rdma_recover_num_ended(const muct_rdma_ep_t *ep)
{
    uint32_t num = 0;
    unsigned i;

    for (i = 0; i < ep->num_qps; ++i) {
        num += ep->chans[i].sq.tail;
    }

    return num;
}

/* The device is to give back all it has; then the queue pairs can go. */
static void muct_rdma_recover_drain(muct_rdma_ep_t *ep, uint32_t epoch)
{
    muct_rdma_recover_t *recover = &ep->recover;
    unsigned i;

    ep->state = MUCT_RDMA_EP_RECOVERING;
    recover->phase = MUCT_RDMA_RECOVER_DRAIN;
    recover->epoch = epoch;
    recover->rx_flushed = 0;
    for (i = 0; i < ep->num_qps; ++i) {
        muct_rdma_sq_suspend(&ep->chans[i].sq);
        ep->chans[i].flushed = ep->chans[i].sq.tail;
        muct_rdma_qp_to_error(ep->chans[i].ibv);
    }
}

static void muct_rdma_recover_start(muct_rdma_ep_t *ep, uint32_t epoch,
                                    ucs_status_t cause)
{
    muct_rdma_iface_t *iface = muct_rdma_ep_iface(ep);
    muct_rdma_recover_t *recover = &ep->recover;

    if (recover->phase == MUCT_RDMA_RECOVER_NONE) {
        recover->cause = cause;
        recover->deadline_ms = muct_rdma_now_ms() + iface->recovery_timeout_ms;
        ucs_list_add_tail(&iface->recovering, &recover->list);
    }

    muct_rdma_recover_drain(ep, epoch);
    iface->async_countdown = 1; /* look after it in this very progress */
}

bool muct_rdma_recover_begin(muct_rdma_ep_t *ep, ucs_status_t cause)
{
    muct_rdma_recover_t *recover = &ep->recover;

    if (!muct_rdma_recover_is_possible(ep)) {
        return false;
    }

    if (muct_rdma_recover_num_ended(ep) != recover->ended) {
        recover->tries = 0;
    }
    if (recover->tries == muct_rdma_ep_iface(ep)->recovery_tries) {
        muct_debug("endpoint %p: nothing has ended on %u connections in a row",
                   (void *)ep, recover->tries);
        return false;
    }

    ++recover->tries;
    muct_rdma_recover_start(ep, recover->epoch + 1, cause);
    return true;
}

void muct_rdma_recover_cancel(muct_rdma_ep_t *ep)
{
    if (ep->recover.phase != MUCT_RDMA_RECOVER_NONE) {
        ep->recover.phase = MUCT_RDMA_RECOVER_NONE;
        ucs_list_del(&ep->recover.list);
    }
}

void muct_rdma_recover_flushed(muct_rdma_chan_t *chan, const struct ibv_wc *wc)
{
    uint32_t index = (uint32_t)wc->wr_id;

    if (wc->wr_id & MUCT_RDMA_WR_ID_RECV) {
        ++chan->ep->recover.rx_flushed;
        return;
    }

    /* those before the first that failed have succeeded; of one that was only flushed
     * nobody says that it is the first */
    if ((wc->status != IBV_WC_WR_FLUSH_ERR) && (index != chan->sq.tail)) {
        muct_rdma_sq_complete(&chan->sq, index - 1, UCS_OK);
    }
    chan->flushed = index + 1;
}

static bool muct_rdma_recover_is_drained(const muct_rdma_ep_t *ep)
{
    const muct_rdma_chan_t *chan;

    for (chan = ep->chans; chan != ep->chans + ep->num_qps; ++chan) {
        if (chan->is_given && (chan->sq.tail != chan->sq.posted) &&
            (chan->flushed != chan->sq.posted)) {
            return false;
        }
    }

    return ep->rx.tail + ep->recover.rx_flushed == ep->rx.head;
}

/* New queue pairs, which receive what the old ones have not. */
static ucs_status_t muct_rdma_recover_renew(muct_rdma_ep_t *ep)
{
    muct_rdma_recover_t *recover = &ep->recover;
    ucs_status_t status;
    unsigned i;

    for (i = 0; i < ep->num_qps; ++i) {
        status = muct_rdma_chan_renew(&ep->chans[i]);
        if (status != UCS_OK) {
            return status;
        }
    }

    status = muct_rdma_am_renew(ep);
    if (status != UCS_OK) {
        return status;
    }

    if (getrandom(&recover->psn, sizeof(recover->psn), 0) != sizeof(recover->psn)) {
        recover->psn += 0x10000; /* only tells stray packets of an earlier one apart */
    }
    recover->psn &= 0xffffff;
    recover->received = ep->rx.tail;
    recover->phase = MUCT_RDMA_RECOVER_OFFER;
    recover->interval_ms = MUCT_RDMA_RECOVER_FIRST_MS;
    recover->next_ms = 0;
    return UCS_OK;
}

static ucs_status_t muct_rdma_recover_connect_qps(muct_rdma_ep_t *ep)
{
    const muct_rdma_ctl_msg_t *offer = &ep->recover.offer;
    muct_rdma_qp_path_t path;
    ucs_status_t status;
    unsigned i;

    muct_rdma_ep_fill_path(ep, &path);
    path.local_psn = ep->recover.psn;
    path.remote_psn = offer->psn;
    for (i = 0; i < ep->num_qps; ++i) {
        status = muct_rdma_qp_connect(ep->chans[i].ibv, &path, offer->qp_nums[i]);
        if (status != UCS_OK) {
            return status;
        }
    }

    return UCS_OK;
}

/* Connected: the user's operations go on. */
static void muct_rdma_recover_end(muct_rdma_ep_t *ep)
{
    muct_rdma_iface_t *iface = muct_rdma_ep_iface(ep);
    muct_rdma_chan_t *chan;
    uint32_t num = 0;

    muct_rdma_recover_cancel(ep);
    ep->recover.ended = muct_rdma_recover_num_ended(ep);
    ep->state = MUCT_RDMA_EP_CONNECTED;
    ep->has_event = true;
    for (chan = ep->chans; chan != ep->chans + ep->num_qps; ++chan) {
        num += muct_rdma_sq_resume(&chan->sq, chan->ibv, chan->id);
        chan->is_given = true;
    }

    muct_rdma_ep_add_work(ep);
    ++iface->recovery_stats.connections;
    iface->recovery_stats.wrs += num;
    muct_info(
        "%s: connection %u of endpoint %p is there, from qp 0x%x to 0x%x; %u work "
        "requests posted again",
        muct_rdma_iface_md(iface)->device.name, ep->recover.epoch, (void *)ep,
        ep->chans[0].ibv->qp_num, ep->recover.offer.qp_nums[0], num);
}

/* The endpoint may be destroyed when this returns. */
static void muct_rdma_recover_connect(muct_rdma_ep_t *ep)
{
    muct_rdma_recover_send(ep); /* the peer may not have ours */
    if (muct_rdma_recover_connect_qps(ep) != UCS_OK) {
        muct_rdma_recover_drain(ep, ep->recover.epoch + 1); /* half connected */
        return;
    }

    if (!muct_rdma_replay_prepare(ep, ep->recover.offer.received)) {
        muct_rdma_ep_fail(ep, ep->recover.cause, true);
        return;
    }

    muct_rdma_recover_end(ep);
}

static void muct_rdma_recover_offer(muct_rdma_ep_t *ep, uint64_t now_ms)
{
    muct_rdma_recover_t *recover = &ep->recover;

    if (now_ms < recover->next_ms) {
        return;
    }

    muct_rdma_recover_send(ep);
    recover->next_ms = now_ms + recover->interval_ms;
    recover->interval_ms *= 2;
    if (recover->interval_ms > MUCT_RDMA_RECOVER_LAST_MS) {
        recover->interval_ms = MUCT_RDMA_RECOVER_LAST_MS;
    }
}

static void muct_rdma_recover_step(muct_rdma_ep_t *ep, uint64_t now_ms)
{
    muct_rdma_recover_t *recover = &ep->recover;

    if (now_ms >= recover->deadline_ms) {
        muct_debug("endpoint %p: no new connection within %" PRIu64 " ms", (void *)ep,
                   muct_rdma_ep_iface(ep)->recovery_timeout_ms);
        muct_rdma_ep_fail(ep, recover->cause, true);
        return;
    }

    if (recover->phase == MUCT_RDMA_RECOVER_DRAIN) {
        if (!muct_rdma_recover_is_drained(ep)) {
            return;
        }
        if (muct_rdma_recover_renew(ep) != UCS_OK) {
            muct_rdma_ep_fail(ep, recover->cause, true);
            return;
        }
    }

    if (recover->has_offer && (recover->offer.epoch == recover->epoch)) {
        muct_rdma_recover_connect(ep);
    } else {
        muct_rdma_recover_offer(ep, now_ms);
    }
}

void muct_rdma_recover_progress(muct_rdma_iface_t *iface, uint64_t now_ms)
{
    size_t num = ucs_list_length(&iface->recovering);
    muct_rdma_ep_t *ep;

    /* each once; it is at the end before its step, which may destroy it and others */
    while ((num-- > 0) && !ucs_list_is_empty(&iface->recovering)) {
        ep = ucs_list_extract_head(&iface->recovering, muct_rdma_ep_t, recover.list);
        ucs_list_add_tail(&iface->recovering, &ep->recover.list);
        muct_rdma_recover_step(ep, now_ms);
    }
}

/* ---- the peer's word ---- */

static void muct_rdma_recover_take_offer(muct_rdma_ep_t *ep,
                                         const muct_rdma_ctl_msg_t *msg)
{
    muct_rdma_recover_t *recover = &ep->recover;
    int32_t ahead = (int32_t)(msg->epoch - recover->epoch);

    if ((ahead < 0) || (msg->num_qps != ep->num_qps) ||
        (msg->dev.incarnation != ep->peer.incarnation)) {
        return;
    }

    if ((ahead == 0) && (recover->phase == MUCT_RDMA_RECOVER_NONE)) {
        muct_rdma_recover_send(ep); /* ours was lost */
        return;
    }

    recover->offer = *msg;
    recover->has_offer = true;
    ep->peer = msg->dev; /* its address may have moved */
    if (ahead > 0) {
        muct_rdma_recover_start(ep, msg->epoch, UCS_ERR_CONNECTION_RESET);
    }
}

/* The endpoint may be destroyed when this returns. */
static void muct_rdma_recover_take_gone(muct_rdma_ep_t *ep)
{
    muct_rdma_ep_fail(ep,
                      (ep->state == MUCT_RDMA_EP_RECOVERING) ? ep->recover.cause
                                                             : UCS_ERR_CONNECTION_RESET,
                      true);
}

void muct_rdma_recover_receive(muct_rdma_iface_t *iface, const struct ibv_wc *wc)
{
    muct_rdma_ctl_msg_t msg;
    muct_rdma_ep_t *ep;

    if (!muct_rdma_ctl_complete(&iface->ctl, wc, &msg)) {
        return;
    }

    ep = muct_rdma_recover_find(iface, &msg);
    if ((ep != NULL) && (ep->state == MUCT_RDMA_EP_INIT)) {
        return; /* it does not know its peer yet, who will ask again */
    }

    if ((ep != NULL) && !muct_rdma_recover_is_peer(ep, &msg)) {
        ep = NULL;
    }

    if (msg.type == MUCT_RDMA_CTL_GONE) {
        if (ep != NULL) {
            muct_rdma_recover_take_gone(ep);
        }
    } else if (ep != NULL) {
        muct_rdma_recover_take_offer(ep, &msg);
    } else {
        muct_rdma_recover_send_gone(iface, &msg);
    }
}
