/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Progress finishes operations that are over, retries waiting requests, and starts
 * gathered copies, in this order: operations that a callback or a waiting request adds
 * start at once.
 *
 * Only progress reports errors of endpoints, because users destroy endpoints in that
 * callback.
 */

#include "config.h"

#include "xgmi/xgmi_progress.h"

#include "base/muct_lock.h"
#include "base/muct_log.h"
#include "xgmi/copy/xgmi_queue_arm.h"
#include "xgmi/xgmi_am.h"
#include "xgmi/message/xgmi_bell.h"
#include "xgmi/xgmi_ep.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

/* The capacity of a ring; other peers may continue to send. */
#define MUCT_XGMI_MAX_LAST_MESSAGES 1024

/* Calls of progress between two checks that the peers live. */
#define MUCT_XGMI_PROGRESS_TO_LOOK 4096

/* Time between two of these checks by a sleeping thread. */
#define MUCT_XGMI_LOOK_AT_PEERS_NS 1000000000

/* Time between two checks of invalidations by a sleeping thread. */
#define MUCT_XGMI_LOOK_AT_INVALS_NS 1000000

/* Least time between two checks of a thread that arms again and again. */
#define MUCT_XGMI_LOOK_INTERVAL_NS 50000

/* Time for which such a thread leaves the lock to a posting thread, and how often in a
 * row. */
#define MUCT_XGMI_ASIDE_NS 50000
#define MUCT_XGMI_MAX_ASIDE 4


/* ---- peers ---- */

/* Deliver a peer's messages before its end is reported. A message is lost if the
 * peer was killed before it set its bit (xgmi_box.h). */
static unsigned muct_xgmi_iface_receive_all(muct_xgmi_iface_t *iface)
{
    unsigned count = 0, received;

    do {
        received = (iface->inbox != NULL) ? muct_xgmi_am_progress(iface) : 0;
        count += received;
    } while ((received > 0) && (count < MUCT_XGMI_MAX_LAST_MESSAGES));

    return count;
}

/* Report failed endpoints; the handlers may destroy any endpoint meanwhile. */
static unsigned muct_xgmi_iface_report(muct_xgmi_iface_t *iface)
{
    unsigned count = muct_xgmi_iface_receive_all(iface);
    muct_xgmi_ep_t *ep;

again:
    ucs_list_for_each(ep, &iface->eps, list)
    {
        if ((ep->status != UCS_OK) && !ep->is_reported) {
            ep->is_reported = true;
            ++count;
            if (uct_iface_handle_ep_err(&iface->super.super, &ep->super.super,
                                        ep->status) != UCS_OK) {
                muct_diag("no error handler for %s of an endpoint",
                          ucs_status_string(ep->status));
            }
            goto again;
        }
    }

    return count;
}

static void muct_xgmi_iface_on_process_exit(muct_xgmi_iface_t *iface,
                                            muct_xgmi_ep_t *ep)
{
    uint64_t owner = ep->owner;

    muct_diag("process 0x%lx died", owner);
    if (muct_xgmi_peer_fd(ep->peer) >= 0) {
        (void)epoll_ctl(iface->epoll_fd, EPOLL_CTL_DEL, muct_xgmi_peer_fd(ep->peer),
                        NULL);
    }
    muct_xgmi_map_drop_peer(iface->md->map, owner);
    muct_xgmi_ep_set_error(ep, UCS_ERR_CONNECTION_RESET);
}

/* Whether anything but the bell has woken this thread. A peer that died while ringing
 * the bell has not counted that ring, which would cause endless wakeups. */
static bool muct_xgmi_iface_has_event(muct_xgmi_iface_t *iface)
{
    struct epoll_event events[2];
    bool has_event = false;
    int i, count;

    count = epoll_wait(iface->epoll_fd, events, 2, 0);
    for (i = 0; i < count; ++i) {
        if ((iface->inbox != NULL) && (events[i].data.fd == iface->inbox->bell_fd)) {
            muct_xgmi_bell_silence(iface->inbox->bell_fd);
        } else {
            has_event = true;
        }
    }

    return has_event;
}

/* A check or a flush may have noticed the death first and failed the endpoint: without
 * this its descriptor would wake the thread again and again. */
static bool muct_xgmi_iface_may_be_dead(const muct_xgmi_ep_t *ep, bool has_event)
{
    return (ep->status == UCS_OK) ? has_event || (muct_xgmi_peer_fd(ep->peer) < 0)
                                  : has_event && (ep->peer != NULL);
}

/* Examine each endpoint; with pidfds one system call covers all of them. */
static void muct_xgmi_iface_look_at_peers(muct_xgmi_iface_t *iface)
{
    bool has_event = muct_xgmi_iface_has_event(iface);
    muct_xgmi_ep_t *ep;

    muct_xgmi_map_expire(iface->md->map, iface->open_limit_ms);
    ucs_list_for_each(ep, &iface->eps, list)
    {
        if (muct_xgmi_iface_may_be_dead(ep, has_event) &&
            !muct_xgmi_peer_is_alive(ep->peer)) {
            muct_xgmi_iface_on_process_exit(iface, ep);
        } else if ((ep->status == UCS_OK) && !muct_xgmi_ep_is_peer_open(ep)) {
            muct_diag("interface %u of process 0x%" PRIx64 " was closed",
                      ep->peer_iface.slot, ep->owner);
            muct_xgmi_ep_set_error(ep, UCS_ERR_CONNECTION_RESET);
        } else if (ep->status == UCS_OK) {
            (void)muct_xgmi_ep_has_broken_ring(ep);
        }
    }
}


/*
 * A peer's end may have woken a sleeping thread. A thread that arms and makes progress
 * without sleeping skips the system call most of the time.
 */
static bool muct_xgmi_iface_is_look_due(muct_xgmi_iface_t *iface)
{
    uint64_t now_ns;

    if (++iface->num_progress % MUCT_XGMI_PROGRESS_TO_LOOK == 0) {
        return true;
    }
    if (!iface->was_armed) {
        return false;
    }

    iface->was_armed = false;
    now_ns = muct_xgmi_wake_now_ns();
    if ((now_ns - iface->peers_seen_ns) < MUCT_XGMI_LOOK_INTERVAL_NS) {
        return false;
    }

    iface->peers_seen_ns = now_ns;
    return true;
}


/* ---- progress and events ---- */

static bool muct_xgmi_iface_is_over(const muct_xgmi_iface_t *iface)
{
    return ucs_list_is_empty(&iface->waiting_eps) &&
           ucs_list_is_empty(&iface->apart_eps) && muct_xgmi_iface_is_idle(iface);
}

void muct_xgmi_iface_progress_enable(uct_iface_h tl_iface, unsigned flags)
{
    ucs_derived_of(tl_iface, muct_xgmi_iface_t)->stops &= ~flags;
    uct_base_iface_progress_enable(tl_iface, flags);
}

/*
 * UCP takes an interface out of its progress with the last endpoint that is closed,
 * also when it was closed by force and copies run: their end would go unnoticed. UCP
 * does this only to interfaces that have events for received data (ucp_worker.c,
 * ucp_worker_iface_check_events()); stay in progress until all copies are over.
 */
void muct_xgmi_iface_progress_disable(uct_iface_h tl_iface, unsigned flags)
{
    muct_xgmi_iface_t *iface = ucs_derived_of(tl_iface, muct_xgmi_iface_t);

    if (muct_xgmi_iface_is_over(iface)) {
        uct_base_iface_progress_disable(tl_iface, flags);
    } else {
        iface->stops |= flags;
    }
}

static void muct_xgmi_iface_stop(muct_xgmi_iface_t *iface)
{
    unsigned flags = iface->stops;

    if (muct_xgmi_iface_is_over(iface)) {
        iface->stops = 0;
        uct_base_iface_progress_disable(&iface->super.super,
                                        flags | UCT_PROGRESS_THREAD_SAFE);
    }
}

unsigned muct_xgmi_iface_progress(uct_iface_h tl_iface)
{
    muct_xgmi_iface_t *iface = ucs_derived_of(tl_iface, muct_xgmi_iface_t);
    unsigned count = 0;
    unsigned i;

    for (i = 0; i < iface->num_queues; ++i) {
        count += muct_xgmi_queue_poll(iface->all[i]);
    }
    if (ucs_unlikely(!muct_xgmi_moves_are_idle(&iface->moves))) {
        count += muct_xgmi_moves_progress(iface);
    }
    if (count > 0) {
        iface->is_out_of_resources = false;
    }

    if ((iface->inbox != NULL) && muct_xgmi_inbox_is_used(iface->inbox)) {
        count += muct_xgmi_am_progress(iface);
    }
    if (ucs_unlikely(!ucs_list_is_empty(&iface->apart_eps))) {
        muct_xgmi_ep_retry_apart(iface);
    }
    if (ucs_unlikely(!ucs_list_is_empty(&iface->waiting_eps))) {
        count += muct_xgmi_ep_dispatch_pending(iface);
    }

    for (i = 0; i < iface->num_queues; ++i) {
        muct_xgmi_queue_kick(iface->all[i]);
    }

    if (ucs_unlikely(muct_xgmi_invals_are_there(&iface->md->invals))) {
        count += muct_xgmi_invals_progress(&iface->md->invals);
    }
    if (ucs_unlikely(muct_xgmi_iface_is_look_due(iface))) {
        muct_xgmi_iface_look_at_peers(iface);
    }
    if (ucs_unlikely(iface->has_unreported_error)) {
        iface->has_unreported_error = false;
        count += muct_xgmi_iface_report(iface);
    }
    if (ucs_unlikely(iface->stops != 0)) {
        muct_xgmi_iface_stop(iface);
    }

    return count;
}

static bool muct_xgmi_iface_is_filled_steadily(const muct_xgmi_iface_t *iface,
                                               uint64_t now_ns)
{
    unsigned i;

    for (i = 0; i < iface->num_queues; ++i) {
        if ((iface->all[i]->open != NULL) &&
            muct_xgmi_gather_is_steady(&iface->all[i]->gather, now_ns)) {
            return true;
        }
    }

    return false;
}

/*
 * A thread that arms and loops without sleeping takes the worker's lock from a thread
 * that posts, again and again. While the other thread fills a list, this one sleeps
 * here without the lock, until an operation waits for the list or a poll is due. It
 * skips the sleep now and then, because it may serve other workers.
 */
static bool muct_xgmi_iface_stand_aside(muct_xgmi_iface_t *iface, uint64_t now_ns)
{
    ucs_async_context_t *async = iface->super.worker->async;

    if (!iface->yields_lock || (iface->num_aside == MUCT_XGMI_MAX_ASIDE) ||
        !ucs_list_is_empty(&iface->waiting_eps) || muct_xgmi_am_has(iface) ||
        !muct_xgmi_iface_is_filled_steadily(iface, now_ns)) {
        iface->num_aside = 0;
        return false;
    }

    iface->wake->is_aside = true; /* before another thread can post */
    if (!muct_lock_leave(async)) {
        iface->wake->is_aside = false;
        return false;
    }

    muct_xgmi_wake_sleep(iface->wake, MUCT_XGMI_ASIDE_NS);
    muct_lock_enter(async);
    iface->wake->is_aside = false;
    ++iface->num_aside;
    return true;
}

ucs_status_t muct_xgmi_iface_event_arm(uct_iface_h tl_iface, unsigned events)
{
    muct_xgmi_iface_t *iface = ucs_derived_of(tl_iface, muct_xgmi_iface_t);
    uint64_t now_ns = muct_xgmi_wake_now_ns();
    ucs_status_t status = UCS_OK;
    unsigned i;

    (void)events;
    if (muct_xgmi_wake_drain(iface->wake, now_ns) || iface->has_unreported_error) {
        return UCS_ERR_BUSY; /* progress reads the events */
    }
    if (iface->inbox != NULL) {
        muct_xgmi_inbox_silence(
            iface->inbox); /* drain the pipe first: later messages may ring again */
    }
    muct_xgmi_ep_arm_apart(iface);
    if (!iface->is_out_of_resources && !ucs_list_is_empty(&iface->waiting_eps)) {
        return UCS_ERR_BUSY; /* progress retries the operations */
    }
    if (!muct_xgmi_moves_are_idle(&iface->moves) &&
        !muct_xgmi_moves_arm(&iface->moves)) {
        return UCS_ERR_BUSY; /* progress continues the moves */
    }
    if (muct_xgmi_iface_stand_aside(iface, now_ns)) {
        return UCS_ERR_BUSY; /* the queues were not checked for a long time */
    }

    for (i = 0; (i < iface->num_queues) && (status == UCS_OK); ++i) {
        status = muct_xgmi_queue_arm(iface->all[i], now_ns);
    }
    if ((status == UCS_OK) && (iface->inbox != NULL) &&
        !muct_xgmi_inbox_arm(iface->inbox)) {
        status = UCS_ERR_BUSY; /* progress receives the message */
    }
    if (status == UCS_OK) {
        iface->was_armed = true;
        iface->wake->is_armed = true;
        if (!ucs_list_is_empty(&iface->eps)) { /* a closing peer causes no event */
            status = muct_xgmi_wake_in(iface->wake, now_ns, MUCT_XGMI_LOOK_AT_PEERS_NS);
        }
        /* the end of another process's copies causes no event */
        if (muct_xgmi_invals_are_there(&iface->md->invals)) {
            status =
                muct_xgmi_wake_in(iface->wake, now_ns, MUCT_XGMI_LOOK_AT_INVALS_NS);
        }
    }
    return status;
}

ucs_status_t muct_xgmi_iface_event_fd_get(uct_iface_h tl_iface, int *fd_p)
{
    *fd_p = ucs_derived_of(tl_iface, muct_xgmi_iface_t)->epoll_fd;
    return UCS_OK;
}
