/* SPDX-License-Identifier: BSD-3-Clause */

/* Transfers between two contexts on a UCP whose completions the test delivers. */

#include "test/support/mkv_pair.h"

#include <stdlib.h>
#include <string.h>

#define NUM 8u
#define DATA (FAKE_UCP_PUT | FAKE_UCP_GET | FAKE_UCP_LIST)

typedef struct both {
    mkv_xfer_t *active, *passive; /* of A and of B */
    mkv_plan_t *plan;
} both_t;

/* A is active, B exposes its blocks 16..23, A uses its 0..7 in reverse */
static both_t bind_both(mkv_mode_t mode, uint64_t id)
{
    both_t both;

    both.active = pair_xfer(A, 1, id, mode, (mode == MKV_WRITE) ? MKV_SRC : MKV_DST);
    both.passive = pair_xfer(B, 0, id, mode, (mode == MKV_WRITE) ? MKV_DST : MKV_SRC);
    pair_expose(both.passive, 16, NUM);
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_EXPOSED, both.active), 1);
    both.plan = pair_plan(A, 1, 0, 16, NUM, 0);
    return both;
}

static void close_both(both_t *both)
{
    pair_close(both->active, both->passive, both->plan);
}

static int blocks_have_moved(mkv_mode_t mode)
{
    uint32_t i;
    int count = 0;

    for (i = 0; i < NUM; ++i) {
        count += (mode == MKV_WRITE) ? pair_holds(B, 16 + NUM - 1 - i, 0, i)
                                     : pair_holds(A, i, 1, 16 + NUM - 1 - i);
    }
    return count == (int)NUM;
}

/* Loop index: bit 0 READ, bit 1 lists refused, bit 2 completions inside the call, bit 3
 * READ by gets */
START_TEST(completes_in_every_order)
{
    mkv_mode_t mode = (_i & 1) ? MKV_READ : MKV_WRITE;
    unsigned seed;
    both_t both;

    pair_set("READ_BY", (_i & 8) ? "get" : "push");
    for (seed = 0; seed < 20; ++seed) {
        pair_setup();
        fake_ucp_set_lists(!(_i & 2));
        fake_ucp_set_inline((_i & 4) ? DATA | FAKE_UCP_FLUSH : 0);
        fake_ucp_shuffle(seed);
        both = bind_both(mode, 1);
        OK(mkv_xfer_post(both.active, 0, both.plan, NULL, NULL));
        OK(mkv_xfer_seal(both.active, 0));
        pair_run();
        ck_assert_int_eq(pair_query(both.active).state, MKV_XFER_DONE);
        ck_assert_int_eq(pair_query(both.passive).state, MKV_XFER_DONE);
        ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, both.active), 1);
        ck_assert_uint_eq(pair_count(B, MKV_EV_QUIET, both.passive), 1);
        ck_assert_uint_eq(pair_count(B, MKV_EV_DONE, both.passive), 1);
        ck_assert(blocks_have_moved(mode));
        close_both(&both);
        pair_teardown();
    }
}
END_TEST

/* The flush begins while the puts run, and not before progress has started them */
/* CN-01 */
START_TEST(done_waits_for_the_last_completion)
{
    both_t both;

    pair_setup();
    fake_ucp_set_lists(0);
    both = bind_both(MKV_WRITE, 1);
    fake_ucp_hold(FAKE_UCP_PUT);
    OK(mkv_xfer_post(both.active, 0, both.plan, NULL, NULL));
    OK(mkv_xfer_seal(both.active, 0));
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_FLUSH), 2); /* of the two HELLOs */
    pair_run();
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_FLUSH), 3);
    ck_assert_uint_eq(fake_ucp_num_waiting(FAKE_UCP_PUT),
                      NUM * pair_layers * PAIR_PARTS);
    ck_assert_uint_eq(pair_count(A, MKV_EV_DONE, NULL), 0);
    ck_assert_uint_eq(pair_count(B, MKV_EV_DONE, NULL), 0);
    fake_ucp_hold(0);
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_DONE, both.passive), 1);
    close_both(&both);
    pair_teardown();
}
END_TEST

/* CN-01 */
START_TEST(done_waits_for_the_flush)
{
    both_t both;

    pair_setup_over("mori_rdma");
    both = bind_both(MKV_WRITE, 1);
    fake_ucp_hold(FAKE_UCP_FLUSH);
    OK(mkv_xfer_post(both.active, 0, both.plan, NULL, NULL));
    OK(mkv_xfer_seal(both.active, 0));
    pair_run();
    ck_assert_uint_eq(pair_query(both.active).completed,
                      NUM * pair_layers * PAIR_PARTS);
    ck_assert_int_eq(pair_query(both.active).state, MKV_XFER_SEALED);
    ck_assert_uint_eq(pair_count(B, MKV_EV_DONE, NULL), 0);
    fake_ucp_hold(0);
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_DONE, both.passive), 1);
    close_both(&both);
    pair_teardown();
}
END_TEST

/* The prepared end is sent behind messages sent meanwhile. Loop index 1: one was */
START_TEST(the_end_is_made_while_blocks_move)
{
    const mkv_leg_t *leg;
    both_t both;

    pair_setup_over("mori_rdma");
    both = bind_both(MKV_WRITE, 1);
    leg = &both.active->legs[0];
    fake_ucp_hold(FAKE_UCP_PUT | FAKE_UCP_LIST);
    OK(mkv_xfer_post(both.active, 0, both.plan, NULL, NULL));
    pair_run();
    ck_assert_ptr_null(leg->fin); /* more may be posted */
    OK(mkv_xfer_seal(both.active, 0));
    pair_run();
    ck_assert_ptr_nonnull(leg->fin);
    ck_assert_uint_eq(pair_count(B, MKV_EV_DONE, NULL), 0);
    if (_i) {
        OK(mkv_send(A->peers[1], 0, 0, NULL, 0, NULL, 0));
    }
    fake_ucp_hold(0);
    pair_run();
    ck_assert_ptr_null(leg->fin);
    ck_assert_uint_eq(pair_count(B, MKV_EV_DONE, both.passive), 1);
    ck_assert_uint_eq(pair_query(both.passive).bytes, pair_query(both.active).bytes);
    close_both(&both);
    pair_teardown();
}
END_TEST

/* Loop index: which piece fails; then the flush; then a list */
/* AB-04, CN-02 */
START_TEST(a_failed_piece_fails_both_sides)
{
    static const unsigned kinds[] = {FAKE_UCP_PUT, FAKE_UCP_PUT, FAKE_UCP_FLUSH,
                                     FAKE_UCP_LIST, FAKE_UCP_PUT};
    both_t both;

    pair_setup();
    fake_ucp_set_lists(kinds[_i] == FAKE_UCP_LIST);
    both = bind_both(MKV_WRITE, 1);
    fake_ucp_fail(kinds[_i], (_i == 1) ? 63 : 0, UCS_ERR_IO_ERROR);
    fake_ucp_set_inline((_i == 4) ? FAKE_UCP_PUT : 0);
    OK(mkv_xfer_post(both.active, 0, both.plan, NULL, NULL));
    if (_i != 4) {
        OK(mkv_xfer_seal(both.active, 0));
    }
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_DONE, NULL), 0);
    ck_assert_int_eq(pair_query(both.active).status, MKV_ERR_TRANSPORT);
    ck_assert_int_eq(pair_query(both.passive).status, MKV_ERR_TRANSPORT);
    ck_assert_ptr_nonnull(
        strstr(pair_last(B, MKV_EV_FAILED, both.passive)->text, "Input/output error"));
    ck_assert(pair_query(both.active).is_quiet && pair_query(both.passive).is_quiet);
    close_both(&both);
    pair_teardown();
}
END_TEST

/* A post must not wait, nor make more UCP calls than there are places. The test counts
 * calls; kv_more prints the time. */
/* CC-01 */
START_TEST(posts_to_a_stalled_peer_wait_for_nothing)
{
    unsigned progress, posts;
    both_t both;

    pair_set("MAX_INFLIGHT_OPS", "64");
    pair_setup();
    fake_ucp_set_lists(0);
    both = bind_both(MKV_WRITE, 1);
    fake_ucp_hold(FAKE_UCP_ALL);
    fake_ucp_stop_worker(fake_ucp_worker(1), 1);
    progress = fake_ucp_num_progress();
    for (posts = 0; posts < 1000; ++posts) {
        OK(mkv_xfer_post(both.active, 0, both.plan, NULL, NULL));
    }
    ck_assert_uint_eq(fake_ucp_num_progress(), progress);
    ck_assert_uint_eq(fake_ucp_num_waiting(DATA), 64);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_PUT), 64);
    ck_assert_uint_eq(pair_query(both.active).posted,
                      1000u * NUM * pair_layers * PAIR_PARTS);
    fake_ucp_stop_worker(fake_ucp_worker(1), 0);
    fake_ucp_hold(0);
    OK(mkv_xfer_abort(both.active, MKV_ERR_ABORTED, NULL));
    pair_run();
    close_both(&both);
    pair_teardown();
}
END_TEST

/* Three at a time: one done, one failed, one that goes on */
/* XF-05 */
START_TEST(concurrent_transfers_can_each_be_queried)
{
    static const mkv_status_t expected[] = {MKV_OK, MKV_ERR_GATE, MKV_INPROGRESS};
    mkv_xfer_attr_t attr;
    both_t both[3];
    unsigned i;

    pair_setup();
    for (i = 0; i < 3; ++i) {
        A->num_events = B->num_events = 0;
        both[i] = bind_both(MKV_WRITE, 10 + i);
    }
    OK(mkv_xfer_post(both[0].active, 0, both[0].plan, NULL, NULL));
    OK(mkv_xfer_seal(both[0].active, 0));
    OK(mkv_xfer_abort(both[1].active, MKV_ERR_GATE, "layer 3 was not computed"));
    pair_run();
    for (i = 0; i < 3; ++i) {
        attr = pair_query(both[i].active);
        ck_assert_int_eq(attr.status, expected[i]);
        ck_assert_int_eq(pair_query(both[i].passive).status, expected[i]);
        ck_assert_int_eq(strstr(attr.error, "layer 3 was not computed") != NULL,
                         i == 1);
    }
    ck_assert_int_eq(pair_query(both[0].active).state, MKV_XFER_DONE);
    ck_assert_uint_eq(pair_query(both[0].active).completed,
                      NUM * pair_layers * PAIR_PARTS);
    OK(mkv_xfer_abort(both[2].active, MKV_ERR_ABORTED, NULL));
    pair_run();
    for (i = 0; i < 3; ++i) {
        close_both(&both[i]);
    }
    pair_teardown();
}
END_TEST

/* Passive memory is quiet only when the active side's puts have arrived */
START_TEST(quiet_waits_until_the_writer_is_drained)
{
    both_t both;

    pair_setup();
    fake_ucp_set_lists(0);
    both = bind_both(MKV_WRITE, 1);
    fake_ucp_hold(FAKE_UCP_PUT);
    OK(mkv_xfer_post(both.active, 0, both.plan, NULL, NULL));
    OK(mkv_xfer_abort(both.passive, MKV_ERR_ABORTED, "not needed any more"));
    pair_run();
    ck_assert_int_eq(pair_query(both.active).state, MKV_XFER_ABORTED);
    ck_assert_ptr_nonnull(strstr(pair_query(both.active).error, "not needed any more"));
    ck_assert(!pair_query(both.active).is_quiet);
    ck_assert(!pair_query(both.passive).is_quiet);
    IS(mkv_xfer_close(both.passive), MKV_ERR_BUSY);
    fake_ucp_hold(FAKE_UCP_FLUSH); /* completed, but perhaps not arrived */
    pair_run();
    ck_assert(!pair_query(both.passive).is_quiet);
    fake_ucp_hold(0);
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_QUIET, both.passive), 1);
    ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, both.active), 1);
    close_both(&both);
    pair_teardown();
}
END_TEST

/* ---- Aborts and breaks at every step --------------------------------------------- */

enum { STEP_OPEN, STEP_BOUND, STEP_POSTED, STEP_SEALED, STEP_FLUSHING, NUM_STEPS };

static both_t go_to_step(mkv_mode_t mode, int step)
{
    both_t both = {0};

    both.active = pair_xfer(A, 1, 5, mode, (mode == MKV_WRITE) ? MKV_SRC : MKV_DST);
    both.passive = pair_xfer(B, 0, 5, mode, (mode == MKV_WRITE) ? MKV_DST : MKV_SRC);
    both.plan = pair_plan(A, 1, 0, 16, NUM, 0);
    if (step >= STEP_BOUND) {
        pair_expose(both.passive, 16, NUM);
        pair_run();
    }
    fake_ucp_hold((step == STEP_FLUSHING) ? FAKE_UCP_FLUSH : DATA);
    if (step >= STEP_POSTED) {
        OK(mkv_xfer_post(both.active, 0, both.plan, NULL, NULL));
    }
    if (step >= STEP_SEALED) {
        OK(mkv_xfer_seal(both.active, 0));
        pair_run();
    }
    return both;
}

/* Loop index: step, then READ, then the side that aborts, then READ by gets */
/* AB-01 */
START_TEST(abort_ends_quiet_from_every_step)
{
    mkv_mode_t mode = (_i / NUM_STEPS) & 1 ? MKV_READ : MKV_WRITE;
    int by_passive = (_i / NUM_STEPS) & 2;
    unsigned seed;
    both_t both;

    pair_set("READ_BY", ((_i / NUM_STEPS) & 4) ? "get" : "push");
    for (seed = 0; seed < 10; ++seed) {
        pair_setup();
        fake_ucp_shuffle(seed);
        fake_ucp_set_lists(seed & 1);
        both = go_to_step(mode, _i % NUM_STEPS);
        if (pair_query(both.active).state == MKV_XFER_DONE) {
            fake_ucp_hold(0); /* READ does not flush */
            pair_run();
            close_both(&both);
            pair_teardown();
            continue;
        }
        OK(mkv_xfer_abort(by_passive ? both.passive : both.active, MKV_ERR_ABORTED,
                          "test"));
        pair_run();
        ck_assert_int_eq(pair_query(both.active).state, MKV_XFER_ABORTED);
        fake_ucp_hold(0);
        pair_run();
        if (_i % NUM_STEPS > STEP_OPEN) {
            ck_assert_int_eq(pair_query(both.passive).state, MKV_XFER_ABORTED);
        }
        ck_assert(pair_query(both.active).is_quiet);
        ck_assert(pair_query(both.passive).is_quiet);
        ck_assert_uint_eq(pair_count(A, MKV_EV_ABORTED, both.active), 1);
        ck_assert_uint_eq(pair_count(B, MKV_EV_DONE, NULL), 0);
        close_both(&both);
        pair_teardown();
    }
}
END_TEST

START_TEST(a_status_of_a_later_version_ends_its_transfer_alone)
{
    const mkv_status_t later = (mkv_status_t)(MKV_ERR_LAST - 5);
    mkv_xfer_t *active, *passive;

    pair_setup();
    active = pair_bind_write(4, &passive);
    OK(mkv_xfer_abort(passive, later, "of a later version"));
    pair_run();
    ck_assert_int_eq(pair_query(active).status, later);
    ck_assert_int_eq(pair_query(active).state, MKV_XFER_FAILED);
    ck_assert_ptr_nonnull(strstr(pair_query(active).error, "of a later version"));
    ck_assert_int_eq(A->peers[1]->state, MKV_CONN_READY);
    pair_close(active, passive, NULL);
    pair_teardown();
}
END_TEST

/* Loop index: step, then READ, then READ by gets */
/* AB-04 */
START_TEST(broken_connection_fails_every_step)
{
    mkv_mode_t mode = (_i / NUM_STEPS) & 1 ? MKV_READ : MKV_WRITE;
    int is_get = (_i / NUM_STEPS) & 2;
    both_t both;

    pair_set("READ_BY", is_get ? "get" : "push");
    pair_setup();
    both = go_to_step(mode, _i % NUM_STEPS);
    fake_ucp_break(UCS_ERR_CONNECTION_RESET);
    pair_run();
    fake_ucp_hold(0);
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_FAILED, NULL), 1);
    ck_assert_uint_eq(pair_count(B, MKV_EV_PEER_FAILED, NULL), 1);
    if (pair_query(both.active).state != MKV_XFER_DONE) {
        ck_assert_int_eq(pair_query(both.active).status, MKV_ERR_PEER);
        ck_assert_int_eq(pair_query(both.passive).status, MKV_ERR_PEER);
    }
    pair_now += 1000 * MKV_NSEC_PER_MSEC; /* the other side's claim is checked */
    pair_run();
    ck_assert(pair_query(both.active).is_quiet);
    ck_assert(pair_query(both.passive).is_quiet);
    ck_assert_uint_eq(pair_count(B, MKV_EV_QUIET, both.passive), 1);
    close_both(&both);
    pair_teardown();
}
END_TEST

/* ---- Deadlines ------------------------------------------------------------------- */

static void pass_ms(uint64_t ms)
{
    pair_now += ms * MKV_NSEC_PER_MSEC;
    pair_run();
}

/* AB-02 */
START_TEST(bind_deadline_has_its_own_code)
{
    mkv_xfer_t *active, *passive;

    pair_setup();
    active = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    passive = pair_xfer(B, 0, 2, MKV_WRITE, MKV_DST);
    pair_expose(passive, 0, 1);
    pair_run();
    pass_ms(59999);
    ck_assert_int_eq(pair_query(active).status, MKV_INPROGRESS);
    ck_assert_ptr_nonnull(strstr(pair_query(passive).waiting_for, "open"));
    pass_ms(2);
    ck_assert_int_eq(pair_query(active).status, MKV_ERR_BIND_TIMEOUT);
    ck_assert_int_eq(pair_query(passive).status, MKV_ERR_BIND_TIMEOUT);
    ck_assert(pair_query(active).is_quiet && pair_query(passive).is_quiet);
    pair_close(active, passive, NULL);
    pair_teardown();
}
END_TEST

/* The side whose deadline expires first notifies the other; both report the same code
 */
/* AB-02 */
START_TEST(xfer_and_release_deadlines_have_their_own_codes)
{
    mkv_mode_t mode = _i ? MKV_READ : MKV_WRITE;
    mkv_status_t expected = _i ? MKV_ERR_RELEASE_TIMEOUT : MKV_ERR_XFER_TIMEOUT;
    both_t both;

    pair_set(_i ? "XFER_TIMEOUT" : "RELEASE_TIMEOUT", "400s");
    pair_setup();
    both = bind_both(mode, 1);
    pass_ms(299000);
    ck_assert_int_eq(pair_query(both.passive).status, MKV_INPROGRESS);
    pass_ms(1001);
    ck_assert_int_eq(pair_query(both.passive).status, expected);
    ck_assert_int_eq(pair_query(both.active).status, expected);
    ck_assert(pair_query(both.passive).is_quiet);
    close_both(&both);
    pair_teardown();
}
END_TEST

START_TEST(extend_moves_the_deadline)
{
    both_t both;

    pair_setup();
    both = bind_both(MKV_WRITE, 1);
    OK(mkv_xfer_extend(both.active, 500000));
    OK(mkv_xfer_extend(both.passive, 500000));
    pass_ms(400000);
    ck_assert_int_eq(pair_query(both.active).status, MKV_INPROGRESS);
    pass_ms(100001);
    ck_assert_int_eq(pair_query(both.active).status, MKV_ERR_XFER_TIMEOUT);
    close_both(&both);
    pair_teardown();
}
END_TEST

/* The peer is stopped, with a put in flight: status at once, its memory quarantined */
static both_t quarantine(void)
{
    both_t both;

    pair_setup();
    both = bind_both(MKV_WRITE, 1);
    fake_ucp_hold(FAKE_UCP_PUT);
    fake_ucp_set_lists(0);
    OK(mkv_xfer_post(both.active, 0, both.plan, NULL, NULL));
    pair_run();
    A->is_stopped = 1;
    fake_ucp_stop_worker(fake_ucp_worker(0), 1);
    OK(mkv_xfer_abort(both.passive, MKV_ERR_ABORTED, NULL));
    pass_ms(30001);
    pass_ms(1000);
    ck_assert(pair_query(both.passive).is_quarantined);
    ck_assert(!pair_query(both.passive).is_quiet);
    ck_assert_int_eq(pair_last(B, MKV_EV_WARN, both.passive)->status,
                     MKV_ERR_DRAIN_TIMEOUT);
    ck_assert_uint_eq(pair_count(B, MKV_EV_PEER_FAILED, NULL), 0);
    ck_assert_uint_eq(pair_stats(B).quarantined_xfers, 1);
    IS(mkv_xfer_close(both.passive), MKV_ERR_BUSY);
    return both;
}

static void end_quarantine(both_t *both)
{
    ck_assert(pair_query(both->passive).is_quiet);
    ck_assert(!pair_query(both->passive).is_quarantined);
    ck_assert_uint_eq(pair_count(B, MKV_EV_QUIET, both->passive), 1);
    A->is_stopped = 0;
    fake_ucp_stop_worker(fake_ucp_worker(0), 0);
    fake_ucp_hold(0);
    pass_ms(1000);
    close_both(both);
    pair_teardown();
}

/* The peer was cut meanwhile: it detects that, its puts end, its claim is released */
/* AB-05 */
START_TEST(stopped_peer_that_was_cut_is_quarantined_until_drained)
{
    both_t both = quarantine();

    mkv_peer_fail(B->peers[0], MKV_ERR_DRAIN_TIMEOUT, "of the test");
    pass_ms(1000);
    A->is_stopped = 0;
    pass_ms(1000);
    ck_assert_int_eq(pair_last(A, MKV_EV_PEER_FAILED, NULL)->status, MKV_ERR_PEER);
    ck_assert(!pair_query(both.active).is_quiet);
    ck_assert(!pair_query(both.passive).is_quiet); /* a put of it is in flight */
    fake_ucp_stop_worker(fake_ucp_worker(0), 0);
    fake_ucp_hold(0);
    pass_ms(1000);
    ck_assert(pair_query(both.active).is_quiet);
    pass_ms(100);
    end_quarantine(&both);
}
END_TEST

/* Loop index: by its handle, or, as that is closed, by the transfer */
/* AB-05 */
START_TEST(blocks_of_a_peer_declared_dead_are_free)
{
    both_t both = quarantine();

    if (_i) {
        OK(mkv_peer_close(B->peers[0], MKV_CLOSE_FORCE));
        pair_run();
        ck_assert(!pair_query(both.passive).is_quiet);
        OK(mkv_xfer_declare_dead(both.passive));
    } else {
        OK(mkv_peer_declare_dead(B->peers[0]));
    }
    pair_run();
    end_quarantine(&both);
}
END_TEST

/* The declaration ends a working connection, and makes nothing else quiet */
/* AB-05 */
START_TEST(declaring_a_living_peer_dead_ends_the_connection)
{
    both_t both;

    pair_setup();
    both = bind_both(MKV_WRITE, 1);
    IS(mkv_xfer_declare_dead(both.passive), MKV_ERR_BUSY);
    fake_ucp_hold(FAKE_UCP_PUT);
    fake_ucp_set_lists(0);
    OK(mkv_xfer_post(both.active, 0, both.plan, NULL, NULL));
    pair_run();
    OK(mkv_peer_declare_dead(A->peers[1]));
    pass_ms(1);
    ck_assert_int_eq(pair_query(both.active).status, MKV_ERR_PEER);
    ck_assert_ptr_nonnull(strstr(pair_query(both.active).error, "declared dead"));
    pass_ms(30001);
    ck_assert_int_eq(pair_query(both.passive).status, MKV_ERR_PEER);
    fake_ucp_hold(0);
    pass_ms(1000);
    ck_assert(pair_query(both.active).is_quiet);
    ck_assert(pair_query(both.passive).is_quiet);
    close_both(&both);
    pair_teardown();
}
END_TEST

/* Loop index: its flush, or the goodbye after it, never comes back. Closing ends all
 * the same, with nothing under way when the worker goes. */
START_TEST(close_cuts_a_peer_that_takes_nothing)
{
    pair_setup();
    fake_ucp_hold(_i ? FAKE_UCP_AM : FAKE_UCP_FLUSH);
    OK(mkv_map_destroy(A->maps[1]));
    A->maps[1] = NULL;
    pair_tick = 10 * MKV_NSEC_PER_MSEC;
    OK(mkv_close(A->ctx));
    A->ctx = NULL;
    pair_tick = 0;
    fake_ucp_break(UCS_ERR_CONNECTION_RESET);
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_PEER_FAILED, NULL), 1);
    free(A->mem);
    pair_teardown();
}
END_TEST

START_TEST(silent_peer_fails_the_hello_in_time)
{
    uint8_t blob[4096];
    size_t length = sizeof(blob);
    mkv_peer_t *peer;

    fake_ucp_reset();
    pair_open(0);
    pair_open(1);
    OK(mkv_blob(B->ctx, MKV_BLOB_ADDR, blob, &length));
    fake_ucp_stop_worker(fake_ucp_worker(1), 1);
    OK(mkv_peer_add(A->ctx, blob, length, "the silent", &peer));
    pair_run();
    pass_ms(60001);
    ck_assert_int_eq(pair_last(A, MKV_EV_PEER_FAILED, NULL)->status,
                     MKV_ERR_BIND_TIMEOUT);
    ck_assert_ptr_nonnull(
        strstr(pair_last(A, MKV_EV_PEER_FAILED, NULL)->text, "the silent"));
    fake_ucp_stop_worker(fake_ucp_worker(1), 0);
    fake_ucp_break(UCS_ERR_CONNECTION_RESET);
    pair_run();
    pair_teardown();
}
END_TEST

/* ---- Ids, late and early messages ------------------------------------------------ */

/* SM-01, SM-06 */
START_TEST(an_id_is_used_a_thousand_times)
{
    mkv_xfer_state_t expected;
    both_t both;
    int round;

    pair_setup();
    fake_ucp_shuffle(7);
    for (round = 0; round < 1000; ++round) {
        A->num_events = B->num_events = 0;
        both = bind_both((round & 1) ? MKV_READ : MKV_WRITE, 9);
        OK(mkv_xfer_post(both.active, 0, both.plan, NULL, NULL));
        if (round % 5 == 0) {
            OK(mkv_xfer_abort((round & 1) ? both.active : both.passive, MKV_ERR_ABORTED,
                              NULL));
        } else {
            OK(mkv_xfer_seal(both.active, 0));
        }
        pair_run();
        expected = (round % 5 == 0) ? MKV_XFER_ABORTED : MKV_XFER_DONE;
        ck_assert_int_eq(pair_query(both.passive).state, expected);
        close_both(&both);
    }
    ck_assert_uint_eq(pair_stats(A).xfers_open, 0);
    pair_teardown();
}
END_TEST

/* SM-04 */
START_TEST(expose_before_open_is_kept)
{
    mkv_xfer_t *active, *passive;

    pair_setup();
    passive = pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST);
    pair_expose(passive, 0, 0); /* zero units: a dummy rank */
    pair_run();
    ck_assert_uint_eq(pair_stats(A).msgs_early, 1);
    active = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_EXPOSED, active), 1);
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
    pair_close(active, passive, NULL);
    pair_teardown();
}
END_TEST

static void finish_empty(mkv_xfer_t *active, mkv_xfer_t *passive)
{
    pair_expose(passive, 0, 0);
    pair_run();
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(active).state, MKV_XFER_DONE);
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
    pair_close(active, passive, NULL);
}

/* Loop index: 1 the blocks were exposed before the abort. The side that opens later
 * gets the failure at once, and once. A different epoch is a different request. */
START_TEST(abort_before_open_is_reported_at_once)
{
    mkv_xfer_t *active, *passive;

    pair_setup();
    passive = pair_xfer_epoch(B, 0, MKV_DST, 3);
    if (_i) {
        pair_expose(passive, 0, 4);
        pair_run();
    }
    OK(mkv_xfer_abort(passive, MKV_ERR_ABORTED, "client gone"));
    pair_run();
    ck_assert(pair_query(passive).is_quiet);
    OK(mkv_xfer_close(passive));
    ck_assert_uint_eq(A->peers[1]->num_early, 0);

    active = pair_xfer_epoch(A, 1, MKV_SRC, 3);
    ck_assert_int_eq(pair_query(active).status, MKV_ERR_ABORTED);
    ck_assert_ptr_nonnull(strstr(pair_query(active).error, "client gone"));
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_EXPOSED, active), 0);
    ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, active), 1);
    OK(mkv_xfer_close(active));
    ck_assert_uint_eq(A->peers[1]->num_early_aborts, 0);
    ck_assert_uint_eq(B->peers[0]->num_early_aborts, 0);

    finish_empty(pair_xfer_epoch(A, 1, MKV_SRC, 4), pair_xfer_epoch(B, 0, MKV_DST, 4));
    finish_empty(pair_xfer_epoch(A, 1, MKV_SRC, 3), pair_xfer_epoch(B, 0, MKV_DST, 3));
    pair_teardown();
}
END_TEST

/* A side aborts and opens the same (id, epoch) again before its peer has opened it. The
 * peer fails by the abort, and the second instance fails at once, too. Loop index: the
 * writer, the reader. */
START_TEST(a_retry_under_an_aborted_epoch_ends_on_both_sides)
{
    pair_side_t *first = _i ? B : A, *second = _i ? A : B;
    mkv_role_t role = _i ? MKV_DST : MKV_SRC;
    mkv_xfer_t *mine, *theirs;

    pair_setup();
    mine = pair_xfer_epoch(first, _i ? 0 : 1, role, 3);
    OK(mkv_xfer_abort(mine, MKV_ERR_ABORTED, "client gone"));
    pair_run();
    OK(mkv_xfer_close(mine));
    mine = pair_xfer_epoch(first, _i ? 0 : 1, role, 3);
    pair_run();
    ck_assert_int_eq(pair_query(mine).status, MKV_INPROGRESS);
    theirs = pair_xfer_epoch(second, _i ? 1 : 0, _i ? MKV_SRC : MKV_DST, 3);
    pair_run();
    ck_assert_int_eq(pair_query(theirs).status, MKV_ERR_ABORTED);
    ck_assert_int_eq(pair_query(mine).status, MKV_ERR_ABORTED);
    ck_assert(pair_query(theirs).is_quiet && pair_query(mine).is_quiet);
    pair_close(mine, theirs, NULL);
    ck_assert_uint_eq(A->peers[1]->num_early_aborts, 0);
    ck_assert_uint_eq(B->peers[0]->num_early_aborts, 0);
    finish_empty(pair_xfer_epoch(A, 1, MKV_SRC, 3), pair_xfer_epoch(B, 0, MKV_DST, 3));
    pair_teardown();
}
END_TEST

/* The writer gives up before the reader has bound, opens the same (id, epoch) again,
 * and writes. Then a message of its first instance arrives late: only the second
 * instance may report quiet
 */
/* SM-06 */
START_TEST(a_former_writers_word_is_not_its_successors)
{
    mkv_xfer_t *active, *passive;
    mkv_plan_t *plan;

    pair_setup();
    active = pair_xfer_epoch(A, 1, MKV_SRC, 3);
    fake_ucp_hold_peer(fake_ucp_worker(1));
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, "client gone"));
    pair_run();
    OK(mkv_xfer_close(active));
    passive = pair_xfer_epoch(B, 0, MKV_DST, 3);
    pair_expose(passive, 0, 4);
    active = pair_xfer_epoch(A, 1, MKV_SRC, 3);
    pair_run();
    plan = pair_plan(A, 1, 0, 0, 4, 0);
    fake_ucp_hold(FAKE_UCP_PUT | FAKE_UCP_LIST);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    ck_assert_uint_gt(fake_ucp_num_waiting(FAKE_UCP_PUT | FAKE_UCP_LIST), 0);

    fake_ucp_hold_peer(NULL);
    pair_run();
    ck_assert_int_eq(pair_query(passive).status, MKV_ERR_ABORTED);
    ck_assert_int_eq(pair_query(active).status, MKV_ERR_ABORTED);
    ck_assert(!pair_query(passive).is_quiet);
    fake_ucp_hold(0);
    pair_run();
    ck_assert(pair_query(passive).is_quiet && pair_query(active).is_quiet);
    OK(mkv_plan_destroy(plan));
    pair_close(active, passive, NULL);
    pair_teardown();
}
END_TEST

/* Aborted and exposed again before the writer opens: this finds the new instance */
START_TEST(a_new_expose_takes_the_place_of_an_abort)
{
    mkv_xfer_t *active, *passive;

    pair_setup();
    passive = pair_xfer_epoch(B, 0, MKV_DST, 3);
    pair_expose(passive, 0, 4);
    pair_run();
    OK(mkv_xfer_abort(passive, MKV_ERR_ABORTED, NULL));
    pair_run();
    OK(mkv_xfer_close(passive));
    passive = pair_xfer_epoch(B, 0, MKV_DST, 3);
    pair_expose(passive, 0, 0);
    pair_run();
    active = pair_xfer_epoch(A, 1, MKV_SRC, 3);
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(active).state, MKV_XFER_DONE);
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
    pair_close(active, passive, NULL);
    pair_teardown();
}
END_TEST

/* A burst of aborts exceeds the room for early messages. The last ones are answered at
 * once, and lists still find room */
START_TEST(aborts_take_no_place_of_lists)
{
    mkv_xfer_t *xfer;
    unsigned i;

    mkv_tuning.early_messages = 4;
    pair_setup();
    for (i = 0; i < 10; ++i) {
        xfer = pair_xfer_epoch(B, 0, MKV_DST, i);
        pair_expose(xfer, 0, 1);
        pair_run();
        OK(mkv_xfer_abort(xfer, MKV_ERR_ABORTED, NULL));
        pair_run();
        OK(mkv_xfer_close(xfer));
    }
    ck_assert_uint_eq(A->peers[1]->num_early, 0);
    ck_assert_uint_eq(A->peers[1]->num_early_aborts, 4);
    for (i = 5; i < 10; ++i) {
        xfer = pair_xfer_epoch(A, 1, MKV_SRC, i);
        ck_assert_int_eq(pair_query(xfer).status,
                         (i == 5) ? MKV_INPROGRESS : MKV_ERR_ABORTED);
        OK(mkv_xfer_abort(xfer, MKV_ERR_ABORTED, NULL));
        pair_run();
        OK(mkv_xfer_close(xfer));
    }
    finish_empty(pair_xfer_epoch(A, 1, MKV_SRC, 20),
                 pair_xfer_epoch(B, 0, MKV_DST, 20));
    pair_teardown();
}
END_TEST

/* Loop index: the side that opens first */
START_TEST(two_sides_of_one_role_fail_at_once)
{
    mkv_xfer_t *a, *b;

    pair_setup();
    b = pair_xfer_epoch(B, 0, MKV_DST, 0);
    a = _i ? pair_xfer_epoch(A, 1, MKV_DST, 0) : NULL;
    pair_expose(b, 0, 4);
    pair_run();
    a = _i ? a : pair_xfer_epoch(A, 1, MKV_DST, 0);
    pair_run();
    ck_assert_int_eq(pair_query(a).status, MKV_ERR_INVALID);
    ck_assert_int_eq(pair_query(b).status, MKV_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(pair_query(b).error, "both sides expose blocks"));
    ck_assert(pair_query(a).is_quiet && pair_query(b).is_quiet);
    pair_close(a, b, NULL);
    pair_teardown();
}
END_TEST

/* Loop index: the side that opens first; 2 both at once; 3 the last OPEN is received at
 * once */
START_TEST(two_sides_that_wait_for_blocks_fail_at_once)
{
    mkv_xfer_t *a = NULL, *b = NULL;

    pair_setup();
    if (_i != 1) {
        a = pair_xfer_epoch(A, 1, MKV_SRC, 0);
    }
    if (_i == 0) {
        pair_run();
        ck_assert_int_eq(pair_query(a).status, MKV_INPROGRESS);
    }
    b = pair_xfer_epoch(B, 0, MKV_SRC, 0);
    if (_i == 1) {
        pair_run();
        a = pair_xfer_epoch(A, 1, MKV_SRC, 0);
    }
    pair_run();
    ck_assert_int_eq(pair_query(a).status, MKV_ERR_INVALID);
    ck_assert_int_eq(pair_query(b).status, MKV_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(pair_query(a).error, "both sides wait for blocks"));
    ck_assert_ptr_nonnull(strstr(pair_query(b).error, "both sides wait for blocks"));
    ck_assert_uint_eq(a->legs[0].remote_nonce,
                      b->nonce); /* so that it names this instance */
    ck_assert_uint_eq(b->legs[0].remote_nonce, a->nonce);
    ck_assert(pair_query(a).is_quiet && pair_query(b).is_quiet);
    pair_close(a, b, NULL);
    pair_teardown();
}
END_TEST

/* SM-07 */
START_TEST(early_store_is_bounded)
{
    mkv_xfer_t *passive[5];
    unsigned i;

    mkv_tuning.early_messages = 4;
    pair_setup();
    for (i = 0; i < 5; ++i) {
        passive[i] = pair_xfer(B, 0, 100 + i, MKV_WRITE, MKV_DST);
        pair_expose(passive[i], i, 1);
    }
    pair_run();
    ck_assert_int_eq(pair_query(passive[3]).status, MKV_INPROGRESS);
    ck_assert_int_eq(pair_query(passive[4]).status, MKV_ERR_BUSY);
    for (i = 0; i < 5; ++i) {
        OK(mkv_xfer_abort(passive[i], MKV_ERR_ABORTED, NULL));
        pair_run();
        OK(mkv_xfer_close(passive[i]));
    }
    ck_assert_uint_eq(A->peers[1]->num_early, 0);
    pair_teardown();
}
END_TEST

/* Send a message about a transfer as B would, with the next sequence number */
static void inject(mkv_msg_type_t type, uint64_t id, uint64_t from_nonce,
                   uint64_t to_nonce)
{
    mkv_peer_t *peer = A->peers[1];
    mkv_msg_t msg = {.type = type,
                     .from = B->ctx->process.ctx_id,
                     .to = A->ctx->process.ctx_id,
                     .id = id,
                     .from_nonce = from_nonce,
                     .to_nonce = to_nonce,
                     .plan = 1,
                     .code = MKV_ERR_ABORTED};
    mkv_wbuf_t wbuf;

    mkv_wbuf_init(&wbuf);
    OK(mkv_msg_encode(&msg, &wbuf));
    mkv_msg_finish(wbuf.data, wbuf.length, peer->rx_seq);
    ++B->peers[0]->tx_seq;
    mkv_inbox_receive(A->ctx, wbuf.data, wbuf.length);
    mkv_wbuf_cleanup(&wbuf);
}

/* Loop index: message type; active or passive; DONE, FAILED or ABORTED before */
/* SM-02 */
START_TEST(no_message_changes_a_terminal_state)
{
    mkv_msg_type_t type = (mkv_msg_type_t)_i;
    mkv_xfer_state_t state;
    mkv_xfer_attr_t before, after;
    int ending;
    both_t both;

    for (ending = 0; ending < 6; ++ending) {
        pair_setup();
        if (ending & 1) {
            both = bind_both(MKV_WRITE, 3);
        } else { /* A passive */
            both.passive = pair_xfer(A, 1, 3, MKV_READ, MKV_SRC);
            both.active = pair_xfer(B, 0, 3, MKV_READ, MKV_DST);
            pair_expose(both.passive, 0, NUM);
            pair_run();
            both.plan = pair_plan(B, 0, 0, 0, NUM, 0);
        }
        OK(mkv_xfer_post(both.active, 0, both.plan, NULL, NULL));
        if (ending / 2 == 0) {
            OK(mkv_xfer_seal(both.active, 0));
        } else {
            OK(mkv_xfer_abort(both.active,
                              ending / 2 == 1 ? MKV_ERR_ABORTED : MKV_ERR_GATE, NULL));
        }
        pair_run();
        both_t mine = both;
        mkv_xfer_t *xfer = (ending & 1) ? mine.active : mine.passive;
        before = pair_query(xfer);
        state = before.state;
        ck_assert_int_ge(state, MKV_XFER_DONE);
        inject(type, 3, xfer->legs[0].remote_nonce, xfer->nonce);
        inject(type, 3, xfer->legs[0].remote_nonce + 1, xfer->nonce);
        inject(type, 3, xfer->legs[0].remote_nonce, 0);
        pair_run();
        after = pair_query(xfer);
        ck_assert_int_eq(after.state, state);
        ck_assert_int_eq(after.status, before.status);
        ck_assert_str_eq(after.error, before.error);
        close_both(&both);
        pair_teardown();
    }
}
END_TEST

/* SM-01 */
START_TEST(another_instance_is_not_touched)
{
    mkv_msg_type_t type = (mkv_msg_type_t)_i;
    uint64_t stale;
    both_t both;

    pair_setup();
    both = bind_both(MKV_WRITE, 3);
    stale = pair_stats(A).msgs_stale;
    inject(type, 3, 12345, both.active->nonce ^ 1);
    pair_run();
    ck_assert_int_eq(pair_query(both.active).status, MKV_INPROGRESS);
    if ((type != MKV_MSG_EXPOSE) && (type != MKV_MSG_TERM)) {
        ck_assert_uint_eq(pair_stats(A).msgs_stale, stale + 1);
    }
    OK(mkv_xfer_post(both.active, 0, both.plan, NULL, NULL));
    OK(mkv_xfer_seal(both.active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(both.passive).state, MKV_XFER_DONE);
    ck_assert(blocks_have_moved(MKV_WRITE));
    close_both(&both);
    pair_teardown();
}
END_TEST

/* Numbers ahead of the one that is missing */
START_TEST(what_waits_for_its_turn_is_bounded)
{
    static uint8_t bytes[10000];
    mkv_msg_t msg = {.type = MKV_MSG_USER, .data = bytes, .length = sizeof(bytes)};
    uint64_t stale;
    mkv_wbuf_t wbuf;
    uint32_t i;

    pair_set("MAX_QUEUED", "64k");
    pair_setup();
    msg.from = B->ctx->process.ctx_id;
    msg.to = A->ctx->process.ctx_id;
    mkv_wbuf_init(&wbuf);
    OK(mkv_msg_encode(&msg, &wbuf));
    for (i = 0; i < 7; ++i) {
        ck_assert_int_eq(A->peers[1]->status, MKV_OK);
        mkv_msg_finish(wbuf.data, wbuf.length, A->peers[1]->rx_seq + 1 + i);
        mkv_inbox_receive(A->ctx, wbuf.data, wbuf.length);
    }
    stale = pair_stats(A).msgs_stale;
    mkv_msg_finish(wbuf.data, wbuf.length, A->peers[1]->rx_seq);
    mkv_inbox_receive(A->ctx, wbuf.data, wbuf.length);
    ck_assert_uint_eq(pair_stats(A).msgs_stale, stale + 1);
    pair_run();
    ck_assert_int_eq(pair_last(A, MKV_EV_PEER_FAILED, NULL)->status, MKV_ERR_BUSY);
    ck_assert_ptr_nonnull(
        strstr(pair_last(A, MKV_EV_PEER_FAILED, NULL)->text, "6 messages of 60"));
    mkv_wbuf_cleanup(&wbuf);
    pair_teardown();
}
END_TEST

/* SM-03, WR-02 */
START_TEST(a_million_bad_messages_are_counted)
{
    uint64_t state = 99;
    uint8_t bytes[256];
    mkv_msg_t msg = {.type = MKV_MSG_USER, .data = bytes, .length = 100};
    mkv_wbuf_t wbuf;
    size_t length;
    both_t both;
    int rounds = (getenv("MKV_UNDER_VALGRIND") != NULL) ? 20000 : 1000000;
    int i;

    pair_setup();
    both = bind_both(MKV_WRITE, 3);
    mkv_wbuf_init(&wbuf);
    msg.from = B->ctx->process.ctx_id;
    msg.to = A->ctx->process.ctx_id;
    OK(mkv_msg_encode(&msg, &wbuf));
    mkv_msg_finish(wbuf.data, wbuf.length, 3);
    for (i = 0; i < rounds; ++i) {
        length = mkv_test_random(&state) % sizeof(bytes);
        if (i & 1) { /* a right one, one byte wrong or cut */
            memcpy(bytes, wbuf.data, wbuf.length);
            length = wbuf.length - (size_t)(i % 4 == 1);
            bytes[mkv_test_random(&state) % 4] ^= 1 + (uint8_t)(i % 255);
        } else {
            memset(bytes, (int)mkv_test_random(&state), length);
        }
        mkv_inbox_receive(A->ctx, bytes, length);
    }
    mkv_wbuf_cleanup(&wbuf);
    ck_assert_uint_eq(pair_stats(A).msgs_malformed, rounds);
    OK(mkv_xfer_post(both.active, 0, both.plan, NULL, NULL));
    OK(mkv_xfer_seal(both.active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(both.passive).state, MKV_XFER_DONE);
    close_both(&both);
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("transfers");

    tcase_add_loop_test(tcase, completes_in_every_order, 0, 16);
    tcase_add_test(tcase, done_waits_for_the_last_completion);
    tcase_add_test(tcase, done_waits_for_the_flush);
    tcase_add_loop_test(tcase, the_end_is_made_while_blocks_move, 0, 2);
    tcase_add_loop_test(tcase, a_failed_piece_fails_both_sides, 0, 5);
    tcase_add_test(tcase, posts_to_a_stalled_peer_wait_for_nothing);
    tcase_add_test(tcase, concurrent_transfers_can_each_be_queried);
    tcase_add_test(tcase, quiet_waits_until_the_writer_is_drained);
    tcase_add_loop_test(tcase, abort_ends_quiet_from_every_step, 0, 8 * NUM_STEPS);
    tcase_add_test(tcase, a_status_of_a_later_version_ends_its_transfer_alone);
    tcase_add_loop_test(tcase, broken_connection_fails_every_step, 0, 4 * NUM_STEPS);
    tcase_add_test(tcase, bind_deadline_has_its_own_code);
    tcase_add_loop_test(tcase, xfer_and_release_deadlines_have_their_own_codes, 0, 2);
    tcase_add_test(tcase, extend_moves_the_deadline);
    tcase_add_test(tcase, stopped_peer_that_was_cut_is_quarantined_until_drained);
    tcase_add_loop_test(tcase, blocks_of_a_peer_declared_dead_are_free, 0, 2);
    tcase_add_test(tcase, declaring_a_living_peer_dead_ends_the_connection);
    tcase_add_loop_test(tcase, close_cuts_a_peer_that_takes_nothing, 0, 2);
    tcase_add_test(tcase, silent_peer_fails_the_hello_in_time);
    tcase_add_test(tcase, an_id_is_used_a_thousand_times);
    tcase_add_test(tcase, expose_before_open_is_kept);
    tcase_add_loop_test(tcase, abort_before_open_is_reported_at_once, 0, 2);
    tcase_add_loop_test(tcase, a_retry_under_an_aborted_epoch_ends_on_both_sides, 0, 2);
    tcase_add_test(tcase, a_former_writers_word_is_not_its_successors);
    tcase_add_test(tcase, a_new_expose_takes_the_place_of_an_abort);
    tcase_add_test(tcase, aborts_take_no_place_of_lists);
    tcase_add_loop_test(tcase, two_sides_of_one_role_fail_at_once, 0, 2);
    tcase_add_loop_test(tcase, two_sides_that_wait_for_blocks_fail_at_once, 0, 3);
    tcase_add_test(tcase, early_store_is_bounded);
    tcase_add_loop_test(tcase, no_message_changes_a_terminal_state, MKV_MSG_HELLO,
                        MKV_MSG_LAST);
    tcase_add_loop_test(tcase, another_instance_is_not_touched, MKV_MSG_EXPOSE,
                        MKV_MSG_USER);
    tcase_add_test(tcase, what_waits_for_its_turn_is_bounded);
    tcase_add_test(tcase, a_million_bad_messages_are_counted);
    return pair_main("mkv_xfer", tcase);
}
