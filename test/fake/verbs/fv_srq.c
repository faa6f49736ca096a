/* SPDX-License-Identifier: BSD-3-Clause */
#include "fv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * Shared receive queues, of the devices whose drivers have them. The fake is as strict
 * as the strictest driver. Refused are: no receives at all (rxe_srq_chk_attr() in
 * sw/rxe/rxe_srq.c), a later change of the size and a limit that cannot be reached
 * (mlx5_ib_modify_srq() in hw/mlx5/srq.c). Errors of a driver without them are
 * rdma-core's (libibverbs/dummy_ops.c).
 */

static int fv_srq_check_create(const struct ibv_pd *pd, const struct ibv_srq_attr *attr)
{
    const fv_caps_t *caps = &fv_device_of(pd->context)->caps;

    if (caps->max_srq == 0) {
        return EOPNOTSUPP;
    }
    if (fv_gone(pd->context)) {
        return EIO;
    }
    if ((attr->max_wr == 0) || (attr->max_wr > (uint32_t)caps->max_srq_wr) ||
        (attr->max_sge > (uint32_t)caps->max_srq_sge)) {
        return EINVAL;
    }

    return ((int)fv.objects.srqs >= caps->max_srq) ? ENOMEM : 0;
}

static int fv_srq_slot(void)
{
    int i;

    for (i = 0; i < FV_MAX_SRQS; i++) {
        if (!fv.wire->srq[i].used) {
            return i;
        }
    }

    return -1;
}

static void fv_srq_link(fv_srq_t *srq, int slot, const struct ibv_srq_attr *attr)
{
    fv_wire_srq_t *wire = &fv.wire->srq[slot];
    fv_pd_t *pd = fv_container_of(srq->ibv.pd, fv_pd_t, ibv);

    memset(wire, 0, sizeof(*wire));
    wire->pid = fv.pid;
    wire->pd = pd->id;
    wire->rq.size = attr->max_wr;
    wire->rq.max_sge = attr->max_sge;
    wire->rq.ring = fv_alloc(fv_rq_bytes(&wire->rq));
    wire->async_fd = fv_context_of(srq->ibv.context)->write_fd;
    wire->owner = (uintptr_t)srq;
    wire->used = true;
    srq->wire = wire;
    srq->ibv.handle = (uint32_t)slot;
    srq->next = fv.srqs;
    fv.srqs = srq;
    pd->users++;
    fv_context_of(srq->ibv.context)->users++;
    fv.objects.srqs++;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    fv_srq_t *srq;
    int slot;

    if (fv_command_fails("ibv_create_srq")) {
        return NULL;
    }
    errno = fv_srq_check_create(pd, &attr->attr);
    if (errno != 0) {
        return NULL;
    }

    srq = calloc(1, sizeof(*srq));
    if (srq == NULL) {
        return NULL;
    }

    srq->ibv.context = pd->context;
    srq->ibv.srq_context = attr->srq_context;
    srq->ibv.pd = pd;
    pthread_mutex_init(&srq->ibv.mutex, NULL);
    pthread_cond_init(&srq->ibv.cond, NULL);
    fv_lock();
    slot = fv_srq_slot();
    if (slot >= 0) {
        fv_srq_link(srq, slot, &attr->attr);
    }
    fv_unlock();
    if (slot < 0) {
        free(srq);
        errno = ENOMEM;
        return NULL;
    }

    return &srq->ibv;
}

int ibv_modify_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr, int mask)
{
    fv_srq_t *srq = fv_container_of(ibv, fv_srq_t, ibv);

    if (fv_command_fails("ibv_modify_srq")) {
        return errno;
    }
    if (fv_gone(ibv->context)) {
        return EIO;
    }
    if ((mask & ~IBV_SRQ_LIMIT) || (attr->srq_limit > srq->wire->rq.size)) {
        return EINVAL;
    }

    if (mask & IBV_SRQ_LIMIT) {
        fv_lock();
        srq->wire->limit = attr->srq_limit;
        fv_unlock();
    }
    return 0;
}

int ibv_query_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr)
{
    const fv_srq_t *srq = fv_container_of(ibv, fv_srq_t, ibv);

    if (fv_call_fails("ibv_query_srq")) {
        return errno;
    }

    fv_lock();
    attr->max_wr = srq->wire->rq.size;
    attr->max_sge = srq->wire->rq.max_sge;
    attr->srq_limit = srq->wire->limit;
    fv_unlock();
    return 0;
}

int fv_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr,
                     struct ibv_recv_wr **bad)
{
    fv_srq_t *srq = fv_container_of(ibv, fv_srq_t, ibv);
    int ret = 0;

    fv_lock();
    for (; wr != NULL; wr = wr->next) {
        ret =
            fv_call_fails("ibv_post_srq_recv") ? errno : fv_rq_post(&srq->wire->rq, wr);
        if (ret != 0) {
            *bad = wr;
            break;
        }
    }

    fv_kick_senders_of_srq(ibv->handle + 1);
    fv_unlock();
    return ret;
}

static int fv_srq_unlink(fv_srq_t *srq)
{
    fv_srq_t **link;

    if (srq->users != 0) {
        return EBUSY;
    }

    for (link = &fv.srqs; *link != srq; link = &(*link)->next) {
    }
    *link = srq->next;
    fv_free(srq->wire->rq.ring, fv_rq_bytes(&srq->wire->rq));
    srq->wire->used = false;
    fv_container_of(srq->ibv.pd, fv_pd_t, ibv)->users--;
    fv_context_put(srq->ibv.context);
    fv.objects.srqs--;
    return 0;
}

int ibv_destroy_srq(struct ibv_srq *ibv)
{
    fv_srq_t *srq = fv_container_of(ibv, fv_srq_t, ibv);
    int ret;

    if (fv_command_fails("ibv_destroy_srq")) {
        return errno;
    }

    fv_lock();
    ret = fv_srq_unlink(srq);
    fv_unlock();
    if (ret != 0) {
        return ret;
    }

    fv_wait_acked(&ibv->mutex, &ibv->cond, &ibv->events_completed, srq->async_delivered,
                  "ibv_destroy_srq()");
    pthread_mutex_destroy(&ibv->mutex);
    pthread_cond_destroy(&ibv->cond);
    free(srq);
    return 0;
}
