/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_inside.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <errno.h>
#include <stdlib.h>

/*
 * Completion queues that fail while their device is well, and there is no other rail:
 * connections and datagrams continue with another queue of the same device, and each
 * peer gets the new number of the other side. Where a message was lost with the queue,
 * the endpoint fails.
 */

#define SIZE 65536
#define BLOCK 1024
#define NUM 24
#define APART                                                                          \
    "580" /* entries: a queue an endpoint, datagrams by that of the second             \
           */

static rig_t rig;
static rig_conn_t conn, other;
static rig_comp_t comps[NUM];

static void open_with(const char *qps)
{
    setenv("UCX_MORI_RDMA_NUM_QPS", qps, 1);
    setenv("UCX_MORI_RDMA_TIMEOUT", "16ms", 1);
    setenv("UCX_MORI_RDMA_RETRY_COUNT", "1", 1);
    setenv("UCX_MORI_RDMA_RECOVERY_TIMEOUT", "1000s", 1); /* nothing waits for it */
    rig_open(&rig, SIZE);
}

static void start_with(const char *qps)
{
    open_with(qps);
    rig_connect(&rig, &conn);
}

static void finish(void)
{
    rig_disconnect(&conn);
    rig_close(&rig);
}

static void put_all(void)
{
    unsigned i;

    rig_fill(&rig);
    for (i = 0; i < NUM; i++) {
        rig_comp_init(&comps[i]);
        ck_assert_int_eq(rig_put(&rig, conn.ep[0], 0, i * BLOCK, BLOCK, &comps[i]),
                         UCS_INPROGRESS);
    }
}

static void expect_no_errors(void)
{
    ck_assert_uint_eq(rig.side[0].events.num_ep_errors, 0);
    ck_assert_uint_eq(rig.side[1].events.num_ep_errors, 0);
}

static void expect_all_well(void)
{
    unsigned i;

    rig_wait_comps(&rig, comps, NUM);
    for (i = 0; i < NUM; i++) {
        ck_assert_int_eq(comps[i].status, UCS_OK);
    }
    rig_check(&rig, 0, NUM * BLOCK);
    for (i = 0; i < 2; i++) {
        ck_assert_int_eq(rig_try_am(&rig, conn.ep[i], i, 64), UCS_OK);
        ck_assert_int_eq(rig_flush(&rig, conn.ep[i]), UCS_OK);
    }
    expect_no_errors();
}

/* All queue pairs are there, those of the number are not, and the device takes them. */
static int has_replaced(void *arg)
{
    uint32_t now[64];
    unsigned i, num = fake_verbs_qp_list(now, 64);

    for (i = 0; i < num; i++) {
        if ((now[i] == *(uint32_t *)arg) ||
            (fake_verbs_qp_state(now[i]) != IBV_QPS_RTS)) {
            return 0;
        }
    }
    return 1;
}

static void wait_replaced(uint32_t qp_num)
{
    rig_wait(&rig, has_replaced, &qp_num);
}

/* Break the endpoint's completion queue, and lose its undelivered completions. */
static void break_queue(const rig_conn_t *which, unsigned at)
{
    fake_verbs_cq_fatal(which->qp_nums[at][0]);
}

static unsigned num_queues(void)
{
    fake_verbs_objects_t objects;

    fake_verbs_objects(&objects);
    return objects.cqs;
}

/* Loop index: which side's, with one queue pair or with three */
/* RC-07 */
START_TEST(transfer_goes_on_by_another_queue)
{
    start_with((_i < 2) ? "1" : "3");
    fake_verbs_hold(conn.qp_nums[0][0], FAKE_VERBS_HOLD_SEND);
    put_all();
    break_queue(&conn, (unsigned)_i % 2);
    fake_verbs_unhold(FAKE_VERBS_ANY_QP);
    wait_replaced(conn.qp_nums[0][0]);
    wait_replaced(conn.qp_nums[1][0]);
    expect_all_well();

    /* and the datagrams are by another one, too */
    fake_verbs_fail_wr(FAKE_VERBS_ANY_QP, 7, IBV_WC_RETRY_EXC_ERR);
    put_all();
    expect_all_well();
    finish();
}
END_TEST

/* RC-07 */
START_TEST(queue_that_cannot_be_polled_is_replaced)
{
    start_with("1");
    put_all();
    fake_verbs_fail_call("ibv_poll_cq", 1, 1, EIO);
    wait_replaced(conn.qp_nums[0][0]);
    expect_all_well();
    finish();
}
END_TEST

/* RC-07 */
START_TEST(queues_that_broke_are_not_kept)
{
    unsigned before, i;

    start_with("1");
    before = num_queues();
    for (i = 0; i < 10; i++) {
        fake_verbs_device_cqs_fatal("fake0");
        put_all();
        expect_all_well();
    }
    while (num_queues() > before) {
        rig_progress(&rig);
    }
    ck_assert_uint_eq(num_queues(), before);
    finish();
}
END_TEST

static int has_messages(void *arg)
{
    return rig.num_am[0] == *(unsigned *)arg;
}

/* The second queue pair's queue breaks. The first one's queue holds messages, behind
 * more completions than one progress takes; their sender has already completed them. */
/* RC-07 */
START_TEST(queues_that_are_well_are_emptied_first)
{
    unsigned i, num = NUM;

    setenv("UCX_MORI_RDMA_CQ_DEPTH", APART, 1);
    setenv("UCX_MORI_RDMA_POST_BATCH", "1", 1);
    open_with("2");
    rdma_inside_set_first_receives(rig.side[0].iface, 64);
    rig_connect(&rig, &conn);
    rig.hold[0] = 1;
    for (i = 0; i < 800; i++) { /* by both */
        ck_assert_int_eq(rig_try_put(&rig, conn.ep[0], 0, 0, 8, NULL), UCS_INPROGRESS);
    }
    for (i = 0; i < num; i++) {
        ck_assert_int_eq(rig_try_am(&rig, conn.ep[1], 1, 40), UCS_OK);
    }
    ck_assert_int_eq(rig_flush(&rig, conn.ep[1]), UCS_OK);
    fake_verbs_cq_fatal(conn.qp_nums[0][1]);
    /* arming makes the next progress read the device's events */
    ck_assert_int_eq(uct_iface_event_arm(rig.side[0].iface, UCT_EVENT_RECV),
                     UCS_ERR_BUSY);
    rig.hold[0] = 0;
    rig_wait(&rig, has_messages, &num);
    wait_replaced(conn.qp_nums[0][1]);
    ck_assert_uint_eq(rig.bad_am[0], 0);
    put_all();
    expect_all_well();
    finish();
}
END_TEST

/* ---- datagrams ---- */

typedef struct address {
    uint8_t dev[256], ep[256];
} address_t;

static void create(rig_conn_t *which, address_t addresses[2])
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        which->ep[i] = rig_create_ep(&rig, i, which);
        ck_assert_uint_le(rig.side[i].attr.ep_addr_len, sizeof(addresses[i].ep));
        ck_assert_int_eq(uct_iface_get_device_address(
                             rig.side[i].iface, (uct_device_addr_t *)addresses[i].dev),
                         UCS_OK);
        ck_assert_int_eq(
            uct_ep_get_address(which->ep[i], (uct_ep_addr_t *)addresses[i].ep), UCS_OK);
    }
}

static void connect_created(rig_conn_t *which, address_t addresses[2])
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        ck_assert_int_eq(rig_connect_to(which->ep[i], addresses[!i].dev,
                                        addresses[!i].ep,
                                        rig.side[!i].attr.ep_addr_len),
                         UCS_OK);
    }
}

/* Datagrams sent by the queue pair that the endpoint's address contains at present. */
static uint64_t num_datagrams(uct_ep_h ep)
{
    fake_verbs_stats_t stats;

    fake_verbs_qp_stats(rig_datagram_qp(ep), &stats);
    return stats.doorbells;
}

/* The sides do not answer answers for ever. */
static void expect_silence(void)
{
    uint64_t before;
    unsigned i;

    for (i = 0; i < 200; i++) {
        rig_progress(&rig);
    }
    before = num_datagrams(conn.ep[0]);
    ck_assert_uint_gt(before, 0);
    for (i = 0; i < 1000; i++) {
        rig_progress(&rig);
    }
    ck_assert_uint_eq(num_datagrams(conn.ep[0]), before);
}

/*
 * The queue of side A's datagrams breaks together with that of the other connection.
 * Side B uses the number of a queue pair that is gone then, and side A does not notice
 * when B's fails. Loop index: connected before or, with addresses of before,
 * afterwards.
 */
/* RC-07 */
START_TEST(peers_of_other_queues_get_the_new_datagram_queue)
{
    address_t addresses[2];
    rig_conn_t third;

    setenv("UCX_MORI_RDMA_CQ_DEPTH", APART, 1);
    start_with("1");
    rig_connect(&rig, &other);
    create(&third, addresses);
    if (_i == 0) {
        connect_created(&third, addresses);
    }
    break_queue(&other, 0);
    rig_wait_replaced(&rig, other.qp_nums[0][0]);
    while (rig_try_am(&rig, other.ep[0], 0, 64) == UCS_ERR_NO_RESOURCE) {
        rig_progress(&rig); /* until it is there again */
    }
    ck_assert_int_eq(rig_flush(&rig, other.ep[0]), UCS_OK);
    if (_i != 0) {
        connect_created(&third, addresses);
    }
    expect_silence();

    fake_verbs_qp_fatal(third.qp_nums[1][0]);
    wait_replaced(third.qp_nums[0][0]);
    fake_verbs_qp_fatal(conn.qp_nums[1][0]);
    wait_replaced(conn.qp_nums[0][0]);
    put_all();
    expect_all_well();
    rig_disconnect(&third);
    rig_disconnect(&other);
    finish();
}
END_TEST

/* The request contains the number that was in the destroyed endpoint's address. */
START_TEST(peer_of_a_destroyed_endpoint_is_notified_at_once)
{
    start_with("1");
    break_queue(&conn, 1);
    wait_replaced(conn.qp_nums[0][0]);
    wait_replaced(conn.qp_nums[1][0]);
    ck_assert_int_eq(rig_flush(&rig, conn.ep[0]), UCS_OK);
    uct_ep_destroy(conn.ep[1]);
    put_all();
    rig_wait_comps(&rig, comps, NUM);
    ck_assert_int_eq(comps[0].status, UCS_ERR_ENDPOINT_TIMEOUT);
    rig_wait_errors(&rig, 0, 1);
    uct_ep_destroy(conn.ep[0]);
    rig_close(&rig);
}
END_TEST

/* ---- impossible cases ---- */

/* The sender's operation completed, and the message cannot be delivered any more. */
/* RC-07 */
START_TEST(message_that_went_with_the_queue_fails_the_endpoint)
{
    start_with("1");
    rig.hold[0] = 1;
    break_queue(&conn, 0);
    ck_assert_int_eq(rig_try_am(&rig, conn.ep[1], 1, 64), UCS_OK);
    ck_assert_int_eq(rig_flush(&rig, conn.ep[1]), UCS_OK);
    rig.hold[0] = 0;
    rig_wait_errors(&rig, 0, 1);
    rig_wait_errors(&rig, 1, 1);
    ck_assert_uint_eq(rig.num_am[0], 0);
    finish();
}
END_TEST

/* RC-07 */
START_TEST(device_without_another_queue_fails_its_endpoints)
{
    rig_conn_t fresh;

    start_with("1");
    fake_verbs_fail_call("ibv_create_cq", 1, 1000, ENOMEM);
    break_queue(&conn, 0);
    rig_wait_errors(&rig, 0, 1);
    ck_assert_int_eq(rig.side[0].events.ep_status, UCS_ERR_IO_ERROR);
    fake_verbs_reset();
    rig_connect(&rig, &fresh);
    ck_assert_int_eq(rig_try_am(&rig, fresh.ep[0], 0, 64), UCS_OK);
    ck_assert_int_eq(rig_flush(&rig, fresh.ep[0]), UCS_OK);
    rig_disconnect(&fresh);
    finish();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mori_rdma whose completion queue fails");
    TCase *tcase = tcase_create("queue");

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, transfer_goes_on_by_another_queue, 0, 4);
    tcase_add_test(tcase, queue_that_cannot_be_polled_is_replaced);
    tcase_add_test(tcase, queues_that_broke_are_not_kept);
    tcase_add_test(tcase, queues_that_are_well_are_emptied_first);
    tcase_add_loop_test(tcase, peers_of_other_queues_get_the_new_datagram_queue, 0, 2);
    tcase_add_test(tcase, peer_of_a_destroyed_endpoint_is_notified_at_once);
    tcase_add_test(tcase, message_that_went_with_the_queue_fails_the_endpoint);
    tcase_add_test(tcase, device_without_another_queue_fails_its_endpoints);
    suite_add_tcase(suite, tcase);
    ct_side_find_module();
    mkv_test_init();
    return rig_run_forked(suite);
}
