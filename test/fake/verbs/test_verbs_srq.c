/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/fake/verbs/verbs_pair.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* Shared receive queues: order of the entries, their release, and events. */

#define SIZE 4096
#define FAR (VERBS_PAIR_BUFFER / 2)

Suite *contract_srq_suite(void);

static verbs_side_t side[2];
static struct ibv_qp *second[2]; /* another pair on the same two sides */

static void connect_shared(const verbs_path_t *path)
{
    unsigned i;

    verbs_pair_connect(side, path);
    for (i = 0; i < 2; i++) {
        second[i] = verbs_qp_create(&side[i]);
        verbs_qp_to_init(second[i], path->access);
    }
    for (i = 0; i < 2; i++) {
        verbs_qp_to_rtr(second[i], &side[!i], second[!i], side[i].gid_index);
    }
    for (i = 0; i < 2; i++) {
        verbs_qp_to_rts(second[i], path);
    }
}

static void close_shared(void)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        ck_assert_int_eq(ibv_destroy_qp(second[i]), 0);
    }
    verbs_pair_close(side);
}

static void send(struct ibv_qp *qp, uint64_t wr_id)
{
    ck_assert_int_eq(verbs_post(qp, &side[0], &side[1], IBV_WR_SEND, wr_id, 0, 0, SIZE,
                                IBV_SEND_SIGNALED),
                     0);
}

static void expect_from(struct ibv_qp *qp, uint64_t wr_id)
{
    const struct ibv_wc wc = verbs_wait(side[1].recv_cq);

    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    ck_assert_uint_eq(wc.wr_id, wr_id);
    ck_assert_uint_eq(wc.qp_num, qp->qp_num);
}

static enum ibv_event_type next_event(verbs_side_t *at)
{
    struct pollfd pfd = {.fd = at->context->async_fd, .events = POLLIN};
    struct ibv_async_event event;
    enum ibv_event_type type;

    ck_assert_int_eq(poll(&pfd, 1, mkv_test_limit_ms()), 1);
    ck_assert_int_eq(ibv_get_async_event(at->context, &event), 0);
    type = event.event_type;
    if (type == IBV_EVENT_SRQ_LIMIT_REACHED) {
        ck_assert_ptr_eq(event.element.srq, at->srq);
    } else {
        ck_assert_ptr_eq(event.element.qp, at->qp);
    }
    ibv_ack_async_event(&event);
    return type;
}

static void expect_no_event(const verbs_side_t *at)
{
    struct pollfd pfd = {.fd = at->context->async_fd, .events = POLLIN};

    ck_assert_int_eq(poll(&pfd, 1, 0), 0);
}

START_TEST(any_queue_pair_takes_the_next_receive)
{
    connect_shared(&verbs_patient);
    verbs_recv(side[1].qp, &side[1], 1, FAR, SIZE);
    verbs_recv(side[1].qp, &side[1], 2, FAR + SIZE, SIZE);
    verbs_recv(side[1].qp, &side[1], 3, FAR + 2 * SIZE, SIZE);
    send(second[0], 11);
    expect_from(second[1], 1);
    send(side[0].qp, 12);
    expect_from(side[1].qp, 2);
    send(second[0], 13);
    expect_from(second[1], 3);
    ck_assert_uint_eq(mkv_pattern_check(side[1].buffer + FAR + SIZE, SIZE, 1, 0), SIZE);
    close_shared();
}
END_TEST

START_TEST(write_with_immediate_takes_a_shared_receive)
{
    connect_shared(&verbs_patient);
    verbs_recv(second[1], &side[1], 1, FAR, SIZE);
    ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &side[1],
                                IBV_WR_RDMA_WRITE_WITH_IMM, 2, 0, FAR, SIZE,
                                IBV_SEND_SIGNALED),
                     0);
    expect_from(side[1].qp, 1);
    verbs_expect(side[0].send_cq, 2, IBV_WC_SUCCESS);
    close_shared();
}
END_TEST

START_TEST(queue_pair_has_no_receives_of_its_own)
{
    struct ibv_recv_wr wr = {.wr_id = 1}, *bad = NULL;

    connect_shared(&verbs_patient);
    ck_assert_int_ne(ibv_post_recv(side[1].qp, &wr, &bad), 0);
    close_shared();
}
END_TEST

START_TEST(empty_queue_stalls_all_queue_pairs_that_share_it)
{
    connect_shared(&verbs_patient);
    send(side[0].qp, 1);
    verbs_drain(second[0], &side[0], &side[1]);
    send(second[0], 2);
    verbs_expect_none(side[0].send_cq);
    verbs_recv(side[1].qp, &side[1], 5, FAR, SIZE);
    verbs_recv(side[1].qp, &side[1], 6, FAR, SIZE);
    (void)verbs_wait(side[0].send_cq);
    (void)verbs_wait(side[0].send_cq);
    close_shared();
}
END_TEST

START_TEST(empty_queue_ends_a_sender_without_patience)
{
    verbs_pair_connect(side, &verbs_unready);
    send(side[0].qp, 1);
    verbs_expect(side[0].send_cq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
    verbs_pair_close(side);
}
END_TEST

/* Hardware frees an entry when its completion is polled; soft-RoCE when a message takes
 * it. */
START_TEST(entries_are_free_when_polled_not_before)
{
    struct ibv_recv_wr wr = {.wr_id = 99}, *bad = NULL;
    struct ibv_srq_attr attr;
    unsigned i;

    connect_shared(&verbs_patient);
    ck_assert_int_eq(ibv_query_srq(side[1].srq, &attr), 0);
    ck_assert_uint_ge(attr.max_wr, VERBS_PAIR_DEPTH);
    for (i = 0; i < attr.max_wr; i++) {
        verbs_recv(side[1].qp, &side[1], i, FAR, SIZE);
    }
    ck_assert_int_eq(ibv_post_srq_recv(side[1].srq, &wr, &bad), ENOMEM);
    ck_assert_ptr_eq(bad, &wr);
    send(second[0], 1);
    verbs_expect(side[0].send_cq, 1, IBV_WC_SUCCESS);
    if (!verbs_is_rxe()) {
        ck_assert_int_eq(ibv_post_srq_recv(side[1].srq, &wr, &bad), ENOMEM);
    }
    expect_from(second[1], 0);
    ck_assert_int_eq(ibv_post_srq_recv(side[1].srq, &wr, &bad), 0);
    close_shared();
}
END_TEST

START_TEST(entries_of_a_destroyed_queue_pair_are_free)
{
    unsigned i;

    connect_shared(&verbs_patient);
    for (i = 0; i < VERBS_PAIR_DEPTH; i++) {
        verbs_recv(side[1].qp, &side[1], i, FAR, SIZE);
        send(second[0], i);
        verbs_expect(side[0].send_cq, i, IBV_WC_SUCCESS);
    }
    ck_assert_int_eq(ibv_destroy_qp(second[1]), 0); /* with all its completions */
    if (!verbs_is_rxe()) {                          /* which leaves them in the queue */
        verbs_expect_none(side[1].recv_cq);
    }
    for (i = 0; i < VERBS_PAIR_DEPTH; i++) {
        verbs_recv(side[1].qp, &side[1], i, FAR, SIZE);
    }
    second[1] = verbs_qp_create(&side[1]);
    close_shared();
}
END_TEST

START_TEST(limit_raises_one_event)
{
    struct ibv_srq_attr attr = {.srq_limit = 2};
    unsigned i;

    connect_shared(&verbs_patient);
    for (i = 0; i < 4; i++) {
        verbs_recv(side[1].qp, &side[1], i, FAR, SIZE);
    }
    ck_assert_int_eq(ibv_modify_srq(side[1].srq, &attr, IBV_SRQ_LIMIT), 0);
    for (i = 0; i < 2; i++) {
        send(side[0].qp, i);
        expect_from(side[1].qp, i);
    }
    expect_no_event(&side[1]); /* two are left */
    send(side[0].qp, 2);
    expect_from(side[1].qp, 2);
    ck_assert_int_eq(next_event(&side[1]), IBV_EVENT_SRQ_LIMIT_REACHED);
    ck_assert_int_eq(ibv_query_srq(side[1].srq, &attr), 0);
    ck_assert_uint_eq(attr.srq_limit, 0);
    send(side[0].qp, 3);
    expect_from(side[1].qp, 3);
    expect_no_event(&side[1]);
    attr.srq_limit = attr.max_wr + 1;
    ck_assert_int_eq(ibv_modify_srq(side[1].srq, &attr, IBV_SRQ_LIMIT), EINVAL);
    close_shared();
}
END_TEST

START_TEST(shared_queue_in_use_is_not_destroyed)
{
    connect_shared(&verbs_patient);
    ck_assert_int_eq(ibv_destroy_srq(side[1].srq), EBUSY);
    close_shared();
}
END_TEST

START_TEST(error_of_one_queue_pair_leaves_the_receives_to_the_others)
{
    connect_shared(&verbs_patient);
    verbs_recv(side[1].qp, &side[1], 1, FAR, SIZE);
    ck_assert_int_eq(verbs_qp_to(side[1].qp, IBV_QPS_ERR), 0);
    ck_assert_int_eq(next_event(&side[1]), IBV_EVENT_QP_LAST_WQE_REACHED);
    verbs_expect_none(side[1].recv_cq); /* nothing of it is flushed */
    if (!verbs_is_rxe()) {              /* rxe reports it again */
        ck_assert_int_eq(verbs_qp_to(side[1].qp, IBV_QPS_ERR), 0);
    }
    send(second[0], 2);
    expect_from(second[1], 1);
    expect_no_event(&side[1]);
    close_shared();
}
END_TEST

static bool has_device(const char *name)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    bool has = false;
    unsigned i;

    for (i = 0; (list != NULL) && (list[i] != NULL); i++) {
        has = has || (strcmp(ibv_get_device_name(list[i]), name) == 0);
    }
    ibv_free_device_list(list);
    return has;
}

static void srq_setup(void)
{
    if (has_device("srq0")) {
        setenv("VERBS_TEST_DEVICES", "srq0,srq1", 1);
    }
    verbs_pair_shared = true;
}

Suite *contract_srq_suite(void)
{
    Suite *suite = suite_create("verbs contract, shared receives");
    TCase *tcase = tcase_create("shared");

    /* mori_rdma needs none of this of a real device */
    if (!has_device("srq0") && !has_device("rxe0")) {
        return suite;
    }

    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, srq_setup, NULL);
    tcase_add_test(tcase, any_queue_pair_takes_the_next_receive);
    tcase_add_test(tcase, write_with_immediate_takes_a_shared_receive);
    tcase_add_test(tcase, queue_pair_has_no_receives_of_its_own);
    tcase_add_test(tcase, empty_queue_stalls_all_queue_pairs_that_share_it);
    tcase_add_test(tcase, empty_queue_ends_a_sender_without_patience);
    tcase_add_test(tcase, entries_are_free_when_polled_not_before);
    tcase_add_test(tcase, entries_of_a_destroyed_queue_pair_are_free);
    tcase_add_test(tcase, limit_raises_one_event);
    tcase_add_test(tcase, shared_queue_in_use_is_not_destroyed);
    tcase_add_test(tcase, error_of_one_queue_pair_leaves_the_receives_to_the_others);
    suite_add_tcase(suite, tcase);
    return suite;
}
