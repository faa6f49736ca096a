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

/* What the other fields depend on */
static bool muct_rdma_ctl_msg_is_ours(const uint8_t *p, size_t length,
                                      muct_rdma_fault_t *fault)
{
    const bool has_all = length >= MUCT_RDMA_CTL_MSG_SIZE;
    const muct_rdma_rule_t rules[] = {
        {has_all, {"length", length, "119 bytes"}},
        {!has_all || (p[0] == MUCT_RDMA_ADDR_VERSION),
         {"version", has_all ? p[0] : 0, "that of this release of ucx-mori"}},
        {!has_all || (p[66] <= MUCT_RDMA_ADDR_MAX_QPS),
         {"number of queue pairs", has_all ? p[66] : 0, "12 at most"}},
    };

    return muct_rdma_rules_hold(rules, sizeof(rules) / sizeof(rules[0]), fault);
}

/*
 * A GONE message has no queue pairs; it concerns an endpoint that its receiver named.
 */
static int muct_rdma_ctl_msg_check(const muct_rdma_ctl_msg_t *msg,
                                   muct_rdma_fault_t *fault)
{
    const bool is_gone = msg->type == MUCT_RDMA_CTL_GONE;
    const muct_rdma_rule_t rules[] = {
        {is_gone || (msg->type == MUCT_RDMA_CTL_RENEW), {"type", msg->type, "1 or 2"}},
        {is_gone || (msg->num_qps > 0), {"number of queue pairs", 0, "1 to 12"}},
        {is_gone || muct_rdma_is_qp_num(msg->from.qp_num),
         {"sender", msg->from.qp_num, MUCT_RDMA_QP_NUM_EXPECTED}},
        {is_gone || muct_rdma_is_qp_num(msg->ctl_qp),
         {"control queue pair", msg->ctl_qp, MUCT_RDMA_QP_NUM_EXPECTED}},
        {(msg->own_ctl_qp == 0) || muct_rdma_is_qp_num(msg->own_ctl_qp),
         {"own control queue pair", msg->own_ctl_qp,
          "0 or " MUCT_RDMA_QP_NUM_EXPECTED}},
        {msg->max_reads < MUCT_RDMA_ADDR_WISH, {"reads", msg->max_reads, "0 to 127"}},
    };

    return (muct_rdma_rules_hold(rules, sizeof(rules) / sizeof(rules[0]), fault) &&
            muct_rdma_qp_nums_are_good(msg->qp_nums, msg->num_qps, fault))
               ? 0
               : -1;
}

int muct_rdma_ctl_msg_unpack(const void *buffer, size_t length,
                             muct_rdma_ctl_msg_t *msg, muct_rdma_fault_t *fault)
{
    const uint8_t *p = buffer;
    unsigned i;

    if (!muct_rdma_ctl_msg_is_ours(p, length, fault) ||
        (muct_rdma_dev_addr_unpack(p + 36, MUCT_RDMA_DEV_ADDR_SIZE, &msg->dev, fault) !=
         0)) {
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
    return muct_rdma_ctl_msg_check(msg, fault);
}
