/* SPDX-License-Identifier: BSD-3-Clause */
#include "fv.h"

#include <errno.h>
#include <string.h>

/*
 * Receives of a queue pair's own queue or of a shared one. Entries are taken in the
 * order of posting, by any queue pair. An entry is free when its completion is polled,
 * which for a shared queue happens in any order.
 */

static size_t fv_rq_stride(const fv_rq_t *rq)
{
    return sizeof(fv_recv_t) + rq->max_sge * sizeof(struct ibv_sge);
}

/* Never none, so that a queue of no receives has a place as well. */
size_t fv_rq_bytes(const fv_rq_t *rq)
{
    return rq->size * fv_rq_stride(rq) + 1;
}

static fv_recv_t *fv_rq_at(const fv_rq_t *rq, uint32_t index)
{
    return fv_at(rq->ring + (index % rq->size) * fv_rq_stride(rq));
}

int fv_rq_post(fv_rq_t *rq, const struct ibv_recv_wr *wr)
{
    fv_recv_t *recv;

    if ((wr->num_sge < 0) || ((uint32_t)wr->num_sge > rq->max_sge)) {
        return EINVAL;
    }
    if (rq->head - rq->tail == rq->size) {
        return ENOMEM;
    }

    recv = fv_rq_at(rq, rq->head++);
    recv->wr_id = wr->wr_id;
    recv->num_sge = (uint32_t)wr->num_sge;
    if (wr->num_sge > 0) {
        memcpy(recv->sge, wr->sg_list, (size_t)wr->num_sge * sizeof(*wr->sg_list));
    }
    return 0;
}

static fv_wire_srq_t *fv_srq_of(const fv_wire_qp_t *qp)
{
    return (qp->srq != 0) ? &fv.wire->srq[qp->srq - 1] : NULL;
}

fv_recv_t *fv_recv_next(const fv_wire_qp_t *qp)
{
    const fv_wire_srq_t *srq = fv_srq_of(qp);
    const fv_rq_t *rq = (srq != NULL) ? &srq->rq : &qp->rq;

    return (rq->taken != rq->head) ? fv_rq_at(rq, rq->taken) : NULL;
}

/* Keys of shared receives are those of the shared queue's domain. */
bool fv_recv_resolve(const fv_wire_qp_t *qp, const fv_recv_t *recv, struct ibv_sge *out,
                     unsigned *count)
{
    const fv_wire_srq_t *srq = fv_srq_of(qp);

    return fv_resolve(qp->pid, (srq != NULL) ? srq->pd : qp->pd, recv->sge,
                      recv->num_sge, IBV_ACCESS_LOCAL_WRITE, out, count);
}

void fv_recv_take(fv_wire_qp_t *qp, fv_cqe_t *cqe)
{
    fv_wire_srq_t *srq = fv_srq_of(qp);
    fv_rq_t *rq = (srq != NULL) ? &srq->rq : &qp->rq;

    cqe->wr_id = fv_rq_at(rq, rq->taken++)->wr_id;
    cqe->queue_end = rq->taken;
    cqe->srq = qp->srq;
    cqe->is_recv = true;
    if ((srq != NULL) && (rq->head - rq->taken < srq->limit)) {
        srq->limit = 0;
        fv_async_srq(srq, IBV_EVENT_SRQ_LIMIT_REACHED);
    }
}

/* Flush own receives. Shared ones stay for other queue pairs, and an event reports that
 * this one takes no more of them: flush_recv_queue() in sw/rxe/rxe_resp.c. */
void fv_recv_flush(fv_wire_qp_t *qp)
{
    fv_cqe_t cqe = {.status = IBV_WC_WR_FLUSH_ERR, .qp_num = qp->qp_num};

    if (qp->srq != 0) {
        if (!qp->last_wqe) {
            qp->last_wqe = true;
            fv_async_qp(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
        }
        return;
    }

    while (fv_recv_next(qp) != NULL) {
        fv_recv_take(qp, &cqe);
        fv_cq_push(&fv.wire->cq[qp->recv_cq], &cqe);
    }
}

void fv_recv_free(const fv_cqe_t *cqe)
{
    fv_wire_qp_t *qp;

    if (cqe->srq != 0) {
        fv.wire->srq[cqe->srq - 1].rq.tail++;
        return;
    }

    qp = fv_wire_qp_find(cqe->qp_num);
    if (qp != NULL) {
        qp->rq.tail = cqe->queue_end;
    }
}

int fv_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    fv_qp_t *qp = fv_container_of(ibv, fv_qp_t, ibv);
    fv_wire_qp_t *wire = qp->wire;
    int ret = 0;

    fv_lock();
    for (; wr != NULL; wr = wr->next) {
        if (!wire->is_datagram && fv_call_fails("ibv_post_recv")) {
            ret = errno;
        } else if (wire->state == IBV_QPS_RESET) {
            ret = EINVAL;
        } else {
            ret = fv_rq_post(&wire->rq, wr);
        }
        if (ret != 0) {
            *bad = wr;
            break;
        }
        qp->stats.recvs++;
    }

    if (wire->state == IBV_QPS_ERR) {
        fv_qp_to_error(wire);
    } else {
        fv_kick_senders(ibv->qp_num);
    }
    fv_unlock();
    return ret;
}
