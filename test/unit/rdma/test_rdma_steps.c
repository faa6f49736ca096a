/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

/*
 * Commands to the device take tens of microseconds each: however many endpoints there
 * are, one progress of an interface does a few of them.
 */

#define SIZE 65536
#define BLOCK 64
#define NUM 14
#define MAX_COMMANDS 4 /* in a progress */

static rig_t rig;
static rig_conn_t conns[NUM];
static rig_comp_t comps[NUM];
static uint64_t most; /* Commands of a progress, so far */

static uint64_t commands(void)
{
    fake_verbs_objects_t objects;

    fake_verbs_objects(&objects);
    return objects.commands;
}

static void progress_counted(unsigned at)
{
    const uint64_t before = commands();
    uint64_t num;

    uct_worker_progress(rig.side[at].worker);
    num = commands() - before;
    most = (num > most) ? num : most;
}

static bool all_called(void)
{
    unsigned i;

    for (i = 0; (i < NUM) && (comps[i].num_calls > 0); i++) {
    }
    return i == NUM;
}

static void start(void)
{
    unsigned i;

    setenv("UCX_MORI_RDMA_NUM_QPS", "2", 1);
    rig_open(&rig, SIZE);
    for (i = 0; i < NUM; i++) {
        rig_connect(&rig, &conns[i]);
    }
}

static void finish(void)
{
    unsigned i;

    for (i = 0; i < NUM; i++) {
        rig_disconnect(&conns[i]);
    }
    rig_close(&rig);
}

/* Break all connections of a side, as a link that is down for longer than the device
 * retries. Operations in flight fail on all its endpoints. */
static void break_all(unsigned at)
{
    unsigned i;

    for (i = 0; i < NUM; i++) {
        fake_verbs_hold(conns[i].qp_nums[at][0], FAKE_VERBS_HOLD_SEND);
        rig_comp_init(&comps[i]);
        ck_assert_int_eq(
            rig_try_put(&rig, conns[i].ep[at], at, i * BLOCK, BLOCK, &comps[i]),
            UCS_INPROGRESS);
        fake_verbs_fail_wr(conns[i].qp_nums[at][0], 1, IBV_WC_RETRY_EXC_ERR);
    }
    fake_verbs_unhold(FAKE_VERBS_ANY_QP);
}

static void expect_no_errors(void)
{
    ck_assert_uint_eq(rig.side[0].events.num_ep_errors, 0);
    ck_assert_uint_eq(rig.side[1].events.num_ep_errors, 0);
}

/* RT-03 */
START_TEST(connections_that_break_together_are_made_anew_in_steps)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();

    start();
    break_all(0);
    while (!all_called()) {
        progress_counted(0);
        progress_counted(1);
        ck_assert_uint_lt(mkv_test_now_ms(), limit);
    }
    ck_assert_uint_gt(most, 0);
    ck_assert_uint_le(most, MAX_COMMANDS);
    rig_check(&rig, 0, NUM * BLOCK);
    expect_no_errors();
    finish();
}
END_TEST

/* Its second queue pair: the first one is in error by itself. */
static bool is_in_use(const rig_conn_t *conn, unsigned at)
{
    return fake_verbs_qp_state(conn->qp_nums[at][1]) == IBV_QPS_RTS;
}

/* RT-03 */
START_TEST(no_thread_sleeps_before_the_next_step)
{
    start();
    break_all(0);
    do {
        progress_counted(0);
        ck_assert(
            !is_in_use(&conns[NUM - 1], 0) ||
            (uct_iface_event_arm(rig.side[0].iface, UCT_EVENT_RECV) == UCS_ERR_BUSY));
    } while (is_in_use(&conns[NUM - 1], 0));
    rig_wait_comps(&rig, comps, NUM);
    expect_no_errors();
    finish();
}
END_TEST

/* All connections are broken on one side. The last one is also broken on the other
 * side, which has finished its part. */
/* RT-03 */
START_TEST(endpoint_with_a_waiting_peer_goes_first)
{
    unsigned i;

    start();
    break_all(0);
    progress_counted(0);
    fake_verbs_qp_fatal(conns[NUM - 1].qp_nums[1][0]);
    for (i = 0; i < 1000; i++) {
        progress_counted(1);
    }
    rig_wait_comps(&rig, comps, NUM);
    ck_assert_uint_lt(comps[NUM - 1].order, comps[NUM / 2].order);
    expect_no_errors();
    finish();
}
END_TEST

/* ---- new peers ---- */

#define FEW 8 /* Endpoints that ask for two more, made ahead */

static uct_ep_h eps[2][FEW + 1];

/* Both ends. */
static void connect_peer(unsigned peer)
{
    uint8_t device[2][64], address[2][64];
    unsigned i;

    for (i = 0; i < 2; i++) {
        const uct_ep_params_t params = {.field_mask = UCT_EP_PARAM_FIELD_IFACE,
                                        .iface = rig.side[i].iface};

        ck_assert_int_eq(uct_ep_create(&params, &eps[i][peer]), UCS_OK);
        ck_assert_int_eq(
            uct_iface_get_device_address(rig.side[i].iface, (void *)device[i]), UCS_OK);
        ck_assert_int_eq(uct_ep_get_address(eps[i][peer], (void *)address[i]), UCS_OK);
    }
    for (i = 0; i < 2; i++) {
        ck_assert_int_eq(
            uct_ep_connect_to_ep(eps[i][peer], (void *)device[!i], (void *)address[!i]),
            UCS_OK);
    }
}

static unsigned num_in_state(enum ibv_qp_state state)
{
    uint32_t nums[64];
    unsigned i, num = fake_verbs_qp_list(nums, 64), count = 0;

    for (i = 0; i < num; i++) {
        count += fake_verbs_qp_state(nums[i]) == state;
    }
    return count;
}

static int is_stocked(void *arg)
{
    (void)arg;
    return num_in_state(IBV_QPS_INIT) == 2 * 2 * FEW / 4;
}

static void start_with_stock(void)
{
    unsigned i;

    setenv("UCX_MORI_RDMA_NUM_QPS", "2", 1);
    rig_open(&rig, SIZE);
    for (i = 0; i < FEW; i++) {
        connect_peer(i);
    }
    rig_wait(&rig, is_stocked, NULL);
}

static void expect_connected(unsigned peer)
{
    ck_assert(!UCS_STATUS_IS_ERR(rig_put(&rig, eps[0][peer], 0, 0, BLOCK, NULL)));
    ck_assert_int_eq(rig_try_am(&rig, eps[0][peer], 0, 64), UCS_OK);
    ck_assert_int_eq(rig_flush(&rig, eps[0][peer]), UCS_OK);
    rig_check(&rig, 0, BLOCK);
}

static void finish_stock(unsigned num)
{
    unsigned i;

    for (i = 0; i < num; i++) {
        uct_ep_destroy(eps[0][i]);
        uct_ep_destroy(eps[1][i]);
    }
    rig_close(&rig);
}

/* RT-03 */
START_TEST(next_endpoints_are_made_ahead_in_steps)
{
    uint64_t before;
    unsigned i;

    setenv("UCX_MORI_RDMA_NUM_QPS", "2", 1);
    rig_open(&rig, SIZE);
    for (i = 0; i < FEW; i++) {
        connect_peer(i);
    }
    while (!is_stocked(NULL)) {
        progress_counted(0);
        progress_counted(1);
    }
    ck_assert_uint_le(most, MAX_COMMANDS);

    before = commands();
    connect_peer(FEW);
    ck_assert_uint_eq(commands() - before, 2 * 2 * 2); /* to RTR and RTS alone */
    expect_connected(FEW);
    finish_stock(FEW + 1);
}
END_TEST

/* RT-03 */
START_TEST(endpoints_ahead_go_with_their_users)
{
    unsigned i;

    start_with_stock();
    for (i = 0; i < FEW; i++) {
        uct_ep_destroy(eps[0][i]);
        uct_ep_destroy(eps[1][i]);
    }
    while (num_in_state(IBV_QPS_INIT) > 0) {
        rig_progress(&rig);
    }
    finish_stock(0);
}
END_TEST

/* RT-03 */
START_TEST(few_peers_have_none_ahead)
{
    unsigned i;

    rig_open(&rig, SIZE);
    for (i = 0; i < 3; i++) {
        connect_peer(i);
    }
    for (i = 0; i < 200; i++) {
        rig_progress(&rig);
    }
    ck_assert_uint_eq(num_in_state(IBV_QPS_INIT), 0);
    finish_stock(3);
}
END_TEST

/* RT-03 */
START_TEST(endpoint_ahead_that_fails_is_nobodys_error)
{
    uint32_t nums[64];
    unsigned i, num;

    start_with_stock();
    num = fake_verbs_qp_list(nums, 64);
    for (i = 0; i < num; i++) {
        if (fake_verbs_qp_state(nums[i]) == IBV_QPS_INIT) {
            fake_verbs_qp_fatal(nums[i]);
        }
    }
    for (i = 0; i < 1000; i++) {
        rig_progress(&rig);
    }
    connect_peer(FEW);
    expect_connected(FEW);
    expect_no_errors();
    finish_stock(FEW + 1);
}
END_TEST

/* RT-03 */
START_TEST(none_is_left_of_a_completion_queue_that_broke)
{
    uint32_t nums[64];

    setenv("UCX_MORI_RDMA_RECOVERY", "0", 1);
    start_with_stock();
    ck_assert_uint_gt(fake_verbs_qp_list(nums, 64), 0);
    fake_verbs_cq_fatal(nums[0]); /* of side A's first endpoint */
    rig_wait_errors(&rig, 0, FEW);
    connect_peer(FEW);
    expect_connected(FEW);
    finish_stock(FEW + 1);
}
END_TEST

/* RT-03 */
START_TEST(device_without_queue_pairs_is_not_tried_again)
{
    uint64_t before;
    unsigned i;

    rig_open(&rig, SIZE);
    for (i = 0; i < FEW; i++) {
        connect_peer(i);
    }
    fake_verbs_fail_call("ibv_create_qp", 1, 1u << 30, ENOMEM);
    for (i = 0; i < 200; i++) {
        rig_progress(&rig);
    }
    ck_assert_uint_eq(fake_verbs_faults_unmet(), 0);

    before = commands();
    for (i = 0; i < 200; i++) {
        rig_progress(&rig);
    }
    ck_assert_uint_eq(commands(), before);
    finish_stock(FEW);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mori_rdma steps");
    TCase *tcase = tcase_create("steps");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, connections_that_break_together_are_made_anew_in_steps);
    tcase_add_test(tcase, no_thread_sleeps_before_the_next_step);
    tcase_add_test(tcase, endpoint_with_a_waiting_peer_goes_first);
    tcase_add_test(tcase, next_endpoints_are_made_ahead_in_steps);
    tcase_add_test(tcase, endpoints_ahead_go_with_their_users);
    tcase_add_test(tcase, few_peers_have_none_ahead);
    tcase_add_test(tcase, endpoint_ahead_that_fails_is_nobodys_error);
    tcase_add_test(tcase, none_is_left_of_a_completion_queue_that_broke);
    tcase_add_test(tcase, device_without_queue_pairs_is_not_tried_again);
    suite_add_tcase(suite, tcase);
    ct_side_find_module();
    mkv_test_init();
    return rig_run_forked(suite);
}
