/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Receives of active messages: posted ahead, delivered, posted again. The protocol is
 * at the head of rdma_am.c.
 */

#include "rdma/op/rdma_am_recv.h"

#include "base/muct_am.h"
#include "base/muct_bytes.h"
#include "base/muct_log.h"
#include "rdma/op/rdma_am.h"
#include "rdma/op/rdma_pull.h"
#include "rdma/ep/rdma_carrier.h"
#include "rdma/ep/rdma_ep_wait.h"

#include <stdlib.h>
#include <string.h>

/* Receives posted with one call; fewer missing receives are not posted yet. */
#define MUCT_RDMA_AM_RECV_BATCH 16


static void muct_rdma_am_count_posted(muct_rdma_ep_t *ep, uint32_t num)
{
    muct_rdma_rx_t *rx = &ep->rx;
    uint32_t ctl = (num < rx->missing_ctl) ? num : rx->missing_ctl;

    rx->missing_ctl -= ctl;
    rx->missing_data -= num - ctl;
    rx->owed += num - ctl;
    muct_rdma_ep_iface(ep)->num_missing -= num;
}

/* Build the receive of an index, whose buffer is in the ring. False when the carrier's
 * device has no key for the buffer. */
static bool muct_rdma_am_fill_receive(const muct_rdma_ep_t *ep, uint32_t index,
                                      struct ibv_recv_wr *wr, struct ibv_sge *sge)
{
    const muct_rdma_iface_t *iface = muct_rdma_ep_iface(ep);
    const muct_rdma_rx_t *rx = &ep->rx;
    muct_rdma_buf_t *buf = rx->ring[index & rx->mask];

    sge->addr = (uint64_t)(uintptr_t)muct_rdma_buf_data(buf) + iface->rx_offset -
                MUCT_RDMA_AM_HEADER;
    sge->length = iface->limits.seg_size;
    sge->lkey = buf->lkey;
    wr->wr_id = rx->id | index;
    wr->sg_list = sge;
    wr->num_sge = 1;
    return (ep->carrier == iface) ||
           muct_rdma_carrier_lkey(ep, sge->addr, sge->length, &sge->lkey);
}

/* Post up to a batch of missing receives. @return Number posted. */
static uint32_t muct_rdma_am_post_receives(muct_rdma_ep_t *ep)
{
    struct ibv_recv_wr wrs[MUCT_RDMA_AM_RECV_BATCH], *bad = NULL;
    muct_rdma_iface_t *iface = muct_rdma_ep_iface(ep);
    struct ibv_sge sges[MUCT_RDMA_AM_RECV_BATCH];
    muct_rdma_rx_t *rx = &ep->rx;
    uint32_t i, num, wanted = rx->missing_ctl + rx->missing_data;
    muct_rdma_buf_t *buf;
    int error;

    for (num = 0; (num < wanted) && (num < MUCT_RDMA_AM_RECV_BATCH); ++num) {
        if (muct_rdma_buf_get(&iface->rx_pool, &buf) != UCS_OK) {
            break;
        }

        rx->ring[(rx->head + num) & rx->mask] = buf;
        if (!muct_rdma_am_fill_receive(ep, rx->head + num, &wrs[num], &sges[num])) {
            muct_rdma_buf_put(buf);
            rx->lacks_keys = true;
            break;
        }
        wrs[num].next = &wrs[num + 1];
    }

    if (num == 0) {
        return 0;
    }

    wrs[num - 1].next = NULL;
    error = ibv_post_recv(ep->chans[0].ibv, wrs, &bad);
    if (error != 0) {
        muct_debug("ibv_post_recv(qp 0x%x) failed: %s", ep->chans[0].ibv->qp_num,
                   strerror(error));
        wanted = (bad != NULL) ? (uint32_t)(bad - wrs) : 0;
        for (i = wanted; i < num; ++i) {
            muct_rdma_buf_put(rx->ring[(rx->head + i) & rx->mask]);
        }
        num = wanted;
    }

    rx->head += num;
    return num;
}

/* Credits announce them to the peer like receives that are posted again. */
static void muct_rdma_am_grow(muct_rdma_ep_t *ep, uint32_t num)
{
    muct_rdma_rx_t *rx = &ep->rx;

    rx->missing_data += num;
    muct_rdma_ep_iface(ep)->num_missing += num;
    rx->depth += num;
    rx->grown = rx->tail;
    ep->credit_batch = (rx->depth + 1) / 2;
}

/* Whether the pool has a buffer for each missing receive of all endpoints, and @a num
 * more. It grows only if its limit allows as many. */
static bool muct_rdma_am_has_buffers(muct_rdma_iface_t *iface, uint32_t num)
{
    muct_rdma_buf_pool_t *pool = &iface->rx_pool;
    const uint64_t wanted = (uint64_t)iface->num_missing + num;

    return __builtin_expect(muct_rdma_buf_pool_num_free(pool) >= wanted, 1) ||
           ((pool->max - pool->num_in_use >= wanted) &&
            (muct_rdma_buf_pool_grow(pool) == UCS_OK) &&
            (muct_rdma_buf_pool_num_free(pool) >= wanted));
}

/* Double the receives, up to RX_DEPTH, after as many messages as there are receives,
 * unless other endpoints need the buffers. Call this before credits are sent, so that
 * one message carries all of them. */
static void muct_rdma_am_grow_with_use(muct_rdma_ep_t *ep)
{
    const uint32_t left = muct_rdma_ep_iface(ep)->limits.rx_depth - ep->rx.depth;
    const uint32_t num = (left < ep->rx.depth) ? left : ep->rx.depth;

    if ((num > 0) && !ep->rx.lacks_keys &&
        (ep->rx.tail - ep->rx.grown >= ep->rx.depth) &&
        muct_rdma_am_has_buffers(muct_rdma_ep_iface(ep), num)) {
        muct_rdma_am_grow(ep, num);
    }
}

/* No receive can be posted. Give up the receives beyond the first ones: credits are
 * sent for half of all, so the peer would wait for credits of receives that are never
 * posted. */
static void muct_rdma_am_shrink(muct_rdma_ep_t *ep)
{
    muct_rdma_rx_t *rx = &ep->rx;
    const uint32_t added = rx->depth - rx->first;
    const uint32_t num = (rx->missing_data < added) ? rx->missing_data : added;

    rx->missing_data -= num;
    muct_rdma_ep_iface(ep)->num_missing -= num;
    rx->depth -= num;
    ep->credit_batch = (rx->depth + 1) / 2;
}

ucs_status_t muct_rdma_am_init(muct_rdma_ep_t *ep)
{
    muct_rdma_iface_t *iface = muct_rdma_ep_iface(ep);
    uint32_t posted, slots = 1,
                     depth = iface->limits.rx_depth + MUCT_RDMA_CREDIT_RECEIVES;
    muct_rdma_rx_t *rx = &ep->rx;

    while (slots < depth) {
        slots *= 2;
    }

    rx->ring = calloc(slots, sizeof(*rx->ring));
    if (rx->ring == NULL) {
        muct_error("failed to allocate a receive queue of %u", depth);
        return UCS_ERR_NO_MEMORY;
    }

    rx->mask = slots - 1;
    rx->id = MUCT_RDMA_WR_ID_RECV | ep->chans[0].id;
    rx->missing_ctl = MUCT_RDMA_CREDIT_RECEIVES;
    iface->num_missing += MUCT_RDMA_CREDIT_RECEIVES;
    rx->first = muct_rdma_iface_share(iface, iface->limits.rx_first, 1);
    muct_rdma_am_grow(ep, rx->first);
    while (rx->missing_data + rx->missing_ctl > 0) {
        posted = muct_rdma_am_post_receives(ep);
        if (posted == 0) {
            muct_error("failed to post %u of %u receives", rx->missing_data, depth);
            muct_rdma_am_cleanup(ep);
            return UCS_ERR_NO_MEMORY;
        }
        muct_rdma_am_count_posted(ep, posted);
    }

    rx->owed = 0; /* our address announces these to the peer */
    return UCS_OK;
}

ucs_status_t muct_rdma_am_renew(muct_rdma_ep_t *ep)
{
    muct_rdma_rx_t *rx = &ep->rx;
    struct ibv_recv_wr wr, *bad;
    struct ibv_sge sge;
    uint32_t index;
    int error;

    rx->id = MUCT_RDMA_WR_ID_RECV | ep->chans[0].id;
    rx->lacks_keys = false; /* the device may be another one */
    for (index = rx->tail; index != rx->head; ++index) {
        if (!muct_rdma_am_fill_receive(ep, index, &wr, &sge)) {
            return UCS_ERR_IO_ERROR;
        }
        wr.next = NULL;
        error = ibv_post_recv(ep->chans[0].ibv, &wr, &bad);
        if (error != 0) {
            muct_error("ibv_post_recv(qp 0x%x) failed: %s", ep->chans[0].ibv->qp_num,
                       strerror(error));
            return UCS_ERR_IO_ERROR;
        }
    }

    return UCS_OK;
}

void muct_rdma_am_cleanup(muct_rdma_ep_t *ep)
{
    muct_rdma_rx_t *rx = &ep->rx;

    for (; rx->tail != rx->head; ++rx->tail) {
        muct_rdma_buf_put(rx->ring[rx->tail & rx->mask]);
    }

    free(rx->ring);
    rx->ring = NULL;
    muct_rdma_ep_iface(ep)->num_missing -= rx->missing_ctl + rx->missing_data;
    rx->missing_ctl = 0;
    rx->missing_data = 0;
    rx->owed = 0;
}

void muct_rdma_am_progress(muct_rdma_ep_t *ep)
{
    muct_rdma_rx_t *rx = &ep->rx;
    uint32_t posted;

    muct_rdma_am_grow_with_use(ep);
    while (rx->missing_ctl + rx->missing_data > 0) {
        posted = muct_rdma_am_post_receives(ep);
        if (posted == 0) {
            muct_rdma_am_shrink(ep);
            break;
        }
        muct_rdma_am_count_posted(ep, posted);
    }

    if ((rx->owed >= ep->credit_batch) && (muct_rdma_sq_free(&ep->chans[0].sq) > 0)) {
        muct_rdma_am_send_credits(ep);
    }
}

bool muct_rdma_am_has_work(const muct_rdma_ep_t *ep)
{
    return (ep->rx.missing_ctl + ep->rx.missing_data > 0) ||
           (ep->rx.owed >= ep->credit_batch && ep->rx.owed > 0);
}

bool muct_rdma_am_is_runnable(const muct_rdma_ep_t *ep)
{
    const muct_rdma_buf_pool_t *pool = &muct_rdma_ep_iface(ep)->rx_pool;

    return ((ep->rx.missing_ctl + ep->rx.missing_data > 0) &&
            !muct_rdma_buf_pool_is_dry(pool)) ||
           ((ep->rx.owed >= ep->credit_batch) && (ep->rx.owed > 0) &&
            (muct_rdma_sq_free(&ep->chans[0].sq) > 0));
}

/* Whether enough receives are missing or credits owed to post or send them. */
static void muct_rdma_am_schedule(muct_rdma_ep_t *ep)
{
    muct_rdma_rx_t *rx = &ep->rx;

    if ((rx->missing_ctl > 0) || (rx->missing_data >= MUCT_RDMA_AM_RECV_BATCH) ||
        (rx->missing_data + rx->owed >= ep->credit_batch)) {
        muct_rdma_ep_add_work(ep);
    }
}

static void muct_rdma_am_bad_message(muct_rdma_ep_t *ep, uint32_t length, uint8_t id,
                                     uint8_t kind)
{
    muct_error(
        "message of %u bytes, id %u, kind %u from qp 0x%x is not one of mori_rdma's",
        length, id, kind, ep->peer_ep.qp_nums[0]);
    muct_rdma_ep_fail(ep, UCS_ERR_CONNECTION_RESET, true);
}

/* Handle an internal message; the endpoint may have failed when this returns. */
static void muct_rdma_am_receive_own(muct_rdma_ep_t *ep, const struct ibv_wc *wc,
                                     muct_rdma_buf_t *buf, const uint8_t *header)
{
    const uint8_t id = header[0], kind = header[1];
    const bool is_good = muct_rdma_pull_receive(
        ep, kind, id, header + MUCT_RDMA_AM_HEADER, wc->byte_len - MUCT_RDMA_AM_HEADER);

    muct_rdma_buf_put(buf);
    if (!is_good) {
        muct_rdma_am_bad_message(ep, wc->byte_len, id, kind);
    }
}

void muct_rdma_am_receive(muct_rdma_ep_t *ep, const struct ibv_wc *wc)
{
    muct_rdma_iface_t *iface = muct_rdma_ep_iface(ep);
    muct_rdma_rx_t *rx = &ep->rx;
    muct_rdma_buf_t *buf = rx->ring[rx->tail & rx->mask];
    uint8_t *data = (uint8_t *)muct_rdma_buf_data(buf) + iface->rx_offset;
    uint8_t *header = data - MUCT_RDMA_AM_HEADER, id = header[0], kind = header[1];
    uct_recv_desc_t *desc = &iface->release_desc;
    uint32_t credits;
    ucs_status_t status;

    ++rx->tail;
    if ((wc->byte_len < MUCT_RDMA_AM_HEADER) || (id >= UCT_AM_ID_MAX) ||
        (kind > MUCT_RDMA_AM_PULLED)) {
        muct_rdma_buf_put(buf);
        muct_rdma_am_bad_message(ep, wc->byte_len, id, kind);
        return;
    }

    credits = (uint32_t)muct_get_le(header + 2, 2);
    if (credits > 0) {
        ep->credits += credits;
        ep->has_event = true;
    }

    if (kind == MUCT_RDMA_AM_CREDIT) {
        muct_rdma_buf_put(buf);
        ++rx->missing_ctl;
        ++iface->num_missing;
        muct_rdma_ep_add_work(ep);
        return;
    }

    /* do this before the handler, which may destroy the endpoint */
    ++rx->missing_data;
    ++iface->num_missing;
    muct_rdma_am_schedule(ep);
    if (kind != MUCT_RDMA_AM_MESSAGE) {
        muct_rdma_am_receive_own(ep, wc, buf, header);
        return;
    }

    muct_am_trace(&iface->super, UCT_AM_TRACE_TYPE_RECV, id, data,
                  wc->byte_len - MUCT_RDMA_AM_HEADER);
    status = muct_iface_invoke_am(
        &iface->super, id, data, wc->byte_len - MUCT_RDMA_AM_HEADER,
        muct_rdma_am_has_buffers(iface, 0) ? UCT_CB_PARAM_FLAG_DESC : 0);
    if (status == UCS_INPROGRESS) {
        /* the user keeps the buffer and releases it through the descriptor before
         * its data */
        memcpy(data - iface->rx_headroom - sizeof(desc), &desc, sizeof(desc));
    } else {
        muct_rdma_buf_put(buf);
    }
}
