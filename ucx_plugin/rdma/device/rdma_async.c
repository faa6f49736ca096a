/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/device/rdma_async.h"

#include "base/muct_log.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

void muct_rdma_async_init(muct_rdma_async_t *async, struct ibv_context *context,
                          const char *name)
{
    async->context = context;
    async->name = name;
    pthread_mutex_init(&async->lock, NULL);
    ucs_list_head_init(&async->subs);
}

void muct_rdma_async_cleanup(muct_rdma_async_t *async)
{
    pthread_mutex_destroy(&async->lock);
}

ucs_status_t muct_rdma_async_add(muct_rdma_async_t *async, muct_rdma_async_sub_t *sub,
                                 uint8_t port)
{
    memset(sub, 0, sizeof(*sub));
    sub->port = port;
    sub->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (sub->wake_fd < 0) {
        muct_error("eventfd() failed: %m");
        return UCS_ERR_IO_ERROR;
    }

    pthread_mutex_lock(&async->lock);
    ucs_list_add_tail(&async->subs, &sub->list);
    pthread_mutex_unlock(&async->lock);
    return UCS_OK;
}

void muct_rdma_async_remove(muct_rdma_async_t *async, muct_rdma_async_sub_t *sub)
{
    pthread_mutex_lock(&async->lock);
    ucs_list_del(&sub->list);
    pthread_mutex_unlock(&async->lock);
    close(sub->wake_fd);
}

static void muct_rdma_async_put_qp(muct_rdma_async_sub_t *sub, uint32_t qp_num)
{
    muct_rdma_async_events_t *events = &sub->events;

    if (events->num_qps < MUCT_RDMA_ASYNC_MAX_QPS) {
        events->qp_nums[events->num_qps] = qp_num;
    }
    if (events->num_qps <= MUCT_RDMA_ASYNC_MAX_QPS) {
        ++events->num_qps;
    }
}

static void muct_rdma_async_put_cq(muct_rdma_async_sub_t *sub, struct ibv_cq *cq)
{
    muct_rdma_async_events_t *events = &sub->events;

    if (events->num_cqs < MUCT_RDMA_ASYNC_MAX_CQS) {
        events->cqs[events->num_cqs] = cq;
    }
    if (events->num_cqs <= MUCT_RDMA_ASYNC_MAX_CQS) {
        ++events->num_cqs;
    }
}

/* Translate an event to flags and the port it concerns; port 0 means all ports. */
static unsigned muct_rdma_async_flags(const struct ibv_async_event *event,
                                      unsigned *port_p)
{
    *port_p = 0;
    switch (event->event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_PATH_MIG_ERR:
        return MUCT_RDMA_ASYNC_QP;
    case IBV_EVENT_CQ_ERR:
        return MUCT_RDMA_ASYNC_CQ;
    case IBV_EVENT_DEVICE_FATAL:
        return MUCT_RDMA_ASYNC_FATAL;
    case IBV_EVENT_PORT_ERR:
        *port_p = (unsigned)event->element.port_num;
        return MUCT_RDMA_ASYNC_PORT_DOWN;
    case IBV_EVENT_PORT_ACTIVE:
        *port_p = (unsigned)event->element.port_num;
        return MUCT_RDMA_ASYNC_PORT_UP;
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
        *port_p = (unsigned)event->element.port_num;
        return MUCT_RDMA_ASYNC_ADDRESS;
    default:
        return 0; /* connection established, send queue drained, objects of other
                   * users */
    }
}

/* Read the queue pair before acknowledging the event: its owner can destroy it
 * afterwards. */
static void muct_rdma_async_deliver(muct_rdma_async_t *async,
                                    const struct ibv_async_event *event)
{
    muct_rdma_async_sub_t *sub;
    unsigned port, flags = muct_rdma_async_flags(event, &port);
    uint64_t one = 1;

    if (flags == 0) {
        return;
    }

    ucs_list_for_each(sub, &async->subs, list)
    {
        if ((port != 0) && (port != sub->port)) {
            continue;
        }

        sub->events.flags |= flags;
        if (flags == MUCT_RDMA_ASYNC_QP) {
            muct_rdma_async_put_qp(sub, event->element.qp->qp_num);
        }
        if (flags == MUCT_RDMA_ASYNC_CQ) {
            muct_rdma_async_put_cq(sub, event->element.cq);
        }
        if (write(sub->wake_fd, &one, sizeof(one)) < 0) {
            muct_debug("write(eventfd) failed: %m"); /* a full counter is readable
                                                      * already */
        }
    }
}

static void muct_rdma_async_log(const muct_rdma_async_t *async,
                                const struct ibv_async_event *event)
{
    const char *text = muct_rdma_verbs.event_type_str(event->event_type);

    switch (event->event_type) {
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_PORT_ERR:
        muct_warn("%s: %s (port %d)", async->name, text,
                  (event->event_type == IBV_EVENT_PORT_ERR) ? event->element.port_num
                                                            : 0);
        break;
    default:
        muct_debug("%s: %s", async->name, text);
    }
}

bool muct_rdma_async_take(muct_rdma_async_t *async, muct_rdma_async_sub_t *sub,
                          muct_rdma_async_events_t *events)
{
    struct ibv_async_event event;
    uint64_t count;
    bool has_events;

    pthread_mutex_lock(&async->lock);
    while (muct_rdma_verbs.get_async_event(async->context, &event) == 0) {
        muct_rdma_async_log(async, &event);
        muct_rdma_async_deliver(async, &event);
        muct_rdma_verbs.ack_async_event(&event);
    }

    has_events = sub->events.flags != 0;
    if (has_events) {
        *events = sub->events;
        memset(&sub->events, 0, sizeof(sub->events));
        if (read(sub->wake_fd, &count, sizeof(count)) < 0) {
            muct_debug("read(eventfd) failed: %m");
        }
    }
    pthread_mutex_unlock(&async->lock);

    return has_events;
}
