/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/queue/rdma_qp.h"

#include "base/muct_log.h"

#include <errno.h>
#include <string.h>

/* The provider of bnxt_re in rdma-core 39 to 50 corrupts the command of most queue
 * pairs that are made outside worker threads: the kernel returns EFAULT (ROCm/MAD PR
 * 215). */
#define MUCT_RDMA_QP_TRIES 32
#define MUCT_RDMA_QP_OLD_PROVIDER                                                      \
    "libibverbs' provider for bnxt_re before rdma-core 63 does so: install rdma-core " \
    "63 or later, 64 for recovery"

static unsigned muct_rdma_qp_num; /* that exist */

static const char *muct_rdma_qp_remedy(int error)
{
    switch (error) {
    case ENOMEM:
        return "; lower TX_DEPTH, RX_DEPTH, TX_INLINE or NUM_QPS, or raise the limit of "
               "locked memory (ulimit -l unlimited)";
    case EFAULT:
        return "; " MUCT_RDMA_QP_OLD_PROVIDER;
    default:
        return "";
    }
}

/* All processes share a device's queue pairs, of which only ours are counted. */
static void muct_rdma_qp_log_failure(struct ibv_pd *pd, const muct_rdma_qp_caps_t *caps,
                                     int error)
{
    struct ibv_device_attr attr = {.max_qp = 0};

    (void)muct_rdma_verbs.query_device(pd->context, &attr);
    muct_error(
        "ibv_create_qp(send_wr %u recv_wr %u sge %u) failed: %s (this process has "
        "%u queue pairs on all devices, this one takes %d of all processes)%s",
        caps->send_depth, caps->recv_depth, caps->max_sge, strerror(error),
        __atomic_load_n(&muct_rdma_qp_num, __ATOMIC_RELAXED), attr.max_qp,
        muct_rdma_qp_remedy(error));
}

static struct ibv_qp *muct_rdma_qp_create_tried(struct ibv_pd *pd,
                                                struct ibv_qp_init_attr *attr)
{
    const struct ibv_qp_init_attr wanted = *attr;
    struct ibv_qp *qp = NULL;
    unsigned tries;

    errno = EFAULT;
    for (tries = 0; (qp == NULL) && (errno == EFAULT) && (tries < MUCT_RDMA_QP_TRIES);
         ++tries) {
        *attr = wanted;
        errno = 0;
        qp = muct_rdma_verbs.create_qp(pd, attr);
    }

    if ((qp != NULL) && (tries > 1)) {
        muct_warn("ibv_create_qp() failed %u times with EFAULT before it succeeded; "
                  "transfers may stop, as " MUCT_RDMA_QP_OLD_PROVIDER,
                  tries - 1);
    }
    return qp;
}

/* Whether this errno can mean that the inline size is too large; some devices report
 * no reason. */
static bool muct_rdma_qp_is_too_much(int error)
{
    return (error == 0) || (error == ENOMEM) || (error == EINVAL);
}

ucs_status_t muct_rdma_qp_create(struct ibv_pd *pd, struct ibv_cq *cq,
                                 muct_rdma_qp_caps_t *caps, struct ibv_qp **qp_p)
{
    struct ibv_qp_init_attr attr;
    unsigned max_inline = caps->max_inline;
    struct ibv_qp *qp;

    for (;;) {
        memset(&attr, 0, sizeof(attr));
        attr.send_cq = cq;
        attr.recv_cq = cq;
        attr.qp_type = IBV_QPT_RC;
        attr.cap.max_send_wr = caps->send_depth;
        attr.cap.max_recv_wr = (caps->recv_depth > 0) ? caps->recv_depth : 1;
        attr.cap.max_send_sge = caps->max_sge;
        attr.cap.max_recv_sge = 1;
        attr.cap.max_inline_data = max_inline;
        qp = muct_rdma_qp_create_tried(pd, &attr);
        if ((qp != NULL) || (max_inline == 0) || !muct_rdma_qp_is_too_much(errno)) {
            break;
        }
        max_inline /= 2;
    }

    if (qp == NULL) {
        muct_rdma_qp_log_failure(pd, caps, errno);
        return UCS_ERR_IO_ERROR;
    }
    __atomic_add_fetch(&muct_rdma_qp_num, 1, __ATOMIC_RELAXED);

    /* at most the requested size, which is the size of our buffers */
    if (attr.cap.max_inline_data < max_inline) {
        max_inline = attr.cap.max_inline_data;
    }

    caps->max_inline = max_inline;
    *qp_p = qp;
    return UCS_OK;
}

ucs_status_t muct_rdma_qp_to_init(struct ibv_qp *qp, const muct_rdma_port_t *port,
                                  bool has_atomics)
{
    struct ibv_qp_attr attr;
    int error;

    memset(&attr, 0, sizeof(attr));
    attr.qp_state = IBV_QPS_INIT;
    attr.pkey_index = port->pkey_index;
    attr.port_num = port->num;
    attr.qp_access_flags =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    if (has_atomics) {
        attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
    }

    error = muct_rdma_verbs.modify_qp(qp, &attr,
                                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                          IBV_QP_ACCESS_FLAGS);
    if (error != 0) {
        muct_error("ibv_modify_qp(qp 0x%x to INIT, port %u) failed: %s", qp->qp_num,
                   port->num, strerror(error));
        return UCS_ERR_IO_ERROR;
    }

    return UCS_OK;
}

void muct_rdma_qp_fill_ah(const muct_rdma_qp_path_t *path, struct ibv_ah_attr *ah)
{
    const muct_rdma_port_t *port = path->port;
    bool is_ib = port->link == MUCT_RDMA_LINK_IB;

    ah->sl = path->sl;
    ah->port_num = port->num;
    ah->dlid = path->remote.lid;
    ah->is_global = !is_ib || port->needs_grh;
    if (!ah->is_global && (path->hop_limit <= 1)) {
        return;
    }

    /* use a global header on InfiniBand as well when the peer may be behind a router */
    ah->is_global = ah->is_global || (path->remote.lid == 0);
    memcpy(ah->grh.dgid.raw, path->remote.gid, sizeof(ah->grh.dgid.raw));
    ah->grh.sgid_index = port->gid_index;
    ah->grh.hop_limit = path->hop_limit;
    ah->grh.traffic_class = path->traffic_class;
}

static int muct_rdma_qp_to_rtr(struct ibv_qp *qp, const muct_rdma_qp_path_t *path,
                               uint32_t remote_qp_num)
{
    struct ibv_qp_attr attr;

    memset(&attr, 0, sizeof(attr));
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = (enum ibv_mtu)(path->mtu_shift - 7);
    attr.dest_qp_num = remote_qp_num;
    attr.rq_psn = path->remote_psn;
    attr.max_dest_rd_atomic = path->max_dest_reads;
    attr.min_rnr_timer = path->min_rnr_timer;
    muct_rdma_qp_fill_ah(path, &attr.ah_attr);
    return muct_rdma_verbs.modify_qp(
        qp, &attr,
        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

/* EINVAL is also returned by a device whose queue pairs use up its responder resources:
 * retry with fewer. */
static int muct_rdma_qp_to_rtr_in_steps(struct ibv_qp *qp, muct_rdma_qp_path_t *path,
                                        uint32_t remote_qp_num)
{
    static const uint8_t steps[] = {8, 4, 1, 0};
    const unsigned num = sizeof(steps) - (path->may_answer_none ? 0 : 1);
    const uint8_t wanted = path->max_dest_reads;
    int error = muct_rdma_qp_to_rtr(qp, path, remote_qp_num);
    unsigned i;

    for (i = 0; (error == EINVAL) && (i < num); ++i) {
        if (steps[i] < wanted) {
            path->max_dest_reads = steps[i];
            error = muct_rdma_qp_to_rtr(qp, path, remote_qp_num);
        }
    }

    return error;
}

static const char *muct_rdma_qp_connect_remedy(int error)
{
    switch (error) {
    case ETIMEDOUT:
    case EHOSTUNREACH:
        return "; check route and neighbour of the peer's address";
    case EINVAL:
        return "; a device may have too few responder resources for its queue pairs "
               "(ibv_devinfo -v: max_res_rd_atom): lower UCX_MORI_RDMA_NUM_QPS, or "
               "spread the peers over more devices";
    default:
        return "";
    }
}

static int muct_rdma_qp_to_rts(struct ibv_qp *qp, const muct_rdma_qp_path_t *path)
{
    struct ibv_qp_attr attr;

    memset(&attr, 0, sizeof(attr));
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = path->timeout;
    attr.retry_cnt = path->retry_count;
    attr.rnr_retry = path->rnr_retry;
    attr.sq_psn = path->local_psn;
    attr.max_rd_atomic = path->max_reads;
    return muct_rdma_verbs.modify_qp(qp, &attr,
                                     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                         IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                         IBV_QP_MAX_QP_RD_ATOMIC);
}

ucs_status_t muct_rdma_qp_connect(struct ibv_qp *qp, muct_rdma_qp_path_t *path,
                                  uint32_t remote_qp_num)
{
    const char *state = "RTR";
    ucs_status_t status;
    int error;

    status = muct_rdma_ece_set(qp, &path->ece);
    if (status != UCS_OK) {
        return status;
    }

    error = muct_rdma_qp_to_rtr_in_steps(qp, path, remote_qp_num);
    if (error == 0) {
        state = "RTS";
        error = muct_rdma_qp_to_rts(qp, path);
    }

    if (error != 0) {
        muct_error("ibv_modify_qp(qp 0x%x to %s, peer qp 0x%x lid %u gid "
                   "%02x%02x:..:%02x%02x%02x%02x mtu %u) failed: %s%s",
                   qp->qp_num, state, remote_qp_num, path->remote.lid,
                   path->remote.gid[0], path->remote.gid[1], path->remote.gid[12],
                   path->remote.gid[13], path->remote.gid[14], path->remote.gid[15],
                   1u << path->mtu_shift, strerror(error),
                   muct_rdma_qp_connect_remedy(error));
        return UCS_ERR_UNREACHABLE;
    }

    return UCS_OK;
}

int muct_rdma_qp_to_error(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr;
    int error;

    memset(&attr, 0, sizeof(attr));
    attr.qp_state = IBV_QPS_ERR;
    error = muct_rdma_verbs.modify_qp(qp, &attr, IBV_QP_STATE);
    if (error != 0) {
        muct_debug("ibv_modify_qp(qp 0x%x to ERR) failed: %s", qp->qp_num,
                   strerror(error));
    }

    return error;
}

void muct_rdma_qp_destroy(struct ibv_qp *qp)
{
    int error = muct_rdma_verbs.destroy_qp(qp);

    __atomic_sub_fetch(&muct_rdma_qp_num, 1, __ATOMIC_RELAXED);
    if (error != 0) {
        muct_warn("ibv_destroy_qp(qp 0x%x) failed: %s", qp->qp_num, strerror(error));
    }
}

uint8_t muct_rdma_qp_timeout_code(double seconds)
{
    double time = 4.096e-6 * 2;
    uint8_t code = 1;

    while ((code < 31) && (time < seconds)) {
        time *= 2;
        ++code;
    }

    return code;
}

uint8_t muct_rdma_qp_rnr_code(double seconds)
{
    /* milliseconds of codes 1 to 31; code 0 is the longest, 655.36 */
    static const double ms[] = {
        0.01,  0.02,  0.03,  0.04,  0.06,   0.08,   0.12,   0.16,   0.24,  0.32,  0.48,
        0.64,  0.96,  1.28,  1.92,  2.56,   3.84,   5.12,   7.68,   10.24, 15.36, 20.48,
        30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52};
    uint8_t code;

    for (code = 1; code <= sizeof(ms) / sizeof(ms[0]); ++code) {
        if (seconds * 1e3 <= ms[code - 1]) {
            return code;
        }
    }

    return 0;
}
