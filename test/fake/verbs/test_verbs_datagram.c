/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/fake/verbs/verbs_pair.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <errno.h>
#include <string.h>

/* Datagrams, by which the ends of a broken connection find each other again. */

#define FAR (VERBS_PAIR_BUFFER / 2)
#define GRH 40
#define QKEY 0x11223344u
#define LENGTH 200

Suite *contract_datagram_suite(void);

static verbs_side_t side[2];
static struct ibv_qp *qps[2];
static struct ibv_ah *ah;

static void modify(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask)
{
    ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_STATE | mask), 0);
}

static void open_all(void)
{
    struct ibv_ah_attr attr = {.port_num = 1, .is_global = 1};
    unsigned i;

    verbs_pair_open(side);
    for (i = 0; i < 2; i++) {
        struct ibv_qp_init_attr init = {
            .send_cq = side[i].send_cq,
            .recv_cq = side[i].recv_cq,
            .cap = {.max_send_wr = 8,
                    .max_recv_wr = 8,
                    .max_send_sge = 1,
                    .max_recv_sge = 1},
            .qp_type = IBV_QPT_UD,
        };

        qps[i] = ibv_create_qp(side[i].pd, &init);
        ck_assert_msg(qps[i] != NULL, "ibv_create_qp failed: %s", strerror(errno));
        modify(
            qps[i],
            (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY},
            IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
        modify(qps[i], (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR}, 0);
        modify(qps[i], (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS}, IBV_QP_SQ_PSN);
    }

    attr.dlid = side[1].port.lid;
    attr.grh.dgid = side[1].gid;
    attr.grh.sgid_index = (uint8_t)side[0].gid_index;
    attr.grh.hop_limit = 16;
    ah = ibv_create_ah(side[0].pd, &attr);
    ck_assert_msg(ah != NULL, "ibv_create_ah failed: %s", strerror(errno));
}

static void close_all(void)
{
    ck_assert_int_eq(ibv_destroy_ah(ah), 0);
    ck_assert_int_eq(ibv_destroy_qp(qps[0]), 0);
    ck_assert_int_eq(ibv_destroy_qp(qps[1]), 0);
    verbs_pair_close(side);
}

static void send_to(uint64_t wr_id, uint32_t qp_num, uint32_t qkey, uint32_t length)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)side[0].buffer, .length = length, .lkey = side[0].mr->lkey};
    struct ibv_send_wr wr = {
        .wr_id = wr_id,
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.ud = {.ah = ah, .remote_qpn = qp_num, .remote_qkey = qkey},
    };
    struct ibv_send_wr *bad;

    ck_assert_int_eq(ibv_post_send(qps[0], &wr, &bad), 0);
    verbs_expect(side[0].send_cq, wr_id, IBV_WC_SUCCESS);
}

/* Length of the datagram that the next receive takes */
static uint32_t received(uint64_t wr_id)
{
    const struct ibv_wc wc = verbs_wait(side[1].recv_cq);

    ck_assert_uint_eq(wc.wr_id, wr_id);
    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    ck_assert_uint_gt(wc.byte_len, GRH);
    return wc.byte_len - GRH;
}

START_TEST(datagram_lies_behind_a_header)
{
    struct ibv_wc wc;

    open_all();
    verbs_recv(qps[1], &side[1], 5, FAR, GRH + LENGTH);
    send_to(1, qps[1]->qp_num, QKEY, LENGTH);
    wc = verbs_wait(side[1].recv_cq);
    ck_assert_uint_eq(wc.wr_id, 5);
    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    ck_assert_uint_eq(wc.byte_len, GRH + LENGTH);
    ck_assert_uint_eq(wc.src_qp, qps[0]->qp_num);
    ck_assert_uint_eq(mkv_pattern_check(side[1].buffer + FAR + GRH, LENGTH, 1, 0),
                      LENGTH);
    close_all();
}
END_TEST

/* The sender gets success all the same, before the receiver of a software device has
 * looked at the datagram. A later datagram shows that the first of a round was lost, as
 * the queue pair keeps their order. A round proves nothing if its first datagram met
 * the receive posted for the second; it is repeated. */
START_TEST(datagram_without_a_receiver_is_lost)
{
    uint32_t length = LENGTH;

    open_all();
    do {
        length += 2;
        send_to(1, qps[1]->qp_num, QKEY, length); /* no receive */
        verbs_recv(qps[1], &side[1], 5, FAR, GRH + 2 * LENGTH);
        send_to(2, qps[1]->qp_num, QKEY, length + 1);
        ck_assert_uint_lt(length, 2 * LENGTH - 2);
    } while (received(5) != length + 1);
    close_all();
}
END_TEST

/* The first two datagrams do not consume the receive of the third. */
START_TEST(datagram_for_another_is_lost)
{
    open_all();
    verbs_recv(qps[1], &side[1], 5, FAR, GRH + LENGTH);
    send_to(1, qps[1]->qp_num, QKEY + 1, LENGTH - 1);
    send_to(2, side[1].qp->qp_num, QKEY, LENGTH - 2); /* one for connections */
    send_to(3, qps[1]->qp_num, QKEY, LENGTH);
    ck_assert_uint_eq(received(5), LENGTH);
    verbs_expect_none(side[1].recv_cq);
    close_all();
}
END_TEST

Suite *contract_datagram_suite(void)
{
    Suite *suite = suite_create("verbs contract, datagrams");
    TCase *tcase = tcase_create("datagrams");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, datagram_lies_behind_a_header);
    tcase_add_test(tcase, datagram_without_a_receiver_is_lost);
    tcase_add_test(tcase, datagram_for_another_is_lost);
    suite_add_tcase(suite, tcase);
    return suite;
}
