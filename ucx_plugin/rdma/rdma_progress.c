/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Progress of an interface: completions, pending requests, doorbells, and the device's
 * events.
 */

#include "rdma/rdma_progress.h"

#include "base/muct_log.h"
#include "rdma/op/rdma_am_recv.h"
#include "rdma/ep/rdma_carrier.h"
#include "rdma/ep/rdma_ep_wait.h"
#include "rdma/recovery/rdma_recover.h"
#include "rdma/ep/rdma_ep.h"
#include "rdma/recovery/rdma_move.h"
#include "rdma/recovery/rdma_watch.h"

#include <inttypes.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define MUCT_RDMA_POLL_BATCH 16
#define MUCT_RDMA_POLL_ROUNDS 4
#define MUCT_RDMA_POLL_QUEUES 2 /* a progress */

/* Interval of reads of the device's events, in rounds of progress and in time. Events
 * are rare, and a read is a system call. */
#define MUCT_RDMA_ASYNC_MS 20

/* The coarse clock lags by up to a tick. */
#define MUCT_RDMA_CLOCK_MS 11

/* ---- progress ---- */

static inline void muct_rdma_iface_handle_wc(muct_rdma_iface_t *iface,
                                             const struct ibv_wc *wc)
{
    uint32_t index =
        (uint32_t)(wc->wr_id >> MUCT_RDMA_WR_ID_SLOT_SHIFT) & MUCT_RDMA_WR_ID_SLOT_MASK;
    uint32_t gen =
        (uint32_t)(wc->wr_id >> MUCT_RDMA_WR_ID_GEN_SHIFT) & MUCT_RDMA_WR_ID_GEN_MASK;
    muct_rdma_place_t *place = &iface->places[index];
    muct_rdma_chan_t *chan = place->chan;

    if (__builtin_expect((chan == NULL) || (place->gen != gen), 0)) {
        if (muct_rdma_ctl_owns(&iface->ctl, wc->wr_id)) {
            muct_rdma_recover_receive(iface, wc);
        }
        return; /* no channel: a completion of a destroyed queue pair */
    }

    if (__builtin_expect(wc->status != IBV_WC_SUCCESS, 0)) {
        muct_rdma_ep_handle_error(chan, wc);
        return;
    }

    if (wc->wr_id & MUCT_RDMA_WR_ID_RECV) {
        muct_rdma_am_receive(chan->ep, wc);
    } else {
        chan->ep->has_event = true;
        muct_rdma_sq_complete(&chan->sq, (uint32_t)wc->wr_id, UCS_OK);
    }
}

static unsigned muct_rdma_iface_poll_cq(muct_rdma_iface_t *iface, muct_rdma_cq_t *cq)
{
    struct ibv_wc wcs[MUCT_RDMA_POLL_BATCH];
    unsigned i, num, round, count = 0;

    for (round = 0; round < MUCT_RDMA_POLL_ROUNDS; ++round) {
        num = muct_rdma_cq_poll(&iface->cqs, cq, MUCT_RDMA_POLL_BATCH, wcs);
        for (i = 0; i < num; ++i) {
            muct_rdma_iface_handle_wc(iface, &wcs[i]);
        }
        count += num;
        if (num < MUCT_RDMA_POLL_BATCH) {
            break;
        }
    }

    return count;
}

static unsigned muct_rdma_iface_poll_all(muct_rdma_iface_t *iface)
{
    unsigned i, count = 0;

    for (i = 0; i < iface->cqs.num; ++i) {
        count += muct_rdma_iface_poll_cq(iface, iface->cqs.cqs[i]);
    }

    return count;
}

/* Poll all queues, or a few in turn where there are many. */
static unsigned muct_rdma_iface_poll(muct_rdma_iface_t *iface)
{
    unsigned i, count = 0;

    if (__builtin_expect(iface->cqs.num <= MUCT_RDMA_POLL_QUEUES, 1)) {
        return muct_rdma_iface_poll_all(iface);
    }

    for (i = 0; i < MUCT_RDMA_POLL_QUEUES; ++i) {
        iface->next_cq = (iface->next_cq + 1 < iface->cqs.num) ? iface->next_cq + 1 : 0;
        count += muct_rdma_iface_poll_cq(iface, iface->cqs.cqs[iface->next_cq]);
    }

    return count;
}

/* A removed device rejects posts before its removal event arrives; move to another
 * device if there is one. */
static void muct_rdma_ep_refused(muct_rdma_ep_t *ep, bool is_lost)
{
    if (is_lost || !muct_rdma_recover_leave(ep, UCS_ERR_IO_ERROR)) {
        muct_rdma_ep_fail(ep, UCS_ERR_IO_ERROR, true);
    }
}

static void muct_rdma_iface_ring(muct_rdma_iface_t *iface)
{
    muct_rdma_chan_t *failed = NULL;
    muct_rdma_sq_t *sq, *next;

    ucs_list_for_each_safe(sq, next, &iface->dirty, dirty_link)
    {
        muct_rdma_sq_ring(sq);
        if (sq->error != 0) {
            failed = ucs_container_of(sq, muct_rdma_chan_t, sq);
        }
    }

    /* after the loop, because this removes queues from the list; others follow next
     * time */
    if (failed != NULL) {
        muct_error("ibv_post_send(qp 0x%x) failed: %s", failed->ibv->qp_num,
                   strerror(failed->sq.error));
        muct_rdma_ep_refused(failed->ep, failed->sq.is_lost);
    }
}

static unsigned muct_rdma_iface_work(muct_rdma_iface_t *iface)
{
    size_t num = ucs_list_length(&iface->work);
    unsigned count = 0;
    muct_rdma_ep_t *ep;

    /* visit each endpoint once: those with more work enter again at the end */
    while ((num-- > 0) && !ucs_list_is_empty(&iface->work)) {
        ep = ucs_list_extract_head(&iface->work, muct_rdma_ep_t, work);
        ep->has_work = false;
        count += muct_rdma_ep_progress_work(ep);
    }

    return count;
}

typedef bool (*muct_rdma_ep_test_t)(const muct_rdma_ep_t *ep, const void *arg);

/* Find an endpoint with a queue pair of the carrier: the carrier's own endpoint, or one
 * of another interface that it carries. */
static muct_rdma_ep_t *muct_rdma_iface_find_ep(const muct_rdma_iface_t *carrier,
                                               muct_rdma_ep_test_t is_concerned,
                                               const void *arg)
{
    const muct_rdma_iface_t *iface = NULL;
    muct_rdma_ep_t *ep;

    while ((iface = muct_rdma_carrier_next(carrier, iface)) != NULL) {
        ucs_list_for_each(ep, &iface->eps, list)
        {
            if ((ep->state != MUCT_RDMA_EP_FAILED) && (ep->carrier == carrier) &&
                is_concerned(ep, arg)) {
                return ep;
            }
        }
    }

    return NULL;
}

/* End all endpoints that meet a condition. The callback must make the condition
 * false. */
static void muct_rdma_iface_end_if(muct_rdma_iface_t *iface, ucs_status_t status,
                                   muct_rdma_ep_test_t is_concerned, const void *arg,
                                   void (*end)(muct_rdma_ep_t *ep, ucs_status_t status))
{
    muct_rdma_ep_t *ep;

    /* restart from the head each time: an error handler may destroy endpoints */
    while ((ep = muct_rdma_iface_find_ep(iface, is_concerned, arg)) != NULL) {
        end(ep, status);
    }
}

static bool muct_rdma_ep_is_connected_now(const muct_rdma_ep_t *ep, const void *arg)
{
    (void)arg;
    return (ep->state == MUCT_RDMA_EP_CONNECTED) ||
           (ep->state == MUCT_RDMA_EP_RECOVERING);
}

static void muct_rdma_ep_leave(muct_rdma_ep_t *ep, ucs_status_t status)
{
    if (!muct_rdma_recover_leave(ep, status)) {
        muct_rdma_ep_fail(ep, status, true);
    }
}

/* Move all connected endpoints to another device; fail those that cannot move. */
static void muct_rdma_iface_leave_all(muct_rdma_iface_t *iface, ucs_status_t status)
{
    muct_rdma_iface_end_if(iface, status, muct_rdma_ep_is_connected_now, NULL,
                           muct_rdma_ep_leave);
}

/* Handle the loss of the device, reported by an event or found by a command. Runs once,
 * as no endpoint moves to such a device later. */
static void muct_rdma_iface_leave_dead(muct_rdma_iface_t *iface)
{
    if (!iface->is_dead || iface->has_left) {
        return;
    }

    muct_error("%s: device failed or was removed",
               muct_rdma_iface_md(iface)->device.name);
    iface->has_left = true;
    (void)muct_rdma_iface_poll_all(
        iface); /* completions carry the more precise error */
    muct_rdma_iface_leave_all(iface, UCS_ERR_IO_ERROR);
}

static bool muct_rdma_ep_is_doomed(const muct_rdma_ep_t *ep, const void *arg)
{
    (void)arg;
    return (ep->doom != UCS_OK) && (ep->state != MUCT_RDMA_EP_FAILED);
}

static void muct_rdma_ep_meet_doom(muct_rdma_ep_t *ep, ucs_status_t status)
{
    (void)status;
    muct_rdma_ep_fail(ep, ep->doom, true);
}

static bool muct_rdma_ep_owns_qp(const muct_rdma_ep_t *ep, const void *arg)
{
    const muct_rdma_async_events_t *events = arg;
    unsigned i, j;

    if (ep->state == MUCT_RDMA_EP_RECOVERING) {
        return false; /* all of them are in error already */
    }

    for (i = 0; i < ep->num_created; ++i) {
        for (j = 0; (j < events->num_qps) && (j < MUCT_RDMA_ASYNC_MAX_QPS); ++j) {
            if ((ep->chans[i].ibv != NULL) &&
                (ep->chans[i].ibv->qp_num == events->qp_nums[j])) {
                return true;
            }
        }
    }

    return false;
}

/* Number of queue pairs in use, without those being replaced. */
static unsigned muct_rdma_ep_num_used(const muct_rdma_ep_t *ep)
{
    switch (ep->recover.phase) {
    case MUCT_RDMA_RECOVER_BREAK:
    case MUCT_RDMA_RECOVER_DRAIN:
        return 0;
    case MUCT_RDMA_RECOVER_MAKE:
        return ep->recover.num_done;
    default:
        return ep->num_created;
    }
}

static bool muct_rdma_ep_has_broken_cq(const muct_rdma_ep_t *ep, const void *arg)
{
    const unsigned num = muct_rdma_ep_num_used(ep);
    unsigned i;

    (void)arg;
    for (i = 0; i < num; ++i) {
        if ((ep->chans[i].ibv != NULL) && ep->chans[i].cq->is_broken) {
            return true;
        }
    }

    return false;
}

static void muct_rdma_iface_set_broken(muct_rdma_iface_t *iface,
                                       const muct_rdma_async_events_t *events)
{
    unsigned i, j;

    for (i = 0; i < iface->cqs.num; ++i) {
        for (j = 0; (j < events->num_cqs) && (j < MUCT_RDMA_ASYNC_MAX_CQS); ++j) {
            if (iface->cqs.cqs[i]->ibv == events->cqs[j]) {
                muct_rdma_cq_set_broken(&iface->cqs, iface->cqs.cqs[i]);
            }
        }
        if (events->num_cqs > MUCT_RDMA_ASYNC_MAX_CQS) {
            muct_rdma_cq_set_broken(&iface->cqs, iface->cqs.cqs[i]);
        }
    }
}

/* The device may still work, but this is unknown: prefer another one. */
static void muct_rdma_ep_leave_queue(muct_rdma_ep_t *ep, ucs_status_t status)
{
    if (!muct_rdma_recover_leave(ep, status)) {
        muct_rdma_ep_broke(ep, status);
    }
}

/* Handle a broken completion queue: no completion will report the result of its
 * endpoints' operations. The endpoints recover with another device or another queue,
 * and the peer reports which messages arrived. Endpoints that cannot recover fail. */
static void muct_rdma_iface_leave_broken(muct_rdma_iface_t *iface)
{
    iface->cqs.has_failed = false;
    /* queue pairs made ahead may use the broken queue */
    muct_rdma_stock_drop(&iface->stock);
    muct_rdma_recover_reopen(iface);
    muct_rdma_iface_end_if(iface, UCS_ERR_IO_ERROR, muct_rdma_ep_has_broken_cq, NULL,
                           muct_rdma_ep_leave_queue);
}

static void muct_rdma_iface_set_address(muct_rdma_iface_t *iface)
{
    const muct_rdma_device_t *device = &muct_rdma_iface_md(iface)->device;
    const unsigned before = iface->port.gid_index;

    iface->has_routes = false;
    muct_rdma_ctl_set_moved(&iface->ctl);
    if (muct_rdma_port_renew_gid(device, iface->has_fixed_gid, &iface->port)) {
        muct_warn("%s:%u: its address changed or moved, from GID %u to %u; connections "
                  "made before may be lost",
                  device->name, iface->port.num, before, iface->port.gid_index);
    }
}

/* Set the timer that wakes a blocked worker when the link has been down for too long,
 * or while endpoints recover. */
static void muct_rdma_iface_set_timer(muct_rdma_iface_t *iface)
{
    struct itimerspec time = {{0}};
    uint64_t ms = iface->port_down_timeout_ms;
    uint64_t count;

    if (read(iface->timer_fd, &count, sizeof(count)) < 0) {
        muct_trace("read(timerfd) failed: %m"); /* the timer did not expire */
    }

    ms = (iface->port_down_ms != 0) ? ms + MUCT_RDMA_CLOCK_MS : MUCT_RDMA_NEVER_MS;
    if ((!ucs_list_is_empty(&iface->recovering) ||
         muct_rdma_ctl_has_to_restart(&iface->ctl)) &&
        (ms > MUCT_RDMA_RECOVER_TICK_MS)) {
        ms = MUCT_RDMA_RECOVER_TICK_MS;
    }
    if (iface->has_watch_timer && (ms > muct_rdma_watch_period(iface))) {
        ms = muct_rdma_watch_period(iface) + MUCT_RDMA_CLOCK_MS;
    }
    if (ms < MUCT_RDMA_NEVER_MS) {
        time.it_value.tv_sec = (time_t)(ms / 1000);
        time.it_value.tv_nsec = (long)(ms % 1000) * 1000000;
    }
    if (timerfd_settime(iface->timer_fd, 0, &time, NULL) != 0) {
        muct_warn("timerfd_settime() failed: %m");
    }
}

static void muct_rdma_iface_dispatch_async(muct_rdma_iface_t *iface, uint64_t now)
{
    muct_rdma_md_t *md = muct_rdma_iface_md(iface);
    muct_rdma_async_events_t events;

    if (!muct_rdma_async_take(&md->async, &iface->async, &events)) {
        return;
    }

    if (events.flags & MUCT_RDMA_ASYNC_ADDRESS) {
        muct_rdma_iface_set_address(iface);
    }
    if (events.flags & (MUCT_RDMA_ASYNC_PORT_DOWN | MUCT_RDMA_ASYNC_PORT_UP)) {
        iface->port.is_active = muct_rdma_port_is_active(&md->device, iface->port.num);
        iface->port_down_ms = iface->port.is_active ? 0 : now;
        muct_rdma_iface_set_timer(iface);
    }
    if (events.flags & MUCT_RDMA_ASYNC_FATAL) {
        iface->is_dead = true;
        (void)muct_rdma_mem_set_gone(md->pd);
        muct_rdma_iface_leave_dead(iface);
    }
    /* completions first: they carry the more precise error */
    if (events.flags & (MUCT_RDMA_ASYNC_CQ | MUCT_RDMA_ASYNC_QP)) {
        (void)muct_rdma_iface_poll_all(iface);
    }
    if (events.flags & MUCT_RDMA_ASYNC_CQ) {
        muct_rdma_iface_set_broken(iface, &events);
    }
    if (events.flags & MUCT_RDMA_ASYNC_QP) {
        muct_rdma_iface_end_if(iface, UCS_ERR_CONNECTION_RESET, muct_rdma_ep_owns_qp,
                               &events, muct_rdma_ep_broke);
    }
}

/* Poll at most as many completions as the queue can hold now: more can arrive
 * meanwhile. */
static void muct_rdma_iface_empty(muct_rdma_iface_t *iface)
{
    unsigned i, num, left;

    for (i = 0; i < iface->cqs.num; ++i) {
        left = iface->cqs.cqs[i]->capacity;
        do {
            num = muct_rdma_iface_poll_cq(iface, iface->cqs.cqs[i]);
            left -= (num < left) ? num : left;
        } while ((num > 0) && (left > 0));
    }
}

/* Poll before a queue pair is put in error. On some devices (ionic) such a queue pair
 * reports no earlier completions, so a message already acknowledged to its sender would
 * be lost. */
static void muct_rdma_iface_take_first(const muct_rdma_iface_t *iface)
{
    muct_rdma_iface_t *other = NULL;

    if (!muct_rdma_recover_breaks(iface)) {
        return;
    }

    /* endpoints may be leaving the device of another interface */
    while ((other = muct_rdma_carrier_next(iface, other)) != NULL) {
        muct_rdma_iface_empty(other);
    }
}

/* No endpoint recovers: a timer that stayed armed would expire and keep the event
 * descriptor readable. */
static void muct_rdma_iface_end_recovery(muct_rdma_iface_t *iface)
{
    iface->recover_time_ms = 0;
    muct_rdma_iface_set_timer(iface);
}

/* Called in each progress while an endpoint recovers; the timer wakes a blocked
 * worker. */
static void muct_rdma_iface_recover(muct_rdma_iface_t *iface, uint64_t now)
{
    muct_rdma_iface_take_first(iface);
    muct_rdma_recover_progress(iface, now);
    if (ucs_list_is_empty(&iface->recovering)) {
        muct_rdma_iface_end_recovery(iface);
        return;
    }

    iface->async_countdown = 1;
    if (now != iface->recover_time_ms) {
        iface->recover_time_ms = now;
        muct_rdma_iface_set_timer(iface);
    }
}

static void muct_rdma_iface_watch(muct_rdma_iface_t *iface, uint64_t now)
{
    iface->watch_time_ms = now;
    if (iface->has_watch_timer) {
        iface->has_watch_timer = false;
        muct_rdma_iface_set_timer(iface);
    }
    muct_rdma_watch_progress(iface);
}

static void muct_rdma_iface_check_link(muct_rdma_iface_t *iface, uint64_t now)
{
    if ((iface->port_down_ms == 0) ||
        (now - iface->port_down_ms < iface->port_down_timeout_ms)) {
        return;
    }

    iface->port_down_ms = 0;
    muct_rdma_iface_set_timer(iface);
    muct_warn("%s:%u: link is down for %" PRIu64 " ms; %u endpoints fail",
              muct_rdma_iface_md(iface)->device.name, iface->port.num,
              iface->port_down_timeout_ms, iface->num_eps);
    muct_rdma_iface_leave_all(iface, UCS_ERR_ENDPOINT_TIMEOUT);
}

static void muct_rdma_iface_check_events(muct_rdma_iface_t *iface)
{
    uint64_t now = muct_rdma_now_ms();

    iface->async_countdown = MUCT_RDMA_ASYNC_ROUNDS;
    if (now - iface->async_time_ms >= MUCT_RDMA_ASYNC_MS) {
        iface->async_time_ms = now;
        muct_rdma_iface_dispatch_async(iface, now);
    }
    muct_rdma_iface_leave_dead(iface);

    muct_rdma_iface_check_link(iface, now);
    if (now - iface->watch_time_ms >= muct_rdma_watch_period(iface)) {
        muct_rdma_iface_watch(iface, now);
    }

    if (__builtin_expect(iface->has_doomed, 0)) {
        iface->has_doomed = false;
        muct_rdma_iface_end_if(iface, UCS_ERR_IO_ERROR, muct_rdma_ep_is_doomed, NULL,
                               muct_rdma_ep_meet_doom);
    }

    if (__builtin_expect(iface->cqs.num_broken > 0, 0)) {
        muct_rdma_cq_set_reap(&iface->cqs);
    }

    if (__builtin_expect(muct_rdma_ctl_has_to_restart(&iface->ctl), 0)) {
        muct_rdma_ctl_progress(&iface->ctl, now);
        muct_rdma_iface_set_timer(iface);
    }

    if (__builtin_expect(!ucs_list_is_empty(&iface->recovering), 0)) {
        muct_rdma_iface_recover(iface, now);
    } else if (__builtin_expect(iface->recover_time_ms != 0, 0)) {
        muct_rdma_iface_end_recovery(iface); /* its last endpoint was destroyed */
    } else if (muct_rdma_ctl_prepare(&iface->ctl) || muct_rdma_stock_progress(iface)) {
        iface->async_countdown = 1;
    }
}

unsigned muct_rdma_iface_progress(uct_iface_h tl_iface)
{
    muct_rdma_iface_t *iface = (muct_rdma_iface_t *)tl_iface;
    unsigned count = muct_rdma_iface_poll(iface);

    if (__builtin_expect(iface->cqs.has_failed, 0)) {
        muct_rdma_iface_leave_broken(iface);
    }

    if (!ucs_list_is_empty(&iface->work)) {
        count += muct_rdma_iface_work(iface);
    }

    if (!ucs_list_is_empty(&iface->dirty)) {
        muct_rdma_iface_ring(iface);
    }

    if (--iface->async_countdown == 0) {
        muct_rdma_iface_check_events(iface);
    }

    return count;
}

/* ---- events ---- */

ucs_status_t muct_rdma_iface_event_fd_get(uct_iface_h tl_iface, int *fd_p)
{
    *fd_p = ((muct_rdma_iface_t *)tl_iface)->event_fd;
    return UCS_OK;
}

/* Whether the next progress has work for which no event wakes the worker. */
static bool muct_rdma_iface_is_runnable(const muct_rdma_iface_t *iface)
{
    const muct_rdma_ep_t *ep;
    const muct_rdma_sq_t *sq;

    if ((iface->has_steps && !ucs_list_is_empty(&iface->recovering)) ||
        (iface->is_dead && !iface->has_left) || iface->has_doomed) {
        return true;
    }

    ucs_list_for_each(sq, &iface->dirty, dirty_link)
    {
        if (!sq->is_stuck || (sq->error != 0)) {
            return true;
        }
    }

    ucs_list_for_each(ep, &iface->work, work)
    {
        if (muct_rdma_ep_is_runnable(ep)) {
            return true;
        }
    }

    return false;
}

ucs_status_t muct_rdma_iface_event_arm(uct_iface_h tl_iface, unsigned events)
{
    muct_rdma_iface_t *iface = (muct_rdma_iface_t *)tl_iface;

    (void)events;
    /* the next progress reads the device's events in any case */
    iface->async_countdown = 1;
    iface->async_time_ms = 0;
    if (muct_rdma_iface_is_runnable(iface)) {
        return UCS_ERR_BUSY;
    }

    if (!iface->has_watch_timer && muct_rdma_watch_is_needed(iface)) {
        iface->has_watch_timer = true;
        muct_rdma_iface_set_timer(iface);
    }

    return muct_rdma_cq_set_arm(&iface->cqs);
}
