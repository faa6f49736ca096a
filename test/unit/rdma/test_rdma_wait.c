/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_inside.h"
#include "test/support/rdma_log.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/*
 * Pending work always wakes its waiter. A request that can never succeed returns an
 * error to its caller: no request is retried forever, and no thread sleeps while work
 * waits.
 */

#define SIZE 65536
#define LENGTH 4096

static rig_t rig;
static rig_conn_t conn, other;

/* A pending request as UCP adds it. */
typedef struct request {
    uct_pending_req_t uct;
    unsigned num_calls;
    ucs_status_t status;
} request_t;

static size_t pack(void *dest, void *arg)
{
    (void)arg;
    memset(dest, 1, LENGTH);
    return LENGTH;
}

static ucs_status_t send_message(uct_ep_h ep)
{
    ssize_t length = uct_ep_am_bcopy(ep, RIG_AM_ID, pack, NULL, 0);

    return (length < 0) ? (ucs_status_t)length : UCS_OK;
}

static ucs_status_t send_again(uct_pending_req_t *uct)
{
    request_t *request = ucs_container_of(uct, request_t, uct);

    request->num_calls++;
    request->status = send_message(other.ep[0]);
    return request->status;
}

static int is_sent(void *arg)
{
    return ((request_t *)arg)->status == UCS_OK;
}

static void finish(void)
{
    rig_disconnect(&conn);
    rig_disconnect(&other);
    rig_close(&rig);
}

/* ---- buffers ---- */

START_TEST(sender_without_a_buffer_is_called_when_one_comes_back)
{
    request_t request = {.uct.func = send_again, .status = UCS_INPROGRESS};
    unsigned i;

    setenv("UCX_MORI_RDMA_MAX_BUFS", "136", 1); /* receives of two endpoints */
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    rig_connect(&rig, &other);
    fake_verbs_hold(conn.qp_nums[0][0], FAKE_VERBS_HOLD_SEND);
    while (uct_ep_put_bcopy(conn.ep[0], pack, NULL, (uintptr_t)rig.mem[1].addr,
                            rig.rkey[1].rkey) > 0) {
    }

    ck_assert_int_eq(send_message(other.ep[0]), UCS_ERR_NO_RESOURCE);
    ck_assert_int_eq(uct_ep_pending_add(other.ep[0], &request.uct, 0), UCS_OK);
    for (i = 0; i < 100; i++) {
        rig_progress(&rig);
    }
    ck_assert_uint_le(request.num_calls, 1);
    fake_verbs_unhold(conn.qp_nums[0][0]);
    rig_wait(&rig, is_sent, &request);
    ck_assert_uint_le(request.num_calls, 2);
    finish();
}
END_TEST

static rdma_log_watch_t memlock = {UCS_LOG_LEVEL_ERROR, "ulimit -l", 0};

START_TEST(without_locked_memory_the_operation_fails_with_one_line)
{
    unsigned i;

    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    rig_connect(&rig, &other);
    rdma_log_watch(&memlock, 1);
    fake_verbs_fail_call("ibv_reg_mr", 1, 1000000, ENOMEM);
    for (i = 0; i < 100; i++) {
        ck_assert_int_eq(send_message(other.ep[0]), UCS_ERR_NO_MEMORY);
        ck_assert_int_eq(uct_ep_put_bcopy(conn.ep[0], pack, NULL,
                                          (uintptr_t)rig.mem[1].addr, rig.rkey[1].rkey),
                         UCS_ERR_NO_MEMORY);
    }
    ck_assert_uint_eq(memlock.num, 1);
    fake_verbs_reset();
    ck_assert_int_eq(send_message(other.ep[0]), UCS_OK); /* the limit was raised */
    finish();
}
END_TEST

START_TEST(little_locked_memory_is_enough_for_few_buffers)
{
    unsigned i, sent = 0;

    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    rig_connect(&rig, &other);
    fake_verbs_fail_call("ibv_reg_mr", 1, 4, ENOMEM); /* 64, 32, 16, 8 */
    fake_verbs_hold(conn.qp_nums[0][0], FAKE_VERBS_HOLD_SEND);
    ck_assert_int_eq(send_message(conn.ep[0]), UCS_OK);
    fake_verbs_fail_call("ibv_reg_mr", 1, 1000000, ENOMEM);
    for (i = 0; i < 16; i++) {
        sent += send_message(conn.ep[0]) == UCS_OK;
    }
    ck_assert_uint_eq(sent, 3);
    ck_assert_int_eq(send_message(conn.ep[0]), UCS_ERR_NO_RESOURCE);
    fake_verbs_reset();
    finish();
}
END_TEST

/* Receives grow with use, here without memory for any more. Loop index: the limit is
 * that of locked memory, or MAX_BUFS. */
START_TEST(receives_that_cannot_grow_are_enough)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    unsigned sent = 0;

    if (_i != 0) {
        setenv("UCX_MORI_RDMA_MAX_BUFS", "24", 1); /* the first of two endpoints */
    }
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    rig_connect(&rig, &other);
    ck_assert_int_eq(send_message(conn.ep[0]), UCS_OK);
    if (_i == 0) {
        fake_verbs_fail_call("ibv_reg_mr", 1, 1000000, ENOMEM);
    }
    while (rig.num_am[1] + rig.bad_am[1] < 1000) {
        sent += (sent < 1000) && (send_message(conn.ep[0]) == UCS_OK);
        rig_progress(&rig);
        ck_assert_msg(mkv_test_now_ms() < limit, "stopped at %u", sent);
    }
    fake_verbs_reset();
    finish();
}
END_TEST

/* Both endpoints have used all their receives, and there are buffers for these alone.
 * The one that receives no more must not keep those of the other one. Loop index: which
 * one is filled first. */
START_TEST(receives_that_grow_leave_the_first_ones_to_others)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    unsigned i, sent[2] = {0, 0};
    uct_ep_h eps[2];

    setenv("UCX_MORI_RDMA_MAX_BUFS", "16", 1);
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    rig_connect(&rig, &other);
    eps[_i] = conn.ep[0];
    eps[!_i] = other.ep[0];
    rig.hold[1] = 1;
    for (i = 0; i < 2; i++) {
        while (send_message(eps[i]) == UCS_OK) {
            sent[i]++;
            rig_progress(&rig);
        }
        ck_assert_uint_eq(sent[i], 4);
    }
    rig.hold[1] = 0;
    while (rig.num_am[1] + rig.bad_am[1] < 104) {
        sent[1] += (sent[1] < 100) && (send_message(eps[1]) == UCS_OK);
        rig_progress(&rig);
        ck_assert_msg(mkv_test_now_ms() < limit, "stopped at %u", sent[1]);
    }
    finish();
}
END_TEST

static void send_and_receive(unsigned num)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    const unsigned end = rig.num_am[1] + num;

    while (rig.num_am[1] < end) {
        num -= (num > 0) && (send_message(conn.ep[0]) == UCS_OK);
        rig_progress(&rig);
        ck_assert_msg(mkv_test_now_ms() < limit, "%u are left", num);
    }
}

/* Two buffers more may be made; four are needed to grow. */
START_TEST(receives_that_may_not_grow_register_no_memory)
{
    fake_verbs_objects_t before, after;

    setenv("UCX_MORI_RDMA_MAX_BUFS", "10", 1);
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    send_and_receive(1);
    fake_verbs_objects(&before);
    send_and_receive(100);
    fake_verbs_objects(&after);
    ck_assert_uint_eq(after.mrs, before.mrs);
    rig_disconnect(&conn);
    rig_close(&rig);
}
END_TEST

/* ---- messages that are kept ---- */

#define KEPT 4096

static void *kept[2][KEPT];
static unsigned num_kept[2], num_copied[2];

static ucs_status_t keep(unsigned at, void *data, unsigned flags)
{
    if (!(flags & UCT_CB_PARAM_FLAG_DESC)) {
        num_copied[at]++;
        return UCS_OK;
    }

    kept[at][num_kept[at]++] = data;
    return UCS_INPROGRESS;
}

static ucs_status_t keep_a(void *arg, void *data, size_t length, unsigned flags)
{
    (void)arg;
    (void)length;
    return keep(0, data, flags);
}

static ucs_status_t keep_b(void *arg, void *data, size_t length, unsigned flags)
{
    (void)arg;
    (void)length;
    return keep(1, data, flags);
}

static ucs_status_t copy_b(void *arg, void *data, size_t length, unsigned flags)
{
    (void)arg;
    (void)length;
    (void)flags;
    return keep(1, data, 0);
}

/* Messages are delivered for copying when no more memory can be registered. */
START_TEST(messages_that_are_kept_never_stop_a_sender)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    unsigned i, sent[2] = {0, 0};

    if (_i == 0) {
        setenv("UCX_MORI_RDMA_MAX_BUFS", "200", 1);
    }
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    rig_connect(&rig, &other);
    uct_iface_set_am_handler(rig.side[0].iface, RIG_AM_ID, keep_a, NULL, 0);
    uct_iface_set_am_handler(rig.side[1].iface, RIG_AM_ID, keep_b, NULL, 0);
    for (i = 0; i < 2; i++) {
        ck_assert_int_eq(send_message(conn.ep[i]), UCS_OK);
        sent[i]++;
    }
    if (_i != 0) {
        fake_verbs_fail_call("ibv_reg_mr", 1, 1000000, ENOMEM);
    }
    while ((sent[0] < KEPT) || (sent[1] < KEPT)) {
        for (i = 0; i < 2; i++) {
            sent[i] += (sent[i] < KEPT) && (send_message(conn.ep[i]) == UCS_OK);
        }
        rig_progress(&rig);
        ck_assert_msg(mkv_test_now_ms() < limit, "stopped at %u and %u", sent[0],
                      sent[1]);
    }
    while ((num_kept[0] + num_copied[0] < KEPT) ||
           (num_kept[1] + num_copied[1] < KEPT)) {
        rig_progress(&rig);
        ck_assert_msg(mkv_test_now_ms() < limit, "messages are missing");
    }
    for (i = 0; i < 2; i++) {
        ck_assert_uint_gt(num_copied[i], 0);
        while (num_kept[i] > 0) {
            uct_iface_release_desc(kept[i][--num_kept[i]]);
        }
    }
    fake_verbs_reset();
    finish();
}
END_TEST

/* Send until the receiver, which makes no progress, has no receive left. */
static unsigned send_blindly(void)
{
    unsigned sent = 0;

    rig.hold[1] = 1;
    while (send_message(conn.ep[0]) == UCS_OK) {
        sent++;
        rig_progress(&rig);
    }
    rig.hold[1] = 0;
    return sent;
}

static void send_to_keeper(unsigned num)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    const unsigned end = num_kept[1] + num_copied[1] + num;

    while (num_kept[1] + num_copied[1] < end) {
        num -= (num > 0) && (send_message(conn.ep[0]) == UCS_OK);
        rig_progress(&rig);
        ck_assert_msg(mkv_test_now_ms() < limit, "%u are left", num);
    }
    for (num = 0; num < 10; num++) {
        rig_progress(&rig); /* the last credits */
    }
}

/* The receiver keeps all messages, and there are buffers for 64 receives and 12 more.
 */
START_TEST(receives_grow_when_kept_buffers_come_back)
{
    setenv("UCX_MORI_RDMA_MAX_BUFS", "80", 1);
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    rig_connect(&rig, &other);
    uct_iface_set_am_handler(rig.side[1].iface, RIG_AM_ID, keep_b, NULL, 0);
    send_to_keeper(200);
    ck_assert_uint_gt(num_copied[1], 0);
    while (num_kept[1] > 0) {
        uct_iface_release_desc(kept[1][--num_kept[1]]);
    }
    uct_iface_set_am_handler(rig.side[1].iface, RIG_AM_ID, copy_b, NULL, 0);
    send_to_keeper(200);
    ck_assert_uint_gt(send_blindly(), 32); /* of 64; up to half are owed */
    finish();
}
END_TEST

/* The device has no memory once, when receives are posted. */
START_TEST(receives_grow_after_a_post_that_failed_once)
{
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    rig_connect(&rig, &other);
    fake_verbs_fail_call("ibv_post_recv", 1, 1, ENOMEM);
    send_and_receive(400);
    ck_assert_uint_eq(fake_verbs_faults_unmet(), 0);
    ck_assert_uint_gt(send_blindly(), 32); /* of 64; up to half are owed */
    finish();
}
END_TEST

/* ---- completion queues that fail ---- */

/* Recovery is off here; test_rdma_queue tests it. */
static void start_apart(void)
{
    setenv("UCX_MORI_RDMA_RECOVERY", "0", 1);
    setenv("UCX_MORI_RDMA_CQ_DEPTH", "580", 1); /* a queue an endpoint */
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    rig_connect(&rig, &other);
}

static void expect_works(rig_conn_t *which)
{
    rig_comp_t comp;

    rig_fill(&rig);
    rig_comp_init(&comp);
    ck_assert(!UCS_STATUS_IS_ERR(rig_put(&rig, which->ep[0], 0, 0, SIZE, &comp)));
    ck_assert_int_eq(rig_flush(&rig, which->ep[0]), UCS_OK);
    rig_check(&rig, 0, SIZE);
}

static void expect_replaced(void)
{
    rig_conn_t fresh;

    rig_connect(&rig, &fresh);
    expect_works(&fresh);
    rig_disconnect(&fresh);
    finish();
}

START_TEST(queue_that_cannot_be_polled_fails_its_endpoints)
{
    rig_comp_t comp;

    start_apart();
    rig.hold[1] = 1;
    rig_comp_init(&comp);
    fake_verbs_fail_call("ibv_poll_cq", 1, 1, EIO); /* the first endpoint's */
    ck_assert_int_eq(rig_try_put(&rig, conn.ep[0], 0, 0, LENGTH, &comp),
                     UCS_INPROGRESS);
    rig_wait_comps(&rig, &comp, 1);
    ck_assert_int_eq(comp.status, UCS_ERR_IO_ERROR);
    rig_wait_errors(&rig, 0, 1);
    ck_assert_int_eq(rig.side[0].events.ep_status, UCS_ERR_IO_ERROR);
    ck_assert_ptr_eq(rig.side[0].events.ep, conn.ep[0]);
    rig.hold[1] = 0;
    expect_works(&other);
    expect_replaced();
}
END_TEST

START_TEST(event_of_a_queue_fails_its_endpoints_alone)
{
    rig_comp_t comp;

    start_apart();
    rig_comp_init(&comp);
    fake_verbs_cq_fatal(conn.qp_nums[0][0]);
    ck_assert_int_eq(rig_try_put(&rig, conn.ep[0], 0, 0, LENGTH, &comp),
                     UCS_INPROGRESS);
    rig_wait_comps(&rig, &comp, 1);
    ck_assert_int_eq(comp.status, UCS_ERR_IO_ERROR);
    rig_wait_errors(&rig, 0, 1);
    ck_assert_ptr_eq(rig.side[0].events.ep, conn.ep[0]);
    expect_works(&other);
    expect_replaced();
}
END_TEST

START_TEST(queue_that_fails_while_it_is_armed_fails_its_endpoint)
{
    start_apart();
    fake_verbs_fail_call("ibv_poll_cq", 1, 1, EIO);
    ck_assert_int_eq(uct_iface_event_arm(rig.side[0].iface, UCT_EVENT_SEND_COMP),
                     UCS_ERR_BUSY);
    rig_wait_errors(&rig, 0, 1);
    ck_assert_ptr_eq(rig.side[0].events.ep, conn.ep[0]);
    finish();
}
END_TEST

/* ---- sleep ---- */

static ucs_status_t arm(void)
{
    return uct_iface_event_arm(rig.side[0].iface, UCT_EVENT_SEND_COMP | UCT_EVENT_RECV);
}

static void sleep_until_woken(void)
{
    struct pollfd fd = {.events = POLLIN};

    ck_assert_int_eq(uct_iface_event_fd_get(rig.side[0].iface, &fd.fd), UCS_OK);
    while (arm() == UCS_ERR_BUSY) {
        rig_progress(&rig);
    }
    ck_assert_int_eq(poll(&fd, 1, mkv_test_limit_ms()), 1);
    rig_progress(&rig);
}

/* UCP arms interfaces whose lanes are unused so far. */
START_TEST(first_message_of_a_new_endpoint_wakes_an_earlier_sleeper)
{
    struct pollfd fd = {.events = POLLIN};

    rig_open(&rig, SIZE);
    ck_assert_int_eq(arm(), UCS_OK);
    rig_connect(&rig, &conn);
    rig_connect(&rig, &other);
    rig.hold[0] = 1;
    ck_assert_int_eq(send_message(conn.ep[1]), UCS_OK);
    rig_progress(&rig);
    ck_assert_int_eq(uct_iface_event_fd_get(rig.side[0].iface, &fd.fd), UCS_OK);
    ck_assert_int_eq(poll(&fd, 1, mkv_test_limit_ms()), 1);
    rig.hold[0] = 0;
    while (rig.num_am[0] == 0) {
        rig_progress(&rig);
    }
    finish();
}
END_TEST

START_TEST(no_thread_sleeps_over_an_unposted_transfer)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    rig_comp_t comp;

    setenv("FAKE_VERBS_DEVICES", "fake0:mlx5,fake1:mlx5", 1);
    setenv("UCX_MORI_RDMA_TX_DEPTH", "2", 1);
    setenv("UCX_MORI_RDMA_MAX_MR_SIZE", "4k", 1);
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    rig_connect(&rig, &other);
    while (arm() == UCS_ERR_BUSY) {
        rig_progress(&rig);
    }
    rig_comp_init(&comp);
    ck_assert_int_eq(rig_try_put(&rig, conn.ep[0], 0, 0, SIZE, &comp), UCS_INPROGRESS);
    ck_assert_int_eq(arm(), UCS_ERR_BUSY);
    while (comp.num_calls == 0) { /* progress and sleep as an application does */
        uct_worker_progress(rig.side[1].worker);
        if (uct_worker_progress(rig.side[0].worker) == 0) {
            (void)arm();
        }
        ck_assert_msg(mkv_test_now_ms() < limit, "slept over the transfer");
    }
    finish();
}
END_TEST

START_TEST(link_that_stays_down_wakes_a_sleeper)
{
    setenv("UCX_MORI_RDMA_PORT_DOWN_TIMEOUT", "100ms", 1);
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    rig_connect(&rig, &other);
    fake_verbs_link("fake0", 0);
    while (rig.side[0].events.num_ep_errors < 2) {
        sleep_until_woken();
    }
    ck_assert_int_eq(rig.side[0].events.ep_status, UCS_ERR_ENDPOINT_TIMEOUT);
    while (arm() == UCS_ERR_BUSY) { /* and then nothing is left that wakes */
        rig_progress(&rig);
    }
    finish();
}
END_TEST

/* The peer makes no progress, so that the endpoint still recovers when it is destroyed
 * and the timer of its recovery has expired. */
START_TEST(endpoint_destroyed_while_it_recovers_leaves_no_wakes)
{
    struct pollfd fd = {.events = POLLIN};
    unsigned i, wakes = 0;

    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    rig_connect(&rig, &other);
    rig.hold[1] = 1;
    fake_verbs_qp_fatal(conn.qp_nums[0][0]);
    sleep_until_woken(); /* by the event of the queue pair: recovery begins */
    ck_assert_int_eq(uct_iface_event_fd_get(rig.side[0].iface, &fd.fd), UCS_OK);
    while (arm() == UCS_ERR_BUSY) {
        rig_progress(&rig);
    }
    ck_assert_int_eq(poll(&fd, 1, mkv_test_limit_ms()), 1);
    uct_ep_destroy(conn.ep[0]);
    for (i = 0; i < 1000; i++) {
        while (arm() == UCS_ERR_BUSY) {
            rig_progress(&rig);
        }
        if (poll(&fd, 1, 0) > 0) {
            wakes++;
            rig_progress(&rig);
        }
    }
    ck_assert_uint_le(wakes, 10); /* retransmissions to the peer end as well */
    rig.hold[1] = 0;
    uct_ep_destroy(conn.ep[1]);
    rig_disconnect(&other);
    rig_close(&rig);
}
END_TEST

/* ---- place of received data ---- */

static size_t alignment, align_offset;
static unsigned num_aligned;

static ucs_status_t look_at(void *arg, void *data, size_t length, unsigned flags)
{
    (void)arg;
    (void)length;
    if (flags & UCT_CB_PARAM_FLAG_DESC) {
        ck_assert_uint_eq(((uintptr_t)data + align_offset) % alignment, 0);
        num_aligned++;
    }
    return UCS_OK;
}

START_TEST(received_data_has_the_configured_alignment)
{
    static const size_t rows[][2] = {{1, 0},     {8, 0},      {8, 5},  {64, 8},
                                     {256, 128}, {4096, 100}, {16, 16}};
    unsigned i;

    alignment = rows[_i][0];
    align_offset = rows[_i][1];
    ct_side_set_alignment(alignment, align_offset);
    rig_open(&rig, SIZE);
    rdma_inside_set_first_receives(rig.side[1].iface, 64);
    rig_connect(&rig, &conn);
    rig_connect(&rig, &other);
    uct_iface_set_am_handler(rig.side[1].iface, RIG_AM_ID, look_at, NULL, 0);
    for (i = 0; i < 10; i++) {
        ck_assert_int_eq(send_message(conn.ep[0]), UCS_OK);
        ck_assert_int_eq(uct_ep_am_short(conn.ep[0], RIG_AM_ID, 1, NULL, 0), UCS_OK);
    }
    ck_assert_int_eq(rig_flush(&rig, conn.ep[0]), UCS_OK);
    while (num_aligned < 20) {
        rig_progress(&rig);
    }
    finish();
}
END_TEST

START_TEST(alignment_without_sense_is_refused)
{
    static const size_t rows[] = {3, 48, (size_t)1 << 40};
    const ct_target_name_t name = {.tl_name = "mori_rdma", .dev_name = "fake0:1"};
    ct_side_t side;

    ct_side_set_alignment(rows[_i], 0);
    ck_assert_int_eq(ct_side_open(&side, &name), UCS_ERR_INVALID_PARAM);
}
END_TEST

static Suite *wait_suite(void)
{
    Suite *suite = suite_create("mori_rdma waiting");
    TCase *tcase = tcase_create("waiting");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, sender_without_a_buffer_is_called_when_one_comes_back);
    tcase_add_test(tcase, without_locked_memory_the_operation_fails_with_one_line);
    tcase_add_test(tcase, little_locked_memory_is_enough_for_few_buffers);
    tcase_add_loop_test(tcase, receives_that_cannot_grow_are_enough, 0, 2);
    tcase_add_loop_test(tcase, receives_that_grow_leave_the_first_ones_to_others, 0, 2);
    tcase_add_test(tcase, receives_that_may_not_grow_register_no_memory);
    tcase_add_loop_test(tcase, messages_that_are_kept_never_stop_a_sender, 0, 2);
    tcase_add_test(tcase, receives_grow_when_kept_buffers_come_back);
    tcase_add_test(tcase, receives_grow_after_a_post_that_failed_once);
    tcase_add_test(tcase, queue_that_cannot_be_polled_fails_its_endpoints);
    tcase_add_test(tcase, event_of_a_queue_fails_its_endpoints_alone);
    tcase_add_test(tcase, queue_that_fails_while_it_is_armed_fails_its_endpoint);
    tcase_add_test(tcase, first_message_of_a_new_endpoint_wakes_an_earlier_sleeper);
    tcase_add_test(tcase, no_thread_sleeps_over_an_unposted_transfer);
    tcase_add_test(tcase, link_that_stays_down_wakes_a_sleeper);
    tcase_add_test(tcase, endpoint_destroyed_while_it_recovers_leaves_no_wakes);
    tcase_add_loop_test(tcase, received_data_has_the_configured_alignment, 0, 7);
    tcase_add_loop_test(tcase, alignment_without_sense_is_refused, 0, 3);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    ct_side_find_module();
    mkv_test_init();
    return rig_run_forked(wait_suite());
}
