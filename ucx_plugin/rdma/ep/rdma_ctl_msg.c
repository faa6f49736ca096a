/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/ep/rdma_ctl_msg.h"

#include "base/muct_bytes.h"

#include <string.h>

static void muct_rdma_ctl_id_pack(const muct_rdma_ctl_id_t *id, uint8_t *p)
{
    muct_put_le(p, id->qp_num, 3);
    muct_put_le(p + 3, id->psn, 3);
}

static void muct_rdma_ctl_id_unpack(const uint8_t *p, muct_rdma_ctl_id_t *id)
{
    id->qp_num = (uint32_t)muct_get_le(p, 3);
    id->psn = (uint32_t)muct_get_le(p + 3, 3);
}

void muct_rdma_ctl_msg_pack(const muct_rdma_ctl_msg_t *msg, void *buffer)
{
    uint8_t *p = buffer;
    unsigned i;

    memset(p, 0, MUCT_RDMA_CTL_MSG_SIZE);
    p[0] = MUCT_RDMA_ADDR_VERSION;
    p[1] = msg->type;
    muct_put_le(p + 2, msg->incarnation, 8);
    muct_rdma_ctl_id_pack(&msg->to, p + 10);
    muct_rdma_ctl_id_pack(&msg->from, p + 16);
    muct_put_le(p + 22, msg->epoch, 4);
    muct_put_le(p + 26, msg->received, 4);
    muct_put_le(p + 30, msg->psn, 3);
    muct_put_le(p + 33, msg->ctl_qp, 3);
    muct_rdma_dev_addr_pack(&msg->dev, p + 36);
    p[66] = msg->num_qps;
    for (i = 0; i < msg->num_qps; ++i) {
        muct_put_le(p + 67 + 3 * i, msg->qp_nums[i], 3);
    }
    muct_put_le(p + 103, msg->to_ctl_qp, 3);
    muct_rdma_ece_pack(&msg->ece, p + 106);
    p[114] = msg->is_answer;
    muct_put_le(p + 115, msg->own_ctl_qp, 3);
    p[118] = msg->max_reads;
}

int muct_rdma_ctl_msg_unpack(const void *buffer, size_t length,
                             muct_rdma_ctl_msg_t *msg)
{
    const uint8_t *p = buffer;
    unsigned i;

    if ((length < MUCT_RDMA_CTL_MSG_SIZE) || (p[0] != MUCT_RDMA_ADDR_VERSION) ||
        (p[1] < MUCT_RDMA_CTL_RENEW) || (p[1] > MUCT_RDMA_CTL_GONE) ||
        (p[66] > MUCT_RDMA_ADDR_MAX_QPS) ||
        (muct_rdma_dev_addr_unpack(p + 36, MUCT_RDMA_DEV_ADDR_SIZE, &msg->dev) != 0)) {
        return -1;
    }

    msg->type = p[1];
    msg->incarnation = muct_get_le(p + 2, 8);
    muct_rdma_ctl_id_unpack(p + 10, &msg->to);
    muct_rdma_ctl_id_unpack(p + 16, &msg->from);
    msg->epoch = (uint32_t)muct_get_le(p + 22, 4);
    msg->received = (uint32_t)muct_get_le(p + 26, 4);
    msg->psn = (uint32_t)muct_get_le(p + 30, 3);
    msg->ctl_qp = (uint32_t)muct_get_le(p + 33, 3);
    msg->num_qps = p[66];
    for (i = 0; i < msg->num_qps; ++i) {
        msg->qp_nums[i] = (uint32_t)muct_get_le(p + 67 + 3 * i, 3);
    }
    msg->to_ctl_qp = (uint32_t)muct_get_le(p + 103, 3);
    muct_rdma_ece_unpack(p + 106, &msg->ece);
    msg->is_answer = p[114] & 1;
    msg->own_ctl_qp = (uint32_t)muct_get_le(p + 115, 3);
    msg->max_reads = p[118];
    return 0;
}
