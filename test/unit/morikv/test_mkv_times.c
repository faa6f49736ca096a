/* SPDX-License-Identifier: BSD-3-Clause */

/* Reports about a transfer: its identity, blocks and times, the library's histograms,
 * the hook that streams wait on, and the log at level trace. */

#include "test/support/mkv_pair.h"

#include "src/base/latency.h"

#include <stdlib.h>
#include <string.h>

#define NUM 8u
#define US 1000ull

static mkv_xfer_t *active, *passive;
static mkv_plan_t *plan;

static void start(mkv_mode_t mode, uint64_t us)
{
    active = pair_xfer(A, 1, 1, mode, (mode == MKV_WRITE) ? MKV_SRC : MKV_DST);
    passive = pair_xfer(B, 0, 1, mode, (mode == MKV_WRITE) ? MKV_DST : MKV_SRC);
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
    pair_now += us * US;
    pair_expose(passive, 0, NUM);
    pair_run();
    pair_now += us * US;
}

/* A WRITE or READ that takes so many us for each step */
static void move(mkv_mode_t mode, uint64_t us)
{
    start(mode, us);
    fake_ucp_hold(FAKE_UCP_FLUSH);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    pair_run();
    pair_now += us * US;
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    pair_now += us * US;
    fake_ucp_hold(0);
    pair_run();
}

static const uint32_t shown[] = {18, 16, 17};
static int my_mark, their_mark;

static mkv_xfer_t *open_marked(pair_side_t *side, unsigned other, mkv_role_t role,
                               void *mark)
{
    mkv_xfer_params_t params = {.size = sizeof(params),
                                .id = 77,
                                .epoch = 5,
                                .mode = MKV_WRITE,
                                .role = role,
                                .legs = &side->maps[other],
                                .num_legs = 1,
                                .user_data = mark};
    mkv_xfer_t *xfer;

    OK(mkv_xfer_open(side->ctx, &params, &xfer));
    return xfer;
}

/* The two callers attach a pointer. Remote blocks named by the side that exposes its
 * own are not returned by a query. */
static void bind_marked(void)
{
    const mkv_units_t units = {
        .num_local = 3, .local = shown, .num_remote = 2, .remote = shown};

    pair_setup();
    active = open_marked(A, 1, MKV_SRC, &my_mark);
    passive = open_marked(B, 0, MKV_DST, &their_mark);
    OK(mkv_xfer_expose(passive, 0, &units, 1, "meta!", 5));
    pair_run();
    plan = pair_plan(A, 1, 0, 16, 3, 0);
}

static void finish_marked(void)
{
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(passive).status, MKV_OK);
}

static void close_marked(void)
{
    pair_close(active, passive, plan);
    pair_teardown();
}

static void expect_names(const mkv_event_t *event, const mkv_peer_t *peer, void *mark)
{
    ck_assert_ptr_eq(event->peer, peer);
    ck_assert_uint_eq(event->id, 77);
    ck_assert_uint_eq(event->epoch, 5);
    ck_assert_uint_eq(event->leg, 0);
    ck_assert_ptr_eq(event->user_data, mark);
}

START_TEST(a_block_list_comes_with_what_names_its_transfer)
{
    const mkv_event_t *event;

    bind_marked();
    event = pair_last(A, MKV_EV_EXPOSED, active);
    expect_names(event, A->peers[1], &my_mark);
    ck_assert_uint_eq(event->num_units, 1);
    ck_assert_uint_eq(event->units[0].num_local, 0);
    ck_assert_uint_eq(event->units[0].num_remote, 3);
    ck_assert_mem_eq(event->units[0].remote, shown, sizeof(shown));
    ck_assert_uint_eq(event->length, 5);
    ck_assert_mem_eq(event->data, "meta!", 5);
    finish_marked();
    close_marked();
}
END_TEST

START_TEST(done_shows_the_blocks_that_were_exposed)
{
    const mkv_event_t *event;

    bind_marked();
    finish_marked();
    event = pair_last(B, MKV_EV_DONE, passive);
    expect_names(event, B->peers[0], &their_mark);
    ck_assert_uint_eq(event->num_units, 1);
    ck_assert_uint_eq(event->units[0].num_local, 3);
    ck_assert_ptr_ne(event->units[0].local, shown);
    ck_assert_mem_eq(event->units[0].local, shown, sizeof(shown));
    ck_assert_uint_eq(event->units[0].num_remote, 0);
    ck_assert_ptr_null(event->units[0].remote);
    close_marked();
}
END_TEST

START_TEST(a_query_has_the_id_and_age_of_its_transfer)
{
    mkv_xfer_attr_t attr;

    bind_marked();
    pair_now += 30 * US;
    attr = pair_query(active);
    ck_assert_uint_eq(attr.id, 77);
    ck_assert_uint_eq(attr.epoch, 5);
    ck_assert_ptr_eq(attr.user_data, &my_mark);
    ck_assert_uint_eq(attr.age_ns, 30 * US);
    ck_assert_ptr_eq(pair_query(passive).user_data, &their_mark);
    finish_marked();
    close_marked();
}
END_TEST

/* The transfer is closed before its event is polled */
START_TEST(an_event_does_not_name_a_transfer_that_was_closed)
{
    pair_setup();
    active = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
    pair_run_unpolled();
    OK(mkv_xfer_close(active));
    pair_run();
    ck_assert_ptr_null(pair_last(A, MKV_EV_ABORTED, NULL)->xfer);
    ck_assert_ptr_null(pair_last(A, MKV_EV_QUIET, NULL)->xfer);
    pair_teardown();
}
END_TEST

/* Loop index: a flush that waits for the puts, and one that need not */
/* OB-01 */
START_TEST(a_transfer_reports_the_times_of_its_steps)
{
    mkv_xfer_attr_t attr;

    pair_setup_over(_i ? "mori_xgmi" : "mori_rdma");
    move(MKV_WRITE, 10);
    attr = pair_query(active);
    ck_assert_uint_eq(attr.exposed_ns, 10 * US);
    ck_assert_uint_eq(attr.bound_ns, 10 * US);
    ck_assert_uint_eq(attr.posted_ns, 20 * US);
    ck_assert_uint_eq(attr.moved_ns, 20 * US);
    ck_assert_uint_eq(attr.sealed_ns, 30 * US);
    ck_assert_uint_eq(attr.flushed_ns, (_i ? 20 : 40) * US);
    ck_assert_uint_eq(attr.ended_ns, (_i ? 30 : 40) * US);
    ck_assert_uint_eq(attr.quiet_ns, (_i ? 30 : 40) * US);
    attr = pair_query(passive);
    ck_assert_uint_eq(attr.exposed_ns, 10 * US);
    ck_assert_uint_eq(attr.bound_ns, 10 * US);
    ck_assert_uint_eq(attr.posted_ns, 0);
    ck_assert_uint_eq(attr.ended_ns, (_i ? 30 : 40) * US);
    ck_assert_uint_eq(attr.quiet_ns, (_i ? 30 : 40) * US);
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* An owner that puts for a reader reports times as well. The reader's last byte arrives
 * after the owner's flush */
/* OB-01 */
START_TEST(an_owner_reports_the_times_of_its_puts)
{
    mkv_xfer_attr_t attr;

    pair_set("READ_BY", "push");
    pair_setup_over("mori_rdma"); /* endpoint whose puts are flushed */
    move(MKV_READ, 10);
    attr = pair_query(passive);
    ck_assert_uint_eq(attr.posted_ns, 20 * US);
    ck_assert_uint_eq(attr.moved_ns, 20 * US);
    ck_assert_uint_eq(attr.flushed_ns, 40 * US);
    attr = pair_query(active);
    ck_assert_uint_eq(attr.posted_ns, 20 * US);
    ck_assert_uint_eq(attr.moved_ns, 40 * US);
    ck_assert_uint_eq(attr.flushed_ns, 0);
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

static unsigned num_clocks, num_sent; /* looks at the clock; before the first of them */

static uint64_t watched_clock(void *arg)
{
    (void)arg;
    if (num_clocks++ == 0) {
        num_sent = fake_ucp_num_calls(FAKE_UCP_AM);
    }
    return pair_now;
}

/* Reading the clock takes as long as a message, so the message that the peer waits for
 * is sent first. Loop index: 0 the puts need a flush, 1 they need none */
START_TEST(the_clock_is_read_behind_the_message)
{
    unsigned before = 0;

    pair_setup_over(_i ? "mori_xgmi" : "mori_rdma");
    start(MKV_WRITE, 10);
    fake_ucp_hold(FAKE_UCP_PUT | FAKE_UCP_LIST);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    A->ctx->params.clock_ns = watched_clock;
    fake_ucp_hold(0);
    while (mkv_xfer_status(active, NULL) == MKV_INPROGRESS) {
        num_clocks = 0;
        before = fake_ucp_num_calls(FAKE_UCP_AM);
        mkv_progress(A->ctx);
    }
    ck_assert_uint_gt(num_clocks, 0); /* control */
    ck_assert_uint_eq(num_sent, before + 1);
    ck_assert_uint_gt(pair_query(active).moved_ns, 0);
    ck_assert_uint_gt(pair_query(active).flushed_ns, 0);
    pair_run();
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

static uint64_t sum_of(const uint64_t *buckets)
{
    uint64_t sum = 0;
    unsigned i;

    for (i = 0; i < MKV_LATENCY_BUCKETS; ++i) {
        sum += buckets[i];
    }
    return sum;
}

/* A late transfer among ten appears in the slowest tenth of the histogram */
/* OB-07 */
START_TEST(a_late_transfer_shows_in_the_histogram)
{
    mkv_stats_t stats = {.size = sizeof(stats)};
    unsigned i;

    pair_setup_over("mori_rdma");
    for (i = 0; i < 10; ++i) {
        move(MKV_WRITE, (i == 6) ? 100000 : 1);
        pair_close(active, passive, plan);
    }
    OK(mkv_stats(A->ctx, A->peers[1], &stats));
    ck_assert_uint_eq(sum_of(stats.expose_to_done), 10);
    ck_assert_uint_eq(stats.expose_to_done[mkv_latency_bucket(3 * US)], 9);
    ck_assert_uint_eq(stats.expose_to_done[mkv_latency_bucket(300000 * US)], 1);
    ck_assert_uint_eq(sum_of(stats.event_to_poll), 0);
    ck_assert_uint_eq(sum_of(pair_stats(B).expose_to_done), 10);
    OK(mkv_xfer_abort(pair_xfer(A, 1, 2, MKV_WRITE, MKV_SRC), MKV_ERR_ABORTED, NULL));
    ck_assert_uint_eq(sum_of(pair_stats(A).expose_to_done), 10); /* it was never done */
    IS(mkv_close(A->ctx), MKV_ERR_BUSY);
    free(A->mem);
    pair_forget(A);
    pair_run();
    pair_teardown();
}
END_TEST

/* OB-07 */
START_TEST(a_late_poll_shows_in_the_histogram)
{
    mkv_event_t events[4];
    mkv_stats_t before;
    size_t count;

    pair_setup();
    active = pair_bind_write(NUM, &passive);
    before = pair_stats(A);
    ck_assert_uint_gt(sum_of(before.event_to_poll), 0);
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
    pair_now += 5000 * US;
    OK(mkv_poll(A->ctx, events, sizeof(events[0]), 4, &count));
    ck_assert_uint_gt(count, 0);
    ck_assert_uint_eq(sum_of(pair_stats(A).event_to_poll),
                      sum_of(before.event_to_poll) + count);
    ck_assert_uint_eq(pair_stats(A).event_to_poll[mkv_latency_bucket(5000 * US)],
                      count);
    pair_run();
    pair_close(active, passive, NULL);
    pair_teardown();
}
END_TEST

START_TEST(every_time_has_its_bucket)
{
    ck_assert_uint_eq(mkv_latency_bucket(0), 0);
    ck_assert_uint_eq(mkv_latency_bucket(1), 0);
    ck_assert_uint_eq(mkv_latency_bucket(2), 1);
    ck_assert_uint_eq(mkv_latency_bucket(1023), 9);
    ck_assert_uint_eq(mkv_latency_bucket(1024), 10);
    ck_assert_uint_eq(mkv_latency_bucket(UINT64_MAX), MKV_LATENCY_BUCKETS - 1);
}
END_TEST

/* ---- The hook -------------------------------------------------------------------- */

typedef struct told {
    unsigned num;
    mkv_status_t status;
} notified_t;

static void ended(void *arg, mkv_status_t status)
{
    notified_t *told = arg;

    ++told->num;
    told->status = status;
}

/* Loop index: done; aborted here; aborted there. Before the event can be polled */
/* OB-08 */
START_TEST(a_stream_is_let_go_when_the_transfer_ends)
{
    notified_t told = {0};
    mkv_xfer_params_t params = {.size = sizeof(params),
                                .id = 1,
                                .mode = MKV_WRITE,
                                .role = MKV_DST,
                                .num_legs = 1,
                                .ended = ended,
                                .ended_arg = &told};

    pair_setup();
    params.legs = &B->maps[0];
    OK(mkv_xfer_open(B->ctx, &params, &passive));
    active = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    pair_expose(passive, 0, NUM);
    pair_run();
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    pair_run();
    ck_assert_uint_eq(told.num, 0);
    if (_i == 0) {
        OK(mkv_xfer_seal(active, 0));
    } else {
        OK(mkv_xfer_abort((_i == 1) ? passive : active, MKV_ERR_ABORTED, NULL));
    }
    while (told.num == 0) {
        ck_assert_uint_eq(pair_query(passive).ended_ns, 0);
        (void)mkv_progress(A->ctx);
        (void)mkv_progress(B->ctx);
    }
    pair_run();
    ck_assert_uint_eq(told.num, 1);
    ck_assert_int_eq(told.status, (_i == 0) ? MKV_OK : MKV_ERR_ABORTED);
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* ---- The log --------------------------------------------------------------------- */

static char lines[8192];

static void keep_line(void *arg, mkv_log_level_t level, const char *text)
{
    size_t length = strlen(lines);

    (void)arg;
    if (level == MKV_LOG_TRACE) {
        mkv_text(lines + length, sizeof(lines) - length, "%s\n", text);
    }
}

/* Loop index: the level below is the control */
/* OB-04 */
START_TEST(trace_has_every_step)
{
    static const char *const steps[] = {"exposed", "bound",   "posted", "moved",
                                        "sealed",  "flushed", "ended",  "quiet"};
    char text[64];
    size_t i;

    lines[0] = '\0';
    pair_set("LOG_LEVEL", _i ? "debug" : "trace");
    pair_setup();
    A->ctx->log.sink = keep_line;
    B->ctx->log.sink = keep_line;
    move(MKV_WRITE, 10);
    for (i = 0; i < sizeof(steps) / sizeof(steps[0]); ++i) {
        mkv_text(text, sizeof(text), "transfer 1 epoch 0: %s ", steps[i]);
        ck_assert_int_eq(strstr(lines, text) != NULL, !_i);
    }
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("times");

    tcase_add_test(tcase, a_block_list_comes_with_what_names_its_transfer);
    tcase_add_test(tcase, done_shows_the_blocks_that_were_exposed);
    tcase_add_test(tcase, a_query_has_the_id_and_age_of_its_transfer);
    tcase_add_test(tcase, an_event_does_not_name_a_transfer_that_was_closed);
    tcase_add_loop_test(tcase, a_transfer_reports_the_times_of_its_steps, 0, 2);
    tcase_add_test(tcase, an_owner_reports_the_times_of_its_puts);
    tcase_add_loop_test(tcase, the_clock_is_read_behind_the_message, 0, 2);
    tcase_add_test(tcase, a_late_transfer_shows_in_the_histogram);
    tcase_add_test(tcase, a_late_poll_shows_in_the_histogram);
    tcase_add_test(tcase, every_time_has_its_bucket);
    tcase_add_loop_test(tcase, a_stream_is_let_go_when_the_transfer_ends, 0, 3);
    tcase_add_loop_test(tcase, trace_has_every_step, 0, 2);
    return pair_main("mkv_times", tcase);
}
