/* SPDX-License-Identifier: BSD-3-Clause */
#include "fv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Datagrams: an unconnected queue pair sends to any other whose number and Q_Key it
 * has. Undeliverable datagrams are lost, and the sender gets a successful completion.
 * The first 40 bytes of a receive belong to the global route header. Its contents on
 * RoCE v2 depend on the address; here they are overwritten with garbage.
 */

#define FV_GRH_LENGTH 40

int fv_check_av(const fv_device_t *device, const struct ibv_ah_attr *av)
{
    static const union ibv_gid zero;
    union ibv_gid gid;
    unsigned type;

    /* a port that wants a header: as the kernel's rdma_check_ah_attr() */
    if ((av->port_num != 1) || (av->sl > 15) ||
        (!av->is_global && (!device->caps.ib || device->caps.grh))) {
        return EINVAL;
    }
    if (av->is_global && (!fv_gid(device, av->grh.sgid_index, &gid, &type) ||
                          (memcmp(&av->grh.dgid, &zero, sizeof(zero)) == 0))) {
        return EINVAL;
    }

    return 0;
}

/* On Ethernet the kernel resolves the address and waits up to a second unless it is
 * cached: ib_resolve_unicast_gid_dmac(), rdma_addr_find_l2_eth_by_grh(). The
 * cache may lose it at any time, so the fake always resolves, and does not wait. */
static int fv_find_neighbour(const fv_device_t *device, const struct ibv_ah_attr *av)
{
    int there;

    if (device->caps.ib) {
        return 0;
    }

    there = fv_gid_owner(&av->grh.dgid);
    return ((there < 0) || fv_cut(device->index) || fv_cut((unsigned)there)) ? ETIMEDOUT
                                                                             : 0;
}

static int fv_check_ah(struct ibv_context *context, const struct ibv_ah_attr *av)
{
    const fv_device_t *device = fv_device_of(context);
    int error;

    if (fv_gone(context)) {
        return EIO;
    }

    error = fv_check_av(device, av);
    if (error == 0) {
        fv_lock();
        error = fv_find_neighbour(device, av);
        fv_unlock();
    }

    return error;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    fv_ah_t *ah;
    unsigned type;

    if (fv_command_fails("ibv_create_ah")) {
        return NULL;
    }
    errno = fv_check_ah(pd->context, attr);
    if (errno != 0) {
        return NULL;
    }

    ah = calloc(1, sizeof(*ah));
    if (ah == NULL) {
        return NULL;
    }

    ah->ibv.context = pd->context;
    ah->ibv.pd = pd;
    ah->attr = *attr;
    (void)fv_gid(fv_device_of(pd->context), attr->grh.sgid_index, &ah->sgid, &type);
    fv_lock();
    fv_container_of(pd, fv_pd_t, ibv)->users++;
    fv.objects.ahs++;
    fv_unlock();
    return &ah->ibv;
}

int ibv_destroy_ah(struct ibv_ah *ibv)
{
    fv_ah_t *ah = fv_container_of(ibv, fv_ah_t, ibv);

    fv_lock();
    fv_container_of(ibv->pd, fv_pd_t, ibv)->users--;
    fv.objects.ahs--;
    fv_unlock();
    free(ah);
    return 0;
}

/* Whether the sender's place in the GID table still has the address. */
static bool fv_datagram_has_source(const fv_qp_t *qp, const fv_send_t *send)
{
    union ibv_gid gid;
    unsigned type;

    return !send->av.is_global || (fv_gid(fv_device_of(qp->ibv.context),
                                          send->av.grh.sgid_index, &gid, &type) &&
                                   (memcmp(&gid, &send->sgid, sizeof(gid)) == 0));
}

static fv_wire_qp_t *fv_datagram_peer(const fv_qp_t *qp, const fv_send_t *send)
{
    fv_wire_qp_t *peer = fv_wire_qp_find(send->remote_qpn);
    int there =
        send->av.is_global ? fv_gid_owner(&send->av.grh.dgid) : (int)send->av.dlid - 1;

    if ((peer == NULL) || !peer->is_datagram || (peer->qkey != send->remote_qkey) ||
        ((peer->state != IBV_QPS_RTR) && (peer->state != IBV_QPS_RTS)) ||
        (there != (int)peer->device) || !fv_datagram_has_source(qp, send) ||
        fv_cut(peer->device) || fv_cut(fv_device_of(qp->ibv.context)->index) ||
        !fv_alive(peer->pid)) {
        return NULL;
    }

    return peer;
}

/* Deliver into a receive of one entry; mori_rdma posts no other. */
static void fv_datagram_deliver(const fv_qp_t *qp, fv_wire_qp_t *peer,
                                const fv_send_t *send, const struct ibv_sge *local,
                                unsigned count)
{
    const fv_recv_t *recv = fv_recv_next(peer);
    fv_cqe_t cqe = {
        .status = IBV_WC_SUCCESS,
        .opcode = IBV_WC_RECV,
        .byte_len = FV_GRH_LENGTH + send->length,
        .qp_num = peer->qp_num,
        .src_qp = qp->ibv.qp_num,
        .wc_flags = IBV_WC_GRH,
    };
    struct ibv_sge to;
    unsigned num;

    if ((recv->num_sge != 1) || (recv->sge[0].length < cqe.byte_len) ||
        !fv_recv_resolve(peer, recv, &to, &num)) {
        fv_abort("a datagram of %u bytes came for queue pair 0x%x, whose receive is "
                 "shorter, of several entries or not registered",
                 send->length, peer->qp_num);
    }

    if (fv_memory_write(peer->pid, to.addr + FV_GRH_LENGTH, local, count) == 0) {
        fv_recv_take(peer, &cqe);
        fv_cq_push(&fv.wire->cq[peer->recv_cq], &cqe);
    }
}

int fv_datagram(fv_qp_t *qp, fv_send_t *send)
{
    struct ibv_sge local[FV_MAX_SGE];
    fv_wire_qp_t *peer;
    unsigned count;

    if (!fv_local(qp, send, 0, local, &count)) {
        return IBV_WC_LOC_PROT_ERR;
    }

    peer = fv_datagram_peer(qp, send);
    if ((peer != NULL) && (fv_recv_next(peer) != NULL)) {
        fv_datagram_deliver(qp, peer, send, local, count);
    }

    return IBV_WC_SUCCESS;
}
