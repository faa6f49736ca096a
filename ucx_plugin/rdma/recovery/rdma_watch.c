/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/recovery/rdma_watch.h"

#include "base/muct_log.h"

#include <inttypes.h>

/* Lower bound of the limit, longer than a busy machine keeps a process waiting */
#define MUCT_RDMA_WATCH_LEAST_MS 2000

/* Bytes that the slowest path moves in a millisecond, 10 MB/s */
#define MUCT_RDMA_WATCH_BYTES 10000u

uint64_t muct_rdma_watch_limit(const muct_rdma_qp_path_t *path)
{
    /* a device may take up to four times the timeout, by the specification */
    const uint64_t usec = (UINT64_C(4096) << path->timeout) / 1000;
    const uint64_t ms = 4 * usec * (path->retry_count + 1u) / 1000;

    return (ms > MUCT_RDMA_WATCH_LEAST_MS) ? ms : MUCT_RDMA_WATCH_LEAST_MS;
}

/* Whether work requests of a connected queue pair were posted to the device.
 * muct_rdma_sq_is_idle() also counts gathered ones that are not posted yet. */
static bool muct_rdma_watch_has_posted(const muct_rdma_chan_t *chan)
{
    return (chan->ep->state == MUCT_RDMA_EP_CONNECTED) &&
           (chan->sq.tail != chan->sq.posted);
}

/* Whether the peer owes an answer to a message that its device has acknowledged. */
static bool muct_rdma_watch_is_owed(const muct_rdma_ep_t *ep)
{
    return (ep->state == MUCT_RDMA_EP_CONNECTED) && (ep->pull != NULL) &&
           !muct_rdma_watch_has_posted(&ep->chans[0]);
}

static bool muct_rdma_watch_is_busy(const muct_rdma_ep_t *ep)
{
    unsigned i;

    if (muct_rdma_watch_is_owed(ep)) {
        return true;
    }

    for (i = 0; i < ep->num_qps; ++i) {
        if (muct_rdma_watch_has_posted(&ep->chans[i])) {
            return true;
        }
    }

    return false;
}

bool muct_rdma_watch_is_needed(const muct_rdma_iface_t *iface)
{
    const muct_rdma_ep_t *ep;

    ucs_list_for_each(ep, &iface->eps, list)
    {
        if (muct_rdma_watch_is_busy(ep)) {
            return true;
        }
    }

    return false;
}

/* Post a write of zero bytes. A fence stays for the user's next work request. */
static void muct_rdma_watch_nudge(muct_rdma_chan_t *chan)
{
    const uint32_t flags = chan->sq.next_flags;
    struct ibv_send_wr *wr;

    if (muct_rdma_sq_free(&chan->sq) == 0) {
        return;
    }

    muct_debug("qp 0x%x waits for long, with work requests %u to %u posted",
               chan->ibv->qp_num, chan->sq.tail, chan->sq.posted);
    chan->sq.next_flags = 0;
    wr = muct_rdma_sq_begin(&chan->sq, IBV_WR_RDMA_WRITE);
    wr->num_sge = 0;
    wr->wr.rdma.remote_addr = 0;
    wr->wr.rdma.rkey = 0;
    muct_rdma_sq_add(&chan->sq, wr, NULL, NULL, 0);
    muct_rdma_sq_ring(&chan->sq);
    chan->sq.next_flags = flags;
}

/* Whether the queue pair had no completion for too long. Count checks instead of time,
 * because the program may not have made progress. */
static bool muct_rdma_watch_chan(muct_rdma_chan_t *chan)
{
    const muct_rdma_iface_t *iface = muct_rdma_ep_iface(chan->ep);
    const muct_rdma_sq_t *sq = &chan->sq;
    uint64_t limit;

    if (!muct_rdma_watch_has_posted(chan) || (chan->ep->carrier->port_down_ms != 0)) {
        chan->is_watched = false;
        return false;
    }

    if (!chan->is_watched || (sq->tail != chan->watched_tail)) {
        chan->is_watched = true;
        chan->watched_tail = sq->tail;
        chan->watched_ms = iface->watch_time_ms;
        chan->num_checks = 0;
        return false;
    }

    limit = MUCT_RDMA_WATCH_CHECKS + muct_rdma_sq_busy_bytes(sq) /
                                         MUCT_RDMA_WATCH_BYTES /
                                         muct_rdma_watch_period(iface);
    if (++chan->num_checks == limit / 2) {
        muct_rdma_watch_nudge(chan);
    }

    return chan->num_checks >= limit;
}

/* Check all queue pairs of the endpoint. Returns the first that must be given up, or
 * NULL. */
static const muct_rdma_chan_t *muct_rdma_watch_ep(muct_rdma_ep_t *ep)
{
    const muct_rdma_chan_t *over = NULL;
    unsigned i;

    if (muct_rdma_watch_is_owed(ep)) {
        muct_rdma_watch_nudge(&ep->chans[0]); /* the write fails where the peer is
                                               * gone */
    }

    for (i = 0; i < ep->num_created; ++i) {
        if (muct_rdma_watch_chan(&ep->chans[i]) && (over == NULL)) {
            over = &ep->chans[i];
        }
    }

    return over;
}

static void muct_rdma_watch_warn(const muct_rdma_chan_t *chan, uint64_t ms)
{
    muct_warn(
        "%s: qp 0x%x has neither ended nor failed its %u work requests in %" PRIu64
        " ms; the connection is given up",
        muct_rdma_iface_md(chan->ep->carrier)->device.name, chan->ibv->qp_num,
        chan->sq.posted - chan->sq.tail, ms);
}

void muct_rdma_watch_progress(muct_rdma_iface_t *iface)
{
    size_t num = ucs_list_length(&iface->eps);
    const muct_rdma_chan_t *over;
    muct_rdma_ep_t *ep;

    /* visit each endpoint once; move it to the tail first, as its error handler may
     * destroy it and others */
    while ((num-- > 0) && !ucs_list_is_empty(&iface->eps)) {
        ep = ucs_list_extract_head(&iface->eps, muct_rdma_ep_t, list);
        ucs_list_add_tail(&iface->eps, &ep->list);
        over = muct_rdma_watch_ep(ep);
        if (over != NULL) {
            muct_rdma_watch_warn(over, iface->watch_time_ms - over->watched_ms);
            muct_rdma_ep_broke(ep, UCS_ERR_ENDPOINT_TIMEOUT);
        }
    }
}
