/* SPDX-License-Identifier: BSD-3-Clause */
#include "fv.h"

#include <time.h>

/*
 * The device at work. Send queues run in order until they are empty or their head waits
 * for the peer. A waiting head is retried at every poll, and when the peer posts a
 * receive or changes state or the link comes back. Between processes a thread retries
 * it, as nothing else would wake a process that sleeps.
 */

#define FV_RETRY_NSEC 500000

static const uint32_t fv_rnr_usec[32] = {
    655360, 10,    20,    30,    40,    60,     80,     120,    160,    240,   320,
    480,    640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240, 15360,
    20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520};

static enum ibv_wc_opcode fv_wc_opcode(enum ibv_wr_opcode opcode)
{
    switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
        return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_WC_FETCH_ADD;
    default:
        return IBV_WC_SEND;
    }
}

/* Completions leave in order; every failed work request has one, signalled or not. */
static void fv_complete(fv_qp_t *qp)
{
    fv_send_t *send;
    fv_cqe_t cqe;

    for (; qp->sq_done != qp->sq_run; qp->sq_done++) {
        if (qp->hold & FAKE_VERBS_HOLD_CQE) {
            if (qp->may_complete == 0) {
                return;
            }
            qp->may_complete--;
        }

        send = &qp->sq[qp->sq_done % qp->cap.max_send_wr];
        fv_land(qp, send);
        if (!qp->sq_sig_all && !(send->flags & IBV_SEND_SIGNALED) &&
            (send->status == IBV_WC_SUCCESS)) {
            continue;
        }

        cqe = (fv_cqe_t){
            .wr_id = send->wr_id,
            .status = send->status,
            .opcode = fv_wc_opcode(send->opcode),
            .byte_len = send->length,
            .qp_num = qp->ibv.qp_num,
            .vendor_err = (send->status == IBV_WC_SUCCESS) ? 0 : 0x80 + send->status,
            .queue_end = qp->sq_done + 1,
        };
        fv_cq_push(&fv.wire->cq[qp->wire->send_cq], &cqe);
    }
}

/* Time that the head of the queue may wait for the peer. */
static uint64_t fv_patience(const fv_qp_t *qp, int stall)
{
    const fv_wire_qp_t *peer;

    if (stall == FV_STALL_RNR) {
        peer = fv_wire_qp_find(qp->wire->dest_qp_num);
        if ((qp->attr.rnr_retry == 7) || (peer == NULL)) {
            return FV_INF;
        }
        return (uint64_t)qp->attr.rnr_retry * fv_rnr_usec[peer->min_rnr_timer] * 1000;
    }

    if ((stall == FV_STALL_READS) || (qp->attr.timeout == 0)) {
        return FV_INF;
    }

    return (UINT64_C(4096) << qp->attr.timeout) * (qp->attr.retry_cnt + 1u);
}

static void fv_unstall(fv_qp_t *qp)
{
    if (qp->stalled != 0) {
        qp->stalled = 0;
        fv.num_stalled--;
    }
}

/* Returns the status to end with, or the stall when there is time left. */
static int fv_stall(fv_qp_t *qp, int stall)
{
    const uint64_t now = fv_now();
    uint64_t patience;

    if (qp->stalled != (uint64_t)-stall) {
        fv_unstall(qp);
        patience = fv_patience(qp, stall);
        qp->stalled = (uint64_t)-stall;
        qp->deadline = (patience == FV_INF) ? FV_INF : now + patience;
        fv.num_stalled++;
        qp->stats.rnr += stall == FV_STALL_RNR;
        fv_thread_wake();
    }

    if ((qp->deadline == FV_INF) || (now < qp->deadline)) {
        return stall;
    }

    return (stall == FV_STALL_RNR) ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_RETRY_EXC_ERR;
}

/*
 * The peer executes each request that reaches it once, but its answers are lost, and
 * with them the data of reads.
 */
static void fv_run_unanswered(fv_qp_t *qp)
{
    fv_send_t *send;
    uint32_t i;

    for (i = qp->sq_run; i != qp->sq_head; i++) {
        send = &qp->sq[i % qp->cap.max_send_wr];
        if (send->is_executed || (send->opcode == IBV_WR_RDMA_READ)) {
            continue;
        }
        if (fv_respond(qp, send) != IBV_WC_SUCCESS) {
            break;
        }
        send->is_executed = true;
    }
}

/* Whether the device has no timer for what is on its way. */
static bool fv_is_silent(fv_qp_t *qp)
{
    if (qp->lost_timer == 0) {
        return false;
    }

    if (!qp->is_silent) {
        qp->is_silent = true;
        qp->silent_head = qp->sq_head;
    }
    if ((qp->lost_timer == 1) && (qp->sq_head != qp->silent_head)) {
        qp->lost_timer = 0;
    }

    return qp->lost_timer != 0;
}

static int fv_run_one(fv_qp_t *qp, fv_send_t *send)
{
    const bool reads = (send->opcode == IBV_WR_RDMA_READ);
    int status;

    if (qp->wire->state == IBV_QPS_ERR) {
        return IBV_WC_WR_FLUSH_ERR;
    }

    if (qp->late_reads > 0) {
        if ((send->flags & IBV_SEND_FENCE) ||
            (reads && (qp->late_reads >= qp->attr.max_rd_atomic))) {
            fv_complete(qp);
            if (qp->late_reads > 0) {
                return fv_stall(qp, FV_STALL_READS);
            }
        }
    }

    if (qp->stalled == 0) {
        status = (int)fv_wr_fault(qp->ibv.qp_num, !qp->wire->is_datagram);
        if (status != IBV_WC_SUCCESS) {
            return status;
        }
    }

    if (fv_is_silent(qp)) {
        fv_run_unanswered(qp);
        return fv_stall(qp, FV_STALL_READS); /* no time limit */
    }
    if (qp->lose_acks) {
        fv_run_unanswered(qp);
        return fv_stall(qp, FV_STALL_SILENT);
    }
    if (send->is_executed) {
        return IBV_WC_SUCCESS;
    }

    status = fv_respond(qp, send);
    return (status < 0) ? fv_stall(qp, status) : status;
}

void fv_qp_run(fv_qp_t *qp)
{
    fv_send_t *send;
    int status;

    if ((qp == NULL) || qp->running || fv_gone(qp->ibv.context)) {
        return;
    }

    qp->running = true;
    while (qp->sq_run != qp->sq_head) {
        send = &qp->sq[qp->sq_run % qp->cap.max_send_wr];
        if ((qp->hold & FAKE_VERBS_HOLD_SEND) && (qp->wire->state != IBV_QPS_ERR)) {
            if (qp->may_send == 0) {
                break;
            }
        }

        status = fv_run_one(qp, send);
        if (status < 0) {
            break;
        }

        fv_unstall(qp);
        if (qp->may_send > 0) {
            qp->may_send--;
        }
        send->status = (enum ibv_wc_status)status;
        qp->sq_run++;
        if ((status != IBV_WC_SUCCESS) && (qp->wire->state != IBV_QPS_ERR)) {
            qp->wire->state = IBV_QPS_ERR;
            fv_complete(qp); /* the cause first, then the flushed ones */
            fv_qp_to_error(qp->wire);
        }
    }

    fv_complete(qp);
    qp->running = false;
}

void fv_run_cq(const fv_cq_t *cq)
{
    fv_qp_t *qp;

    for (qp = fv.qps; qp != NULL; qp = qp->next) {
        if ((qp->ibv.send_cq == &cq->ibv) && (qp->sq_done != qp->sq_head)) {
            fv_qp_run(qp);
        }
    }
}

void fv_run_all(void)
{
    fv_qp_t *qp;

    for (qp = fv.qps; qp != NULL; qp = qp->next) {
        if (qp->sq_done != qp->sq_head) {
            fv_qp_run(qp);
        }
    }
}

void fv_kick_senders(uint32_t qp_num)
{
    fv_qp_t *qp;

    for (qp = fv.qps; (fv.num_stalled > 0) && (qp != NULL); qp = qp->next) {
        if ((qp->stalled != 0) && (qp->wire->dest_qp_num == qp_num)) {
            fv_qp_run(qp);
        }
    }
}

/* Retry the senders that wait for receives of a shared queue. */
void fv_kick_senders_of_srq(uint32_t srq)
{
    const fv_wire_qp_t *peer;
    fv_qp_t *qp;

    for (qp = fv.qps; (fv.num_stalled > 0) && (qp != NULL); qp = qp->next) {
        peer = (qp->stalled != 0) ? fv_wire_qp_find(qp->wire->dest_qp_num) : NULL;
        if ((peer != NULL) && (peer->srq == srq)) {
            fv_qp_run(qp);
        }
    }
}

static void *fv_thread_main(void *arg)
{
    const struct timespec nap = {.tv_nsec = FV_RETRY_NSEC};

    (void)arg;
    for (;;) {
        nanosleep(&nap, NULL);
        fv_lock();
        if (fv.num_stalled > 0) {
            fv_run_all();
        }
        if (fv.num_stalled == 0) {
            fv.thread_pid = 0;
            fv_unlock();
            return NULL;
        }
        fv_unlock();
    }
}

/* Start the thread that retries stalled queue pairs; it ends when none is left. A
 * stopped clock needs none. In one process without deadlines the call that ends a stall
 * retries. */
void fv_thread_wake(void)
{
    pthread_attr_t attr;
    pthread_t thread;

    if (fv.clock_stopped || (fv.thread_pid == fv.pid)) {
        return;
    }

    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attr, fv_thread_main, NULL) == 0) {
        fv.thread_pid = fv.pid;
    }
    pthread_attr_destroy(&attr);
}
