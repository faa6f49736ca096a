/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/queue/rdma_ece.h"

#include "base/muct_log.h"

#include <ucs/sys/string.h>

#include <string.h>

static void muct_rdma_ece_query(struct ibv_qp *qp, muct_rdma_ece_t *ece)
{
    struct ibv_ece ibv;
    int error;

    memset(ece, 0, sizeof(*ece));
    if ((muct_rdma_verbs.query_ece == NULL) || (muct_rdma_verbs.set_ece == NULL)) {
        return;
    }

    memset(&ibv, 0, sizeof(ibv));
    error = muct_rdma_verbs.query_ece(qp, &ibv);
    if (error != 0) {
        muct_trace("ibv_query_ece(qp 0x%x) failed: %s", qp->qp_num, strerror(error));
        return;
    }

    /* mlx5 without ECE in its firmware reports no options */
    ece->vendor_id = ibv.vendor_id;
    ece->options = ibv.options;
}

void muct_rdma_ece_offer(struct ibv_qp *qp, unsigned long wish, muct_rdma_ece_t *ece)
{
    if (wish == 0) {
        memset(ece, 0, sizeof(*ece));
        return;
    }

    muct_rdma_ece_query(qp, ece);
    if ((ece->options != 0) && (wish != UCS_ULUNITS_AUTO)) {
        ece->options = (uint32_t)wish; /* of inf: all */
    }
}

void muct_rdma_ece_choose(unsigned long wish, const muct_rdma_ece_t *own,
                          const muct_rdma_ece_t *peer, muct_rdma_ece_t *ece)
{
    memset(ece, 0, sizeof(*ece));
    if ((own->options != 0) && (peer->options != 0) &&
        (own->vendor_id == peer->vendor_id)) {
        *ece = (wish == UCS_ULUNITS_AUTO) ? *peer : *own;
    }
}

ucs_status_t muct_rdma_ece_set(struct ibv_qp *qp, const muct_rdma_ece_t *ece)
{
    struct ibv_ece ibv = {.vendor_id = ece->vendor_id, .options = ece->options};
    int error;

    if (ece->options == 0) {
        return UCS_OK;
    }

    error = muct_rdma_verbs.set_ece(qp, &ibv);
    if (error != 0) {
        muct_error("ibv_set_ece(qp 0x%x vendor 0x%x options 0x%x) failed: %s; "
                   "set UCX_MORI_RDMA_ECE=0 on both sides to disable ECE",
                   qp->qp_num, ece->vendor_id, ece->options, strerror(error));
        return UCS_ERR_IO_ERROR;
    }

    return UCS_OK;
}

void muct_rdma_ece_agreed(struct ibv_qp *qp, const muct_rdma_ece_t *set,
                          muct_rdma_ece_t *ece)
{
    memset(ece, 0, sizeof(*ece));
    if (set->options != 0) {
        muct_rdma_ece_query(qp, ece);
        muct_debug("qp 0x%x: ECE options 0x%x of vendor 0x%x, 0x%x were offered",
                   qp->qp_num, ece->options, ece->vendor_id, set->options);
    }
}
