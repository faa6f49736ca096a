/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Progress finishes what is over, lets waiting requests try again, and starts what was
 * gathered, in this order: what a callback or a waiting request adds goes out at once.
 *
 * Errors of endpoints are told to their users from progress and from nowhere else,
 * because users destroy endpoints in that callback.
 */

#include "config.h"

#include "xgmi/xgmi_iface.h"

#include "base/muct_log.h"
#include "xgmi/xgmi_ep.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Calls of progress between two looks at whether peers live. */
#define MUCT_XGMI_PROGRESS_TO_LOOK 4096


/* ---- queues ---- */

ucs_status_t muct_xgmi_iface_add_queue(muct_xgmi_iface_t *iface, muct_xgmi_dir_t dir,
                                       int device, muct_xgmi_queue_t **queue_p)
{
    muct_xgmi_queue_t *queue;
    ucs_status_t status;

    if ((unsigned)device >= MUCT_XGMI_MAX_DEVICES) {
        muct_error("device %d is beyond the %d devices a process can use", device,
                   MUCT_XGMI_MAX_DEVICES);
        return UCS_ERR_INVALID_PARAM;
    }

    status = muct_xgmi_queue_create(iface->md->gpu, iface->md->map,
                                    &iface->queue_config, device, &queue);
    if (status != UCS_OK) {
        return status;
    }

    iface->queues[dir][device] = queue;
    iface->all[iface->num_queues++] = queue;
    *queue_p = queue;
    return UCS_OK;
}

static int muct_xgmi_iface_is_idle(const muct_xgmi_iface_t *iface)
{
    unsigned i;

    for (i = 0; i < iface->num_queues; ++i) {
        if (!muct_xgmi_queue_is_idle(iface->all[i])) {
            return 0;
        }
    }

    return 1;
}


/* ---- flush and fence ---- */

static muct_xgmi_flush_t *muct_xgmi_iface_get_flush(muct_xgmi_iface_t *iface)
{
    muct_xgmi_flush_t *flush = iface->free_flushes;

    if (flush != NULL) {
        iface->free_flushes = flush->next;
        return flush;
    }

    flush = malloc(sizeof(*flush));
    if (flush == NULL) {
        muct_error("failed to allocate a flush");
    }

    return flush;
}

static void muct_xgmi_iface_put_flush(muct_xgmi_iface_t *iface,
                                      muct_xgmi_flush_t *flush)
{
    flush->next = iface->free_flushes;
    iface->free_flushes = flush;
}

static void muct_xgmi_iface_flush_done(muct_xgmi_op_t *op, ucs_status_t status)
{
    muct_xgmi_iface_t *iface = op->owner;
    muct_xgmi_flush_t *flush = op->arg;
    uct_completion_t *comp = flush->comp;

    /* Failed operations told their own users; a flush only says that they are over. */
    (void)status;
    if (--flush->num_left == 0) {
        muct_xgmi_iface_put_flush(iface, flush);
        muct_completion_invoke(comp, UCS_OK);
    }
}

ucs_status_t muct_xgmi_iface_start_flush(muct_xgmi_iface_t *iface,
                                         uct_completion_t *comp)
{
    muct_xgmi_flush_t *flush = muct_xgmi_iface_get_flush(iface);
    muct_xgmi_marker_t *marker;
    unsigned i;

    if (flush == NULL) {
        return UCS_ERR_NO_MEMORY;
    }

    flush->comp = comp;
    flush->num_left = 0;
    for (i = 0; i < iface->num_queues; ++i) {
        marker = &flush->markers[i];
        marker->op = (muct_xgmi_op_t){muct_xgmi_iface_flush_done, iface, flush};
        flush->num_left += (unsigned)muct_xgmi_queue_add_marker(iface->all[i], marker);
    }

    if (flush->num_left == 0) {
        muct_xgmi_iface_put_flush(iface, flush);
        return UCS_OK;
    }

    return UCS_INPROGRESS;
}

ucs_status_t muct_xgmi_iface_flush(uct_iface_h tl_iface, unsigned flags,
                                   uct_completion_t *comp)
{
    muct_xgmi_iface_t *iface = ucs_derived_of(tl_iface, muct_xgmi_iface_t);

    (void)flags;
    if (comp != NULL) {
        return UCS_ERR_UNSUPPORTED;
    }

    return muct_xgmi_iface_is_idle(iface) ? UCS_OK : UCS_INPROGRESS;
}

/* Copies of one batch have no order, nor have the streams: order all after all. */
ucs_status_t muct_xgmi_iface_fence(uct_iface_h tl_iface, unsigned flags)
{
    muct_xgmi_iface_t *iface = ucs_derived_of(tl_iface, muct_xgmi_iface_t);
    ucs_status_t status = UCS_OK;
    unsigned i, j;

    (void)flags;
    for (i = 0; i < iface->num_queues; ++i) {
        muct_xgmi_queue_start(iface->all[i]);
    }

    for (i = 0; (i < iface->num_queues) && (status == UCS_OK); ++i) {
        for (j = 0; (j < iface->num_queues) && (status == UCS_OK); ++j) {
            status = muct_xgmi_queue_order_after(iface->all[i], iface->all[j]);
        }
    }

    return status;
}


/* ---- peers ---- */

void muct_xgmi_iface_watch_peer(muct_xgmi_iface_t *iface, const muct_xgmi_peer_t *peer)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = muct_xgmi_peer_fd(peer)};

    if ((event.data.fd >= 0) &&
        (epoll_ctl(iface->epoll_fd, EPOLL_CTL_ADD, event.data.fd, &event) != 0) &&
        (errno != EEXIST)) {
        muct_warn("epoll_ctl(pidfd %d) failed: %m", event.data.fd);
    }
}

void muct_xgmi_iface_unwatch_peer(muct_xgmi_iface_t *iface,
                                  const muct_xgmi_peer_t *peer)
{
    muct_xgmi_ep_t *ep;

    ucs_list_for_each(ep, &iface->eps, list)
    {
        if (ep->peer == peer) {
            return;
        }
    }

    if (muct_xgmi_peer_fd(peer) >= 0) {
        (void)epoll_ctl(iface->epoll_fd, EPOLL_CTL_DEL, muct_xgmi_peer_fd(peer), NULL);
    }
}

static void muct_xgmi_iface_signal(muct_xgmi_iface_t *iface)
{
    uint64_t one = 1;

    if (write(iface->notifier->fd, &one, sizeof(one)) != (ssize_t)sizeof(one)) {
        muct_debug("write(eventfd) failed: %m"); /* full: it is readable anyway */
    }
}

void muct_xgmi_iface_set_news(muct_xgmi_iface_t *iface)
{
    iface->has_news = 1;
    muct_xgmi_iface_signal(iface);
}

/* Tells users of failed endpoints; they may destroy any endpoint meanwhile. */
static unsigned muct_xgmi_iface_report(muct_xgmi_iface_t *iface)
{
    unsigned count = 0;
    muct_xgmi_ep_t *ep;

again:
    ucs_list_for_each(ep, &iface->eps, list)
    {
        if ((ep->status != UCS_OK) && !ep->is_reported) {
            ep->is_reported = 1;
            ++count;
            if (uct_iface_handle_ep_err(&iface->super.super, &ep->super.super,
                                        ep->status) != UCS_OK) {
                muct_diag("nobody handled %s of an endpoint",
                          ucs_status_string(ep->status));
            }
            goto again;
        }
    }

    return count;
}

static void muct_xgmi_iface_bury(muct_xgmi_iface_t *iface, muct_xgmi_ep_t *ep)
{
    uint64_t owner = muct_xgmi_peer_owner(ep->peer);

    muct_diag("process 0x%lx died", owner);
    if (muct_xgmi_peer_fd(ep->peer) >= 0) {
        (void)epoll_ctl(iface->epoll_fd, EPOLL_CTL_DEL, muct_xgmi_peer_fd(ep->peer),
                        NULL);
    }
    muct_xgmi_map_drop_peer(iface->md->map, owner);
    muct_xgmi_ep_set_error(ep, UCS_ERR_CONNECTION_RESET);
}

/* Asks for each endpoint; with pidfds the kernel is asked for all at once. */
static void muct_xgmi_iface_look_at_peers(muct_xgmi_iface_t *iface)
{
    struct epoll_event event;
    int has_event;
    muct_xgmi_ep_t *ep;

    has_event = epoll_wait(iface->epoll_fd, &event, 1, 0) > 0;
    ucs_list_for_each(ep, &iface->eps, list)
    {
        if ((ep->status == UCS_OK) &&
            (has_event || (muct_xgmi_peer_fd(ep->peer) < 0)) &&
            !muct_xgmi_peer_is_alive(ep->peer)) {
            muct_xgmi_iface_bury(iface, ep);
        }
    }
}


/* ---- progress and events ---- */

/* Whether something was told since it was last asked. */
static int muct_xgmi_iface_drain(muct_xgmi_iface_t *iface)
{
    uint64_t value;

    return read(iface->notifier->fd, &value, sizeof(value)) == (ssize_t)sizeof(value);
}

unsigned muct_xgmi_iface_progress(uct_iface_h tl_iface)
{
    muct_xgmi_iface_t *iface = ucs_derived_of(tl_iface, muct_xgmi_iface_t);
    unsigned count = 0;
    unsigned i;

    for (i = 0; i < iface->num_queues; ++i) {
        count += muct_xgmi_queue_poll(iface->all[i]);
    }
    if (count > 0) {
        iface->is_out_of_resources = 0;
    }

    if (ucs_unlikely(!ucs_list_is_empty(&iface->waiting_eps))) {
        count += muct_xgmi_ep_dispatch_pending(iface);
    }

    for (i = 0; i < iface->num_queues; ++i) {
        muct_xgmi_queue_kick(iface->all[i]);
    }

    if (ucs_unlikely((++iface->num_progress % MUCT_XGMI_PROGRESS_TO_LOOK == 0) ||
                     iface->is_armed)) {
        muct_xgmi_iface_look_at_peers(iface);
        iface->is_armed = 0;
    }
    if (ucs_unlikely(iface->has_news)) {
        iface->has_news = 0;
        count += muct_xgmi_iface_report(iface);
    }

    return count;
}

void muct_xgmi_notifier_put(muct_xgmi_notifier_t *notifier)
{
    if (__atomic_sub_fetch(&notifier->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        close(notifier->fd);
        free(notifier);
    }
}

/* Runs in a thread of the GPU runtime. */
static void muct_xgmi_notifier_callback(muct_hip_stream_t stream, int error, void *arg)
{
    muct_xgmi_notifier_t *notifier = arg;
    uint64_t one = 1;
    ssize_t ret;

    (void)stream;
    (void)error;
    ret = write(notifier->fd, &one, sizeof(one));
    (void)ret; /* only fails when the counter is full, which wakes as well */
    muct_xgmi_notifier_put(notifier);
}

static ucs_status_t muct_xgmi_iface_arm_queue(muct_xgmi_iface_t *iface,
                                              muct_xgmi_queue_t *queue)
{
    ucs_status_t status;

    if ((queue->head == NULL) || queue->is_notifying) {
        return UCS_OK;
    }

    __atomic_add_fetch(&iface->notifier->refs, 1, __ATOMIC_RELAXED);
    status =
        muct_xgmi_queue_notify(queue, muct_xgmi_notifier_callback, iface->notifier);
    if (status != UCS_OK) {
        muct_xgmi_notifier_put(iface->notifier);
        return UCS_ERR_BUSY; /* the user goes on polling */
    }

    queue->is_notifying = 1;
    return UCS_OK;
}

ucs_status_t muct_xgmi_iface_event_arm(uct_iface_h tl_iface, unsigned events)
{
    muct_xgmi_iface_t *iface = ucs_derived_of(tl_iface, muct_xgmi_iface_t);
    ucs_status_t status = UCS_OK;
    unsigned i;

    (void)events;
    if (muct_xgmi_iface_drain(iface) || iface->has_news) {
        return UCS_ERR_BUSY; /* to be seen by progress */
    }
    for (i = 0; i < iface->num_queues; ++i) {
        if (iface->all[i]->open != NULL) {
            return UCS_ERR_BUSY; /* to be started by progress */
        }
    }

    for (i = 0; (i < iface->num_queues) && (status == UCS_OK); ++i) {
        status = muct_xgmi_iface_arm_queue(iface, iface->all[i]);
    }
    iface->is_armed = (status == UCS_OK);
    return status;
}

ucs_status_t muct_xgmi_iface_event_fd_get(uct_iface_h tl_iface, int *fd_p)
{
    *fd_p = ucs_derived_of(tl_iface, muct_xgmi_iface_t)->epoll_fd;
    return UCS_OK;
}
