/* SPDX-License-Identifier: BSD-3-Clause */
#include "fv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Completion queues and channels. The ring lies on the wire: the peer's device writes
 * receive completions into it. */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    fv_channel_t *channel;
    int pipe_fd[2];

    if (fv_call_fails("ibv_create_comp_channel")) {
        return NULL;
    }

    channel = calloc(1, sizeof(*channel));
    if ((channel == NULL) || (pipe2(pipe_fd, O_CLOEXEC) != 0)) {
        free(channel);
        return NULL;
    }

    fcntl(pipe_fd[1], F_SETFL, O_NONBLOCK);
    channel->ibv.context = context;
    channel->ibv.fd = pipe_fd[0];
    channel->write_fd = pipe_fd[1];
    fv_lock();
    fv_context_of(context)->users++;
    fv.objects.channels++;
    fv_unlock();
    return &channel->ibv;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
    fv_channel_t *channel = fv_container_of(ibv, fv_channel_t, ibv);

    fv_lock();
    if (ibv->refcnt != 0) {
        fv_unlock();
        return EBUSY;
    }
    fv_context_put(ibv->context);
    fv.objects.channels--;
    fv_unlock();

    close(ibv->fd);
    close(channel->write_fd);
    free(channel);
    return 0;
}

static int fv_cq_slot(void)
{
    int i;

    for (i = 0; i < FV_MAX_CQS; i++) {
        if (!fv.wire->cq[i].used) {
            return i;
        }
    }

    return -1;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                             struct ibv_comp_channel *channel, int comp_vector)
{
    fv_cq_t *cq;
    int slot;

    if (fv_command_fails("ibv_create_cq")) {
        return NULL;
    }

    errno = 0;
    if (fv_gone(context)) {
        errno = EIO;
    } else if ((cqe < 1) || (cqe > fv_device_of(context)->caps.max_cqe) ||
               (comp_vector < 0) || (comp_vector >= context->num_comp_vectors)) {
        errno = EINVAL;
    }
    if (errno != 0) {
        return NULL;
    }

    cq = calloc(1, sizeof(*cq));
    if (cq == NULL) {
        return NULL;
    }

    fv_lock();
    slot = fv_cq_slot();
    if (slot < 0) {
        fv_unlock();
        free(cq);
        errno = ENOMEM;
        return NULL;
    }

    cq->ibv.context = context;
    cq->ibv.channel = channel;
    cq->ibv.cq_context = cq_context;
    cq->ibv.handle = (uint32_t)slot;
    cq->ibv.cqe = cqe;
    pthread_mutex_init(&cq->ibv.mutex, NULL);
    pthread_cond_init(&cq->ibv.cond, NULL);
    cq->wire = &fv.wire->cq[slot];
    memset(cq->wire, 0, sizeof(*cq->wire));
    cq->wire->pid = fv.pid;
    cq->wire->owner = (uintptr_t)cq;
    cq->wire->size = (uint32_t)cqe;
    cq->wire->ring = fv_alloc((size_t)cqe * sizeof(fv_cqe_t));
    cq->wire->notify_fd = -1;
    if (channel != NULL) {
        cq->wire->notify_fd = fv_container_of(channel, fv_channel_t, ibv)->write_fd;
        channel->refcnt++;
    }
    cq->wire->used = true;
    fv_context_of(context)->users++;
    fv.objects.cqs++;
    fv.objects.cq_entries += (unsigned)cq->ibv.cqe;
    fv.objects.vectors |= 1u << comp_vector;
    fv_unlock();
    return &cq->ibv;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
    (void)cq;
    (void)cqe;
    return EOPNOTSUPP;
}

/* The real call waits for the acknowledgement of every event that was delivered. */
void fv_wait_acked(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *acked,
                   uint32_t delivered, const char *what)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 30;
    pthread_mutex_lock(mutex);
    while (*acked != delivered) {
        if (pthread_cond_timedwait(cond, mutex, &until) != 0) {
            fv_abort("%s waits for ever: %u events delivered, %u acknowledged", what,
                     delivered, *acked);
        }
    }
    pthread_mutex_unlock(mutex);
}

int ibv_destroy_cq(struct ibv_cq *ibv)
{
    fv_cq_t *cq = fv_container_of(ibv, fv_cq_t, ibv);

    if (fv_command_fails("ibv_destroy_cq")) {
        return errno;
    }

    fv_lock();
    if (cq->users != 0) {
        fv_unlock();
        return EBUSY;
    }
    cq->wire->used = false;
    fv_free(cq->wire->ring, (size_t)cq->wire->size * sizeof(fv_cqe_t));
    if (ibv->channel != NULL) {
        ibv->channel->refcnt--;
    }
    fv_context_put(ibv->context);
    fv.objects.cqs--;
    fv.objects.cq_entries -= (unsigned)cq->ibv.cqe;
    fv_unlock();

    fv_wait_acked(&ibv->mutex, &ibv->cond, &ibv->comp_events_completed,
                  cq->events_delivered, "ibv_destroy_cq()");
    fv_wait_acked(&ibv->mutex, &ibv->cond, &ibv->async_events_completed,
                  cq->async_delivered, "ibv_destroy_cq()");
    pthread_mutex_destroy(&ibv->mutex);
    pthread_cond_destroy(&ibv->cond);
    free(cq);
    return 0;
}

/* Events of a queue that was destroyed meanwhile are dropped, as the kernel does. */
static fv_cq_t *fv_cq_claim(uint64_t owner)
{
    fv_cq_t *cq = NULL;
    unsigned i;

    fv_lock();
    for (i = 0; (i < FV_MAX_CQS) && (cq == NULL); i++) {
        if (fv.wire->cq[i].used && (fv.wire->cq[i].pid == fv.pid) &&
            (fv.wire->cq[i].owner == owner)) {
            cq = (fv_cq_t *)(uintptr_t)owner;
            cq->events_delivered++;
        }
    }
    fv_unlock();
    return cq;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq_p,
                     void **context_p)
{
    uint64_t owner;
    fv_cq_t *cq = NULL;
    ssize_t ret;

    do {
        ret = read(channel->fd, &owner, sizeof(owner));
        if ((ret < 0) && (errno == EINTR)) {
            continue;
        }
        if (ret != sizeof(owner)) {
            return -1;
        }
        cq = fv_cq_claim(owner);
    } while (cq == NULL);

    *cq_p = &cq->ibv;
    *context_p = cq->ibv.cq_context;
    return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
    pthread_mutex_lock(&cq->mutex);
    cq->comp_events_completed += count;
    pthread_cond_broadcast(&cq->cond);
    pthread_mutex_unlock(&cq->mutex);
}

/* Wake the owner if it waits, with or without a completion for it to find. */
void fv_cq_poke(fv_wire_cq_t *cq)
{
    if ((cq->armed == 0) || (cq->notify_fd < 0)) {
        return;
    }

    cq->armed = 0;
    fv_notify(cq->pid, cq->notify_fd, &cq->owner, sizeof(cq->owner));
}

void fv_cq_push(fv_wire_cq_t *cq, const fv_cqe_t *cqe)
{
    fv_cqe_t *ring = fv_at(cq->ring);

    if (cq->broken) {
        return;
    }
    if (cq->head - cq->tail == cq->size) {
        fv_abort("completion queue of %u entries overrun by queue pair 0x%x", cq->size,
                 cqe->qp_num);
    }

    ring[cq->head % cq->size] = *cqe;
    __atomic_store_n(&cq->head, cq->head + 1, __ATOMIC_RELEASE);
    if ((cq->armed == 1) || cqe->solicited || (cqe->status != IBV_WC_SUCCESS)) {
        fv_cq_poke(cq);
    }
}

/* A destroyed or reset queue pair's completions are never seen again. */
void fv_cq_forget(fv_wire_cq_t *cq, uint32_t qp_num)
{
    fv_cqe_t *ring = fv_at(cq->ring);
    uint32_t from, to = cq->tail;

    for (from = cq->tail; from != cq->head; from++) {
        if (ring[from % cq->size].qp_num != qp_num) {
            ring[to++ % cq->size] = ring[from % cq->size];
        } else if (ring[from % cq->size].srq != 0) {
            fv_recv_free(&ring[from % cq->size]);
        }
    }
    cq->head = to;
}

/* Completions that were not polled become flush errors. */
void fv_cq_flush(fv_wire_cq_t *cq, uint32_t qp_num)
{
    fv_cqe_t *ring = fv_at(cq->ring);
    uint32_t i;

    for (i = cq->tail; i != cq->head; i++) {
        if (ring[i % cq->size].qp_num == qp_num) {
            ring[i % cq->size].status = IBV_WC_WR_FLUSH_ERR;
        }
    }
}

static void fv_cqe_free_queue(const fv_cqe_t *cqe)
{
    fv_qp_t *qp;

    if (cqe->is_recv) {
        fv_recv_free(cqe);
        return;
    }

    qp = fv_qp_find(cqe->qp_num);
    if (qp != NULL) {
        qp->sq_tail = cqe->queue_end;
    }
}

/* Read without the lock, so that two polling processes do not contend for it. */
static bool fv_nothing_to_poll(const fv_cq_t *cq)
{
    return (__atomic_load_n(&cq->wire->head, __ATOMIC_ACQUIRE) == cq->wire->tail) &&
           !__atomic_load_n(&cq->wire->attention, __ATOMIC_RELAXED) &&
           (__atomic_load_n(&fv.num_stalled, __ATOMIC_RELAXED) == 0);
}

int fv_poll_cq(struct ibv_cq *ibv, int count, struct ibv_wc *wc)
{
    fv_cq_t *cq = fv_container_of(ibv, fv_cq_t, ibv);
    const fv_cqe_t *cqe;
    int i;

    if (fv_call_fails("ibv_poll_cq")) {
        return -1;
    }
    __atomic_fetch_add(&fv.objects.polls, 1, __ATOMIC_RELAXED);
    if (fv_nothing_to_poll(cq)) {
        return 0;
    }

    fv_lock();
    if (!fv.null_mode) {
        cq->wire->attention = false;
        fv_run_cq(cq);
    }

    for (i = 0; (i < count) && (cq->wire->tail != cq->wire->head); i++) {
        cqe = (fv_cqe_t *)fv_at(cq->wire->ring) + cq->wire->tail % cq->wire->size;
        wc[i].wr_id = cqe->wr_id;
        wc[i].status = cqe->status;
        wc[i].qp_num = cqe->qp_num;
        wc[i].vendor_err = cqe->vendor_err;
        if (cqe->status == IBV_WC_SUCCESS) {
            wc[i].opcode = cqe->opcode;
            wc[i].byte_len = cqe->byte_len;
            wc[i].imm_data = cqe->imm_data;
            wc[i].src_qp = cqe->src_qp;
            wc[i].wc_flags = cqe->wc_flags;
        } else {
            /* undefined after an error; make a caller that reads it fail */
            wc[i].opcode = (enum ibv_wc_opcode)0x7f;
            wc[i].byte_len = 0xdeadbeef;
            wc[i].imm_data = 0xdeadbeef;
            wc[i].wc_flags = 0;
        }
        fv_cqe_free_queue(cqe);
        cq->wire->tail++;
    }

    fv_unlock();
    return i;
}

int fv_req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
    fv_cq_t *cq = fv_container_of(ibv, fv_cq_t, ibv);

    fv_lock();
    cq->wire->armed = solicited_only ? 2 : 1;
    fv_unlock();
    return 0;
}
