/* SPDX-License-Identifier: BSD-3-Clause */

/* The queues of an interface, flushes and fences over them, and descriptors it watches.
 */

#include "config.h"

#include "xgmi/xgmi_iface.h"

#include "base/muct_log.h"
#include "xgmi/copy/xgmi_queue_streams.h"
#include "xgmi/xgmi_ep.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

/* Time for which a peer without a place is not examined again. */
#define MUCT_XGMI_REFUSED_NS UINT64_C(1000000000)


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

    status = muct_xgmi_queue_create(iface->md->gpu, iface->md->map, iface->wake,
                                    &iface->queue_config, device, &queue);
    if (status != UCS_OK) {
        return status;
    }

    iface->queues[dir][device] = queue;
    queue->index = iface->num_queues++;
    iface->all[queue->index] = queue;
    *queue_p = queue;
    return UCS_OK;
}

void muct_xgmi_iface_prepare(muct_xgmi_iface_t *iface)
{
    int device = atomic_load_explicit(&muct_xgmi_global.device, memory_order_relaxed);
    muct_xgmi_queue_t *queue;
    muct_xgmi_dir_t dir;

    for (dir = 0; (device >= 0) && (dir < MUCT_XGMI_NUM_DIRS); ++dir) {
        if (muct_xgmi_iface_queue(iface, dir, device, &queue) != UCS_OK) {
            return; /* an operation that needs the queue reports the error */
        }
    }
}

bool muct_xgmi_iface_is_idle(const muct_xgmi_iface_t *iface)
{
    unsigned i;

    for (i = 0; i < iface->num_queues; ++i) {
        if (!muct_xgmi_queue_is_idle(iface->all[i])) {
            return false;
        }
    }

    return muct_xgmi_moves_are_idle(&iface->moves);
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

    /* Failed operations report to their own users; a flush reports only that all
     * have ended. */
    (void)status;
    if (--flush->num_left == 0) {
        muct_xgmi_iface_put_flush(iface, flush);
        muct_completion_invoke(comp, UCS_OK);
    }
}

ucs_status_t muct_xgmi_iface_start_flush(muct_xgmi_iface_t *iface,
                                         const uint64_t *stamps, uint64_t move,
                                         uct_completion_t *comp)
{
    muct_xgmi_flush_t *flush = muct_xgmi_iface_get_flush(iface);
    muct_xgmi_marker_t *marker;
    unsigned i;

    if (flush == NULL) {
        return UCS_ERR_NO_MEMORY;
    }

    flush->comp = comp;
    flush->moves.op = (muct_xgmi_op_t){
        .done = muct_xgmi_iface_flush_done, .owner = iface, .arg = flush};
    flush->num_left =
        (unsigned)!muct_xgmi_moves_are_over(&iface->moves, move, &flush->moves);
    for (i = 0; i < iface->num_queues; ++i) {
        marker = &flush->markers[i];
        marker->op = flush->moves.op;
        flush->num_left +=
            (unsigned)muct_xgmi_queue_add_marker(iface->all[i], stamps[i], marker);
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
    if (!ucs_list_is_empty(&iface->waiting_eps) ||
        !ucs_list_is_empty(&iface->apart_eps)) {
        return UCS_INPROGRESS; /* the error handler purges requests of a dead peer */
    }

    return muct_xgmi_iface_is_idle(iface) ? UCS_OK : UCS_INPROGRESS;
}

void muct_xgmi_iface_fenced(uct_completion_t *fences)
{
    muct_xgmi_iface_t *iface = ucs_container_of(fences, muct_xgmi_iface_t, fences);

    fences->status = UCS_OK; /* the next progress calls it: the copies were over */
    iface->moves.is_fenced = false;
}

/* Messages and moves do not overtake copies before a fence, and nothing overtakes moves
 * before it. */
static ucs_status_t muct_xgmi_iface_fence_host(muct_xgmi_iface_t *iface)
{
    uint64_t stamps[MUCT_XGMI_MAX_QUEUES];
    ucs_status_t status;
    unsigned i;

    for (i = 0; i < iface->num_queues; ++i) {
        stamps[i] = iface->all[i]->stamp;
    }

    ++iface->fences.count; /* an operation of a batch may be over within the call */
    status =
        muct_xgmi_iface_start_flush(iface, stamps, iface->moves.stamp, &iface->fences);
    if (status != UCS_INPROGRESS) {
        --iface->fences.count;
    }
    iface->moves.is_fenced |=
        (status == UCS_INPROGRESS) && !muct_xgmi_moves_are_idle(&iface->moves);
    return UCS_STATUS_IS_ERR(status) ? status : UCS_OK;
}

/* Neither copies of a batch nor streams are ordered: order all streams after all
 * others. */
ucs_status_t muct_xgmi_iface_fence(uct_iface_h tl_iface, unsigned flags)
{
    muct_xgmi_iface_t *iface = ucs_derived_of(tl_iface, muct_xgmi_iface_t);
    ucs_status_t status = muct_xgmi_iface_fence_host(iface);
    unsigned i, j;

    (void)flags;
    for (i = 0; i < iface->num_queues; ++i) {
        muct_xgmi_queue_start(iface->all[i]);
    }

    for (i = 0; (i < iface->num_queues) && (status == UCS_OK); ++i) {
        status = muct_xgmi_queue_record(iface->all[i]);
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

void muct_xgmi_iface_watch_bell(muct_xgmi_iface_t *iface)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = iface->inbox->bell_fd};

    if (epoll_ctl(iface->epoll_fd, EPOLL_CTL_ADD, event.data.fd, &event) != 0) {
        muct_warn(
            "epoll_ctl(wakeup pipe %d) failed: %m; a blocked ucp_worker_wait() will miss "
            "incoming messages",
            event.data.fd);
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
    if (!muct_xgmi_self_is_here()) {
        return; /* the parent still uses the same epoll set */
    }

    if (muct_xgmi_peer_fd(peer) >= 0) {
        (void)epoll_ctl(iface->epoll_fd, EPOLL_CTL_DEL, muct_xgmi_peer_fd(peer), NULL);
    }
    /* the peer is not watched any more: its memory would stay mapped after its death */
    muct_xgmi_map_drop_peer(iface->md->map, muct_xgmi_peer_owner(peer));
}

ucs_status_t muct_xgmi_iface_claim(muct_xgmi_iface_t *iface, uint64_t owner,
                                   muct_xgmi_iface_id_t id, bool is_quiet,
                                   muct_xgmi_outbox_t **claim_p)
{
    ucs_status_t status;

    *claim_p = NULL;
    if (iface->inbox == NULL) {
        return UCS_ERR_UNSUPPORTED; /* without it there is no bell to signal room */
    }

    *claim_p = muct_xgmi_outbox_share(&iface->outboxes, owner, id);
    if (*claim_p != NULL) {
        return UCS_OK;
    }

    status = muct_xgmi_outbox_claim(muct_xgmi_self_dir(), owner, id, iface->addr.owner,
                                    iface->addr.id, is_quiet, claim_p);
    if (status != UCS_OK) {
        return status;
    }
    /* the peer may answer, so it needs a place here */
    if (!muct_xgmi_outbox_has_place(iface->inbox->box, owner, id)) {
        muct_xgmi_outbox_close(*claim_p);
        *claim_p = NULL;
        return UCS_ERR_EXCEEDS_LIMIT;
    }

    ucs_list_add_head(&iface->outboxes, &(*claim_p)->list);
    return UCS_OK;
}

void muct_xgmi_iface_drop_held(muct_xgmi_iface_t *iface)
{
    if (iface->held != NULL) {
        muct_xgmi_outbox_close(iface->held);
        iface->held = NULL;
    }
}

/* An examination of all senders makes system calls for each, and UCP calls
 * is_reachable_v2() many times for one endpoint. */
static bool muct_xgmi_iface_has_refused(const muct_xgmi_iface_t *iface,
                                        const muct_xgmi_iface_addr_t *addr)
{
    return (iface->refused.owner == addr->owner) &&
           (iface->refused.id.slot == addr->id.slot) &&
           (iface->refused.id.generation == addr->id.generation) &&
           ((muct_xgmi_wake_now_ns() - iface->refused.at_ns) < MUCT_XGMI_REFUSED_NS);
}

static bool muct_xgmi_iface_is_sender(const muct_xgmi_iface_t *iface,
                                      const muct_xgmi_iface_addr_t *addr)
{
    return (iface->inbox != NULL) &&
           (muct_xgmi_outbox_place_of(iface->inbox->box, addr->owner, addr->id) !=
            NULL);
}

bool muct_xgmi_iface_hold(muct_xgmi_iface_t *iface, const muct_xgmi_iface_addr_t *addr)
{
    muct_xgmi_outbox_t *claim = NULL;
    bool is_refused;

    /* a peer that is a sender here has selected this transport and sent no other
     * address: UCX 1.22 and 1.23 abort when no endpoint can be made to it */
    is_refused = muct_xgmi_iface_has_refused(iface, addr) &&
                 !muct_xgmi_iface_is_sender(iface, addr);
    if (!is_refused &&
        (muct_xgmi_iface_claim(iface, addr->owner, addr->id, true, &claim) ==
         UCS_ERR_EXCEEDS_LIMIT) &&
        !muct_xgmi_iface_is_sender(iface, addr)) {
        is_refused = true;
        iface->refused.owner = addr->owner;
        iface->refused.id = addr->id;
        iface->refused.at_ns = muct_xgmi_wake_now_ns();
    }
    muct_xgmi_iface_drop_held(iface);
    iface->held = claim;
    return !is_refused;
}

void muct_xgmi_iface_set_unreported_error(muct_xgmi_iface_t *iface)
{
    iface->has_unreported_error = true;
    muct_xgmi_wake_signal(iface->wake);
}
