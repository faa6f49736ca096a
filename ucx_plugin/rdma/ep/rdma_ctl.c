/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/ep/rdma_ctl.h"

#include "base/muct_log.h"
#include "rdma/device/rdma_time.h"

#include <stdlib.h>
#include <string.h>

/* Fits the least path MTU, and a receive has room for the global route header. */
#define MUCT_RDMA_CTL_SLOT 256
#define MUCT_RDMA_CTL_GRH 40
#define MUCT_RDMA_CTL_RECVS 32
#define MUCT_RDMA_CTL_SENDS 16
#define MUCT_RDMA_CTL_ENTRIES (MUCT_RDMA_CTL_RECVS + MUCT_RDMA_CTL_SENDS)
#define MUCT_RDMA_CTL_LENGTH ((size_t)MUCT_RDMA_CTL_ENTRIES * MUCT_RDMA_CTL_SLOT)

/* Restarts of a broken queue pair, and the time before the second restart, which
 * doubles for each further one. */
#define MUCT_RDMA_CTL_TRIES 8
#define MUCT_RDMA_CTL_FIRST_MS 2u

/* Q_Key of our datagrams, distinct from other programs'; the highest bit is the
 * kernel's. */
#define MUCT_RDMA_CTL_QKEY 0x4d4f5249u

static uint8_t *muct_rdma_ctl_slot(const muct_rdma_ctl_t *ctl, unsigned slot)
{
    return (uint8_t *)ctl->memory + (size_t)slot * MUCT_RDMA_CTL_SLOT;
}

/* ---- the queue pair ---- */

static int muct_rdma_ctl_modify(struct ibv_qp *qp, enum ibv_qp_state state,
                                const muct_rdma_port_t *port, int mask)
{
    struct ibv_qp_attr attr;

    memset(&attr, 0, sizeof(attr));
    attr.qp_state = state;
    attr.pkey_index = port->pkey_index;
    attr.port_num = port->num;
    attr.qkey = MUCT_RDMA_CTL_QKEY;
    return muct_rdma_verbs.modify_qp(qp, &attr, IBV_QP_STATE | mask);
}

static void muct_rdma_ctl_post_recv(muct_rdma_ctl_t *ctl, unsigned slot)
{
    struct ibv_sge sge = {.addr = (uintptr_t)muct_rdma_ctl_slot(ctl, slot),
                          .length = MUCT_RDMA_CTL_SLOT,
                          .lkey = ctl->mem->mrs[0]->lkey};
    struct ibv_recv_wr wr = {
        .wr_id = MUCT_RDMA_WR_ID_RECV | ctl->id | slot, .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr *bad;

    if (ibv_post_recv(ctl->ibv, &wr, &bad) == 0) {
        ++ctl->num_recvs;
    }
}

/* Bring the queue pair from RESET to RTS. */
static int muct_rdma_ctl_start(muct_rdma_ctl_t *ctl)
{
    const muct_rdma_port_t *port = ctl->path->port;
    unsigned slot;
    int error;

    error = muct_rdma_ctl_modify(ctl->ibv, IBV_QPS_INIT, port,
                                 IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    if (error == 0) {
        error = muct_rdma_ctl_modify(ctl->ibv, IBV_QPS_RTR, port, 0);
    }
    if (error == 0) {
        error = muct_rdma_ctl_modify(ctl->ibv, IBV_QPS_RTS, port, IBV_QP_SQ_PSN);
    }

    for (slot = 0; (error == 0) && (slot < MUCT_RDMA_CTL_RECVS); ++slot) {
        muct_rdma_ctl_post_recv(ctl, slot);
    }

    return error;
}

static ucs_status_t muct_rdma_ctl_create_qp(muct_rdma_ctl_t *ctl, struct ibv_pd *pd)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = ctl->cq->ibv,
        .recv_cq = ctl->cq->ibv,
        .qp_type = IBV_QPT_UD,
        .cap = {.max_send_wr = MUCT_RDMA_CTL_SENDS,
                .max_recv_wr = MUCT_RDMA_CTL_RECVS,
                .max_send_sge = 1,
                .max_recv_sge = 1},
    };
    int error;

    ctl->ibv = muct_rdma_verbs.create_qp(pd, &attr);
    if (ctl->ibv == NULL) {
        muct_debug("ibv_create_qp(UD) failed: %m");
        return UCS_ERR_IO_ERROR;
    }

    error = muct_rdma_ctl_start(ctl);
    if (error != 0) {
        muct_debug("ibv_modify_qp(UD qp 0x%x) failed: %s", ctl->ibv->qp_num,
                   strerror(error));
        muct_rdma_qp_destroy(ctl->ibv);
        ctl->ibv = NULL;
        return UCS_ERR_IO_ERROR;
    }

    return UCS_OK;
}

static ucs_status_t muct_rdma_ctl_create_memory(muct_rdma_ctl_t *ctl, struct ibv_pd *pd)
{
    const muct_rdma_mem_params_t params = {
        .access = IBV_ACCESS_LOCAL_WRITE,
        .chunk_shift = MUCT_RDMA_KEY_ONE_CHUNK,
        .is_quiet = true,
        .dmabuf_fd = -1,
    };
    ucs_status_t status;

    if (posix_memalign(&ctl->memory, 4096, MUCT_RDMA_CTL_LENGTH) != 0) {
        muct_debug("failed to allocate memory for datagrams");
        return UCS_ERR_NO_MEMORY;
    }

    memset(ctl->memory, 0, MUCT_RDMA_CTL_LENGTH);
    status =
        muct_rdma_mem_create(pd, ctl->memory, MUCT_RDMA_CTL_LENGTH, &params, &ctl->mem);
    if (status != UCS_OK) {
        free(ctl->memory);
    }

    return status;
}

/* The queue pair, with room for all of its completions. */
static ucs_status_t muct_rdma_ctl_make(muct_rdma_ctl_t *ctl, struct ibv_pd *pd,
                                       muct_rdma_cq_set_t *cqs)
{
    ucs_status_t status;

    status = muct_rdma_cq_reserve(cqs, MUCT_RDMA_CTL_ENTRIES, &ctl->cq);
    if (status != UCS_OK) {
        return status;
    }

    status = muct_rdma_ctl_create_qp(ctl, pd);
    if (status != UCS_OK) {
        muct_rdma_cq_release(ctl->cq, MUCT_RDMA_CTL_ENTRIES);
    }

    return status;
}

ucs_status_t muct_rdma_ctl_open(muct_rdma_ctl_t *ctl, struct ibv_pd *pd,
                                muct_rdma_cq_set_t *cqs, uint64_t id,
                                const muct_rdma_qp_path_t *path)
{
    ucs_status_t status;

    memset(ctl, 0, sizeof(*ctl));
    if (cqs->depth < MUCT_RDMA_CTL_ENTRIES) {
        muct_debug("completion queues of %u entries have no room for datagrams",
                   cqs->depth);
        return UCS_ERR_EXCEEDS_LIMIT;
    }

    ctl->id = id;
    ctl->path = path;
    status = muct_rdma_ctl_create_memory(ctl, pd);
    if (status != UCS_OK) {
        return status;
    }

    status = muct_rdma_ctl_make(ctl, pd, cqs);
    if (status != UCS_OK) {
        muct_rdma_mem_destroy(ctl->mem);
        free(ctl->memory);
    }

    return status;
}

static void muct_rdma_ctl_destroy_qp(muct_rdma_ctl_t *ctl)
{
    muct_rdma_qp_destroy(ctl->ibv);
    muct_rdma_cq_release(ctl->cq, MUCT_RDMA_CTL_ENTRIES);
    ctl->ibv = NULL;
}

/* Destroy the address handles; muct_rdma_ctl_prepare() makes them again. */
static void muct_rdma_ctl_drop_handles(muct_rdma_ctl_t *ctl)
{
    muct_rdma_ctl_peer_t *peer;

    for (peer = ctl->peers; peer != ctl->peers + ctl->num_peers; ++peer) {
        if (peer->ah != NULL) {
            (void)muct_rdma_verbs.destroy_ah(peer->ah);
            peer->ah = NULL;
        }
    }
    ctl->num_prepared = 0;
}

/* Free everything except the queue pair. */
static void muct_rdma_ctl_free(muct_rdma_ctl_t *ctl)
{
    muct_rdma_ctl_drop_handles(ctl);
    free(ctl->peers);
    ctl->peers = NULL;
    ctl->num_peers = 0;
    muct_rdma_mem_destroy(ctl->mem);
    free(ctl->memory);
}

ucs_status_t muct_rdma_ctl_renew(muct_rdma_ctl_t *ctl, muct_rdma_cq_set_t *cqs,
                                 uint64_t id)
{
    struct ibv_pd *pd = ctl->ibv->pd;
    ucs_status_t status;

    ctl->past[ctl->num_past++ % MUCT_RDMA_CTL_PAST] = ctl->ibv->qp_num;
    muct_rdma_ctl_destroy_qp(ctl);
    ctl->id = id;
    ctl->num_sends = 0;
    ctl->num_recvs = 0;
    ctl->next_send = 0;
    ctl->is_broken = false;
    ctl->is_given_up = false;
    ctl->num_failed = 0;
    ctl->restart_ms = 0;
    status = muct_rdma_ctl_make(ctl, pd, cqs);
    if (status != UCS_OK) {
        muct_rdma_ctl_free(ctl);
    }

    return status;
}

bool muct_rdma_ctl_had_number(const muct_rdma_ctl_t *ctl, uint32_t qp_num)
{
    unsigned i;

    if (ctl->ibv == NULL) {
        return false;
    }

    for (i = 0; i < MUCT_RDMA_CTL_PAST; ++i) {
        if ((ctl->past[i] == qp_num) && (qp_num != 0)) {
            return true;
        }
    }

    return ctl->ibv->qp_num == qp_num;
}

void muct_rdma_ctl_close(muct_rdma_ctl_t *ctl)
{
    if (ctl->ibv != NULL) {
        muct_rdma_ctl_destroy_qp(ctl);
        muct_rdma_ctl_free(ctl);
    }
}

/* ---- peers ---- */

void muct_rdma_ctl_set_moved(muct_rdma_ctl_t *ctl)
{
    ctl->has_moved = true;
}

/* Drop old address handles once no send uses them any more. */
static bool muct_rdma_ctl_is_settled(muct_rdma_ctl_t *ctl)
{
    if (ctl->has_moved && (ctl->num_sends == 0)) {
        muct_rdma_ctl_drop_handles(ctl);
        ctl->has_moved = false;
    }

    return !ctl->has_moved;
}

static void muct_rdma_ctl_create_ah(const muct_rdma_ctl_t *ctl,
                                    muct_rdma_ctl_peer_t *peer)
{
    muct_rdma_qp_path_t path = *ctl->path;
    struct ibv_ah_attr attr;

    memset(&attr, 0, sizeof(attr));
    path.remote = peer->addr;
    muct_rdma_qp_fill_ah(&path, &attr);
    peer->ah = muct_rdma_verbs.create_ah(ctl->ibv->pd, &attr);
    if (peer->ah == NULL) {
        muct_debug("ibv_create_ah() failed: %m");
    }
}

/* @return NULL without memory. */
static muct_rdma_ctl_peer_t *muct_rdma_ctl_peer(muct_rdma_ctl_t *ctl,
                                                const muct_rdma_dev_addr_t *addr)
{
    muct_rdma_ctl_peer_t *peer, *peers;

    for (peer = ctl->peers; peer != ctl->peers + ctl->num_peers; ++peer) {
        if ((peer->addr.lid == addr->lid) &&
            (memcmp(peer->addr.gid, addr->gid, sizeof(addr->gid)) == 0)) {
            return peer;
        }
    }

    peers = realloc(ctl->peers, (ctl->num_peers + 1) * sizeof(*peers));
    if (peers == NULL) {
        return NULL;
    }

    ctl->peers = peers;
    peer = &peers[ctl->num_peers++];
    peer->addr = *addr;
    peer->ah = NULL;
    return peer;
}

void muct_rdma_ctl_meet(muct_rdma_ctl_t *ctl, const muct_rdma_dev_addr_t *peer)
{
    if (ctl->ibv != NULL) {
        (void)muct_rdma_ctl_peer(ctl, peer);
    }
}

bool muct_rdma_ctl_prepare(muct_rdma_ctl_t *ctl)
{
    muct_rdma_ctl_peer_t *peer;

    if ((ctl->ibv == NULL) || !ctl->path->port->is_active ||
        !muct_rdma_ctl_is_settled(ctl) || (ctl->num_prepared == ctl->num_peers)) {
        return false;
    }

    peer = &ctl->peers[ctl->num_prepared++];
    if (peer->ah == NULL) {
        muct_rdma_ctl_create_ah(ctl, peer);
    }

    return ctl->num_prepared < ctl->num_peers;
}

/* Get a peer's address handle. It is made now if the peer is new or an earlier try
 * failed. */
static struct ibv_ah *muct_rdma_ctl_ah(muct_rdma_ctl_t *ctl,
                                       const muct_rdma_dev_addr_t *to)
{
    muct_rdma_ctl_peer_t *peer = muct_rdma_ctl_peer(ctl, to);

    if ((peer != NULL) && (peer->ah == NULL)) {
        muct_rdma_ctl_create_ah(ctl, peer);
    }

    return (peer != NULL) ? peer->ah : NULL;
}

/* ---- send ---- */

void muct_rdma_ctl_send(muct_rdma_ctl_t *ctl, const muct_rdma_dev_addr_t *to,
                        uint32_t qp_num, const muct_rdma_ctl_msg_t *msg)
{
    struct ibv_send_wr wr, *bad;
    struct ibv_sge sge;
    unsigned slot;

    if ((ctl->ibv == NULL) || ctl->is_broken || !ctl->path->port->is_active ||
        (ctl->num_sends == MUCT_RDMA_CTL_SENDS) || !muct_rdma_ctl_is_settled(ctl)) {
        return;
    }

    memset(&wr, 0, sizeof(wr));
    wr.wr.ud.ah = muct_rdma_ctl_ah(ctl, to);
    if (wr.wr.ud.ah == NULL) {
        return;
    }

    /* sends complete in order, so the buffer of the oldest is free again */
    slot = MUCT_RDMA_CTL_RECVS + ctl->next_send;
    muct_rdma_ctl_msg_pack(msg, muct_rdma_ctl_slot(ctl, slot));
    sge.addr = (uintptr_t)muct_rdma_ctl_slot(ctl, slot);
    sge.length = MUCT_RDMA_CTL_MSG_SIZE;
    sge.lkey = ctl->mem->mrs[0]->lkey;
    wr.wr_id = ctl->id | slot;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud.remote_qpn = qp_num;
    wr.wr.ud.remote_qkey = MUCT_RDMA_CTL_QKEY;
    if (ibv_post_send(ctl->ibv, &wr, &bad) == 0) {
        ++ctl->num_sends;
        ctl->next_send = (ctl->next_send + 1) % MUCT_RDMA_CTL_SENDS;
    }
}

/* ---- completions ---- */

/* Put the whole queue pair in error, as a failed send may stop one direction only. It
 * restarts when all work requests have completed. */
static void muct_rdma_ctl_break(muct_rdma_ctl_t *ctl, const struct ibv_wc *wc)
{
    if (!ctl->is_broken) {
        muct_debug("datagram on qp 0x%x failed: %s", ctl->ibv->qp_num,
                   muct_rdma_verbs.wc_status_str(wc->status));
        ctl->is_broken = true;
        (void)muct_rdma_ctl_modify(ctl->ibv, IBV_QPS_ERR, ctl->path->port, 0);
    }
}

static void muct_rdma_ctl_restart(muct_rdma_ctl_t *ctl, uint64_t now_ms)
{
    int error = muct_rdma_ctl_modify(ctl->ibv, IBV_QPS_RESET, ctl->path->port, 0);

    ctl->next_send = 0;
    if (error == 0) {
        error = muct_rdma_ctl_start(ctl);
    }
    ctl->is_broken = (error != 0);
    if (error == 0) {
        ctl->num_failed = 0;
        return;
    }

    muct_debug("UD qp 0x%x cannot be used again: %s", ctl->ibv->qp_num,
               strerror(error));
    ctl->restart_ms = now_ms + (MUCT_RDMA_CTL_FIRST_MS << ctl->num_failed);
    if (++ctl->num_failed == MUCT_RDMA_CTL_TRIES) {
        muct_warn("UD qp 0x%x cannot be used again after %u tries: %s; broken "
                  "connections are not recovered",
                  ctl->ibv->qp_num, ctl->num_failed, strerror(error));
        ctl->num_failed = 0;
        ctl->is_given_up = true;
    }
}

void muct_rdma_ctl_progress(muct_rdma_ctl_t *ctl, uint64_t now_ms)
{
    if (muct_rdma_ctl_has_to_restart(ctl) && (now_ms >= ctl->restart_ms)) {
        muct_rdma_ctl_restart(ctl, now_ms);
    }
}

/* Anybody on the network may send these: one warning, then debug lines. */
static bool muct_rdma_ctl_unpack(muct_rdma_ctl_t *ctl, unsigned slot, uint32_t length,
                                 muct_rdma_ctl_msg_t *msg)
{
    muct_rdma_fault_t fault = {"length", length, "40 bytes or more"};

    if ((length >= MUCT_RDMA_CTL_GRH) &&
        (muct_rdma_ctl_msg_unpack(muct_rdma_ctl_slot(ctl, slot) + MUCT_RDMA_CTL_GRH,
                                  length - MUCT_RDMA_CTL_GRH, msg, &fault) == 0)) {
        return true;
    }

    ucs_log(ctl->has_refused ? UCS_LOG_LEVEL_DEBUG : UCS_LOG_LEVEL_WARN,
            "a datagram on qp 0x%x is dropped: " MUCT_RDMA_FAULT_FMT, ctl->ibv->qp_num,
            MUCT_RDMA_FAULT_ARG(&fault));
    ctl->has_refused = true;
    return false;
}

bool muct_rdma_ctl_complete(muct_rdma_ctl_t *ctl, const struct ibv_wc *wc,
                            muct_rdma_ctl_msg_t *msg)
{
    unsigned slot = (uint32_t)wc->wr_id;
    bool is_recv = slot < MUCT_RDMA_CTL_RECVS;
    bool has_msg = false;

    ctl->num_recvs -= is_recv;
    ctl->num_sends -= !is_recv;
    if (wc->status != IBV_WC_SUCCESS) {
        muct_rdma_ctl_break(ctl, wc);
    } else if (is_recv) {
        has_msg = muct_rdma_ctl_unpack(ctl, slot, wc->byte_len, msg);
    }

    if (ctl->is_broken) {
        if (ctl->num_recvs + ctl->num_sends == 0) {
            muct_rdma_ctl_restart(ctl, muct_rdma_now_ms());
        }
    } else if (is_recv) {
        muct_rdma_ctl_post_recv(ctl, slot);
    }

    return has_msg;
}
