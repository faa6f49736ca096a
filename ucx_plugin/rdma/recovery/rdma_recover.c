/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/recovery/rdma_recover.h"

#include "base/muct_log.h"
#include "rdma/ep/rdma_carrier.h"
#include "rdma/ep/rdma_ep_wait.h"
#include "rdma/ep/rdma_place.h"
#include "rdma/memory/rdma_rkeys.h"
#include "rdma/recovery/rdma_move.h"
#include "rdma/recovery/rdma_offer.h"
#include "rdma/recovery/rdma_renew.h"
#include "rdma/recovery/rdma_replay.h"

#include <inttypes.h>
#include <string.h>

/* Time until an offer is sent again; it doubles with each repetition. */
#define MUCT_RDMA_RECOVER_FIRST_MS 5
#define MUCT_RDMA_RECOVER_LAST_MS 100

/* RECOVERY_TIMEOUT divided by this is the time for the first device, longer than a peer
 * needs to answer */
#define MUCT_RDMA_RECOVER_PATIENCE 32

/* ---- look-up of the endpoint ---- */

/* Whether a message may concern endpoints of the device. A GONE has the device by which
 * the offer came, which may only have carried the endpoint. */
static bool muct_rdma_recover_is_to(const muct_rdma_ctl_msg_t *msg,
                                    uint64_t incarnation)
{
    return (msg->type == MUCT_RDMA_CTL_GONE)
               ? muct_rdma_incarnation_is_near(msg->incarnation, incarnation)
               : (msg->incarnation == incarnation);
}

/* Find the receiving endpoint in all interfaces of the worker: a message may arrive
 * over a device other than the endpoint's. */
static muct_rdma_ep_t *muct_rdma_recover_find(const muct_rdma_iface_t *by,
                                              const muct_rdma_ctl_msg_t *msg)
{
    const muct_rdma_iface_t *iface = NULL;
    muct_rdma_ep_t *ep;

    while ((iface = muct_rdma_carrier_next(by, iface)) != NULL) {
        if (!muct_rdma_recover_is_to(msg, muct_rdma_iface_md(iface)->incarnation)) {
            continue;
        }
        ucs_list_for_each(ep, &iface->eps, list)
        {
            if ((ep->chans[0].first_qp_num == msg->to.qp_num) &&
                (ep->psn == msg->to.psn)) {
                return (ep->state != MUCT_RDMA_EP_FAILED) ? ep : NULL;
            }
        }
    }

    return NULL;
}

/* Whether an offer, or a reply about a missing endpoint, concerns this endpoint. */
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

/* Wait until the device has completed all work requests; then the queue pairs can be
 * destroyed. */
static void muct_rdma_recover_drain(muct_rdma_ep_t *ep, uint32_t epoch)
{
    muct_rdma_recover_t *recover = &ep->recover;
    unsigned i;

    recover->epoch = epoch;
    if ((recover->phase == MUCT_RDMA_RECOVER_MAKE) ||
        ((recover->phase == MUCT_RDMA_RECOVER_OFFER) && (recover->num_done == 0))) {
        /* new queue pairs may belong to another device and have no work requests yet */
        recover->phase = MUCT_RDMA_RECOVER_MAKE;
        recover->num_done = 0;
        return;
    }

    if ((recover->phase == MUCT_RDMA_RECOVER_BREAK) ||
        (recover->phase == MUCT_RDMA_RECOVER_DRAIN)) {
        return; /* some completions have arrived and are not repeated */
    }

    ep->state = MUCT_RDMA_EP_RECOVERING;
    recover->phase = MUCT_RDMA_RECOVER_BREAK;
    recover->num_done = 0;
    for (i = 0; i < ep->num_qps; ++i) {
        muct_rdma_sq_suspend(&ep->chans[i].sq);
        ep->chans[i].flushed = ep->chans[i].sq.tail;
    }
}

static void muct_rdma_recover_start(muct_rdma_ep_t *ep, uint32_t epoch,
                                    ucs_status_t cause)
{
    muct_rdma_iface_t *iface = muct_rdma_ep_iface(ep);
    muct_rdma_recover_t *recover = &ep->recover;

    if (recover->phase == MUCT_RDMA_RECOVER_NOTIFY) {
        muct_rdma_recover_cancel(ep); /* the offer carries the same number */
    }
    if (recover->phase == MUCT_RDMA_RECOVER_NONE) {
        recover->cause = cause;
        recover->deadline_ms = muct_rdma_now_ms() + iface->recovery_timeout_ms;
        recover->patience_ms = iface->recovery_timeout_ms / MUCT_RDMA_RECOVER_PATIENCE;
        recover->move_ms = MUCT_RDMA_NEVER_MS;
        ucs_list_add_tail(&iface->recovering, &recover->list);
    }

    muct_rdma_recover_drain(ep, epoch);
    iface->async_countdown = 1; /* handle the endpoint in this progress call */
}

/* Whether the endpoint may try to reconnect once more. */
static bool muct_rdma_recover_may_try(muct_rdma_ep_t *ep)
{
    muct_rdma_recover_t *recover = &ep->recover;

    if (((ep->state != MUCT_RDMA_EP_CONNECTED) &&
         (ep->state != MUCT_RDMA_EP_RECOVERING)) ||
        (ep->peer_ep.ctl_qp == 0)) {
        return false;
    }

    if (muct_rdma_recover_num_ended(ep) != recover->ended) {
        recover->tries = 0;
    }
    if (recover->tries >= muct_rdma_ep_iface(ep)->recovery_tries) {
        muct_debug("endpoint %p: nothing has ended on %u connections in a row",
                   (void *)ep, recover->tries);
        return false;
    }

    return true;
}

bool muct_rdma_recover_begin(muct_rdma_ep_t *ep, ucs_status_t cause)
{
    bool is_possible = muct_rdma_recover_is_possible(ep);

    if (!muct_rdma_recover_may_try(ep)) {
        return false;
    }

    if ((!is_possible || (ep->carrier->port_down_ms != 0)) &&
        !muct_rdma_move_choose(ep) && !is_possible) {
        return false;
    }

    ++ep->recover.tries;
    muct_rdma_recover_start(ep, ep->recover.epoch + 1, cause);
    return true;
}

bool muct_rdma_recover_leave(muct_rdma_ep_t *ep, ucs_status_t cause)
{
    if (!muct_rdma_recover_may_try(ep) || !muct_rdma_move_choose(ep)) {
        return false;
    }

    ++ep->recover.tries;
    muct_rdma_recover_start(ep, ep->recover.epoch + 1, cause);
    return true;
}

void muct_rdma_recover_cancel(muct_rdma_ep_t *ep)
{
    if (ep->recover.phase != MUCT_RDMA_RECOVER_NONE) {
        ep->recover.phase = MUCT_RDMA_RECOVER_NONE;
        ucs_list_del(&ep->recover.list);
    }
}

/* The endpoint is connected: continue the user's operations. */
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
        if (ep->recover.has_moved) {
            muct_rdma_sq_set_moved(&chan->sq, muct_rdma_move_wr);
        }
        num += muct_rdma_sq_resume(&chan->sq, chan->ibv, chan->id);
        chan->is_given = true;
    }

    muct_rdma_ep_add_work(ep);
    ++iface->recovery_stats.connections;
    iface->recovery_stats.wrs += num;
    iface->recovery_stats.moves += ep->carrier != iface;
    muct_info(
        "%s: connection %u of endpoint %p is established, from qp 0x%x to 0x%x; %u "
        "work requests posted again",
        muct_rdma_iface_md(ep->carrier)->device.name, ep->recover.epoch, (void *)ep,
        ep->chans[0].ibv->qp_num, ep->recover.offer.qp_nums[0], num);
}

/* The endpoint may be destroyed when this returns. */
static void muct_rdma_recover_connect(muct_rdma_ep_t *ep)
{
    ucs_status_t status = muct_rdma_renew_connect(ep);

    if (status == UCS_INPROGRESS) {
        return;
    }

    if (status != UCS_OK) {
        muct_rdma_recover_drain(ep, ep->recover.epoch + 1); /* some may be connected */
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

    if ((now_ms < recover->next_ms) || !muct_rdma_renew_may_command(ep, 1)) {
        return;
    }

    muct_rdma_recover_send(ep, false);
    recover->next_ms = now_ms + recover->interval_ms;
    recover->interval_ms *= 2;
    if (recover->interval_ms > MUCT_RDMA_RECOVER_LAST_MS) {
        recover->interval_ms = MUCT_RDMA_RECOVER_LAST_MS;
    }
}

/* Whether the peer has an outdated number of our control queue pair. */
void muct_rdma_recover_announce_number(muct_rdma_ep_t *ep)
{
    muct_rdma_iface_t *iface = muct_rdma_ep_iface(ep);
    muct_rdma_recover_t *recover = &ep->recover;

    if ((ep->state != MUCT_RDMA_EP_CONNECTED) || !muct_rdma_recover_is_possible(ep)) {
        return;
    }

    if (recover->phase == MUCT_RDMA_RECOVER_NONE) {
        ucs_list_add_tail(&iface->recovering, &recover->list);
    }
    recover->phase = MUCT_RDMA_RECOVER_NOTIFY;
    recover->deadline_ms = muct_rdma_now_ms() + iface->recovery_timeout_ms;
    recover->interval_ms = MUCT_RDMA_RECOVER_FIRST_MS;
    recover->next_ms = 0;
    iface->async_countdown = 1;
}

/* Send our control qp again. Give up if the peer does not answer in time: the
 * connection works, although the peer lacks the number. */
static void muct_rdma_recover_announce_step(muct_rdma_ep_t *ep, uint64_t now_ms)
{
    if (now_ms >= ep->recover.deadline_ms) {
        muct_debug("endpoint %p: the peer has not confirmed the datagram address",
                   (void *)ep);
        muct_rdma_recover_cancel(ep);
    } else {
        muct_rdma_recover_offer(ep, now_ms);
    }
}

/* Whether to try another device. */
static bool muct_rdma_recover_is_stuck(muct_rdma_ep_t *ep, uint64_t now_ms)
{
    muct_rdma_recover_t *recover = &ep->recover;

    if (now_ms >= recover->move_ms) {
        recover->patience_ms *= 2;
        recover->move_ms = now_ms + recover->patience_ms;
        return true;
    }

    /* the event may arrive after the failure */
    return (ep->carrier->port_down_ms != 0) || ep->carrier->ctl.is_given_up;
}

/* Advance until the new queue pairs are made. The endpoint may be destroyed when this
 * does not return UCS_OK. */
static ucs_status_t muct_rdma_recover_make(muct_rdma_ep_t *ep, uint64_t now_ms)
{
    muct_rdma_recover_t *recover = &ep->recover;
    ucs_status_t status;

    if (recover->phase == MUCT_RDMA_RECOVER_BREAK) {
        if (!muct_rdma_renew_break(ep)) {
            return UCS_INPROGRESS;
        }
        /* the endpoint's turn begins: from now on the time counts as waiting for the
         * peer */
        recover->phase = MUCT_RDMA_RECOVER_DRAIN;
        recover->move_ms = now_ms + recover->patience_ms;
    }

    if (recover->phase == MUCT_RDMA_RECOVER_DRAIN) {
        if (!muct_rdma_renew_is_drained(ep)) {
            return UCS_INPROGRESS;
        }
        recover->phase = MUCT_RDMA_RECOVER_MAKE;
        recover->num_done = 0;
    }

    if (recover->phase == MUCT_RDMA_RECOVER_OFFER) {
        return UCS_OK;
    }

    status = muct_rdma_renew_make(ep);
    if (status == UCS_OK) {
        recover->phase = MUCT_RDMA_RECOVER_OFFER;
        recover->num_done = 0;
        recover->interval_ms = MUCT_RDMA_RECOVER_FIRST_MS;
        recover->next_ms = 0;
    } else if ((status != UCS_INPROGRESS) &&
               !muct_rdma_recover_leave(ep, recover->cause)) {
        muct_rdma_ep_fail(ep, recover->cause, true);
    }

    return status;
}

static void muct_rdma_recover_step(muct_rdma_ep_t *ep, uint64_t now_ms)
{
    muct_rdma_recover_t *recover = &ep->recover;
    bool is_answered;

    if (recover->phase == MUCT_RDMA_RECOVER_NOTIFY) {
        muct_rdma_recover_announce_step(ep, now_ms);
        return;
    }

    if (now_ms >= recover->deadline_ms) {
        muct_debug("endpoint %p: no new connection within %" PRIu64 " ms", (void *)ep,
                   muct_rdma_ep_iface(ep)->recovery_timeout_ms);
        muct_rdma_ep_fail(ep, recover->cause, true);
        return;
    }

    if (muct_rdma_recover_is_stuck(ep, now_ms) && muct_rdma_move_choose(ep)) {
        muct_rdma_recover_drain(ep, recover->epoch + 1);
    }

    if (muct_rdma_recover_make(ep, now_ms) != UCS_OK) {
        return;
    }

    /* send it at least once: the peer may not have our offer */
    is_answered = recover->has_offer && (recover->offer.epoch == recover->epoch);
    if (!is_answered || (recover->next_ms == 0)) {
        muct_rdma_recover_offer(ep, now_ms);
    }

    if (is_answered && (recover->next_ms != 0)) {
        muct_rdma_recover_connect(ep);
    }
}

bool muct_rdma_recover_breaks(const muct_rdma_iface_t *iface)
{
    const muct_rdma_ep_t *ep;

    ucs_list_for_each(ep, &iface->recovering, recover.list)
    {
        if (ep->recover.phase == MUCT_RDMA_RECOVER_BREAK) {
            return true;
        }
    }

    return false;
}

void muct_rdma_recover_progress(muct_rdma_iface_t *iface, uint64_t now_ms)
{
    size_t num = ucs_list_length(&iface->recovering);
    muct_rdma_ep_t *ep;

    iface->commands_left = MUCT_RDMA_STEP_COMMANDS;
    iface->has_steps = false;
    /* visit each endpoint once; move it to the tail first, as its step may destroy
     * it and others */
    while ((num-- > 0) && !ucs_list_is_empty(&iface->recovering)) {
        ep = ucs_list_extract_head(&iface->recovering, muct_rdma_ep_t, recover.list);
        ucs_list_add_tail(&iface->recovering, &ep->recover.list);
        muct_rdma_recover_step(ep, now_ms);
    }
}

/* ---- messages of the peer ---- */

/* Whether the peer's choice of device wins when both sides make the same connection. */
static bool muct_rdma_recover_goes_first(const muct_rdma_ep_t *ep,
                                         const muct_rdma_iface_t *by,
                                         const muct_rdma_ctl_msg_t *msg)
{
    const muct_rdma_iface_t *iface = muct_rdma_ep_iface(ep);
    const uint64_t first = ep->peer.incarnation;
    bool has_moved = (by != iface) || (msg->dev.incarnation != first);
    bool have_we = (ep->carrier != iface) || (ep->recover.peer_incarnation != first);

    return (has_moved != have_we) ? has_moved
                                  : (first < muct_rdma_iface_md(iface)->incarnation);
}

/* Take the control qp from an offer of the present device: its number may have changed.
 */
static void muct_rdma_recover_take_number(muct_rdma_ep_t *ep,
                                          const muct_rdma_iface_t *by,
                                          const muct_rdma_ctl_msg_t *msg)
{
    if ((by == ep->carrier) && (msg->dev.incarnation == ep->recover.peer_incarnation)) {
        ep->recover.peer_ctl_qp = msg->ctl_qp;
    }
    if (msg->own_ctl_qp != 0) {
        ep->recover.first_ctl_qp = msg->own_ctl_qp;
    } else if (msg->dev.incarnation == ep->peer.incarnation) {
        ep->recover.first_ctl_qp = msg->ctl_qp;
    }
}

/* Answer an offer of the present connection: ours was lost, or only a number changed.
 */
static void muct_rdma_recover_reply(muct_rdma_ep_t *ep, const muct_rdma_ctl_msg_t *msg)
{
    if (!msg->is_answer) {
        muct_rdma_recover_send(ep, true);
    } else if (ep->recover.phase == MUCT_RDMA_RECOVER_NOTIFY) {
        muct_rdma_recover_cancel(ep); /* it knows */
    }
}

/* @a by is the interface that received it. */
static void muct_rdma_recover_take_offer(muct_rdma_ep_t *ep, muct_rdma_iface_t *by,
                                         const muct_rdma_ctl_msg_t *msg)
{
    muct_rdma_recover_t *recover = &ep->recover;
    int32_t ahead = (int32_t)(msg->epoch - recover->epoch);
    bool is_elsewhere = by != ep->carrier;

    if ((msg->num_qps != ep->num_qps) || (msg->dev.link != by->port.link) ||
        !muct_rdma_incarnation_is_near(msg->dev.incarnation, ep->peer.incarnation)) {
        return;
    }

    muct_rdma_recover_take_number(ep, by, msg);
    if (ahead < 0) {
        return;
    }

    if ((ahead == 0) && (ep->state == MUCT_RDMA_EP_CONNECTED)) {
        muct_rdma_recover_reply(ep, msg);
        return;
    }

    if ((ahead == 0) && is_elsewhere && !muct_rdma_recover_goes_first(ep, by, msg)) {
        return;
    }

    recover->offer = *msg;
    recover->has_offer = true;
    muct_rdma_ep_set_reads(ep, msg->max_reads, false);
    /* this has no effect unless the device or its address has changed */
    muct_rdma_move_to(ep, by, &msg->dev, msg->ctl_qp);
    if (ahead > 0) {
        muct_rdma_recover_start(ep, msg->epoch, UCS_ERR_CONNECTION_RESET);
    } else if (is_elsewhere) {
        muct_rdma_recover_drain(ep, msg->epoch);
    }

    /* the peer waits, and many endpoints may be ahead of this one */
    ucs_list_del(&recover->list);
    ucs_list_add_head(&muct_rdma_ep_iface(ep)->recovering, &recover->list);
}

/* The endpoint may be destroyed when this returns. */
static void muct_rdma_recover_peer_gone(muct_rdma_ep_t *ep)
{
    muct_rdma_ep_fail(ep,
                      (ep->state == MUCT_RDMA_EP_RECOVERING) ? ep->recover.cause
                                                             : UCS_ERR_CONNECTION_RESET,
                      true);
}

/* Whether the endpoint belongs to this worker and not to another worker of the
 * process. */
static bool muct_rdma_recover_is_ours(const muct_rdma_iface_t *by,
                                      const muct_rdma_ctl_msg_t *msg)
{
    const muct_rdma_iface_t *iface = NULL;

    while ((iface = muct_rdma_carrier_next(by, iface)) != NULL) {
        if ((muct_rdma_iface_md(iface)->incarnation == msg->incarnation) &&
            muct_rdma_ctl_had_number(&iface->ctl, msg->to_ctl_qp)) {
            return true;
        }
    }

    return false;
}

void muct_rdma_recover_receive(muct_rdma_iface_t *iface, const struct ibv_wc *wc)
{
    muct_rdma_ctl_msg_t msg;
    muct_rdma_ep_t *ep;

    if (!muct_rdma_ctl_complete(&iface->ctl, wc, &msg)) {
        if (muct_rdma_ctl_has_to_restart(&iface->ctl)) {
            iface->async_countdown = 1; /* continue it in this progress call */
        }
        return;
    }

    ep = muct_rdma_recover_find(iface, &msg);
    if ((ep != NULL) && (ep->state == MUCT_RDMA_EP_INIT)) {
        return; /* the endpoint is not connected yet; the peer will send again */
    }

    if ((ep != NULL) && !muct_rdma_recover_is_peer(ep, &msg)) {
        ep = NULL;
    }

    if (msg.type == MUCT_RDMA_CTL_GONE) {
        if (ep != NULL) {
            muct_rdma_recover_peer_gone(ep);
        }
    } else if (ep != NULL) {
        muct_rdma_recover_take_offer(ep, iface, &msg);
    } else if (muct_rdma_recover_is_ours(iface, &msg)) {
        muct_rdma_recover_send_gone(iface, &msg);
    }
}

/* ---- control channel ---- */

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
        muct_debug("%s: broken connections are not recovered: no datagrams",
                   muct_rdma_iface_md(iface)->device.name);
    }
}

/* Send the new number to the peers of all endpoints that this interface carries or
 * owns. Endpoints whose queue pairs broke send it with their offers. */
static void muct_rdma_recover_announce_numbers(const muct_rdma_iface_t *of)
{
    const muct_rdma_iface_t *iface = NULL;
    muct_rdma_ep_t *ep;

    while ((iface = muct_rdma_carrier_next(of, iface)) != NULL) {
        ucs_list_for_each(ep, &iface->eps, list)
        {
            if ((ep->carrier == of) || (iface == of)) {
                muct_rdma_recover_announce_number(ep);
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

    /* free the channel's former slot */
    muct_rdma_iface_remove_chan(iface,
                                (uint32_t)(ctl->id >> MUCT_RDMA_WR_ID_SLOT_SHIFT) &
                                    MUCT_RDMA_WR_ID_SLOT_MASK);
    status = muct_rdma_iface_add_chan(iface, NULL, &place, &id);
    if (status == UCS_OK) {
        status = muct_rdma_ctl_renew(ctl, &iface->cqs, id);
    }
    if (status != UCS_OK) {
        muct_debug("%s: broken connections are not recovered any more: no datagrams",
                   muct_rdma_iface_md(iface)->device.name);
        return;
    }

    muct_rdma_recover_announce_numbers(iface);
}

void muct_rdma_recover_connected(muct_rdma_ep_t *ep)
{
    muct_rdma_ctl_t *ctl = &ep->carrier->ctl;

    if (ep->peer_ep.ctl_qp != 0) {
        muct_rdma_ctl_meet(ctl, &ep->peer);
        ep->carrier->async_countdown = 1; /* the next progress makes the address
                                           * handle */
    }

    if ((ep->recover.announced_ctl_qp != 0) && (ctl->ibv != NULL) &&
        (ctl->ibv->qp_num != ep->recover.announced_ctl_qp)) {
        muct_rdma_recover_announce_number(ep);
    }
}
