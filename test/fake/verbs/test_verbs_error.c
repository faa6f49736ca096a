/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/fake/verbs/verbs_pair.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <string.h>

/* Failures of queue pairs: the status, the other completions, and their order. */

#define SIZE 4096
#define FAR (VERBS_PAIR_BUFFER / 2)

Suite *contract_error_suite(void);

static verbs_side_t side[2];

/* Three work requests, the first of which fails: root cause first, then the flushed
 * ones, signalled or not, in the order of posting; the queue pair is in error and stays
 * so. */
static void expect_failure(enum ibv_wc_status status)
{
    verbs_expect(side[0].send_cq, 1, status);
    verbs_expect(side[0].send_cq, 2, IBV_WC_WR_FLUSH_ERR);
    verbs_expect(side[0].send_cq, 3, IBV_WC_WR_FLUSH_ERR);
    ck_assert_int_eq(verbs_qp_state(side[0].qp), IBV_QPS_ERR);
    ck_assert_int_eq(
        verbs_post(side[0].qp, &side[0], &side[1], IBV_WR_RDMA_WRITE, 4, 0, FAR, 8, 0),
        0);
    verbs_expect(side[0].send_cq, 4, IBV_WC_WR_FLUSH_ERR);
    verbs_expect_none(side[0].send_cq);
}

/* Post three requests in one call, so that all are queued when the first fails. */
static void post_three(uint64_t remote_addr, uint32_t rkey, enum ibv_wr_opcode opcode,
                       uint32_t lkey)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)side[0].buffer, .length = SIZE, .lkey = lkey};
    struct ibv_send_wr wr[3], *bad;
    unsigned i;

    memset(wr, 0, sizeof(wr));
    for (i = 0; i < 3; i++) {
        wr[i].wr_id = i + 1;
        wr[i].next = (i == 2) ? NULL : &wr[i + 1];
        wr[i].sg_list = &sge;
        wr[i].num_sge = 1;
        wr[i].opcode = opcode;
        wr[i].send_flags = (i == 2) ? IBV_SEND_SIGNALED : 0;
        wr[i].wr.rdma.remote_addr = remote_addr;
        wr[i].wr.rdma.rkey = rkey;
    }
    ck_assert_int_eq(ibv_post_send(side[0].qp, wr, &bad), 0);
}

static void post_three_writes(uint64_t remote_addr, uint32_t rkey)
{
    post_three(remote_addr, rkey, IBV_WR_RDMA_WRITE, side[0].mr->lkey);
}

START_TEST(bad_rkey_fails_both_queue_pairs)
{
    verbs_pair_connect(side, &verbs_patient);
    verbs_recv(side[1].qp, &side[1], 50, FAR, 64);
    verbs_recv(side[1].qp, &side[1], 51, FAR, 64);
    post_three_writes((uintptr_t)side[1].buffer, side[1].mr->rkey ^ 0x5a00);
    expect_failure(IBV_WC_REM_ACCESS_ERR);
    verbs_expect(side[1].recv_cq, 50, IBV_WC_WR_FLUSH_ERR);
    verbs_expect(side[1].recv_cq, 51, IBV_WC_WR_FLUSH_ERR);
    ck_assert_int_eq(verbs_qp_state(side[1].qp), IBV_QPS_ERR);
    verbs_pair_close(side);
}
END_TEST

START_TEST(past_the_end_of_a_region_nothing_is_written)
{
    verbs_pair_connect(side, &verbs_patient);
    memset(side[1].buffer + VERBS_PAIR_BUFFER - 8, 0x77, 8);
    post_three_writes((uintptr_t)side[1].buffer + VERBS_PAIR_BUFFER - 8,
                      side[1].mr->rkey);
    expect_failure(IBV_WC_REM_ACCESS_ERR);
    verbs_pair_close(side);
}
END_TEST

START_TEST(key_of_a_deregistered_region_is_dead)
{
    uint32_t rkey;

    verbs_pair_connect(side, &verbs_patient);
    rkey = side[1].mr->rkey;
    ck_assert_int_eq(ibv_dereg_mr(side[1].mr), 0);
    side[1].mr = ibv_reg_mr(side[1].pd, side[1].buffer, VERBS_PAIR_BUFFER,
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    ck_assert_ptr_nonnull(side[1].mr);
    ck_assert_uint_ne(side[1].mr->rkey, rkey);
    post_three_writes((uintptr_t)side[1].buffer, rkey);
    expect_failure(IBV_WC_REM_ACCESS_ERR);
    verbs_pair_close(side);
}
END_TEST

START_TEST(region_without_the_right_refuses)
{
    struct ibv_mr *mr;

    verbs_pair_connect(side, &verbs_patient);
    mr = ibv_reg_mr(side[1].pd, side[1].buffer, SIZE, IBV_ACCESS_REMOTE_READ);
    ck_assert_ptr_nonnull(mr);
    post_three_writes((uintptr_t)side[1].buffer, mr->rkey);
    expect_failure(IBV_WC_REM_ACCESS_ERR);
    ck_assert_int_eq(ibv_dereg_mr(mr), 0);
    verbs_pair_close(side);
}
END_TEST

START_TEST(region_of_another_domain_refuses)
{
    struct ibv_pd *pd;
    struct ibv_mr *mr;

    verbs_pair_connect(side, &verbs_patient);
    pd = ibv_alloc_pd(side[1].context);
    ck_assert_ptr_nonnull(pd);
    mr = ibv_reg_mr(pd, side[1].buffer, SIZE,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    ck_assert_ptr_nonnull(mr);
    post_three_writes((uintptr_t)side[1].buffer, mr->rkey);
    expect_failure(IBV_WC_REM_ACCESS_ERR);
    ck_assert_int_eq(ibv_dereg_mr(mr), 0);
    ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
    verbs_pair_close(side);
}
END_TEST

START_TEST(queue_pair_without_the_right_refuses)
{
    const verbs_path_t path = {.timeout = 14,
                               .retry_cnt = 7,
                               .rnr_retry = 7,
                               .access = IBV_ACCESS_REMOTE_READ};
    struct ibv_wc wc;

    verbs_pair_connect(side, &path);
    post_three_writes((uintptr_t)side[1].buffer, side[1].mr->rkey);
    wc = verbs_wait(side[0].send_cq);
    ck_assert_uint_eq(wc.wr_id, 1);
    ck_assert((wc.status == IBV_WC_REM_INV_REQ_ERR) ||
              (wc.status == IBV_WC_REM_ACCESS_ERR));
    verbs_pair_close(side);
}
END_TEST

START_TEST(bad_local_key_fails_locally)
{
    struct ibv_wc wc;

    verbs_pair_connect(side, &verbs_patient);
    post_three((uintptr_t)side[1].buffer, side[1].mr->rkey, IBV_WR_RDMA_WRITE,
               side[0].mr->lkey ^ 0x5a00);
    wc = verbs_wait(side[0].send_cq);
    ck_assert_uint_eq(wc.wr_id, 1);
    if (verbs_is_rxe()) {
        ck_assert((wc.status == IBV_WC_LOC_QP_OP_ERR) ||
                  (wc.status == IBV_WC_WR_FLUSH_ERR));
    } else {
        ck_assert_int_eq(wc.status, IBV_WC_LOC_PROT_ERR);
    }
    verbs_expect(side[0].send_cq, 2, IBV_WC_WR_FLUSH_ERR);
    verbs_expect(side[0].send_cq, 3, IBV_WC_WR_FLUSH_ERR);
    verbs_pair_close(side);
}
END_TEST

START_TEST(message_longer_than_its_receive_fails_both)
{
    const bool rxe = verbs_is_rxe();
    struct ibv_wc wc;

    verbs_pair_connect(side, &verbs_patient);
    verbs_recv(side[1].qp, &side[1], 50, FAR, 64);
    ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &side[1], IBV_WR_SEND, 1, 0, 0,
                                128, IBV_SEND_SIGNALED),
                     0);
    wc = verbs_wait(side[0].send_cq);
    ck_assert_msg((wc.status == IBV_WC_REM_INV_REQ_ERR) ||
                      (rxe && (wc.status == IBV_WC_REM_OP_ERR)),
                  "status '%s'", ibv_wc_status_str(wc.status));
    wc = verbs_wait(side[1].recv_cq);
    ck_assert_uint_eq(wc.wr_id, 50);
    ck_assert_msg((wc.status == IBV_WC_LOC_LEN_ERR) ||
                      (rxe && (wc.status == IBV_WC_LOC_QP_OP_ERR)),
                  "status '%s'", ibv_wc_status_str(wc.status));
    verbs_pair_close(side);
}
END_TEST

START_TEST(without_a_receive_patience_ends)
{
    verbs_pair_connect(side, &verbs_unready);
    post_three(0, 0, IBV_WR_SEND, side[0].mr->lkey);
    expect_failure(IBV_WC_RNR_RETRY_EXC_ERR);
    verbs_pair_close(side);
}
END_TEST

START_TEST(peer_that_is_gone_does_not_answer)
{
    verbs_pair_connect(side, &verbs_hasty);
    ck_assert_int_eq(ibv_destroy_qp(side[1].qp), 0);
    side[1].qp = NULL;
    post_three_writes((uintptr_t)side[1].buffer, side[1].mr->rkey);
    expect_failure(IBV_WC_RETRY_EXC_ERR);
    verbs_pair_close(side);
}
END_TEST

START_TEST(peer_in_error_does_not_answer)
{
    verbs_pair_connect(side, &verbs_hasty);
    ck_assert_int_eq(verbs_qp_to(side[1].qp, IBV_QPS_ERR), 0);
    post_three_writes((uintptr_t)side[1].buffer, side[1].mr->rkey);
    expect_failure(IBV_WC_RETRY_EXC_ERR);
    verbs_pair_close(side);
}
END_TEST

START_TEST(error_state_flushes_receives_in_order)
{
    unsigned i;

    verbs_pair_connect(side, &verbs_patient);
    for (i = 0; i < 5; i++) {
        verbs_recv(side[0].qp, &side[0], i, FAR, 64);
    }
    ck_assert_int_eq(verbs_qp_to(side[0].qp, IBV_QPS_ERR), 0);
    for (i = 0; i < 5; i++) {
        verbs_expect(side[0].recv_cq, i, IBV_WC_WR_FLUSH_ERR);
    }
    verbs_expect_none(side[0].recv_cq);
    verbs_pair_close(side);
}
END_TEST

START_TEST(queue_pair_works_again_after_reset)
{
    verbs_pair_connect(side, &verbs_patient);
    post_three_writes((uintptr_t)side[1].buffer, side[1].mr->rkey ^ 0x5a00);
    expect_failure(IBV_WC_REM_ACCESS_ERR);
    verbs_pair_reconnect(side, &verbs_patient);
    verbs_recv(side[1].qp, &side[1], 60, FAR, SIZE);
    ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &side[1], IBV_WR_SEND, 7, 0, 0,
                                SIZE, IBV_SEND_SIGNALED),
                     0);
    verbs_expect(side[0].send_cq, 7, IBV_WC_SUCCESS);
    verbs_expect(side[1].recv_cq, 60, IBV_WC_SUCCESS);
    ck_assert_uint_eq(mkv_pattern_check(side[1].buffer + FAR, SIZE, 1, 0), SIZE);
    verbs_pair_close(side);
}
END_TEST

START_TEST(completions_of_a_destroyed_queue_pair_are_gone)
{
    verbs_pair_connect(side, &verbs_patient);
    ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &side[1], IBV_WR_RDMA_WRITE, 1, 0,
                                FAR, SIZE, IBV_SEND_SIGNALED),
                     0);
    while (mkv_pattern_check(side[1].buffer + FAR, SIZE, 1, 0) != SIZE) {
    }
    if (!verbs_is_rxe()) { /* which leaves them in the queue */
        ck_assert_int_eq(ibv_destroy_qp(side[0].qp), 0);
        side[0].qp = NULL;
        verbs_expect_none(side[0].send_cq);
    }
    verbs_pair_close(side);
}
END_TEST

Suite *contract_error_suite(void)
{
    Suite *suite = suite_create("verbs contract, errors");
    TCase *tcase = tcase_create("bad");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, bad_rkey_fails_both_queue_pairs);
    tcase_add_test(tcase, past_the_end_of_a_region_nothing_is_written);
    tcase_add_test(tcase, key_of_a_deregistered_region_is_dead);
    tcase_add_test(tcase, region_without_the_right_refuses);
    tcase_add_test(tcase, region_of_another_domain_refuses);
    tcase_add_test(tcase, queue_pair_without_the_right_refuses);
    tcase_add_test(tcase, bad_local_key_fails_locally);
    tcase_add_test(tcase, message_longer_than_its_receive_fails_both);
    tcase_add_test(tcase, without_a_receive_patience_ends);
    tcase_add_test(tcase, peer_that_is_gone_does_not_answer);
    tcase_add_test(tcase, peer_in_error_does_not_answer);
    tcase_add_test(tcase, error_state_flushes_receives_in_order);
    tcase_add_test(tcase, queue_pair_works_again_after_reset);
    tcase_add_test(tcase, completions_of_a_destroyed_queue_pair_are_gone);
    suite_add_tcase(suite, tcase);
    return suite;
}
