/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/queue/rdma_cq.h"

#include "base/muct_log.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* Events to acknowledge at once: each acknowledgement takes a lock of the library. */
#define MUCT_RDMA_CQ_ACK_BATCH 64

ucs_status_t muct_rdma_cq_set_init(muct_rdma_cq_set_t *set,
                                   const muct_rdma_device_t *device, unsigned depth,
                                   unsigned vector)
{
    int flags;

    memset(set, 0, sizeof(*set));
    set->device = device;
    set->depth = depth;
    set->vector = vector;
    set->channel = muct_rdma_verbs.create_comp_channel(device->context);
    if (set->channel == NULL) {
        muct_error("ibv_create_comp_channel(%s) failed: %m", device->name);
        return UCS_ERR_IO_ERROR;
    }

    flags = fcntl(set->channel->fd, F_GETFL);
    if ((flags < 0) || (fcntl(set->channel->fd, F_SETFL, flags | O_NONBLOCK) < 0)) {
        muct_error("fcntl(completion channel of %s, O_NONBLOCK) failed: %m",
                   device->name);
        muct_rdma_verbs.destroy_comp_channel(set->channel);
        return UCS_ERR_IO_ERROR;
    }

    return UCS_OK;
}

static void muct_rdma_cq_destroy(muct_rdma_cq_t *cq)
{
    int error;

    if (cq->events > 0) {
        muct_rdma_verbs.ack_cq_events(cq->ibv, cq->events);
    }

    error = muct_rdma_verbs.destroy_cq(cq->ibv);
    if (error != 0) {
        muct_warn("ibv_destroy_cq() failed: %s", strerror(error));
    }
    free(cq);
}

void muct_rdma_cq_set_cleanup(muct_rdma_cq_set_t *set)
{
    unsigned i;
    int error;

    for (i = 0; i < set->num; ++i) {
        muct_rdma_cq_destroy(set->cqs[i]);
    }
    free(set->cqs);

    error = muct_rdma_verbs.destroy_comp_channel(set->channel);
    if (error != 0) {
        muct_warn("ibv_destroy_comp_channel() failed: %s", strerror(error));
    }
}

/* Each queue has twice the size of the previous one, so that few queues are polled
 * for any number of endpoints. */
static unsigned muct_rdma_cq_next_depth(const muct_rdma_cq_set_t *set)
{
    const unsigned max = (unsigned)set->device->attr.max_cqe;
    const unsigned num = set->num - set->num_broken;
    unsigned i, depth = set->depth;

    for (i = 0; (i < num) && (depth <= max / 2); ++i) {
        depth *= 2;
    }

    return depth;
}

static int muct_rdma_cq_next_vector(const muct_rdma_cq_set_t *set)
{
    const int num = set->device->context->num_comp_vectors;

    return (num > 0) ? (int)((set->vector + set->num) % (unsigned)num) : 0;
}

static ucs_status_t muct_rdma_cq_add(muct_rdma_cq_set_t *set)
{
    const unsigned depth = muct_rdma_cq_next_depth(set);
    muct_rdma_cq_t **cqs;
    muct_rdma_cq_t *cq;
    int error;

    cqs = realloc(set->cqs, (set->num + 1) * sizeof(*cqs));
    if (cqs == NULL) {
        muct_error("failed to allocate a list of %u completion queues", set->num + 1);
        return UCS_ERR_NO_MEMORY;
    }

    set->cqs = cqs;
    cq = calloc(1, sizeof(*cq));
    if (cq == NULL) {
        muct_error("failed to allocate a completion queue");
        return UCS_ERR_NO_MEMORY;
    }

    cq->ibv = muct_rdma_verbs.create_cq(set->device->context, (int)depth, cq,
                                        set->channel, muct_rdma_cq_next_vector(set));
    if (cq->ibv == NULL) {
        muct_error("ibv_create_cq(%s cqe %u) failed: %m; lower CQ_DEPTH or raise the "
                   "limit of locked memory (ulimit -l unlimited)",
                   set->device->name, depth);
        free(cq);
        return UCS_ERR_IO_ERROR;
    }

    /* a sleeping thread armed the set before this queue existed */
    error = ibv_req_notify_cq(cq->ibv, 0);
    if (error != 0) {
        muct_error("ibv_req_notify_cq(%s) failed: %s", set->device->name,
                   strerror(error));
        (void)muct_rdma_verbs.destroy_cq(cq->ibv);
        free(cq);
        return UCS_ERR_IO_ERROR;
    }

    cq->capacity = depth;
    cqs[set->num++] = cq;
    return UCS_OK;
}

ucs_status_t muct_rdma_cq_reserve(muct_rdma_cq_set_t *set, unsigned entries,
                                  muct_rdma_cq_t **cq_p)
{
    ucs_status_t status;
    unsigned i;

    for (i = 0; i < set->num; ++i) {
        if (!set->cqs[i]->is_broken &&
            (set->cqs[i]->capacity - set->cqs[i]->reserved >= entries)) {
            break;
        }
    }

    if (i == set->num) {
        status = muct_rdma_cq_add(set);
        if (status != UCS_OK) {
            return status;
        }
    }

    set->cqs[i]->reserved += entries;
    *cq_p = set->cqs[i];
    return UCS_OK;
}

void muct_rdma_cq_release(muct_rdma_cq_t *cq, unsigned entries)
{
    cq->released_unpolled += entries;
}

void muct_rdma_cq_set_broken(muct_rdma_cq_set_t *set, muct_rdma_cq_t *cq)
{
    if (!cq->is_broken) {
        cq->is_broken = true;
        set->has_failed = true;
        ++set->num_broken;
    }
}

void muct_rdma_cq_set_reap(muct_rdma_cq_set_t *set)
{
    muct_rdma_cq_t *cq;
    unsigned i = 0;

    while (i < set->num) {
        cq = set->cqs[i];
        if (cq->is_broken && (cq->released_unpolled == cq->reserved)) {
            muct_rdma_cq_destroy(cq);
            set->cqs[i] = set->cqs[--set->num];
            --set->num_broken;
        } else {
            ++i;
        }
    }
}

unsigned muct_rdma_cq_poll(muct_rdma_cq_set_t *set, muct_rdma_cq_t *cq, unsigned max,
                           struct ibv_wc *wc)
{
    int num;

    if (__builtin_expect(cq->has_early_wc, 0)) {
        cq->has_early_wc = false;
        *wc = cq->early_wc;
        return 1;
    }

    if (__builtin_expect(cq->is_broken, 0)) {
        return 0;
    }

    num = ibv_poll_cq(cq->ibv, (int)max, wc);
    if (__builtin_expect(num < 0, 0)) {
        muct_error("ibv_poll_cq(%s) failed: %d; the queue is given up",
                   set->device->name, num);
        muct_rdma_cq_set_broken(set, cq);
        return 0;
    }

    if ((unsigned)num < max) {
        cq->reserved -= cq->released_unpolled;
        cq->released_unpolled = 0;
    }

    return (unsigned)num;
}

/* Read pending events. @return Whether there were events. */
static bool muct_rdma_cq_set_drain(muct_rdma_cq_set_t *set)
{
    bool has_events = false;
    muct_rdma_cq_t *cq;
    struct ibv_cq *ibv;
    void *context;

    while (muct_rdma_verbs.get_cq_event(set->channel, &ibv, &context) == 0) {
        has_events = true;
        cq = context;
        if (++cq->events == MUCT_RDMA_CQ_ACK_BATCH) {
            muct_rdma_verbs.ack_cq_events(cq->ibv, cq->events);
            cq->events = 0;
        }
    }

    return has_events;
}

/* Whether a completion or an error is pending already. */
static bool muct_rdma_cq_arm(muct_rdma_cq_set_t *set, muct_rdma_cq_t *cq)
{
    int num;

    if (cq->has_early_wc || (ibv_req_notify_cq(cq->ibv, 0) != 0)) {
        return true;
    }

    /* a completion that arrived before the arming causes no event: poll now */
    num = ibv_poll_cq(cq->ibv, 1, &cq->early_wc);
    cq->has_early_wc = (num > 0);
    if (num < 0) {
        muct_rdma_cq_set_broken(set, cq);
    }

    return num != 0;
}

ucs_status_t muct_rdma_cq_set_arm(muct_rdma_cq_set_t *set)
{
    ucs_status_t status = UCS_OK;
    unsigned i;

    if (set->has_failed || muct_rdma_cq_set_drain(set)) {
        return UCS_ERR_BUSY;
    }

    for (i = 0; i < set->num; ++i) {
        if (!set->cqs[i]->is_broken && muct_rdma_cq_arm(set, set->cqs[i])) {
            status = UCS_ERR_BUSY;
        }
    }

    return status;
}
