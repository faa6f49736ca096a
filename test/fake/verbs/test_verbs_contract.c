/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/fake/verbs/verbs_pair.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Behaviour of verbs that mori_rdma relies on. Two programs are built from this source:
 * one links the fake, the other the real library, and runs on soft-RoCE in the
 * laboratory. Deviations of soft-RoCE from hardware are allowed by name, at
 * verbs_is_rxe().
 */

#define SIZE 4096
#define FAR (VERBS_PAIR_BUFFER / 2)

static verbs_side_t side[2];

static void check_arrived(const verbs_side_t *at, uint32_t offset, uint32_t length,
                          uint64_t seed)
{
    ck_assert_uint_eq(mkv_pattern_check(at->buffer + offset, length, seed, 0), length);
}

/* ---- states ---- */

START_TEST(states_are_entered_in_order)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};

    verbs_pair_open(side);
    ck_assert_int_eq(verbs_qp_state(side[0].qp), IBV_QPS_RESET);
    ck_assert_int_ne(ibv_modify_qp(side[0].qp, &attr, IBV_QP_STATE), 0);
    ck_assert_int_ne(verbs_qp_to(side[0].qp, IBV_QPS_INIT), 0); /* lacks the port */
    verbs_qp_to_init(side[0].qp, IBV_ACCESS_REMOTE_WRITE);
    ck_assert_int_eq(verbs_qp_state(side[0].qp), IBV_QPS_INIT);
    ck_assert_int_ne(verbs_qp_to(side[0].qp, IBV_QPS_RTR), 0); /* lacks the address */
    ck_assert_int_eq(verbs_qp_to(side[0].qp, IBV_QPS_ERR), 0);
    ck_assert_int_eq(verbs_qp_to(side[0].qp, IBV_QPS_RESET), 0);
    ck_assert_int_eq(verbs_qp_state(side[0].qp), IBV_QPS_RESET);
    verbs_pair_close(side);
}
END_TEST

START_TEST(send_before_rts_is_refused)
{
    verbs_pair_open(side);
    verbs_qp_to_init(side[0].qp, IBV_ACCESS_REMOTE_WRITE);
    ck_assert_int_ne(verbs_post(side[0].qp, &side[0], &side[1], IBV_WR_RDMA_WRITE, 1, 0,
                                0, 8, IBV_SEND_SIGNALED),
                     0);
    verbs_expect_none(side[0].send_cq);
    verbs_pair_close(side);
}
END_TEST

START_TEST(objects_in_use_are_not_destroyed)
{
    verbs_pair_open(side);
    ck_assert_int_eq(ibv_dealloc_pd(side[0].pd), EBUSY);
    ck_assert_int_eq(ibv_destroy_cq(side[0].send_cq), EBUSY);
    verbs_pair_close(side);
}
END_TEST

/* ---- data ---- */

START_TEST(write_and_read_move_bytes)
{
    verbs_pair_connect(side, &verbs_patient);
    ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &side[1], IBV_WR_RDMA_WRITE, 1, 0,
                                FAR, SIZE, IBV_SEND_SIGNALED),
                     0);
    verbs_expect(side[0].send_cq, 1, IBV_WC_SUCCESS);
    check_arrived(&side[1], FAR, SIZE, 1);

    ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &side[1], IBV_WR_RDMA_READ, 2,
                                FAR, 0, SIZE, IBV_SEND_SIGNALED),
                     0);
    verbs_expect(side[0].send_cq, 2, IBV_WC_SUCCESS);
    check_arrived(&side[0], FAR, SIZE, 2);
    verbs_expect_none(side[1].recv_cq);
    verbs_pair_close(side);
}
END_TEST

START_TEST(send_fills_receives_in_order)
{
    struct ibv_wc wc;
    unsigned i;

    verbs_pair_connect(side, &verbs_patient);
    for (i = 0; i < 4; i++) {
        verbs_recv(side[1].qp, &side[1], 100 + i, FAR + i * 1024, 1024);
    }
    for (i = 0; i < 4; i++) {
        ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &side[1],
                                    (i == 3) ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, i, 0,
                                    0, 100 + i, IBV_SEND_SIGNALED),
                         0);
        verbs_expect(side[0].send_cq, i, IBV_WC_SUCCESS);
    }
    for (i = 0; i < 4; i++) {
        wc = verbs_wait(side[1].recv_cq);
        ck_assert_uint_eq(wc.wr_id, 100 + i);
        ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
        ck_assert_int_eq(wc.opcode, IBV_WC_RECV);
        ck_assert_uint_eq(wc.byte_len, 100 + i);
        ck_assert_uint_eq(wc.qp_num, side[1].qp->qp_num);
        check_arrived(&side[1], FAR + i * 1024, 100 + i, 1);
        ck_assert_int_eq((wc.wc_flags & IBV_WC_WITH_IMM) != 0, i == 3);
    }
    ck_assert_uint_eq(wc.imm_data, 0x11223344);
    verbs_pair_close(side);
}
END_TEST

START_TEST(write_with_immediate_takes_a_receive)
{
    struct ibv_wc wc;

    verbs_pair_connect(side, &verbs_patient);
    verbs_recv(side[1].qp, &side[1], 5, 0, 0);
    ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &side[1],
                                IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, FAR, SIZE,
                                IBV_SEND_SIGNALED),
                     0);
    verbs_expect(side[0].send_cq, 1, IBV_WC_SUCCESS);
    wc = verbs_wait(side[1].recv_cq);
    ck_assert_int_eq(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    ck_assert_uint_eq(wc.imm_data, 0x11223344);
    check_arrived(&side[1], FAR, SIZE, 1);
    verbs_pair_close(side);
}
END_TEST

START_TEST(nothing_is_a_legal_length)
{
    verbs_pair_connect(side, &verbs_patient);
    verbs_recv(side[1].qp, &side[1], 5, FAR, 16);
    ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &side[1], IBV_WR_SEND, 1, 0, 0, 0,
                                IBV_SEND_SIGNALED),
                     0);
    verbs_expect(side[0].send_cq, 1, IBV_WC_SUCCESS);
    ck_assert_uint_eq(verbs_wait(side[1].recv_cq).byte_len, 0);
    verbs_drain(side[0].qp, &side[0], &side[1]);
    verbs_pair_close(side);
}
END_TEST

START_TEST(inline_data_is_taken_at_once)
{
    verbs_pair_connect(side, &verbs_patient);
    ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &side[1], IBV_WR_RDMA_WRITE, 1, 0,
                                FAR, 32, IBV_SEND_SIGNALED | IBV_SEND_INLINE),
                     0);
    memset(side[0].buffer, 0, 32);
    verbs_expect(side[0].send_cq, 1, IBV_WC_SUCCESS);
    check_arrived(&side[1], FAR, 32, 1);
    verbs_pair_close(side);
}
END_TEST

START_TEST(entries_are_gathered)
{
    struct ibv_sge sge[2];
    struct ibv_send_wr wr = {.wr_id = 1,
                             .sg_list = sge,
                             .num_sge = 2,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;

    verbs_pair_connect(side, &verbs_patient);
    sge[0] = (struct ibv_sge){
        .addr = (uintptr_t)side[0].buffer, .length = 1000, .lkey = side[0].mr->lkey};
    sge[1] = (struct ibv_sge){.addr = (uintptr_t)side[0].buffer + 1000,
                              .length = 500,
                              .lkey = side[0].mr->lkey};
    wr.wr.rdma.remote_addr = (uintptr_t)side[1].buffer + FAR;
    wr.wr.rdma.rkey = side[1].mr->rkey;
    ck_assert_int_eq(ibv_post_send(side[0].qp, &wr, &bad), 0);
    verbs_expect(side[0].send_cq, 1, IBV_WC_SUCCESS);
    check_arrived(&side[1], FAR, 1500, 1);
    verbs_pair_close(side);
}
END_TEST

START_TEST(atomics_return_what_was_there)
{
    struct ibv_mr *mr;
    struct ibv_sge sge;
    struct ibv_send_wr wr = {
        .wr_id = 1, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};
    const verbs_path_t path = {.timeout = 14,
                               .retry_cnt = 7,
                               .rnr_retry = 7,
                               .access = IBV_ACCESS_REMOTE_ATOMIC};
    uint64_t word __attribute__((aligned(8))) = 40, *result;
    struct ibv_send_wr *bad;

    verbs_pair_open(side);
    if (side[0].attr.atomic_cap == IBV_ATOMIC_NONE) {
        verbs_pair_close(side);
        return;
    }
    verbs_pair_close(side);
    verbs_pair_connect(side, &path);
    mr = ibv_reg_mr(side[1].pd, &word, sizeof(word),
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    ck_assert_ptr_nonnull(mr);
    result = (uint64_t *)side[0].buffer;
    sge = (struct ibv_sge){
        .addr = (uintptr_t)result, .length = 8, .lkey = side[0].mr->lkey};
    wr.wr.atomic.remote_addr = (uintptr_t)&word;
    wr.wr.atomic.rkey = mr->rkey;

    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr.wr.atomic.compare_add = 2;
    ck_assert_int_eq(ibv_post_send(side[0].qp, &wr, &bad), 0);
    verbs_expect(side[0].send_cq, 1, IBV_WC_SUCCESS);
    ck_assert_uint_eq(*result, 40);
    ck_assert_uint_eq(word, 42);

    wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    wr.wr.atomic.compare_add = 42;
    wr.wr.atomic.swap = 7;
    ck_assert_int_eq(ibv_post_send(side[0].qp, &wr, &bad), 0);
    verbs_expect(side[0].send_cq, 1, IBV_WC_SUCCESS);
    ck_assert_uint_eq(*result, 42);
    ck_assert_uint_eq(word, 7);
    ck_assert_int_eq(ibv_dereg_mr(mr), 0);
    verbs_pair_close(side);
}
END_TEST

START_TEST(fenced_send_sees_what_was_read)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr[2] = {
        {.wr_id = 1, .next = &wr[1], .sg_list = &sge, .num_sge = 1},
        {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND},
    };
    struct ibv_send_wr *bad;

    verbs_pair_connect(side, &verbs_patient);
    verbs_recv(side[1].qp, &side[1], 5, FAR, SIZE);
    sge = (struct ibv_sge){.addr = (uintptr_t)side[0].buffer + FAR,
                           .length = SIZE,
                           .lkey = side[0].mr->lkey};
    wr[0].opcode = IBV_WR_RDMA_READ;
    wr[0].wr.rdma.remote_addr = (uintptr_t)side[1].buffer;
    wr[0].wr.rdma.rkey = side[1].mr->rkey;
    wr[1].send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
    ck_assert_int_eq(ibv_post_send(side[0].qp, wr, &bad), 0);
    verbs_expect(side[0].send_cq, 2, IBV_WC_SUCCESS);
    ck_assert_int_eq(verbs_wait(side[1].recv_cq).status, IBV_WC_SUCCESS);
    check_arrived(&side[1], FAR, SIZE, 2);
    verbs_pair_close(side);
}
END_TEST

/* ---- queues ---- */

START_TEST(only_what_is_signalled_completes)
{
    unsigned i, round;

    verbs_pair_connect(side, &verbs_patient);
    for (round = 0; round < 8; round++) {
        for (i = 0; i < 8; i++) {
            ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &side[1],
                                        IBV_WR_RDMA_WRITE, i, i, FAR + i, 1,
                                        (i == 7) ? IBV_SEND_SIGNALED : 0),
                             0);
        }
        verbs_expect(side[0].send_cq, 7, IBV_WC_SUCCESS);
        verbs_expect_none(side[0].send_cq);
    }
    check_arrived(&side[1], FAR, 8, 1);
    verbs_pair_close(side);
}
END_TEST

START_TEST(full_send_queue_names_the_first_refused)
{
    static struct ibv_send_wr wr[256];
    struct ibv_send_wr *bad = NULL;
    unsigned depth, i;

    verbs_pair_connect(side, &verbs_patient);
    depth = side[0].cap.max_send_wr;
    ck_assert_uint_lt(depth, 128);
    for (i = 0; i < 2 * depth; i++) {
        wr[i].wr_id = i;
        wr[i].next = (i + 1 == 2 * depth) ? NULL : &wr[i + 1];
        wr[i].opcode = IBV_WR_RDMA_WRITE;
        wr[i].send_flags = IBV_SEND_SIGNALED;
        wr[i].wr.rdma.remote_addr = (uintptr_t)side[1].buffer;
        wr[i].wr.rdma.rkey = side[1].mr->rkey;
    }
    ck_assert_int_eq(ibv_post_send(side[0].qp, wr, &bad), ENOMEM);
    ck_assert_ptr_nonnull(bad);
    ck_assert_uint_ge(bad->wr_id, depth);
    for (i = 0; i < bad->wr_id; i++) {
        verbs_expect(side[0].send_cq, i, IBV_WC_SUCCESS);
    }
    verbs_expect_none(side[0].send_cq);
    verbs_drain(side[0].qp, &side[0], &side[1]);
    verbs_pair_close(side);
}
END_TEST

START_TEST(too_many_entries_and_too_much_inline_are_refused)
{
    struct ibv_sge sge[64] = {{0}};
    struct ibv_send_wr wr = {
        .sg_list = sge, .num_sge = 64, .opcode = IBV_WR_RDMA_WRITE};
    struct ibv_send_wr *bad;

    verbs_pair_connect(side, &verbs_patient);
    ck_assert_uint_lt(side[0].cap.max_send_sge, 64);
    ck_assert_int_eq(ibv_post_send(side[0].qp, &wr, &bad), EINVAL);
    ck_assert_ptr_eq(bad, &wr);
    ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &side[1], IBV_WR_RDMA_WRITE, 1, 0,
                                FAR, side[0].cap.max_inline_data + 1, IBV_SEND_INLINE),
                     EINVAL);
    verbs_drain(side[0].qp, &side[0], &side[1]);
    verbs_pair_close(side);
}
END_TEST

START_TEST(send_waits_for_a_receive_and_stalls_no_other_queue)
{
    verbs_side_t second[2];

    verbs_pair_connect(side, &verbs_patient);
    verbs_pair_connect(second, &verbs_patient);
    ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &side[1], IBV_WR_SEND, 1, 0, 0,
                                SIZE, IBV_SEND_SIGNALED),
                     0);
    verbs_drain(second[0].qp, &second[0], &second[1]);
    verbs_expect_none(side[0].send_cq);
    verbs_recv(side[1].qp, &side[1], 5, FAR, SIZE);
    verbs_expect(side[0].send_cq, 1, IBV_WC_SUCCESS);
    verbs_expect(side[1].recv_cq, 5, IBV_WC_SUCCESS);
    check_arrived(&side[1], FAR, SIZE, 1);
    verbs_pair_close(second);
    verbs_pair_close(side);
}
END_TEST

START_TEST(event_comes_once_for_one_request)
{
    struct pollfd pfd = {.events = POLLIN};
    struct ibv_cq *cq;
    void *context;

    verbs_pair_connect(side, &verbs_patient);
    pfd.fd = side[0].channel->fd;
    fcntl(pfd.fd, F_SETFL, O_NONBLOCK);
    verbs_drain(side[0].qp, &side[0], &side[1]); /* not asked for: no event */
    ck_assert_int_eq(ibv_get_cq_event(side[0].channel, &cq, &context), -1);

    ck_assert_int_eq(ibv_req_notify_cq(side[0].send_cq, 0), 0);
    verbs_drain(side[0].qp, &side[0], &side[1]);
    ck_assert_int_eq(poll(&pfd, 1, mkv_test_limit_ms()), 1);
    ck_assert_int_eq(ibv_get_cq_event(side[0].channel, &cq, &context), 0);
    ck_assert_ptr_eq(cq, side[0].send_cq);
    ck_assert_ptr_eq(context, &side[0]);
    ibv_ack_cq_events(cq, 1);

    verbs_drain(side[0].qp, &side[0], &side[1]);
    ck_assert_int_eq(ibv_get_cq_event(side[0].channel, &cq, &context), -1);
    verbs_pair_close(side);
}
END_TEST

static Suite *contract_suite(void)
{
    Suite *suite = suite_create("verbs contract");
    TCase *tcase = tcase_create("good");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, states_are_entered_in_order);
    tcase_add_test(tcase, send_before_rts_is_refused);
    tcase_add_test(tcase, objects_in_use_are_not_destroyed);
    tcase_add_test(tcase, write_and_read_move_bytes);
    tcase_add_test(tcase, send_fills_receives_in_order);
    tcase_add_test(tcase, write_with_immediate_takes_a_receive);
    tcase_add_test(tcase, nothing_is_a_legal_length);
    tcase_add_test(tcase, inline_data_is_taken_at_once);
    tcase_add_test(tcase, entries_are_gathered);
    tcase_add_test(tcase, atomics_return_what_was_there);
    tcase_add_test(tcase, fenced_send_sees_what_was_read);
    tcase_add_test(tcase, only_what_is_signalled_completes);
    tcase_add_test(tcase, full_send_queue_names_the_first_refused);
    tcase_add_test(tcase, too_many_entries_and_too_much_inline_are_refused);
    tcase_add_test(tcase, send_waits_for_a_receive_and_stalls_no_other_queue);
    tcase_add_test(tcase, event_comes_once_for_one_request);
    suite_add_tcase(suite, tcase);
    return suite;
}

Suite *contract_error_suite(void);
Suite *contract_datagram_suite(void);
Suite *contract_srq_suite(void);

int main(void)
{
    struct ibv_device **list;
    SRunner *runner;
    int count = 0, failed;

    mkv_test_init();
    /* of the fake: as always, and two that have shared receive queues */
    setenv("FAKE_VERBS_DEVICES", "fake0:ionic,fake1:ionic,srq0:mlx5,srq1:mlx5", 0);
    list = ibv_get_device_list(&count);
    if (list != NULL) {
        ibv_free_device_list(list);
    }
    if (count < 2) {
        return mkv_test_skip("rxe", "verbs_contract",
                             "two verbs devices are needed, %d are here", count)
                   ? MKV_TEST_EXIT_FAIL
                   : MKV_TEST_EXIT_SKIP;
    }

    runner = srunner_create(contract_suite());
    srunner_add_suite(runner, contract_error_suite());
    srunner_add_suite(runner, contract_datagram_suite());
    srunner_add_suite(runner, contract_srq_suite());
    srunner_run_all(runner, CK_NORMAL);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? MKV_TEST_EXIT_OK : MKV_TEST_EXIT_FAIL;
}
