/* SPDX-License-Identifier: BSD-3-Clause */
#include "fv.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <string.h>
#include <unistd.h>

/* Queue pairs: creation, the state machines of RC and UD, destruction. */

typedef struct fv_transition {
    enum ibv_qp_state from;
    enum ibv_qp_state to;
    int required;
    int optional;
} fv_transition_t;

/* Transitions of the kernel's ib_modify_qp_is_ok(); RESET and ERR are reached from any
 * state. */
static const fv_transition_t fv_transitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
     0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0,
     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
         IBV_QP_MAX_QP_RD_ATOMIC,
     IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0,
     IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
};

static const fv_transition_t fv_datagram_transitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
    {IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
};

fv_qp_t *fv_qp_find(uint32_t qp_num)
{
    fv_qp_t *qp;

    for (qp = fv.qps; (qp != NULL) && (qp->ibv.qp_num != qp_num); qp = qp->next) {
    }

    return qp;
}

fv_wire_qp_t *fv_wire_qp_find(uint32_t qp_num)
{
    fv_wire_qp_t *wire = &fv.wire->qp[qp_num % FV_MAX_QPS];

    return (wire->used && (wire->qp_num == qp_num)) ? wire : NULL;
}

/* Receives that will never be filled come back flushed; the owner's device flushes its
 * send queue itself when it next looks. */
void fv_qp_to_error(fv_wire_qp_t *wire)
{
    wire->state = IBV_QPS_ERR;
    fv_recv_flush(wire);
    if (wire->pid == fv.pid) {
        fv_qp_run(fv_qp_find(wire->qp_num));
    } else {
        fv.wire->cq[wire->send_cq].attention = true;
        fv_cq_poke(&fv.wire->cq[wire->send_cq]);
    }
}

static int fv_qp_check_create(struct ibv_context *context,
                              const struct ibv_qp_init_attr_ex *attr)
{
    const fv_caps_t *caps = &fv_device_of(context)->caps;
    const struct ibv_qp_cap *cap = &attr->cap;

    if (fv_gone(context)) {
        return EIO;
    }
    if ((attr->qp_type != IBV_QPT_RC) && (attr->qp_type != IBV_QPT_UD)) {
        return EOPNOTSUPP;
    }
    if ((attr->send_cq == NULL) || (attr->recv_cq == NULL) ||
        !(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || (attr->pd == NULL)) {
        return EINVAL;
    }
    if ((cap->max_send_wr > (uint32_t)caps->max_qp_wr) ||
        (cap->max_recv_wr > (uint32_t)caps->max_qp_wr) ||
        (cap->max_send_sge > (uint32_t)caps->max_sge) ||
        (cap->max_recv_sge > (uint32_t)caps->max_sge)) {
        return EINVAL;
    }
    if (cap->max_inline_data > (uint32_t)caps->max_inline) {
        return caps->inline_errno;
    }
    if ((int)fv.objects.qps >= caps->max_qp) {
        return ENOMEM;
    }

    return 0;
}

static int fv_wire_qp_slot(void)
{
    unsigned i;

    for (i = 0; i < FV_MAX_QPS; i++) {
        fv.wire->next_qp = (fv.wire->next_qp + 1) % FV_MAX_QPS;
        if (!fv.wire->qp[fv.wire->next_qp].used) {
            return (int)fv.wire->next_qp;
        }
    }

    return -1;
}

static fv_wire_qp_t *fv_wire_qp_init(const fv_qp_t *qp, int slot)
{
    fv_wire_qp_t *wire = &fv.wire->qp[slot];
    const uint32_t gen = wire->gen % 4095 + 1;

    memset(wire, 0, sizeof(*wire));
    wire->gen = gen;
    wire->pid = fv.pid;
    wire->qp_num = (gen << 12) | (uint32_t)slot;
    wire->device = fv_device_of(qp->ibv.context)->index;
    wire->pd = fv_container_of(qp->ibv.pd, fv_pd_t, ibv)->id;
    wire->state = IBV_QPS_RESET;
    wire->send_cq = qp->ibv.send_cq->handle;
    wire->recv_cq = qp->ibv.recv_cq->handle;
    wire->rq.size = qp->cap.max_recv_wr;
    wire->rq.max_sge = qp->cap.max_recv_sge;
    wire->rq.ring = fv_alloc(fv_rq_bytes(&wire->rq));
    wire->srq = (qp->ibv.srq != NULL) ? qp->ibv.srq->handle + 1 : 0;
    wire->async_fd = fv_context_of(qp->ibv.context)->write_fd;
    wire->is_datagram = qp->ibv.qp_type == IBV_QPT_UD;
    wire->owner = (uintptr_t)qp;
    wire->used = true;
    return wire;
}

static int fv_sq_init(fv_qp_t *qp)
{
    const size_t sge_size = qp->cap.max_send_sge * sizeof(struct ibv_sge);
    const size_t inline_size = (qp->cap.max_inline_data + 7) & ~7u;
    const size_t count = qp->cap.max_send_wr;

    /* a device's own memory, and none of the process' before it is used */
    qp->sq_stride = sge_size + inline_size;
    qp->sq_bytes = (count + 1) * (sizeof(*qp->sq) + qp->sq_stride);
    qp->sq = mmap(NULL, qp->sq_bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (qp->sq == MAP_FAILED) {
        return ENOMEM;
    }

    qp->sq_memory = (uint8_t *)(qp->sq + count + 1);
    return 0;
}

static void fv_qp_link(fv_qp_t *qp)
{
    fv_qp_t **last = &fv.qps;

    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = qp;
    fv_container_of(qp->ibv.pd, fv_pd_t, ibv)->users++;
    fv_container_of(qp->ibv.send_cq, fv_cq_t, ibv)->users++;
    fv_container_of(qp->ibv.recv_cq, fv_cq_t, ibv)->users++;
    if (qp->ibv.srq != NULL) {
        fv_container_of(qp->ibv.srq, fv_srq_t, ibv)->users++;
    }
    fv_context_of(qp->ibv.context)->users++;
    fv.objects.qps++;
    fv.objects.sq_entries += qp->cap.max_send_wr;
    fv.objects.td_qps += fv_container_of(qp->ibv.pd, fv_pd_t, ibv)->td != NULL;
}

/* Spoil seven of eight commands off the main thread. */
static bool fv_spoils_command(const struct ibv_context *context)
{
    static unsigned num;

    return fv_device_of(context)->caps.efault && (gettid() != getpid()) &&
           ((__atomic_add_fetch(&num, 1, __ATOMIC_RELAXED) & 7) != 0);
}

struct ibv_qp *fv_create_qp_ex(struct ibv_context *context,
                               struct ibv_qp_init_attr_ex *attr)
{
    fv_qp_t *qp;
    int slot;

    if (fv_command_fails("ibv_create_qp")) {
        return NULL;
    }
    if (fv_spoils_command(context)) {
        errno = EFAULT;
        return NULL;
    }
    if (attr->comp_mask & ~(uint32_t)IBV_QP_INIT_ATTR_PD) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    errno = fv_qp_check_create(context, attr);
    if (errno != 0) {
        return NULL;
    }

    qp = calloc(1, sizeof(*qp));
    if (qp == NULL) {
        return NULL;
    }

    qp->cap = attr->cap;
    qp->sq_sig_all = attr->sq_sig_all;
    qp->ibv.context = context;
    qp->ibv.qp_context = attr->qp_context;
    qp->ibv.pd = attr->pd;
    qp->ibv.send_cq = attr->send_cq;
    qp->ibv.recv_cq = attr->recv_cq;
    qp->ibv.srq = attr->srq;
    if (attr->srq != NULL) { /* its own are ignored, and it has none */
        qp->cap.max_recv_wr = qp->cap.max_recv_sge = 0;
    }
    qp->ibv.state = IBV_QPS_RESET;
    qp->ibv.qp_type = attr->qp_type;
    if (fv_sq_init(qp) != 0) {
        free(qp);
        errno = ENOMEM;
        return NULL;
    }

    fv_lock();
    slot = fv_wire_qp_slot();
    if (slot < 0) {
        fv_unlock();
        munmap(qp->sq, qp->sq_bytes);
        free(qp);
        errno = ENOMEM;
        return NULL;
    }
    qp->wire = fv_wire_qp_init(qp, slot);
    qp->ibv.handle = (uint32_t)slot;
    qp->ibv.qp_num = qp->wire->qp_num;
    pthread_mutex_init(&qp->ibv.mutex, NULL);
    pthread_cond_init(&qp->ibv.cond, NULL);
    fv_qp_link(qp);
    fv_unlock();
    return &qp->ibv;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp_init_attr_ex ex = {
        .qp_context = attr->qp_context,
        .send_cq = attr->send_cq,
        .recv_cq = attr->recv_cq,
        .srq = attr->srq,
        .cap = attr->cap,
        .qp_type = attr->qp_type,
        .sq_sig_all = attr->sq_sig_all,
        .comp_mask = IBV_QP_INIT_ATTR_PD,
        .pd = pd,
    };

    return fv_create_qp_ex(pd->context, &ex);
}

static void fv_qp_drop_queues(fv_qp_t *qp)
{
    uint32_t i;

    for (i = qp->sq_done; i != qp->sq_head; i++) {
        free(qp->sq[i % qp->cap.max_send_wr].late);
        qp->sq[i % qp->cap.max_send_wr].late = NULL;
    }
    fv_gpu_push_all(qp);
    if (qp->stalled != 0) {
        qp->stalled = 0;
        fv.num_stalled--;
    }
    qp->late_reads = 0;
    qp->sq_head = qp->sq_run = qp->sq_done = qp->sq_tail = 0;
    qp->wire->rq.head = qp->wire->rq.taken = qp->wire->rq.tail = 0;
    qp->wire->last_wqe = false;
    fv_cq_forget(&fv.wire->cq[qp->wire->send_cq], qp->ibv.qp_num);
    fv_cq_forget(&fv.wire->cq[qp->wire->recv_cq], qp->ibv.qp_num);
}

int ibv_destroy_qp(struct ibv_qp *ibv)
{
    fv_qp_t *qp = fv_container_of(ibv, fv_qp_t, ibv);
    fv_qp_t **link;

    if (fv_command_fails("ibv_destroy_qp")) {
        return errno;
    }

    fv_lock();
    for (link = &fv.qps; (*link != NULL) && (*link != qp); link = &(*link)->next) {
    }
    if (*link == NULL) {
        fv_abort("ibv_destroy_qp() of a queue pair that does not exist");
    }
    *link = qp->next;
    fv_qp_drop_queues(qp);
    qp->wire->used = false;
    fv_free(qp->wire->rq.ring, fv_rq_bytes(&qp->wire->rq));
    fv.objects.td_qps -= fv_container_of(ibv->pd, fv_pd_t, ibv)->td != NULL;
    fv_container_of(ibv->pd, fv_pd_t, ibv)->users--;
    fv_container_of(ibv->send_cq, fv_cq_t, ibv)->users--;
    fv_container_of(ibv->recv_cq, fv_cq_t, ibv)->users--;
    if (ibv->srq != NULL) {
        fv_container_of(ibv->srq, fv_srq_t, ibv)->users--;
    }
    fv_context_put(ibv->context);
    fv.objects.qps--;
    fv.objects.sq_entries -= qp->cap.max_send_wr;
    fv_unlock();

    fv_wait_acked(&ibv->mutex, &ibv->cond, &ibv->events_completed, qp->async_delivered,
                  "ibv_destroy_qp()");
    pthread_mutex_destroy(&ibv->mutex);
    pthread_cond_destroy(&ibv->cond);
    munmap(qp->sq, qp->sq_bytes);
    free(qp);
    return 0;
}

/* Count the responder resources of the device's queue pairs in all processes. */
static bool fv_has_responders(const fv_qp_t *qp, int wanted)
{
    const fv_caps_t *caps = &fv_device_of(qp->ibv.context)->caps;
    const fv_wire_qp_t *other;
    int used = 0;
    unsigned i;

    for (i = 0; caps->shares_rd_atom && (i < FV_MAX_QPS); i++) {
        other = &fv.wire->qp[i];
        if (other->used && (other != qp->wire) && (other->device == qp->wire->device)) {
            used += other->max_dest_rd_atomic;
        }
    }

    return !caps->shares_rd_atom || (used + wanted <= caps->max_res_rd_atom);
}

static int fv_check_values(const fv_qp_t *qp, const struct ibv_qp_attr *attr, int mask)
{
    const fv_caps_t *caps = &fv_device_of(qp->ibv.context)->caps;
    const bool bad =
        ((mask & IBV_QP_PORT) && (attr->port_num != 1)) ||
        ((mask & IBV_QP_PKEY_INDEX) && (attr->pkey_index > caps->limited)) ||
        ((mask & IBV_QP_PATH_MTU) &&
         ((attr->path_mtu < IBV_MTU_256) || (attr->path_mtu > IBV_MTU_4096))) ||
        ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) &&
         ((attr->max_dest_rd_atomic > caps->max_rd_atom) ||
          !fv_has_responders(qp, attr->max_dest_rd_atomic))) ||
        ((mask & IBV_QP_MAX_QP_RD_ATOMIC) &&
         (attr->max_rd_atomic > caps->max_init_rd_atom)) ||
        ((mask & IBV_QP_MIN_RNR_TIMER) && (attr->min_rnr_timer > 31)) ||
        ((mask & IBV_QP_TIMEOUT) && (attr->timeout > 31)) ||
        ((mask & IBV_QP_RETRY_CNT) && (attr->retry_cnt > 7)) ||
        ((mask & IBV_QP_RNR_RETRY) && (attr->rnr_retry > 7)) ||
        ((mask & IBV_QP_ACCESS_FLAGS) && !caps->atomics &&
         (attr->qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC)) ||
        ((mask & IBV_QP_CUR_STATE) && (attr->cur_qp_state != qp->wire->state));

    if (bad) {
        return EINVAL;
    }

    return (mask & IBV_QP_AV)
               ? fv_check_av(fv_device_of(qp->ibv.context), &attr->ah_attr)
               : 0;
}

static int fv_check_transition(const fv_qp_t *qp, enum ibv_qp_state from,
                               enum ibv_qp_state to, int mask)
{
    const bool is_datagram = qp->wire->is_datagram;
    const fv_transition_t *table =
        is_datagram ? fv_datagram_transitions : fv_transitions;
    const size_t count =
        is_datagram
            ? sizeof(fv_datagram_transitions) / sizeof(fv_datagram_transitions[0])
            : sizeof(fv_transitions) / sizeof(fv_transitions[0]);
    const fv_transition_t *t;
    size_t i;

    mask &= ~IBV_QP_STATE;
    if ((to == IBV_QPS_RESET) || (to == IBV_QPS_ERR)) {
        return (mask == 0) ? 0 : EINVAL;
    }

    for (i = 0; i < count; i++) {
        t = &table[i];
        if ((t->from == from) && (t->to == to)) {
            return (((mask & t->required) == t->required) &&
                    ((mask & ~(t->required | t->optional)) == 0))
                       ? 0
                       : EINVAL;
        }
    }

    return EINVAL;
}

static void fv_qp_apply(fv_qp_t *qp, const struct ibv_qp_attr *attr, int mask)
{
    fv_wire_qp_t *wire = qp->wire;

    if (mask & IBV_QP_ACCESS_FLAGS) {
        wire->access = qp->attr.qp_access_flags = attr->qp_access_flags;
    }
    if (mask & IBV_QP_PKEY_INDEX) {
        wire->limited = attr->pkey_index < fv_device_of(qp->ibv.context)->caps.limited;
    }
    if (mask & IBV_QP_PORT) {
        qp->attr.port_num = attr->port_num;
    }
    if (mask & IBV_QP_QKEY) {
        wire->qkey = qp->attr.qkey = attr->qkey;
    }
    if (mask & IBV_QP_AV) {
        qp->attr.ah_attr = attr->ah_attr;
        wire->is_global = attr->ah_attr.is_global;
        wire->dgid = attr->ah_attr.grh.dgid;
        wire->sgid_index = attr->ah_attr.grh.sgid_index;
        wire->dlid = attr->ah_attr.dlid;
    }
    if (mask & IBV_QP_PATH_MTU) {
        qp->attr.path_mtu = attr->path_mtu;
        wire->path_mtu = (uint8_t)attr->path_mtu;
    }
    if (mask & IBV_QP_DEST_QPN) {
        wire->dest_qp_num = qp->attr.dest_qp_num = attr->dest_qp_num;
    }
    if (mask & IBV_QP_RQ_PSN) {
        wire->rq_psn = qp->attr.rq_psn = attr->rq_psn & 0xffffff;
    }
    if (mask & IBV_QP_SQ_PSN) {
        wire->sq_psn = qp->attr.sq_psn = attr->sq_psn & 0xffffff;
    }
    if (mask & IBV_QP_MAX_DEST_RD_ATOMIC) {
        wire->max_dest_rd_atomic = qp->attr.max_dest_rd_atomic =
            attr->max_dest_rd_atomic;
    }
    if (mask & IBV_QP_MIN_RNR_TIMER) {
        wire->min_rnr_timer = qp->attr.min_rnr_timer = attr->min_rnr_timer;
    }
    if (mask & IBV_QP_TIMEOUT) {
        qp->attr.timeout = attr->timeout;
    }
    if (mask & IBV_QP_RETRY_CNT) {
        qp->attr.retry_cnt = attr->retry_cnt;
    }
    if (mask & IBV_QP_RNR_RETRY) {
        qp->attr.rnr_retry = attr->rnr_retry;
    }
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC) {
        qp->attr.max_rd_atomic = attr->max_rd_atomic;
    }
}

static int fv_modify(fv_qp_t *qp, const struct ibv_qp_attr *attr, int mask)
{
    const enum ibv_qp_state from = qp->wire->state;
    const enum ibv_qp_state to = (mask & IBV_QP_STATE) ? attr->qp_state : from;
    int ret;

    if (fv_gone(qp->ibv.context)) {
        return EIO;
    }

    ret = fv_check_transition(qp, from, to, mask);
    if (ret == 0) {
        ret = fv_check_values(qp, attr, mask);
    }
    if (ret != 0) {
        return ret;
    }

    fv_qp_apply(qp, attr, mask);
    fv_ece_enter(qp, to);
    qp->ibv.state = to;
    if (to == IBV_QPS_ERR) {
        if (fv_device_of(qp->ibv.context)->caps.forgets) {
            fv_cq_flush(&fv.wire->cq[qp->wire->send_cq], qp->ibv.qp_num);
            fv_cq_flush(&fv.wire->cq[qp->wire->recv_cq], qp->ibv.qp_num);
        }
        fv_qp_to_error(qp->wire);
    } else {
        qp->wire->state = to;
        if (to == IBV_QPS_RESET) {
            qp->wire->max_dest_rd_atomic = 0;
            fv_qp_drop_queues(qp);
        }
        fv_kick_senders(qp->ibv.qp_num);
    }

    return 0;
}

int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
    int ret;

    if (fv_command_fails("ibv_modify_qp")) {
        return errno;
    }

    fv_lock();
    ret = fv_modify(fv_container_of(ibv, fv_qp_t, ibv), attr, mask);
    fv_unlock();
    return ret;
}

int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask,
                 struct ibv_qp_init_attr *init)
{
    fv_qp_t *qp = fv_container_of(ibv, fv_qp_t, ibv);

    (void)mask;
    if (fv_call_fails("ibv_query_qp")) {
        return errno;
    }

    fv_lock();
    *attr = qp->attr;
    attr->cap = qp->cap;
    attr->qp_state = attr->cur_qp_state = qp->wire->state;
    ibv->state = qp->wire->state;
    memset(init, 0, sizeof(*init));
    init->qp_context = ibv->qp_context;
    init->send_cq = ibv->send_cq;
    init->recv_cq = ibv->recv_cq;
    init->srq = ibv->srq;
    init->cap = qp->cap;
    init->qp_type = ibv->qp_type;
    init->sq_sig_all = qp->sq_sig_all;
    fv_unlock();
    return 0;
}
