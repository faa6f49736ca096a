/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <stdlib.h>
#include <string.h>

/*
 * An endpoint that answers gets by messages, one after another, without a gap in its
 * send queue. Its own operations end all the same, and so do the gets.
 */

#define SIZE 65536
#define LENGTH 64
#define STRIDE 128
#define MAX_ROUNDS 100000

static rig_t rig;
static rig_conn_t conn;
static rig_comp_t get;

static void start(const char *depth, const char *qps)
{
    setenv("FAKE_VERBS_DEVICES", "fake0:mlx5,fake1:mlx5", 1);
    setenv("UCX_MORI_RDMA_MAX_READS", "0", 1);
    setenv("UCX_MORI_RDMA_TX_DEPTH", depth, 1);
    setenv("UCX_MORI_RDMA_NUM_QPS", qps, 1);
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    rig_fill(&rig);
}

static void finish(void)
{
    rig_wait_comps(&rig, &get, 1);
    ck_assert_int_eq(get.status, UCS_OK);
    ck_assert_uint_eq(rig.side[0].events.num_ep_errors, 0);
    ck_assert_uint_eq(rig.side[1].events.num_ep_errors, 0);
    rig_disconnect(&conn);
    rig_close(&rig);
}

/* Side B gets the same bytes of A again and again: a request each. */
static void get_many(size_t count)
{
    void *buffer = (char *)rig.mem[1].addr + SIZE - LENGTH;
    const uint64_t addr = (uintptr_t)rig.mem[0].addr + SIZE - LENGTH;
    const size_t length = LENGTH, stride = 0;

    rig_comp_init(&get);
    ck_assert_int_eq(uct_ep_get_sgl_zcopy(conn.ep[1], &buffer, &length,
                                          &rig.mem[1].memh, &addr, &rig.rkey[0].rkey,
                                          &count, &stride, 1, &get.uct),
                     UCS_INPROGRESS);
    (void)rig_progress(&rig);
    (void)rig_progress(&rig);
}

START_TEST(flush_without_completion_ends_beside_gets)
{
    ucs_status_t status;

    start("512", (_i == 0) ? "1" : "2");
    get_many(MAX_ROUNDS);
    ck_assert_int_eq(rig_try_put(&rig, conn.ep[0], 0, 0, LENGTH, NULL), UCS_INPROGRESS);
    ck_assert_int_eq(uct_ep_flush(conn.ep[0], 0, NULL), UCS_INPROGRESS);
    while ((status = uct_ep_flush(conn.ep[0], 0, NULL)) == UCS_INPROGRESS) {
        (void)rig_progress(&rig);
    }
    ck_assert_int_eq(status, UCS_OK);
    ck_assert_uint_eq(get.num_calls, 0);
    rig_check(&rig, 0, LENGTH);
    finish();
}
END_TEST

/* Nothing ends before the put, and answers follow it. */
START_TEST(flush_beside_gets_waits_for_the_put)
{
    unsigned i;

    start("512", "1");
    get_many(1000);
    fake_verbs_hold(conn.qp_nums[0][0], FAKE_VERBS_HOLD_CQE);
    ck_assert_int_eq(rig_try_put(&rig, conn.ep[0], 0, 0, LENGTH, NULL), UCS_INPROGRESS);
    for (i = 0; i < 10; i++) {
        (void)rig_progress(&rig);
        ck_assert_int_eq(uct_ep_flush(conn.ep[0], 0, NULL), UCS_INPROGRESS);
    }
    fake_verbs_unhold(FAKE_VERBS_ANY_QP);
    while (uct_ep_flush(conn.ep[0], 0, NULL) == UCS_INPROGRESS) {
        (void)rig_progress(&rig);
    }
    rig_check(&rig, 0, LENGTH);
    finish();
}
END_TEST

/* Longer than all queues, and longer than the room that the answers leave. */
START_TEST(list_is_posted_beside_gets)
{
    static const unsigned blocks[] = {200, 60};
    rig_comp_t list;
    unsigned i;

    start("64", "1");
    get_many(MAX_ROUNDS);
    rig_comp_init(&list);
    ck_assert_int_eq(
        rig_put_list(&rig, conn.ep[0], 0, blocks[_i], LENGTH, STRIDE, &list),
        UCS_INPROGRESS);
    rig_wait_comps(&rig, &list, 1);
    ck_assert_uint_eq(get.num_calls, 0);
    for (i = 0; i < blocks[_i]; i++) {
        rig_check(&rig, (size_t)i * STRIDE, LENGTH);
    }
    finish();
}
END_TEST

typedef struct puts {
    uct_pending_req_t uct;
    unsigned num;
    unsigned most;
} puts_t;

/* As many as there is room for, as UCP's requests of several fragments. */
static ucs_status_t put_again(uct_pending_req_t *uct)
{
    puts_t *puts = ucs_container_of(uct, puts_t, uct);
    ucs_status_t status;

    while (puts->num < puts->most) {
        status = rig_try_put(&rig, conn.ep[0], 0, 0, LENGTH, NULL);
        if (status != UCS_INPROGRESS) {
            ck_assert_int_eq(status, UCS_ERR_NO_RESOURCE);
            return status;
        }
        puts->num++;
    }
    return UCS_OK;
}

/* A queue that is full all the time, and has room for one work request at a time or for
 * all of them: neither the puts nor the gets have to wait for a gap in the others. */
START_TEST(puts_and_gets_take_turns_in_a_full_queue)
{
    puts_t puts = {.uct.func = put_again, .most = UINT32_MAX};
    const unsigned at_once = (_i % 2) ? 1 : UINT32_MAX;
    unsigned i;

    start((_i / 2) ? "2" : "16", "1");
    fake_verbs_hold(conn.qp_nums[0][0], FAKE_VERBS_HOLD_CQE);
    ck_assert_int_eq(put_again(&puts.uct), UCS_ERR_NO_RESOURCE);
    ck_assert_int_eq(uct_ep_pending_add(conn.ep[0], &puts.uct, 0), UCS_OK);
    get_many(500);
    for (i = 0; (get.num_calls == 0) && (i < MAX_ROUNDS); i++) {
        (void)fake_verbs_release(conn.qp_nums[0][0], FAKE_VERBS_HOLD_CQE, at_once);
        (void)rig_progress(&rig);
    }
    ck_assert_msg(get.num_calls == 1, "the gets wait for %u puts", puts.num);
    ck_assert_uint_gt(puts.num, 50);
    puts.most = 0;
    fake_verbs_unhold(FAKE_VERBS_ANY_QP);
    ck_assert_int_eq(rig_flush(&rig, conn.ep[0]), UCS_OK);
    finish();
}
END_TEST

/* The same with lists, each longer than the queue. */
START_TEST(lists_and_gets_take_turns_in_a_full_queue)
{
    rig_comp_t list;
    unsigned i;

    start("2", "1");
    get_many(500);
    fake_verbs_hold(conn.qp_nums[0][0], FAKE_VERBS_HOLD_CQE);
    rig_comp_init(&list);
    ck_assert_int_eq(rig_put_list(&rig, conn.ep[0], 0, 250, LENGTH, STRIDE, &list),
                     UCS_INPROGRESS);
    for (i = 0; (list.num_calls == 0) && (i < MAX_ROUNDS); i++) {
        (void)fake_verbs_release(conn.qp_nums[0][0], FAKE_VERBS_HOLD_CQE, 1);
        (void)rig_progress(&rig);
    }
    ck_assert_uint_eq(list.num_calls, 1);
    ck_assert_uint_eq(get.num_calls, 0);
    ck_assert_uint_le(i, 3 * 250 + 16); /* an answer takes two */
    fake_verbs_unhold(FAKE_VERBS_ANY_QP);
    finish();
}
END_TEST

static Suite *turns_suite(void)
{
    Suite *suite = suite_create("mori_rdma beside gets of the peer");
    TCase *tcase = tcase_create("turns");

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, flush_without_completion_ends_beside_gets, 0, 2);
    tcase_add_test(tcase, flush_beside_gets_waits_for_the_put);
    tcase_add_loop_test(tcase, list_is_posted_beside_gets, 0, 2);
    tcase_add_loop_test(tcase, puts_and_gets_take_turns_in_a_full_queue, 0, 4);
    tcase_add_test(tcase, lists_and_gets_take_turns_in_a_full_queue);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    ct_side_find_module();
    mkv_test_init();
    return rig_run_forked(turns_suite());
}
