/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_clock.h"
#include "test/support/rdma_log.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Times of retries, by a clock that the test moves; and that a sleeping thread is woken
 * for them. Side A has broken and retries, and side B does nothing meanwhile.
 */

#define SIZE 4096
#define ROUNDS 80 /* of progress: in more than 64 each interface looks at its clock */
#define MAX_TIMES 16

static rig_t rig;
static rig_conn_t conn;

typedef struct times {
    unsigned num;
    unsigned ms[MAX_TIMES];
} times_t;

/* Progress side A alone, until no work is due at the present time. */
static void progress_a(void)
{
    unsigned i;

    for (i = 0; i < ROUNDS; i++) {
        uct_worker_progress(rig.side[0].worker);
    }
}

static void start(void)
{
    setenv("UCX_MORI_RDMA_RECOVERY_TIMEOUT", "1000s", 1);
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    progress_a(); /* spare objects exist */
}

static void finish(void)
{
    fake_verbs_reset();
    rig_disconnect(&conn);
    rig_close(&rig);
}

/* Note the times at which count() grew, in milliseconds from now on, until @a end. */
static void take_times(uint64_t (*count)(void), unsigned end, times_t *times)
{
    uint64_t before = count(), now;
    unsigned ms;

    times->num = 0;
    for (ms = 1; ms <= end; ms++) {
        rdma_clock_advance(1);
        progress_a();
        now = count();
        ck_assert_uint_le(now, before + 1);
        ck_assert_uint_lt(times->num, MAX_TIMES);
        if (now > before) {
            times->ms[times->num++] = ms;
        }
        before = now;
    }
}

static void expect_times(const times_t *times, const unsigned *ms, unsigned num)
{
    unsigned i;

    ck_assert_uint_eq(times->num, num);
    for (i = 0; i < num; i++) {
        ck_assert_uint_eq(times->ms[i], ms[i]);
    }
}

/* ---- offers ---- */

static uint64_t num_datagrams_of_a(void)
{
    fake_verbs_stats_t stats;

    fake_verbs_qp_stats(rig_datagram_qp(conn.ep[0]), &stats);
    return stats.doorbells;
}

/* Side B makes no progress, so datagrams for it stay unread. */
/* RC-01 */
START_TEST(offer_is_sent_again_after_twice_the_time)
{
    static const unsigned expected[] = {5, 15, 35, 75, 155, 255, 355, 455};
    times_t times;

    start();
    rdma_clock_stop();
    fake_verbs_qp_fatal(conn.qp_nums[0][0]);
    progress_a();
    ck_assert_uint_eq(num_datagrams_of_a(), 1);
    take_times(num_datagrams_of_a, 500, &times);
    expect_times(&times, expected, sizeof(expected) / sizeof(expected[0]));
    finish();
}
END_TEST

/* ---- the queue pair of datagrams ---- */

static rdma_log_watch_t given_up = {UCS_LOG_LEVEL_WARN,
                                    "cannot be used again after 8 tries", 0};

static uint64_t num_commands(void)
{
    fake_verbs_objects_t objects;

    fake_verbs_objects(&objects);
    return objects.commands;
}

/* The device takes it out of no state any more, @a tries times. */
static void break_datagrams(unsigned tries)
{
    start();
    rdma_clock_stop();
    fake_verbs_fail_call("ibv_modify_qp", 2, tries, EIO); /* behind that to ERR */
    fake_verbs_qp_fatal(rig_datagram_qp(conn.ep[0]));
}

/* The first try is made when it broke. */
/* RC-01 */
START_TEST(queue_of_datagrams_is_tried_again_after_twice_the_time)
{
    static const unsigned expected[] = {2, 6, 14, 30, 62, 126, 254};
    uint64_t before;
    times_t times;

    break_datagrams(1000);
    rdma_log_watch(&given_up, 1);
    before = num_commands();
    progress_a();
    ck_assert_uint_eq(num_commands() - before, 2); /* to ERR, and the first try */
    take_times(num_commands, 253, &times);
    expect_times(&times, expected, sizeof(expected) / sizeof(expected[0]) - 1);
    ck_assert_uint_eq(given_up.num, 0);
    take_times(num_commands, 1000, &times);
    ck_assert_uint_eq(times.num, 1); /* and then no more */
    ck_assert_uint_eq(given_up.num, 1);
    finish();
}
END_TEST

static void sleep_until_woken(void)
{
    struct pollfd fd = {.events = POLLIN};

    ck_assert_int_eq(uct_iface_event_fd_get(rig.side[0].iface, &fd.fd), UCS_OK);
    while (uct_iface_event_arm(rig.side[0].iface, UCT_EVENT_RECV) != UCS_OK) {
        uct_worker_progress(rig.side[0].worker);
    }
    ck_assert_int_eq(poll(&fd, 1, mkv_test_limit_ms()), 1);
}

/* No connection has broken, so no other event would wake the thread. */
/* RC-01 */
START_TEST(sleeper_is_woken_for_the_next_try)
{
    uint32_t qp_num;

    break_datagrams(3);
    qp_num = rig_datagram_qp(conn.ep[0]);
    while (fake_verbs_qp_state(qp_num) != IBV_QPS_RTS) {
        sleep_until_woken();
        rdma_clock_advance(10);
        uct_worker_progress(rig.side[0].worker);
    }
    ck_assert_uint_eq(fake_verbs_faults_unmet(), 0);
    finish();
}
END_TEST

/* ---- work that the device neither ends nor fails ---- */

#define WATCH_MS 2000
#define STEP_MS 100
#define CHECKS 4 /* rdma_watch.h */

static rig_comp_t comp;

/* The put is executed, and the device loses its acknowledgement and the timer. */
static void put_and_lose(const char *recovery, int mode)
{
    setenv("UCX_MORI_RDMA_TIMEOUT", "16ms", 1);
    setenv("UCX_MORI_RDMA_RETRY_COUNT", "1", 1);
    setenv("UCX_MORI_RDMA_RECOVERY", recovery, 1);
    start();
    rdma_clock_stop();
    rig_fill(&rig);
    progress_a(); /* idle until now */
    fake_verbs_lose_timer(conn.qp_nums[0][0], mode);
    rig_comp_init(&comp);
    ck_assert_int_eq(rig_put(&rig, conn.ep[0], 0, 0, SIZE, &comp), UCS_INPROGRESS);
}

/* @return Milliseconds until the put ended. */
static unsigned wait_for_end(void)
{
    unsigned ms, i;

    for (ms = 0; (comp.num_calls == 0) && (ms < 20 * WATCH_MS); ms += STEP_MS) {
        rdma_clock_advance(STEP_MS);
        for (i = 0; i < ROUNDS; i++) {
            rig_progress(&rig);
        }
    }
    ck_assert_uint_eq(comp.num_calls, 1);
    return ms;
}

START_TEST(write_of_nothing_ends_what_has_lost_its_acknowledgement)
{
    put_and_lose("3", 1);
    ck_assert_uint_lt(wait_for_end(), WATCH_MS);
    ck_assert_int_eq(comp.status, UCS_OK);
    rig_check(&rig, 0, SIZE);
    ck_assert_int_eq(fake_verbs_qp_state(conn.qp_nums[0][0]), IBV_QPS_RTS);
    finish();
}
END_TEST

START_TEST(connection_that_ends_nothing_is_made_anew)
{
    put_and_lose("3", 2);
    ck_assert_uint_ge(wait_for_end(), WATCH_MS);
    ck_assert_int_eq(comp.status, UCS_OK);
    rig_check(&rig, 0, SIZE);
    rig_wait_replaced(&rig, conn.qp_nums[0][0]);
    finish();
}
END_TEST

START_TEST(connection_that_ends_nothing_fails_without_recovery)
{
    put_and_lose("0", 2);
    ck_assert_uint_ge(wait_for_end(), WATCH_MS);
    ck_assert_int_eq(comp.status, UCS_ERR_ENDPOINT_TIMEOUT);
    finish();
}
END_TEST

START_TEST(sleeper_is_woken_to_look_at_work_that_does_not_end)
{
    put_and_lose("3", 1);
    while (comp.num_calls == 0) {
        sleep_until_woken();
        rdma_clock_advance(WATCH_MS / 4);
        uct_worker_progress(rig.side[0].worker);
    }
    ck_assert_int_eq(comp.status, UCS_OK);
    finish();
}
END_TEST

#define SLOW_MS 700 /* between two rounds of progress: more than a check's period */

/* The first queue pair has no work, and the program makes progress seldom. */
START_TEST(warning_names_the_queue_pair_and_the_time_that_was_waited)
{
    static rdma_log_watch_t given_up_qp = {UCS_LOG_LEVEL_WARN, NULL, 0};
    static char text[128];
    rig_comp_t comps[2];
    unsigned i;

    setenv("UCX_MORI_RDMA_NUM_QPS", "2", 1);
    setenv("UCX_MORI_RDMA_TIMEOUT", "16ms", 1);
    setenv("UCX_MORI_RDMA_RETRY_COUNT", "1", 1);
    setenv("UCX_MORI_RDMA_RECOVERY", "0", 1);
    start();
    ck_assert_uint_eq(conn.num_qps, 2);
    rdma_clock_stop();
    progress_a();
    fake_verbs_lose_timer(conn.qp_nums[0][1], 2);
    snprintf(text, sizeof(text),
             "qp 0x%x has neither ended nor failed its 2 work "
             "requests in %d ms",
             conn.qp_nums[0][1], CHECKS * SLOW_MS);
    given_up_qp.text = text;
    rdma_log_watch(&given_up_qp, 1);
    for (i = 0; i < 2; i++) {
        rig_comp_init(&comps[i]);
        ck_assert_int_eq(
            rig_put(&rig, conn.ep[0], 0, i * SIZE / 2, SIZE / 2, &comps[i]),
            UCS_INPROGRESS);
    }
    for (i = 0; (i < 20) && (comps[1].num_calls == 0); i++) {
        rdma_clock_advance(SLOW_MS);
        progress_a();
    }
    ck_assert_int_eq(comps[0].status, UCS_OK);
    ck_assert_int_eq(comps[1].status, UCS_ERR_ENDPOINT_TIMEOUT);
    ck_assert_uint_eq(given_up_qp.num, 1);
    finish();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mori_rdma and the time");
    TCase *tcase = tcase_create("pace");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, offer_is_sent_again_after_twice_the_time);
    tcase_add_test(tcase, queue_of_datagrams_is_tried_again_after_twice_the_time);
    tcase_add_test(tcase, sleeper_is_woken_for_the_next_try);
    tcase_add_test(tcase, write_of_nothing_ends_what_has_lost_its_acknowledgement);
    tcase_add_test(tcase, connection_that_ends_nothing_is_made_anew);
    tcase_add_test(tcase, connection_that_ends_nothing_fails_without_recovery);
    tcase_add_test(tcase, warning_names_the_queue_pair_and_the_time_that_was_waited);
    tcase_add_test(tcase, sleeper_is_woken_to_look_at_work_that_does_not_end);
    suite_add_tcase(suite, tcase);
    ct_side_find_module();
    mkv_test_init();
    return rig_run_forked(suite);
}
