/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_inside.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A broken connection is re-established. Every byte is right, every completion comes
 * once, every message arrives once and in order, and no error is reported. The endpoint
 * fails when that cannot be promised.
 */

#define SIZE 65536
#define BLOCK 1024
#define NUM 24

static rig_t rig;
static rig_conn_t conn;
static rig_comp_t comps[NUM];

static void start_with(const char *qps)
{
    setenv("UCX_MORI_RDMA_NUM_QPS", qps, 1);
    /* of the new connection, too: in less, a busy machine does not get to its other
     * side */
    setenv("UCX_MORI_RDMA_TIMEOUT", "16ms", 1);
    setenv("UCX_MORI_RDMA_RETRY_COUNT", "1", 1);
    rig_open(&rig, SIZE);
    rdma_inside_set_first_receives(rig.side[0].iface, 64); /* many messages at once */
    rdma_inside_set_first_receives(rig.side[1].iface, 64);
    rig_connect(&rig, &conn);
}

static void start(void)
{
    start_with("1");
}

static void put_all(uct_ep_h ep)
{
    unsigned i;

    for (i = 0; i < NUM; i++) {
        rig_comp_init(&comps[i]);
        ck_assert_int_eq(rig_put(&rig, ep, 0, i * BLOCK, BLOCK, &comps[i]),
                         UCS_INPROGRESS);
    }
}

static void expect_errors_reported(unsigned at, unsigned errors)
{
    ck_assert_uint_eq(rig.side[at].events.num_ep_errors, errors);
}

/* Check that all completed well, once and in order, and that the connection still
 * works. */
static void expect_all_well(void)
{
    unsigned i;

    rig_wait_comps(&rig, comps, NUM);
    for (i = 0; i < NUM; i++) {
        ck_assert_int_eq(comps[i].status, UCS_OK);
    }
    rig_check(&rig, 0, NUM * BLOCK);
    ck_assert_int_eq(rig_flush(&rig, conn.ep[0]), UCS_OK);
    expect_errors_reported(0, 0);
    expect_errors_reported(1, 0);
}

static void finish(void)
{
    rig_disconnect(&conn);
    rig_close(&rig);
}

static int has_recovered(void *arg)
{
    uint32_t now[64];
    unsigned i, num = fake_verbs_qp_list(now, 64);

    /* all the numbers are new ones, and the device takes them */
    for (i = 0; i < num; i++) {
        if ((now[i] == *(uint32_t *)arg) ||
            (fake_verbs_qp_state(now[i]) != IBV_QPS_RTS)) {
            return 0;
        }
    }
    return 1;
}

static void wait_for_recovery(void)
{
    rig_wait(&rig, has_recovered, &conn.qp_nums[0][0]);
    rig_wait(&rig, has_recovered, &conn.qp_nums[1][0]);
}

/* ---- puts and gets ---- */

typedef void (*fault_t)(void);

static void fail_in_the_middle(void)
{
    fake_verbs_fail_wr(conn.qp_nums[0][0], 7, IBV_WC_RETRY_EXC_ERR);
}

static void lose_all(void)
{
    fake_verbs_lose(conn.qp_nums[1][0], 1);
}

static void lose_acks(void)
{
    fake_verbs_lose_acks(conn.qp_nums[0][0], 1);
}

static void fatal(void)
{
    fake_verbs_qp_fatal(conn.qp_nums[0][0]);
}

static void fatal_at_the_peer(void)
{
    fake_verbs_qp_fatal(conn.qp_nums[1][0]);
}

static const fault_t faults[] = {fail_in_the_middle, lose_all, lose_acks, fatal,
                                 fatal_at_the_peer};
#define NUM_FAULTS ((int)(sizeof(faults) / sizeof(faults[0])))

/* RC-01 */
START_TEST(transfer_goes_on_over_a_new_connection)
{
    start_with((_i < NUM_FAULTS) ? "1" : "3");
    fake_verbs_hold(conn.qp_nums[0][0], FAKE_VERBS_HOLD_SEND);
    put_all(conn.ep[0]);
    faults[_i % NUM_FAULTS]();
    fake_verbs_unhold(FAKE_VERBS_ANY_QP);
    expect_all_well();
    wait_for_recovery();
    ck_assert_int_eq(rig_try_am(&rig, conn.ep[1], 1, 64), UCS_OK);
    ck_assert_int_eq(rig_flush(&rig, conn.ep[1]), UCS_OK);
    finish();
}
END_TEST

/* The device refuses the post, and the queue pair turns out to be in error. */
START_TEST(post_that_failed_meanwhile_is_repeated)
{
    start();
    rig_fill(&rig);
    rig_comp_init(&comps[0]);
    fake_verbs_fail_call("ibv_post_send", 1, 1, EIO);
    ck_assert_int_eq(rig_try_put(&rig, conn.ep[0], 0, 0, BLOCK, &comps[0]),
                     UCS_INPROGRESS);
    fatal();
    rig_wait_comps(&rig, comps, 1);
    ck_assert_int_eq(comps[0].status, UCS_OK);
    rig_check(&rig, 0, BLOCK);
    put_all(conn.ep[0]);
    expect_all_well();
    finish();
}
END_TEST

/* Find the first queue pair of a connection that is being made anew: it is connected,
 * others are not yet. @return 0: none. */
static uint32_t find_half_connected(uint32_t newest)
{
    uint32_t now[64], found = 0;
    unsigned i, num = fake_verbs_qp_list(now, 64), num_waiting = 0;

    for (i = 0; i < num; i++) {
        if ((now[i] > newest) && (found == 0) &&
            (fake_verbs_qp_state(now[i]) == IBV_QPS_RTS)) {
            found = now[i];
        }
        num_waiting += fake_verbs_qp_state(now[i]) == IBV_QPS_INIT;
    }
    return (num_waiting > 0) ? found : 0;
}

/* Its receives come back before there is a connection that broke. */
START_TEST(queue_pair_may_fail_while_others_are_connected)
{
    uint32_t qp_num, newest;

    start_with("12");
    newest = conn.qp_nums[1][conn.num_qps - 1];
    put_all(conn.ep[0]);
    expect_all_well();
    fatal();
    do {
        rig_progress(&rig);
        qp_num = find_half_connected(newest);
    } while (qp_num == 0);
    fake_verbs_qp_fatal(qp_num);
    put_all(conn.ep[0]);
    expect_all_well();
    ck_assert_int_eq(rig_try_am(&rig, conn.ep[0], 0, 64), UCS_OK);
    ck_assert_int_eq(rig_try_am(&rig, conn.ep[1], 1, 64), UCS_OK);
    expect_all_well();
    finish();
}
END_TEST

START_TEST(idle_connection_is_made_anew_on_both_sides)
{
    start();
    fatal_at_the_peer();
    wait_for_recovery();
    put_all(conn.ep[0]);
    expect_all_well();
    finish();
}
END_TEST

START_TEST(gets_bring_the_bytes_of_the_peer)
{
    unsigned i;

    start();
    rig_comp_init(&comps[0]);
    ck_assert_int_eq(rig_get(&rig, conn.ep[0], 0, 0, BLOCK, &comps[0]), UCS_INPROGRESS);
    rig_wait_comps(&rig, comps, 1); /* the first goes by messages */
    fake_verbs_hold(conn.qp_nums[0][0], FAKE_VERBS_HOLD_SEND);
    for (i = 0; i < NUM; i++) {
        rig_comp_init(&comps[i]);
        ck_assert_int_eq(rig_get(&rig, conn.ep[0], 0, i * BLOCK, BLOCK, &comps[i]),
                         UCS_INPROGRESS);
    }
    lose_acks();
    fake_verbs_unhold(FAKE_VERBS_ANY_QP);
    rig_wait_comps(&rig, comps, NUM);
    for (i = 0; i < NUM * BLOCK; i++) {
        ck_assert_int_eq(((char *)rig.mem[0].addr)[i], 0); /* the peer's is empty */
    }
    expect_errors_reported(0, 0);
    finish();
}
END_TEST

START_TEST(connections_break_again_and_again)
{
    uint32_t nums[64];
    unsigned i, num;

    start();
    for (i = 0; i < 10; i++) {
        num = fake_verbs_qp_list(nums, 64);
        ck_assert_uint_eq(num, 2);
        rig_fill(&rig);
        fake_verbs_fail_wr(FAKE_VERBS_ANY_QP, 1 + i, IBV_WC_RETRY_EXC_ERR);
        put_all(conn.ep[0]);
        expect_all_well();
    }
    finish();
}
END_TEST

/* ---- messages ---- */

typedef struct message_count {
    unsigned at;
    uint64_t num;
} message_count_t;

static int all_arrived(void *arg)
{
    const message_count_t *count = arg;

    return rig.num_am[count->at] >= count->num;
}

static void expect_messages(unsigned at, uint64_t num)
{
    message_count_t count = {at, num};

    rig_wait(&rig, all_arrived, &count);
    ck_assert_int_eq(rig_flush(&rig, conn.ep[0]), UCS_OK);
    ck_assert_int_eq(rig_flush(&rig, conn.ep[1]), UCS_OK);
    ck_assert_uint_eq(rig.num_am[at], num);
    ck_assert_uint_eq(rig.bad_am[at], 0);
    expect_errors_reported(0, 0);
    expect_errors_reported(1, 0);
}

static void send_all(unsigned from, unsigned num, size_t length)
{
    unsigned i;

    for (i = 0; i < num; i++) {
        ck_assert_int_eq(rig_try_am(&rig, conn.ep[from], from, length), UCS_OK);
    }
}

/* RC-01 */
START_TEST(messages_arrive_once)
{
    start();
    fake_verbs_hold(conn.qp_nums[0][0], FAKE_VERBS_HOLD_SEND);
    send_all(0, NUM, 40);
    faults[_i]();
    fake_verbs_unhold(FAKE_VERBS_ANY_QP);
    expect_messages(1, NUM);
    finish();
}
END_TEST

/* The peer received them before it detected the broken connection, or later. */
/* RC-01 */
START_TEST(messages_that_arrived_unanswered_are_not_sent_again)
{
    start();
    rig.hold[1] = (_i & 1);
    fake_verbs_lose_acks(conn.qp_nums[0][0], 1);
    send_all(0, NUM, (_i & 2) ? 3000 : 40);
    fake_verbs_hold(conn.qp_nums[1][0], FAKE_VERBS_HOLD_CQE);
    rig_progress(&rig);
    rig.hold[1] = 0;
    fake_verbs_unhold(conn.qp_nums[1][0]);
    expect_messages(1, NUM);
    finish();
}
END_TEST

/* RC-01 */
START_TEST(both_directions_at_once)
{
    unsigned i;

    start();
    for (i = 0; i < 2; i++) {
        fake_verbs_hold(conn.qp_nums[i][0], FAKE_VERBS_HOLD_SEND);
        send_all(i, NUM, 100);
        fake_verbs_fail_wr(conn.qp_nums[i][0], 5 + 7 * i, IBV_WC_RETRY_EXC_ERR);
    }
    fake_verbs_unhold(FAKE_VERBS_ANY_QP);
    expect_messages(0, NUM);
    expect_messages(1, NUM);
    finish();
}
END_TEST

/* Credits are unchanged: many more messages than there are receives arrive. */
START_TEST(credits_survive)
{
    uint64_t sent = 0;
    unsigned turn;

    start();
    for (turn = 0; turn < 40; turn++) {
        if (turn % 8 == 3) {
            fake_verbs_fail_wr(FAKE_VERBS_ANY_QP, 1 + turn, IBV_WC_RETRY_EXC_ERR);
        }
        while (sent < 20u * (turn + 1)) {
            sent += rig_try_am(&rig, conn.ep[0], 0, 200) == UCS_OK;
            rig_progress(&rig);
        }
    }
    expect_messages(1, sent);
    finish();
}
END_TEST

/* The messages are behind more completions than one progress takes. Their sender has
 * already completed them, so they would never be sent again. */
START_TEST(messages_in_the_queue_of_a_broken_connection_are_taken)
{
    unsigned i;

    setenv("UCX_MORI_RDMA_POST_BATCH", "1", 1);
    start();
    rig.hold[1] = 1;
    for (i = 0; i < 400; i++) {
        ck_assert_int_eq(rig_try_put(&rig, conn.ep[1], 1, 0, 8, NULL), UCS_INPROGRESS);
    }
    send_all(0, NUM, 40);
    ck_assert_int_eq(rig_flush(&rig, conn.ep[0]), UCS_OK);
    ck_assert_uint_eq(rig.num_am[1], 0);
    fatal_at_the_peer();
    rig.hold[1] = 0;
    expect_messages(1, NUM);
    finish();
}
END_TEST

/* The message arrived, so the peer may have changed the written memory by now. */
/* RC-02 */
START_TEST(write_before_a_message_that_arrived_is_not_repeated)
{
    start();
    fake_verbs_lose_acks(conn.qp_nums[0][0], 1);
    put_all(conn.ep[0]);
    send_all(0, 1, 64);
    ck_assert_uint_eq(rig.num_am[1], 0);
    while (rig.num_am[1] == 0) {
        uct_worker_progress(rig.side[1].worker);
        uct_worker_progress(rig.side[0].worker);
    }
    rig_check(&rig, 0, NUM * BLOCK);
    memset(rig.mem[1].addr, 0x77, SIZE); /* the peer uses it again */
    rig_wait_comps(&rig, comps, NUM);
    expect_messages(1, 1);
    ck_assert_int_eq(((char *)rig.mem[1].addr)[0], 0x77);
    ck_assert_int_eq(((char *)rig.mem[1].addr)[NUM * BLOCK - 1], 0x77);
    finish();
}
END_TEST

/* ---- what cannot be repeated ---- */

static void expect_failure(ucs_status_t status)
{
    rig_wait_errors(&rig, 0, 1);
    ck_assert_int_eq(rig.side[0].events.ep_status, status);
    rig_wait_errors(&rig, 1, 1); /* it gets an error because its peer is gone */
    finish();
}

/* RC-02 */
START_TEST(atomic_that_may_have_been_done_fails_the_endpoint)
{
    uint64_t result = 0, *there;
    rig_comp_t comp;

    setenv("UCX_MORI_RDMA_ATOMICS", "y", 1);
    setenv("FAKE_VERBS_DEVICES", "fake0:mlx5,fake1:mlx5", 1);
    start();
    rig_comp_init(&comp);
    there = rig.mem[1].addr;
    fake_verbs_lose_acks(conn.qp_nums[0][0], 1);
    ck_assert_int_eq(uct_ep_atomic64_fetch(conn.ep[0], UCT_ATOMIC_OP_ADD, 5, &result,
                                           (uintptr_t)there, rig.rkey[1].rkey,
                                           &comp.uct),
                     UCS_INPROGRESS);
    rig_wait_comps(&rig, &comp, 1);
    ck_assert_int_eq(comp.status, UCS_ERR_ENDPOINT_TIMEOUT);
    ck_assert_uint_eq(*there, 5); /* once */
    expect_failure(UCS_ERR_ENDPOINT_TIMEOUT);
}
END_TEST

/* The put may write the flag that a program polls. */
/* RC-02 */
START_TEST(put_behind_a_fence_fails_the_endpoint)
{
    rig_comp_t comp;

    start_with((_i == 0) ? "1" : "2");
    put_all(conn.ep[0]);
    rig_wait_comps(&rig, comps, NUM);
    ck_assert_int_eq(uct_ep_fence(conn.ep[0], 0), UCS_OK);
    fake_verbs_lose_acks(FAKE_VERBS_ANY_QP, 1);
    rig_comp_init(&comp);
    ck_assert_int_eq(rig_try_put(&rig, conn.ep[0], 0, 0, 8, &comp), UCS_INPROGRESS);
    rig_wait_comps(&rig, &comp, 1);
    ck_assert_int_eq(comp.status, UCS_ERR_ENDPOINT_TIMEOUT);
    expect_failure(UCS_ERR_ENDPOINT_TIMEOUT);
}
END_TEST

/* Those before the failed one have ended, although no completion reports them. */
START_TEST(progress_on_each_connection_allows_any_number_of_them)
{
    unsigned i;

    setenv("UCX_MORI_RDMA_RECOVERY", "2", 1);
    start();
    for (i = 0; i < 6; i++) {
        fake_verbs_fail_wr(FAKE_VERBS_ANY_QP, 3 * (i + 1), IBV_WC_RETRY_EXC_ERR);
    }
    put_all(conn.ep[0]);
    expect_all_well();
    ck_assert_uint_eq(fake_verbs_faults_unmet(), 0);
    finish();
}
END_TEST

/* Loop index 1: earlier successful operations make no difference. */
/* RC-02 */
START_TEST(what_never_gets_through_fails_after_some_tries)
{
    unsigned i;

    setenv("UCX_MORI_RDMA_RECOVERY", "2", 1);
    start();
    if (_i == 1) {
        put_all(conn.ep[0]);
        expect_all_well();
    }
    for (i = 0; i < 3; i++) {
        fake_verbs_fail_wr(FAKE_VERBS_ANY_QP, 1, IBV_WC_RETRY_EXC_ERR);
    }
    put_all(conn.ep[0]);
    rig_wait_comps(&rig, comps, NUM);
    ck_assert_int_eq(comps[0].status, UCS_ERR_ENDPOINT_TIMEOUT);
    expect_failure(UCS_ERR_ENDPOINT_TIMEOUT);
}
END_TEST

START_TEST(refused_key_is_not_tried_again)
{
    fake_verbs_stats_t stats;

    start();
    ct_mem_destroy(&rig.side[1], &rig.mem[1]); /* the key outlives it */
    rig_comp_init(&comps[0]);
    ck_assert_int_eq(rig_try_put(&rig, conn.ep[0], 0, 0, BLOCK, &comps[0]),
                     UCS_INPROGRESS);
    rig_wait_comps(&rig, comps, 1);
    ck_assert_int_eq(comps[0].status, UCS_ERR_CONNECTION_RESET);
    fake_verbs_device_stats("fake0", &stats);
    ck_assert_uint_eq(stats.sends, 1);
    rig_wait_errors(&rig, 0, 1);
    rig_wait_errors(&rig, 1, 1);
    ck_assert_int_eq(
        ct_mem_create(&rig.side[1], SIZE, UCS_MEMORY_TYPE_HOST, &rig.mem[1]), UCS_OK);
    finish();
}
END_TEST

/* ---- peers that are gone ---- */

START_TEST(failed_endpoint_notifies_its_idle_peer)
{
    start();
    fake_verbs_fail_wr(conn.qp_nums[0][0], 1, IBV_WC_LOC_PROT_ERR);
    rig_comp_init(&comps[0]);
    ck_assert_int_eq(rig_try_put(&rig, conn.ep[0], 0, 0, BLOCK, &comps[0]),
                     UCS_INPROGRESS);
    rig_wait_comps(&rig, comps, 1);
    ck_assert_int_eq(comps[0].status, UCS_ERR_IO_ERROR);
    rig_wait_errors(&rig, 1, 1);
    ck_assert_int_eq(rig.side[1].events.ep_status, UCS_ERR_CONNECTION_RESET);
    finish();
}
END_TEST

/* RC-02 */
START_TEST(peer_of_a_destroyed_endpoint_is_notified_at_once)
{
    setenv("UCX_MORI_RDMA_RECOVERY_TIMEOUT", "1000s", 1);
    start();
    uct_ep_destroy(conn.ep[1]);
    put_all(conn.ep[0]);
    rig_wait_comps(&rig, comps, NUM);
    ck_assert_int_eq(comps[0].status, UCS_ERR_ENDPOINT_TIMEOUT);
    rig_wait_errors(&rig, 0, 1);
    uct_ep_destroy(conn.ep[0]);
    rig_close(&rig);
}
END_TEST

/* RC-02 */
START_TEST(silent_peer_fails_when_the_time_is_over)
{
    setenv("UCX_MORI_RDMA_RECOVERY_TIMEOUT", "50ms", 1);
    start();
    rig.hold[1] = 1; /* its device does not answer, and it makes no progress */
    lose_all();
    put_all(conn.ep[0]);
    rig_wait_comps(&rig, comps, NUM);
    ck_assert_int_eq(comps[0].status, UCS_ERR_ENDPOINT_TIMEOUT);
    rig_wait_errors(&rig, 0, 1);
    rig.hold[1] = 0;
    finish();
}
END_TEST

START_TEST(endpoint_may_be_destroyed_meanwhile)
{
    start();
    rig.hold[1] = 1;
    lose_all();
    put_all(conn.ep[0]);
    rig_wait_replaced(&rig, conn.qp_nums[0][0]); /* it has new ones to offer */
    rig.hold[1] = 0;
    ck_assert_uint_eq(comps[0].num_calls, 0);
    uct_ep_destroy(conn.ep[0]);
    ck_assert_uint_eq(comps[NUM - 1].num_calls, 1);
    ck_assert_int_eq(comps[NUM - 1].status, UCS_ERR_CANCELED);
    uct_ep_destroy(conn.ep[1]);
    rig_close(&rig);
}
END_TEST

/* ---- addresses and address handles ---- */

START_TEST(link_that_is_down_for_longer_than_the_retries_loses_nothing)
{
    setenv("UCX_MORI_RDMA_PORT_DOWN_TIMEOUT", "100s", 1);
    setenv("UCX_MORI_RDMA_RECOVERY_TIMEOUT", "100s", 1);
    start();
    fake_verbs_link("fake0", 0);
    put_all(conn.ep[0]);
    rig_wait_replaced(&rig, conn.qp_nums[0][0]);
    fake_verbs_link("fake0", 1);
    expect_all_well();
    finish();
}
END_TEST

START_TEST(datagrams_may_be_lost)
{
    setenv("UCX_MORI_RDMA_RECOVERY_TIMEOUT", "100s", 1);
    start();
    put_all(conn.ep[0]);
    expect_all_well();
    rig_fill(&rig);
    fake_verbs_lose_device("fake1", 1);
    put_all(conn.ep[0]);
    rig_wait_replaced(&rig, conn.qp_nums[0][0]);
    fake_verbs_lose_device("fake1", 0);
    expect_all_well();
    finish();
}
END_TEST

static uint64_t num_datagrams(uint32_t qp_num)
{
    fake_verbs_stats_t stats;

    fake_verbs_qp_stats(qp_num, &stats);
    return stats.doorbells;
}

static int has_sent_datagrams(void *arg)
{
    return num_datagrams(*(uint32_t *)arg) > 0;
}

static int all_have_handles(void *arg)
{
    fake_verbs_objects_t objects;

    (void)arg;
    fake_verbs_objects(&objects);
    return objects.ahs == 2;
}

/* The peer has ours, is connected and idle, and does not know that we lack its. */
START_TEST(answer_that_was_lost_is_given_again)
{
    uint32_t ours, the_peers;

    setenv("UCX_MORI_RDMA_RECOVERY_TIMEOUT", "100s", 1);
    start();
    ours = rig_datagram_qp(conn.ep[0]);
    the_peers = rig_datagram_qp(conn.ep[1]);
    rig_wait(&rig, all_have_handles, NULL);
    rig.hold[1] = 1;
    fail_in_the_middle();
    put_all(conn.ep[0]);
    rig_wait(&rig, has_sent_datagrams, &ours);
    rig.hold[0] = 1;
    rig.hold[1] = 0;
    fake_verbs_lose_device("fake0", 1);
    rig_wait(&rig, has_sent_datagrams, &the_peers);
    fake_verbs_lose_device("fake0", 0);
    rig.hold[0] = 0;
    expect_all_well();
    ck_assert_uint_gt(num_datagrams(the_peers), 1);
    finish();
}
END_TEST

/* The kernel may have to query the broken network to make an address handle. */
/* RC-01 */
START_TEST(address_handles_are_there_when_a_connection_breaks)
{
    start();
    rig_wait(&rig, all_have_handles, NULL);
    fake_verbs_fail_call("ibv_create_ah", 1, 1, ETIMEDOUT);
    fail_in_the_middle();
    put_all(conn.ep[0]);
    expect_all_well();
    wait_for_recovery();
    ck_assert_uint_eq(fake_verbs_faults_unmet(), 1);
    finish();
}
END_TEST

/* The queue pair of datagrams is in error as well, this side's or the peer's. */
/* RC-01 */
START_TEST(queue_of_datagrams_that_broke_begins_again)
{
    setenv("UCX_MORI_RDMA_RECOVERY_TIMEOUT", "20s", 1);
    start();
    fake_verbs_fail_wr(rig_datagram_qp(conn.ep[_i]), 1, IBV_WC_LOC_QP_OP_ERR);
    fail_in_the_middle();
    put_all(conn.ep[0]);
    expect_all_well();
    finish();
}
END_TEST

static int all_faults_are_met(void *arg)
{
    (void)arg;
    return fake_verbs_faults_unmet() == 0;
}

static int is_in_error(void *arg)
{
    return fake_verbs_qp_state(*(uint32_t *)arg) == IBV_QPS_ERR;
}

/* Break the queue pair of side A's datagrams so that it cannot be reset. Side B makes
 * no verbs calls meanwhile. */
static void break_datagrams(unsigned tries)
{
    uint32_t qp_num = rig_datagram_qp(conn.ep[0]);

    rig.hold[1] = 1;
    fake_verbs_fail_wr(qp_num, 1, IBV_WC_LOC_QP_OP_ERR);
    fail_in_the_middle();
    put_all(conn.ep[0]);
    rig_wait(&rig, is_in_error, &qp_num);
    fake_verbs_fail_call("ibv_modify_qp", 1, tries, EIO);
}

/* RC-01 */
START_TEST(failed_restart_of_the_datagram_queue_is_retried)
{
    setenv("UCX_MORI_RDMA_RECOVERY_TIMEOUT", "20s", 1);
    start();
    break_datagrams(3);
    rig_wait(&rig, all_faults_are_met, NULL);
    rig.hold[1] = 0;
    expect_all_well();
    finish();
}
END_TEST

/* Expect the errors of a connection that was not made anew in time. */
static void finish_timed_out(void)
{
    rig_wait_comps(&rig, comps, NUM);
    rig_wait_errors(&rig, 0, 1);
    ck_assert_int_eq(rig.side[0].events.ep_status, UCS_ERR_ENDPOINT_TIMEOUT);
    fake_verbs_reset();
    finish();
}

START_TEST(queue_of_datagrams_that_never_begins_again_fails_the_endpoint)
{
    setenv("UCX_MORI_RDMA_RECOVERY_TIMEOUT", "50ms", 1);
    start();
    break_datagrams(1000000);
    finish_timed_out();
}
END_TEST

START_TEST(without_datagrams_it_fails_as_before)
{
    fake_verbs_fail_call((_i == 0) ? "ibv_create_ah" : "ibv_create_qp",
                         (_i == 0) ? 1 : 2, (_i == 0) ? 1000 : 1, ENOMEM);
    setenv("UCX_MORI_RDMA_RECOVERY_TIMEOUT", "50ms", 1);
    start();
    fail_in_the_middle();
    put_all(conn.ep[0]);
    finish_timed_out();
}
END_TEST

static Suite *recover_suite(void)
{
    Suite *suite = suite_create("mori_rdma recovery");
    TCase *tcase = tcase_create("recovery");

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, transfer_goes_on_over_a_new_connection, 0,
                        2 * NUM_FAULTS);
    tcase_add_test(tcase, post_that_failed_meanwhile_is_repeated);
    tcase_add_test(tcase, queue_pair_may_fail_while_others_are_connected);
    tcase_add_test(tcase, idle_connection_is_made_anew_on_both_sides);
    tcase_add_test(tcase, gets_bring_the_bytes_of_the_peer);
    tcase_add_test(tcase, connections_break_again_and_again);
    tcase_add_loop_test(tcase, messages_arrive_once, 0, NUM_FAULTS);
    tcase_add_loop_test(tcase, messages_that_arrived_unanswered_are_not_sent_again, 0,
                        4);
    tcase_add_test(tcase, messages_in_the_queue_of_a_broken_connection_are_taken);
    tcase_add_test(tcase, both_directions_at_once);
    tcase_add_test(tcase, credits_survive);
    tcase_add_test(tcase, write_before_a_message_that_arrived_is_not_repeated);
    tcase_add_test(tcase, atomic_that_may_have_been_done_fails_the_endpoint);
    tcase_add_loop_test(tcase, put_behind_a_fence_fails_the_endpoint, 0, 2);
    tcase_add_test(tcase, progress_on_each_connection_allows_any_number_of_them);
    tcase_add_loop_test(tcase, what_never_gets_through_fails_after_some_tries, 0, 2);
    tcase_add_test(tcase, refused_key_is_not_tried_again);
    tcase_add_test(tcase, failed_endpoint_notifies_its_idle_peer);
    tcase_add_test(tcase, peer_of_a_destroyed_endpoint_is_notified_at_once);
    tcase_add_test(tcase, silent_peer_fails_when_the_time_is_over);
    tcase_add_test(tcase, endpoint_may_be_destroyed_meanwhile);
    tcase_add_test(tcase, link_that_is_down_for_longer_than_the_retries_loses_nothing);
    tcase_add_test(tcase, datagrams_may_be_lost);
    tcase_add_test(tcase, answer_that_was_lost_is_given_again);
    tcase_add_test(tcase, address_handles_are_there_when_a_connection_breaks);
    tcase_add_loop_test(tcase, queue_of_datagrams_that_broke_begins_again, 0, 2);
    tcase_add_test(tcase, failed_restart_of_the_datagram_queue_is_retried);
    tcase_add_test(tcase,
                   queue_of_datagrams_that_never_begins_again_fails_the_endpoint);
    tcase_add_loop_test(tcase, without_datagrams_it_fails_as_before, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    ct_side_find_module();
    mkv_test_init();
    return rig_run_forked(recover_suite());
}
