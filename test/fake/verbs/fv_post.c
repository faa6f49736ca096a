/* SPDX-License-Identifier: BSD-3-Clause */
#include "fv.h"

#include <errno.h>
#include <string.h>

/* Posting: what a provider checks before it rings the doorbell. */

static bool fv_is_read(enum ibv_wr_opcode opcode)
{
    return (opcode == IBV_WR_RDMA_READ) || (opcode == IBV_WR_ATOMIC_CMP_AND_SWP) ||
           (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD);
}

static int fv_send_check(const fv_qp_t *qp, const struct ibv_send_wr *wr)
{
    const bool atomics = fv_device_of(qp->ibv.context)->caps.atomics;
    uint64_t length = 0;
    int i;

    if (qp->wire->is_datagram && (wr->opcode != IBV_WR_SEND)) {
        return EINVAL;
    }

    switch (wr->opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
        break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        if (!atomics) {
            return EINVAL;
        }
        break;
    default:
        return EINVAL;
    }

    if ((wr->num_sge < 0) || ((uint32_t)wr->num_sge > qp->cap.max_send_sge)) {
        return EINVAL;
    }

    for (i = 0; i < wr->num_sge; i++) {
        length += wr->sg_list[i].length;
    }
    if (length > (qp->wire->is_datagram ? FV_MAX_DATAGRAM : UINT32_MAX)) {
        return EINVAL;
    }
    if ((wr->send_flags & IBV_SEND_INLINE) &&
        ((length > qp->cap.max_inline_data) || fv_is_read(wr->opcode))) {
        return EINVAL;
    }

    return 0;
}

/* The next entry of a send queue, with the memory that is its own. */
static fv_send_t *fv_send_next(fv_qp_t *qp)
{
    const uint32_t place = qp->sq_head % qp->cap.max_send_wr;
    fv_send_t *send = &qp->sq[place];

    send->sge = (void *)(qp->sq_memory + place * qp->sq_stride);
    send->inline_data = (uint8_t *)(send->sge + qp->cap.max_send_sge);
    return send;
}

static void fv_send_copy(fv_send_t *send, const struct ibv_send_wr *wr,
                         bool is_datagram)
{
    uint8_t *out = send->inline_data;
    int i;

    send->wr_id = wr->wr_id;
    send->opcode = wr->opcode;
    send->flags = wr->send_flags;
    send->imm_data = wr->imm_data;
    send->status = IBV_WC_SUCCESS;
    send->is_executed = false;
    send->late = NULL;
    send->length = 0;
    if ((wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) ||
        (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)) {
        send->remote_addr = wr->wr.atomic.remote_addr;
        send->rkey = wr->wr.atomic.rkey;
        send->compare_add = wr->wr.atomic.compare_add;
        send->swap = wr->wr.atomic.swap;
    } else if (is_datagram) {
        send->av = fv_container_of(wr->wr.ud.ah, fv_ah_t, ibv)->attr;
        send->sgid = fv_container_of(wr->wr.ud.ah, fv_ah_t, ibv)->sgid;
        send->remote_qpn = wr->wr.ud.remote_qpn;
        send->remote_qkey = wr->wr.ud.remote_qkey;
    } else {
        send->remote_addr = wr->wr.rdma.remote_addr;
        send->rkey = wr->wr.rdma.rkey;
    }

    for (i = 0; i < wr->num_sge; i++) {
        if (wr->send_flags & IBV_SEND_INLINE) {
            memcpy(out, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
            out += wr->sg_list[i].length;
        } else {
            send->sge[i] = wr->sg_list[i];
        }
        send->length += wr->sg_list[i].length;
    }
    send->num_sge = (uint32_t)wr->num_sge;
}

static void fv_send_count(fake_verbs_stats_t *stats, const struct ibv_send_wr *wr,
                          uint32_t in_use)
{
    stats->sends++;
    stats->signalled += (wr->send_flags & IBV_SEND_SIGNALED) != 0;
    stats->inlined += (wr->send_flags & IBV_SEND_INLINE) != 0;
    stats->fenced += (wr->send_flags & IBV_SEND_FENCE) != 0;
    if (in_use > stats->max_in_use) {
        stats->max_in_use = in_use;
    }
}

/* A device that completes at once: nothing is checked, nothing is moved. */
static int fv_post_null(fv_qp_t *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    fv_wire_cq_t *cq = &fv.wire->cq[qp->wire->send_cq];
    fv_cqe_t *cqe;

    qp->stats.doorbells++;
    for (; wr != NULL; wr = wr->next) {
        if (qp->sq_head - qp->sq_tail == qp->cap.max_send_wr) {
            *bad = wr;
            return ENOMEM;
        }
        qp->sq_head++;
        qp->stats.sends++;
        if (wr->send_flags & IBV_SEND_SIGNALED) {
            qp->stats.signalled++;
            if (cq->head - cq->tail == cq->size) {
                fv_abort("completion queue of %u entries overrun", cq->size);
            }
            cqe = (fv_cqe_t *)fv_at(cq->ring) + cq->head++ % cq->size;
            cqe->wr_id = wr->wr_id;
            cqe->status = IBV_WC_SUCCESS;
            cqe->opcode = IBV_WC_RDMA_WRITE;
            cqe->qp_num = qp->ibv.qp_num;
            cqe->queue_end = qp->sq_head;
            cqe->is_recv = false;
        }
    }

    qp->sq_run = qp->sq_done = qp->sq_head;
    return 0;
}

int fv_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    fv_qp_t *qp = fv_container_of(ibv, fv_qp_t, ibv);
    fake_verbs_stats_t *total = &fv_device_of(ibv->context)->stats;
    uint32_t in_use, first;
    int ret = 0;

    if (fv.null_mode) {
        return fv_post_null(qp, wr, bad);
    }

    fv_lock();
    first = qp->sq_head;
    for (; wr != NULL; wr = wr->next) {
        in_use = qp->sq_head - qp->sq_tail;
        if (!qp->wire->is_datagram && fv_call_fails("ibv_post_send")) {
            ret = errno;
        } else if ((qp->wire->state != IBV_QPS_RTS) &&
                   (qp->wire->state != IBV_QPS_ERR)) {
            ret = EINVAL;
        } else if (in_use == qp->cap.max_send_wr) {
            ret = ENOMEM;
        } else {
            ret = fv_send_check(qp, wr);
        }
        if (ret != 0) {
            *bad = wr;
            break;
        }

        fv_send_copy(fv_send_next(qp), wr, qp->wire->is_datagram);
        qp->sq_head++;
        fv_send_count(&qp->stats, wr, in_use + 1);
        if (!qp->wire->is_datagram) {
            fv_send_count(total, wr, in_use + 1);
        }
    }

    if (qp->sq_head != first) {
        qp->stats.doorbells++;
        total->doorbells += !qp->wire->is_datagram;
        fv_qp_run(qp);
    }
    fv_unlock();
    return ret;
}
