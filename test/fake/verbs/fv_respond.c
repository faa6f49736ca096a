/* SPDX-License-Identifier: BSD-3-Clause */
#include "fv.h"

#include <stdlib.h>
#include <string.h>

/*
 * Execution of a work request at the peer: its path, queue pair, keys and receives. A
 * request is executed as a whole or not at all. A write whose immediate finds no
 * receive is the exception: its data is written, as on a real wire.
 */

/* Local addresses of a list of entries, in the process that owns the keys. */
bool fv_resolve(pid_t pid, uint32_t pd, const struct ibv_sge *sge, unsigned count,
                unsigned access, struct ibv_sge *out, unsigned *out_count)
{
    const fv_wire_mr_t *mr;
    unsigned i, n = 0;

    for (i = 0; i < count; i++) {
        if (sge[i].length == 0) {
            continue;
        }
        mr = fv_key_find(sge[i].lkey);
        if ((mr == NULL) || (mr->pid != pid) || (mr->pd != pd) ||
            ((mr->access & access) != access) || (sge[i].addr < mr->iova) ||
            (sge[i].addr - mr->iova > mr->length) ||
            (sge[i].length > mr->length - (sge[i].addr - mr->iova))) {
            return false;
        }
        out[n] = sge[i];
        out[n++].addr = mr->host + (sge[i].addr - mr->iova);
    }

    *out_count = n;
    return true;
}

bool fv_local(const fv_qp_t *qp, const fv_send_t *send, unsigned access,
              struct ibv_sge *out, unsigned *count)
{
    if (send->flags & IBV_SEND_INLINE) {
        out[0].addr = (uintptr_t)send->inline_data;
        out[0].length = send->length;
        *count = (send->length == 0) ? 0 : 1;
        return true;
    }

    return fv_resolve(fv.pid, qp->wire->pd, send->sge, send->num_sge, access, out,
                      count);
}

/* Sets the region; none is needed for no bytes. */
static bool fv_remote_ok(const fv_wire_qp_t *peer, const fv_send_t *send,
                         uint64_t length, unsigned access, const fv_wire_mr_t **mr_p)
{
    const fv_wire_mr_t *mr;

    *mr_p = NULL;
    if (length == 0) {
        return true;
    }

    mr = fv_key_find(send->rkey);
    if ((mr == NULL) || (mr->pid != peer->pid) || (mr->pd != peer->pd) ||
        ((mr->access & access) != access) || (send->remote_addr < mr->iova) ||
        (send->remote_addr - mr->iova > mr->length) ||
        (length > mr->length - (send->remote_addr - mr->iova))) {
        return false;
    }

    *mr_p = mr;
    return true;
}

bool fv_cut(unsigned device)
{
    const fv_wire_device_t *wire = &fv.wire->device[device];

    return wire->down || wire->lost || wire->removed;
}

/* Find the peer that gets this queue pair's packets. */
static fv_wire_qp_t *fv_peer(const fv_qp_t *qp)
{
    const fv_device_t *device = fv_device_of(qp->ibv.context);
    const fv_wire_qp_t *me = qp->wire;
    fv_wire_qp_t *peer = fv_wire_qp_find(me->dest_qp_num);
    union ibv_gid gid, back;
    unsigned type, back_type;
    int there;

    /* limited members of a partition do not reach each other */
    if ((peer == NULL) || (peer->limited && me->limited) || peer->lost || me->lost ||
        fv_cut(device->index) || fv_cut(peer->device) ||
        ((peer->state != IBV_QPS_RTR) && (peer->state != IBV_QPS_RTS)) ||
        (peer->dest_qp_num != me->qp_num) || (peer->rq_psn != me->sq_psn)) {
        return NULL;
    }

    there = me->is_global ? fv_gid_owner(&me->dgid) : (int)me->dlid - 1;
    if (there != (int)peer->device) {
        return NULL;
    }
    if (me->is_global && peer->is_global) {
        if (!fv_gid(device, me->sgid_index, &gid, &type) ||
            !fv_gid(&fv.device[there], peer->sgid_index, &back, &back_type) ||
            (type != back_type) || (memcmp(&gid, &peer->dgid, sizeof(gid)) != 0)) {
            return NULL;
        }
    }

    return fv_alive(peer->pid) ? peer : NULL;
}

/* The responder rejected a request: both sides are in error. */
static enum ibv_wc_status fv_reject(fv_wire_qp_t *peer, enum ibv_wc_status status)
{
    fv_async_qp(peer, (status == IBV_WC_REM_ACCESS_ERR) ? IBV_EVENT_QP_ACCESS_ERR
                                                        : IBV_EVENT_QP_REQ_ERR);
    fv_qp_to_error(peer);
    return status;
}

static void fv_recv_complete(fv_wire_qp_t *peer, const fv_send_t *send,
                             enum ibv_wc_opcode opcode, enum ibv_wc_status status)
{
    fv_cqe_t cqe = {
        .status = status,
        .opcode = opcode,
        .byte_len = send->length,
        .imm_data = send->imm_data,
        .qp_num = peer->qp_num,
        .src_qp = peer->dest_qp_num,
        .wc_flags = ((send->opcode == IBV_WR_SEND_WITH_IMM) ||
                     (send->opcode == IBV_WR_RDMA_WRITE_WITH_IMM))
                        ? IBV_WC_WITH_IMM
                        : 0,
        .vendor_err = (status == IBV_WC_SUCCESS) ? 0 : 0x80 + status,
        .solicited = (send->flags & IBV_SEND_SOLICITED) != 0,
    };

    fv_recv_take(peer, &cqe);
    fv_cq_push(&fv.wire->cq[peer->recv_cq], &cqe);
}

/* The part of `in' that starts at `skip' and is `length' long. */
static unsigned fv_slice(const struct ibv_sge *in, unsigned count, uint64_t skip,
                         uint64_t length, struct ibv_sge *out)
{
    unsigned i, n = 0;
    uint64_t take;

    for (i = 0; (i < count) && (length > 0); i++) {
        if (skip >= in[i].length) {
            skip -= in[i].length;
            continue;
        }
        take = in[i].length - skip;
        take = (take < length) ? take : length;
        out[n].addr = in[i].addr + skip;
        out[n++].length = (uint32_t)take;
        length -= take;
        skip = 0;
    }

    return n;
}

static void fv_count_out(fv_qp_t *qp, uint64_t length)
{
    fv_device_t *device = fv_device_of(qp->ibv.context);

    qp->stats.bytes_out += length;
    device->stats.bytes_out += length;
    fv.wire->device[device->index].bytes_out += length;
}

static void fv_count_in(fv_qp_t *qp, uint64_t length)
{
    fv_device_t *device = fv_device_of(qp->ibv.context);

    qp->stats.bytes_in += length;
    device->stats.bytes_in += length;
    fv.wire->device[device->index].bytes_in += length;
}

static int fv_do_send(fv_qp_t *qp, fv_wire_qp_t *peer, const fv_send_t *send,
                      const struct ibv_sge *local, unsigned count)
{
    struct ibv_sge to[FV_MAX_SGE], part[FV_MAX_SGE];
    uint64_t room = 0, done = 0, take;
    const fv_recv_t *recv = fv_recv_next(peer);
    unsigned i, n;

    if (recv == NULL) {
        return FV_STALL_RNR;
    }

    for (i = 0; i < recv->num_sge; i++) {
        room += recv->sge[i].length;
    }
    if (send->length > room) {
        fv_recv_complete(peer, send, IBV_WC_RECV, IBV_WC_LOC_LEN_ERR);
        return fv_reject(peer, IBV_WC_REM_INV_REQ_ERR);
    }
    if (!fv_recv_resolve(peer, recv, to, &n)) {
        fv_recv_complete(peer, send, IBV_WC_RECV, IBV_WC_LOC_PROT_ERR);
        return fv_reject(peer, IBV_WC_REM_OP_ERR);
    }

    for (i = 0; (i < n) && (done < send->length); i++) {
        take = send->length - done;
        take = (take < to[i].length) ? take : to[i].length;
        if (fv_memory_write(peer->pid, to[i].addr, part,
                            fv_slice(local, count, done, take, part)) != 0) {
            return FV_STALL_SILENT;
        }
        done += take;
    }

    fv_count_out(qp, send->length);
    fv_recv_complete(peer, send, IBV_WC_RECV, IBV_WC_SUCCESS);
    return IBV_WC_SUCCESS;
}

/* Data of a write with one byte changed. */
static void fv_spoil(const fv_send_t *send, const struct ibv_sge *local, unsigned count,
                     struct ibv_sge *spoiled)
{
    char *data = malloc(send->length);

    if (data == NULL) {
        fv_abort("no memory for a write of %u bytes", send->length);
    }
    (void)fv_memory_write(fv.pid, (uintptr_t)data, local, count);
    data[send->length / 2] ^= 1;
    spoiled->addr = (uintptr_t)data;
    spoiled->length = send->length;
}

/* A byte behind a write changes as well. */
static void fv_stray(fv_qp_t *qp, fv_wire_qp_t *peer, const fv_send_t *send)
{
    static const char byte = 0x55;
    const struct ibv_sge one = {.addr = (uintptr_t)&byte, .length = sizeof(byte)};
    const fv_wire_mr_t *mr;
    fv_send_t behind = *send;

    behind.remote_addr += send->length;
    behind.length = one.length;
    if (fv_remote_ok(peer, &behind, behind.length, IBV_ACCESS_REMOTE_WRITE, &mr)) {
        (void)fv_gpu_write(qp, mr, &behind, &one, 1);
    }
}

static int fv_do_write(fv_qp_t *qp, fv_wire_qp_t *peer, const fv_send_t *send,
                       const struct ibv_sge *local, unsigned count)
{
    const bool is_spoiled = fv.wrong_mode && (send->length >= FV_WRONG_FROM);
    struct ibv_sge spoiled;
    const fv_wire_mr_t *mr;
    int ret = 0;

    if (!(peer->access & IBV_ACCESS_REMOTE_WRITE)) {
        return fv_reject(peer, IBV_WC_REM_INV_REQ_ERR);
    }
    if (!fv_remote_ok(peer, send, send->length, IBV_ACCESS_REMOTE_WRITE, &mr)) {
        return fv_reject(peer, IBV_WC_REM_ACCESS_ERR);
    }
    if (is_spoiled) {
        fv_spoil(send, local, count, &spoiled);
        local = &spoiled;
        count = 1;
    }
    if (mr != NULL) {
        ret = fv_gpu_write(qp, mr, send, local, count);
    }
    if ((fv.num_strays > 0) && (send->length >= FV_WRONG_FROM)) {
        --fv.num_strays;
        fv_stray(qp, peer, send);
    }
    if (is_spoiled) {
        free((void *)(uintptr_t)spoiled.addr);
    }
    if (ret != 0) {
        return FV_STALL_SILENT;
    }

    if (send->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
        if (fv_recv_next(peer) == NULL) {
            return FV_STALL_RNR;
        }
        fv_recv_complete(peer, send, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_SUCCESS);
    }

    fv_count_out(qp, send->length);
    return IBV_WC_SUCCESS;
}

static void fv_scatter(const struct ibv_sge *local, unsigned count, const void *data)
{
    const char *from = data;
    unsigned i;

    for (i = 0; i < count; i++) {
        memcpy((void *)(uintptr_t)local[i].addr, from, local[i].length);
        from += local[i].length;
    }
}

static int fv_do_read(fv_qp_t *qp, fv_wire_qp_t *peer, fv_send_t *send,
                      const struct ibv_sge *local, unsigned count)
{
    struct ibv_sge late = {.length = send->length};
    const fv_wire_mr_t *mr;

    if (!(peer->access & IBV_ACCESS_REMOTE_READ) ||
        (qp->attr.max_rd_atomic > peer->max_dest_rd_atomic)) {
        return fv_reject(peer, IBV_WC_REM_INV_REQ_ERR);
    }
    if (!fv_remote_ok(peer, send, send->length, IBV_ACCESS_REMOTE_READ, &mr)) {
        return fv_reject(peer, IBV_WC_REM_ACCESS_ERR);
    }

    if (fv.late_mode && (send->length > 0)) {
        send->late = malloc(send->length);
        if (send->late == NULL) {
            fv_abort("no memory for a read of %u bytes", send->length);
        }
        late.addr = (uintptr_t)send->late;
        qp->late_reads++;
        local = &late;
        count = 1;
    }
    if (mr != NULL) {
        fv_gpu_push(qp, mr, send);
        if (fv_memory_read(mr->pid, mr->host + (send->remote_addr - mr->iova), local,
                           count) != 0) {
            return FV_STALL_SILENT;
        }
    }

    fv_count_in(qp, send->length);
    return IBV_WC_SUCCESS;
}

/* The wire's lock is the device's atomicity: IBV_ATOMIC_HCA. */
static int fv_do_atomic(fv_qp_t *qp, fv_wire_qp_t *peer, const fv_send_t *send,
                        const struct ibv_sge *local, unsigned count)
{
    const fv_wire_mr_t *mr;
    uint64_t old, new;
    struct ibv_sge value = {.addr = (uintptr_t)&old, .length = sizeof(old)};

    if (!(peer->access & IBV_ACCESS_REMOTE_ATOMIC) ||
        (qp->attr.max_rd_atomic > peer->max_dest_rd_atomic) ||
        ((send->remote_addr & 7) != 0)) {
        return fv_reject(peer, IBV_WC_REM_INV_REQ_ERR);
    }
    if (!fv_remote_ok(peer, send, sizeof(old), IBV_ACCESS_REMOTE_ATOMIC, &mr)) {
        return fv_reject(peer, IBV_WC_REM_ACCESS_ERR);
    }
    fv_gpu_push_for_all(mr, send);
    if (fv_memory_read(mr->pid, mr->host + (send->remote_addr - mr->iova), &value, 1) !=
        0) {
        return FV_STALL_SILENT;
    }

    if (send->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        new = old + send->compare_add;
    } else {
        new = (old == send->compare_add) ? send->swap : old;
    }
    value.addr = (uintptr_t)&new;
    if (fv_gpu_write(qp, mr, send, &value, 1) != 0) {
        return FV_STALL_SILENT;
    }

    fv_scatter(local, count, &old);
    return IBV_WC_SUCCESS;
}

/* Data of a read arrives at last. */
void fv_land(fv_qp_t *qp, fv_send_t *send)
{
    struct ibv_sge local[FV_MAX_SGE];
    unsigned count;

    if (send->late == NULL) {
        return;
    }

    if (!fv_local(qp, send, IBV_ACCESS_LOCAL_WRITE, local, &count)) {
        fv_abort("a region was deregistered while queue pair 0x%x read into it",
                 qp->ibv.qp_num);
    }
    fv_scatter(local, count, send->late);
    free(send->late);
    send->late = NULL;
    qp->late_reads--;
}

int fv_respond(fv_qp_t *qp, fv_send_t *send)
{
    const bool reads = (send->opcode == IBV_WR_RDMA_READ) ||
                       (send->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) ||
                       (send->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD);
    const bool atomic = reads && (send->opcode != IBV_WR_RDMA_READ);
    struct ibv_sge local[FV_MAX_SGE];
    fv_wire_qp_t *peer;
    unsigned count;

    if (qp->wire->is_datagram) {
        return fv_datagram(qp, send);
    }
    if (send->length > fv_device_of(qp->ibv.context)->caps.max_msg_sz) {
        return IBV_WC_LOC_LEN_ERR;
    }
    if (reads && (qp->attr.max_rd_atomic == 0)) {
        return IBV_WC_LOC_QP_OP_ERR;
    }
    if (!fv_local(qp, send, reads ? IBV_ACCESS_LOCAL_WRITE : 0, local, &count)) {
        return IBV_WC_LOC_PROT_ERR;
    }
    if (atomic && (send->length != sizeof(uint64_t))) {
        return IBV_WC_LOC_LEN_ERR;
    }

    peer = fv_peer(qp);
    if (peer == NULL) {
        return FV_STALL_SILENT;
    }
    fv_ece_check(qp, peer);
    if ((peer->path_mtu != qp->wire->path_mtu) &&
        (send->length >
         (128u << ((peer->path_mtu < qp->wire->path_mtu) ? peer->path_mtu
                                                         : qp->wire->path_mtu)))) {
        return fv_reject(peer, IBV_WC_REM_INV_REQ_ERR);
    }

    if (!reads) {
        fv_gpu_push_by_send(qp, send);
    }
    switch (send->opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
        return fv_do_send(qp, peer, send, local, count);
    case IBV_WR_RDMA_READ:
        return fv_do_read(qp, peer, send, local, count);
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return fv_do_atomic(qp, peer, send, local, count);
    default:
        return fv_do_write(qp, peer, send, local, count);
    }
}
