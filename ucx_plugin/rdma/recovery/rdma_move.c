/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/recovery/rdma_move.h"

#include "base/muct_log.h"
#include "rdma/ep/rdma_carrier.h"
#include "rdma/ep/rdma_ep.h"
#include "rdma/memory/rdma_rkeys.h"
#include "rdma/op/rdma_pull.h"

#include <inttypes.h>

/* ---- interfaces ---- */

/* Whether the endpoint's next queue pairs belong to the carrier, or some of the present
 * ones that are not replaced yet.
 */
static bool muct_rdma_move_is_guest(const muct_rdma_ep_t *ep,
                                    const muct_rdma_iface_t *carrier)
{
    unsigned i;

    for (i = 0; i < ep->num_created; ++i) {
        if ((ep->chans[i].ibv != NULL) && (ep->chans[i].carrier == carrier)) {
            return true;
        }
    }

    return ep->carrier == carrier;
}

static muct_rdma_ep_t *muct_rdma_move_find_guest(const muct_rdma_iface_t *carrier)
{
    muct_rdma_iface_t *iface = NULL;
    muct_rdma_ep_t *ep;

    while ((iface = muct_rdma_carrier_next(carrier, iface)) != NULL) {
        ucs_list_for_each(ep, &iface->eps, list)
        {
            if ((iface != carrier) && (ep->state != MUCT_RDMA_EP_FAILED) &&
                muct_rdma_move_is_guest(ep, carrier)) {
                return ep;
            }
        }
    }

    return NULL;
}

void muct_rdma_move_leave(muct_rdma_iface_t *iface)
{
    muct_rdma_ep_t *ep;

    while ((ep = muct_rdma_move_find_guest(iface)) != NULL) {
        muct_rdma_ep_fail(ep, UCS_ERR_CONNECTION_RESET, true);
    }
}

/* ---- choice of a device ---- */

static bool muct_rdma_move_is_up(const muct_rdma_iface_t *iface)
{
    return !iface->is_dead && (iface->port_down_ms == 0) && iface->port.is_active &&
           !iface->cqs.has_failed && muct_rdma_ctl_is_usable(&iface->ctl);
}

static bool muct_rdma_move_is_lane(const muct_rdma_ep_t *lane)
{
    return (lane->state == MUCT_RDMA_EP_CONNECTED) ||
           (lane->state == MUCT_RDMA_EP_RECOVERING);
}

static uint64_t muct_rdma_move_distance(const muct_rdma_ep_t *ep,
                                        const muct_rdma_ep_t *lane)
{
    return (lane->serial > ep->serial) ? lane->serial - ep->serial
                                       : ep->serial - lane->serial;
}

typedef bool (*muct_rdma_move_rule_t)(const muct_rdma_ep_t *ep,
                                      const muct_rdma_ep_t *lane);

/*
 * Find the endpoint that was created closest to ours in time, among @a found and those
 * of an interface that satisfy a rule. UCP creates the endpoints of one peer together.
 */
static const muct_rdma_ep_t *muct_rdma_move_nearest(const muct_rdma_ep_t *ep,
                                                    const muct_rdma_iface_t *iface,
                                                    muct_rdma_move_rule_t rule,
                                                    const muct_rdma_ep_t *found)
{
    const muct_rdma_ep_t *lane;

    ucs_list_for_each(lane, &iface->eps, list)
    {
        if (muct_rdma_move_is_lane(lane) && rule(ep, lane) &&
            ((found == NULL) || (muct_rdma_move_distance(ep, lane) <
                                 muct_rdma_move_distance(ep, found)))) {
            found = lane;
        }
    }

    return found;
}

/* Whether another endpoint to the same process uses another device with a known
 * control queue pair. */
static bool muct_rdma_move_has_device(const muct_rdma_ep_t *ep,
                                      const muct_rdma_ep_t *lane)
{
    return (lane->peer_ep.ctl_qp != 0) &&
           muct_rdma_incarnation_is_near(lane->peer.incarnation, ep->peer.incarnation);
}

static muct_rdma_iface_t *muct_rdma_move_next_iface(const muct_rdma_iface_t *iface)
{
    muct_rdma_iface_t *next = muct_rdma_carrier_next(iface, iface);

    return (next != NULL) ? next : muct_rdma_carrier_next(iface, NULL);
}

bool muct_rdma_move_choose(muct_rdma_ep_t *ep)
{
    const muct_rdma_ep_t *lane;
    muct_rdma_iface_t *iface;

    for (iface = muct_rdma_move_next_iface(ep->carrier); iface != ep->carrier;
         iface = muct_rdma_move_next_iface(iface)) {
        lane = (iface == muct_rdma_ep_iface(ep))
                   ? ep
                   : muct_rdma_move_nearest(ep, iface, muct_rdma_move_has_device, NULL);
        if ((lane != NULL) && muct_rdma_move_is_up(iface)) {
            muct_rdma_move_to(ep, iface, &lane->recover.first_peer,
                              lane->recover.first_ctl_qp);
            return true;
        }
    }

    return false;
}

void muct_rdma_move_to(muct_rdma_ep_t *ep, muct_rdma_iface_t *carrier,
                       const muct_rdma_dev_addr_t *peer, uint32_t ctl_qp)
{
    const uint64_t incarnation =
        ep->peer.incarnation; /* remote keys belong to this incarnation */

    if (carrier != ep->carrier) {
        muct_info("%s: endpoint %p continues on %s",
                  muct_rdma_iface_md(ep->carrier)->device.name, (void *)ep,
                  muct_rdma_iface_md(carrier)->device.name);
    }

    ep->carrier = carrier;
    ep->peer = *peer;
    ep->peer.incarnation = incarnation;
    ep->recover.peer_ctl_qp = ctl_qp;
    ep->recover.peer_incarnation = peer->incarnation;
    if (peer->incarnation == incarnation) {
        ep->recover.first_peer = *peer;
        ep->recover.first_ctl_qp = ctl_qp;
    }
    ep->recover.has_moved = ep->recover.has_moved ||
                            (carrier != muct_rdma_ep_iface(ep)) ||
                            (peer->incarnation != incarnation);
}

/* ---- keys ---- */

/* Whether the lane has the flush page of the peer's present device. */
static bool muct_rdma_move_has_page(const muct_rdma_ep_t *ep,
                                    const muct_rdma_ep_t *lane)
{
    return lane->peer.incarnation == ep->recover.peer_incarnation;
}

static const muct_rdma_ep_t *muct_rdma_move_page(const muct_rdma_ep_t *ep)
{
    const muct_rdma_ep_t *found = NULL;
    const muct_rdma_iface_t *iface = NULL;

    if (muct_rdma_move_has_page(ep, ep)) {
        return ep;
    }

    while ((iface = muct_rdma_carrier_next(ep->carrier, iface)) != NULL) {
        found = muct_rdma_move_nearest(ep, iface, muct_rdma_move_has_page, found);
    }

    return found;
}

/* Change address and key of a work request to those of the peer's present device. */
static bool muct_rdma_move_rkey(const muct_rdma_ep_t *ep, struct ibv_send_wr *wr,
                                uint64_t length, uint64_t *address, uint32_t *rkey)
{
    const uint64_t incarnation = ep->recover.peer_incarnation;
    const uint32_t device = muct_rdma_sq_key_device(wr, (uint32_t)ep->peer.incarnation);
    muct_rdma_rkeys_target_t target = {
        .incarnation = (incarnation & ~(uint64_t)UINT32_MAX) | device,
        .address = *address,
        .length = length,
        .rkey = *rkey};

    if (target.incarnation == incarnation) {
        return true;
    }
    if (!muct_rdma_rkeys_translate(&target, incarnation)) {
        return false;
    }

    *address = target.address;
    *rkey = target.rkey;
    muct_rdma_sq_set_moved_key(wr, (uint32_t)incarnation);
    return true;
}

static bool muct_rdma_move_user_rkey(const muct_rdma_ep_t *ep, struct ibv_send_wr *wr,
                                     uint64_t length, uint64_t *address, uint32_t *rkey)
{
    if (!muct_rdma_move_rkey(ep, wr, length, address, rkey)) {
        muct_error("remote memory 0x%" PRIx64 " length %" PRIu64
                   " has no key with the device of incarnation 0x%" PRIx64,
                   *address, length, ep->recover.peer_incarnation);
        return false;
    }

    return true;
}

/* Give the work request the page of the peer's present device. */
static bool muct_rdma_move_flush(const muct_rdma_ep_t *ep, struct ibv_send_wr *wr)
{
    const muct_rdma_ep_t *lane = muct_rdma_move_page(ep);

    if (lane == NULL) {
        muct_error("no endpoint is left to the device of incarnation 0x%" PRIx64
                   ": a flush has nothing to read there",
                   ep->recover.peer_incarnation);
        return false;
    }

    wr->wr.rdma.remote_addr = lane->peer_ep.flush_addr;
    wr->wr.rdma.rkey = lane->peer_ep.flush_rkey;
    return true;
}

/* Whether this address is that of our page of some GPU. */
static bool muct_rdma_move_is_gpu_page(const muct_rdma_ep_t *ep, uint64_t address)
{
    const muct_rdma_gpu_pages_t *pages =
        &muct_rdma_iface_md(muct_rdma_ep_iface(ep))->gpu_pages;
    unsigned i;

    for (i = 0; i < MUCT_RDMA_KEY_NUM_GPUS; ++i) {
        if ((pages->mems[i] != NULL) && (pages->mems[i]->base == address)) {
            return true;
        }
    }

    return false;
}

/* Whether this reads from the peer's host page behind writes, or writes to it from our
 * GPU (rdma_pull.c). It may name any of the peer's pages, as it may have moved
 * before. */
static bool muct_rdma_move_is_flush(const muct_rdma_ep_t *ep,
                                    const struct ibv_send_wr *wr)
{
    if (wr->num_sge != 1) {
        return false;
    }

    return (wr->opcode == IBV_WR_RDMA_READ)
               ? (wr->sg_list[0].addr ==
                  muct_rdma_iface_read_back(muct_rdma_ep_iface(ep), true))
               : ((wr->opcode == IBV_WR_RDMA_WRITE) &&
                  muct_rdma_move_is_gpu_page(ep, wr->sg_list[0].addr));
}

bool muct_rdma_move_wr(muct_rdma_sq_t *sq, struct ibv_send_wr *wr)
{
    const muct_rdma_ep_t *ep = ucs_container_of(sq, muct_rdma_chan_t, sq)->ep;
    uint64_t length = 0;
    struct ibv_sge *sge;

    for (sge = wr->sg_list; sge != wr->sg_list + wr->num_sge; ++sge) {
        length += sge->length;
        if (!(wr->send_flags & IBV_SEND_INLINE) && (sge->length > 0) &&
            !muct_rdma_carrier_lkey(ep, sge->addr, sge->length, &sge->lkey)) {
            return false;
        }
    }

    /* an answer from a GPU page has its key, and is no flush */
    if (!muct_rdma_sq_has_final_key(wr) && muct_rdma_move_is_flush(ep, wr)) {
        return muct_rdma_move_flush(ep, wr);
    }

    switch (wr->opcode) {
    case IBV_WR_SEND:
        return muct_rdma_pull_move(ep, wr);
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return muct_rdma_move_user_rkey(ep, wr, length, &wr->wr.atomic.remote_addr,
                                        &wr->wr.atomic.rkey);
    default:
        if (muct_rdma_sq_has_final_key(wr)) {
            return muct_rdma_move_rkey(ep, wr, length, &wr->wr.rdma.remote_addr,
                                       &wr->wr.rdma.rkey) ||
                   muct_rdma_pull_give_up(sq, wr);
        }
        return (length == 0) ||
               muct_rdma_move_user_rkey(ep, wr, length, &wr->wr.rdma.remote_addr,
                                        &wr->wr.rdma.rkey);
    }
}
