/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/fake/verbs/verbs_pair.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ALL_ACCESS                                                                     \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* 1 s a try: a processor of a virtual machine may stand still for part of it. */
const verbs_path_t verbs_patient = {
    .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .access = ALL_ACCESS};
const verbs_path_t verbs_unready = {
    .timeout = 18, .retry_cnt = 7, .rnr_retry = 1, .access = ALL_ACCESS};
const verbs_path_t verbs_hasty = {
    .timeout = 8, .retry_cnt = 2, .rnr_retry = 1, .access = ALL_ACCESS};

/* Of the connections to come: packets of an earlier one may still be on their way. */
static uint32_t pair_psn = 0x123456;

bool verbs_pair_shared = false;

static struct ibv_context *open_device(unsigned which)
{
    const char *env = getenv("VERBS_TEST_DEVICES");
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = NULL;
    char names[256] = "", *name = names, *save;
    unsigned i;

    ck_assert_ptr_nonnull(list);
    if (env != NULL) {
        snprintf(names, sizeof(names), "%s", env);
        name = strtok_r(names, ",", &save);
        if (which == 1) {
            name = strtok_r(NULL, ",", &save);
        }
        ck_assert_ptr_nonnull(name);
    }

    for (i = 0; (list[i] != NULL) && (context == NULL); i++) {
        if ((env != NULL) ? (strcmp(ibv_get_device_name(list[i]), name) == 0)
                          : (i == which)) {
            context = ibv_open_device(list[i]);
        }
    }
    ibv_free_device_list(list);
    ck_assert_msg(context != NULL, "there is no device %s to open", name);
    return context;
}

/* The last RoCE v2 address is the IPv4 one; InfiniBand has index 0 alone. */
static void choose_gid(verbs_side_t *side)
{
    struct ibv_gid_entry entry;
    int i;

    side->gid_index = 0;
    for (i = 0; i < side->port.gid_tbl_len; i++) {
        if ((ibv_query_gid_ex(side->context, 1, (uint32_t)i, &entry, 0) == 0) &&
            (entry.gid_type == IBV_GID_TYPE_ROCE_V2)) {
            side->gid_index = i;
        }
    }
    ck_assert_int_eq(ibv_query_gid(side->context, 1, side->gid_index, &side->gid), 0);
}

bool verbs_is_rxe(void)
{
    struct ibv_context *context = open_device(0);
    struct ibv_device_attr attr;
    bool rxe;

    ck_assert_int_eq(ibv_query_device(context, &attr), 0);
    rxe = strncmp(ibv_get_device_name(context->device), "rxe", 3) == 0;
    ibv_close_device(context);
    return rxe && (strncmp(attr.fw_ver, "fake", 4) != 0);
}

struct ibv_qp *verbs_qp_create(verbs_side_t *side)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = side->send_cq,
        .recv_cq = side->recv_cq,
        .srq = side->srq,
        .cap = {.max_send_wr = VERBS_PAIR_DEPTH,
                .max_recv_wr = VERBS_PAIR_DEPTH,
                .max_send_sge = (side->attr.max_sge < 2) ? 1 : 2,
                .max_recv_sge = 1,
                .max_inline_data = 32},
        .qp_type = IBV_QPT_RC,
    };
    struct ibv_qp *qp = ibv_create_qp(side->pd, &attr);

    ck_assert_msg(qp != NULL, "ibv_create_qp failed: %s", strerror(errno));
    ck_assert_uint_ge(attr.cap.max_send_wr, VERBS_PAIR_DEPTH);
    side->cap = attr.cap;
    return qp;
}

static void srq_create(verbs_side_t *side)
{
    struct ibv_srq_init_attr attr = {
        .srq_context = side, .attr = {.max_wr = VERBS_PAIR_DEPTH, .max_sge = 1}};

    side->srq = ibv_create_srq(side->pd, &attr);
    ck_assert_msg(side->srq != NULL, "ibv_create_srq failed: %s", strerror(errno));
    ck_assert_uint_ge(attr.attr.max_wr, VERBS_PAIR_DEPTH);
}

static void side_open(verbs_side_t *side, unsigned which)
{
    memset(side, 0, sizeof(*side));
    side->context = open_device(which);
    ck_assert_int_eq(ibv_query_device(side->context, &side->attr), 0);
    ck_assert_int_eq(ibv_query_port(side->context, 1, &side->port), 0);
    ck_assert_int_eq(side->port.state, IBV_PORT_ACTIVE);
    choose_gid(side);
    side->pd = ibv_alloc_pd(side->context);
    ck_assert_ptr_nonnull(side->pd);
    side->channel = ibv_create_comp_channel(side->context);
    ck_assert_ptr_nonnull(side->channel);
    side->send_cq = ibv_create_cq(side->context, 64, side, side->channel, 0);
    side->recv_cq = ibv_create_cq(side->context, 64, side, side->channel, 0);
    ck_assert(side->send_cq && side->recv_cq);
    side->buffer = aligned_alloc(4096, VERBS_PAIR_BUFFER);
    ck_assert_ptr_nonnull(side->buffer);
    memset(side->buffer, 0, VERBS_PAIR_BUFFER);
    side->mr = ibv_reg_mr(side->pd, side->buffer, VERBS_PAIR_BUFFER, ALL_ACCESS);
    ck_assert_msg(side->mr != NULL, "ibv_reg_mr failed: %s", strerror(errno));
    if (verbs_pair_shared) {
        srq_create(side);
    }
    side->qp = verbs_qp_create(side);
}

void verbs_pair_open(verbs_side_t side[2])
{
    side_open(&side[0], 0);
    side_open(&side[1], 1);
    mkv_pattern_fill(side[0].buffer, VERBS_PAIR_BUFFER / 2, 1, 0);
    mkv_pattern_fill(side[1].buffer, VERBS_PAIR_BUFFER / 2, 2, 0);
}

void verbs_qp_to_init(struct ibv_qp *qp, unsigned access)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};

    ck_assert_int_eq(ibv_modify_qp(qp, &attr,
                                   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                       IBV_QP_ACCESS_FLAGS),
                     0);
}

void verbs_qp_to_rtr(struct ibv_qp *qp, const verbs_side_t *peer,
                     struct ibv_qp *peer_qp, int gid_index)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = peer_qp->qp_num,
        .rq_psn = pair_psn,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 1,
        .ah_attr = {.port_num = 1,
                    .dlid = peer->port.lid,
                    .is_global = 1,
                    .grh = {.dgid = peer->gid,
                            .sgid_index = (uint8_t)gid_index,
                            .hop_limit = 16}},
    };

    ck_assert_int_eq(ibv_modify_qp(qp, &attr,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                       IBV_QP_MAX_DEST_RD_ATOMIC |
                                       IBV_QP_MIN_RNR_TIMER),
                     0);
}

void verbs_qp_to_rts(struct ibv_qp *qp, const verbs_path_t *path)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .timeout = path->timeout,
        .retry_cnt = path->retry_cnt,
        .rnr_retry = path->rnr_retry,
        .sq_psn = pair_psn,
        .max_rd_atomic = 1,
    };

    ck_assert_int_eq(ibv_modify_qp(qp, &attr,
                                   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                       IBV_QP_MAX_QP_RD_ATOMIC),
                     0);
}

int verbs_qp_to(struct ibv_qp *qp, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state};

    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

enum ibv_qp_state verbs_qp_state(struct ibv_qp *qp)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    ck_assert_int_eq(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
}

static void connect_both(verbs_side_t side[2], const verbs_path_t *path)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        verbs_qp_to_init(side[i].qp, path->access);
    }
    for (i = 0; i < 2; i++) {
        verbs_qp_to_rtr(side[i].qp, &side[!i], side[!i].qp, side[i].gid_index);
    }
    for (i = 0; i < 2; i++) {
        verbs_qp_to_rts(side[i].qp, path);
    }
}

void verbs_pair_connect(verbs_side_t side[2], const verbs_path_t *path)
{
    verbs_pair_open(side);
    connect_both(side, path);
}

void verbs_pair_reconnect(verbs_side_t side[2], const verbs_path_t *path)
{
    ck_assert_int_eq(verbs_qp_to(side[0].qp, IBV_QPS_RESET), 0);
    ck_assert_int_eq(verbs_qp_to(side[1].qp, IBV_QPS_RESET), 0);
    pair_psn += 0x10000;
    connect_both(side, path);
}

void verbs_pair_close(verbs_side_t side[2])
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        if (side[i].qp != NULL) {
            ck_assert_int_eq(ibv_destroy_qp(side[i].qp), 0);
        }
        if (side[i].srq != NULL) {
            ck_assert_int_eq(ibv_destroy_srq(side[i].srq), 0);
        }
        ck_assert_int_eq(ibv_dereg_mr(side[i].mr), 0);
        ck_assert_int_eq(ibv_destroy_cq(side[i].send_cq), 0);
        ck_assert_int_eq(ibv_destroy_cq(side[i].recv_cq), 0);
        ck_assert_int_eq(ibv_destroy_comp_channel(side[i].channel), 0);
        ck_assert_int_eq(ibv_dealloc_pd(side[i].pd), 0);
        ck_assert_int_eq(ibv_close_device(side[i].context), 0);
        free(side[i].buffer);
    }
}

int verbs_post(struct ibv_qp *qp, const verbs_side_t *side, const verbs_side_t *peer,
               enum ibv_wr_opcode opcode, uint64_t wr_id, uint32_t offset,
               uint32_t remote, uint32_t length, unsigned flags)
{
    struct ibv_sge sge = {.addr = (uintptr_t)(side->buffer + offset),
                          .length = length,
                          .lkey = side->mr->lkey};
    struct ibv_send_wr wr = {
        .wr_id = wr_id,
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = opcode,
        .send_flags = flags,
        .imm_data = 0x11223344,
        .wr.rdma = {.remote_addr = (uintptr_t)(peer->buffer + remote),
                    .rkey = peer->mr->rkey},
    };
    struct ibv_send_wr *bad;

    return ibv_post_send(qp, &wr, &bad);
}

void verbs_recv(struct ibv_qp *qp, const verbs_side_t *side, uint64_t wr_id,
                uint32_t offset, uint32_t length)
{
    struct ibv_sge sge = {.addr = (uintptr_t)(side->buffer + offset),
                          .length = length,
                          .lkey = side->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

    ck_assert_int_eq((qp->srq != NULL) ? ibv_post_srq_recv(qp->srq, &wr, &bad)
                                       : ibv_post_recv(qp, &wr, &bad),
                     0);
}

struct ibv_wc verbs_wait(struct ibv_cq *cq)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    const struct timespec nap = {.tv_nsec = 100000};
    struct ibv_wc wc;
    int ret;

    for (;;) {
        ret = ibv_poll_cq(cq, 1, &wc);
        ck_assert_int_ge(ret, 0);
        if (ret == 1) {
            return wc;
        }
        ck_assert_msg(mkv_test_now_ms() < limit, "no completion came");
        nanosleep(&nap, NULL); /* leave a processor to the software device */
    }
}

void verbs_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
    const struct ibv_wc wc = verbs_wait(cq);

    ck_assert_msg((wc.wr_id == wr_id) && (wc.status == status),
                  "expected work request %llu with '%s', got %llu with '%s'",
                  (unsigned long long)wr_id, ibv_wc_status_str(status),
                  (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
}

void verbs_expect_none(struct ibv_cq *cq)
{
    struct ibv_wc wc;

    ck_assert_int_eq(ibv_poll_cq(cq, 1, &wc), 0);
}

void verbs_drain(struct ibv_qp *qp, verbs_side_t *side, const verbs_side_t *peer)
{
    ck_assert_int_eq(
        verbs_post(qp, side, peer, IBV_WR_RDMA_WRITE, 999, 0, 0, 0, IBV_SEND_SIGNALED),
        0);
    verbs_expect(side->send_cq, 999, IBV_WC_SUCCESS);
}
