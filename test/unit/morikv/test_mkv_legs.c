/* SPDX-License-Identifier: BSD-3-Clause */

/* A source and its destinations, each of which ends separately. The reverse case: one
 * destination whose sources end together. */

#include "test/support/mkv_pair.h"

#include <string.h>

#define NUM 4u
#define DESTINATIONS 3u
#define FIRST 8u /* block of the destinations */

static mkv_xfer_t *source, *destinations[DESTINATIONS];
static mkv_plan_t *plans[DESTINATIONS];
static mkv_mode_t mode;

static pair_side_t *side_of(unsigned leg)
{
    return &pair_sides[leg + 1];
}

/* @param max  MAX_MESSAGE of the last destination; NULL: the default. */
static void connect_with(const char *max)
{
    unsigned i;

    fake_ucp_reset();
    pair_open(0);
    for (i = 1; i <= DESTINATIONS; ++i) {
        if ((max != NULL) && (i == DESTINATIONS)) {
            pair_set("MAX_MESSAGE", max);
        }
        pair_open(i);
        pair_connect(0, i);
    }
}

static void connect_all(void)
{
    connect_with(NULL);
}

static void open_bare_source(void)
{
    mkv_xfer_params_t params = {.size = sizeof(params),
                                .id = 1,
                                .mode = mode,
                                .role = MKV_SRC,
                                .legs = &A->maps[1],
                                .num_legs = DESTINATIONS};

    OK(mkv_xfer_open(A->ctx, &params, &source));
}

static void open_source(void)
{
    open_bare_source();
    if (mode == MKV_READ) {
        pair_expose(source, 0, NUM);
    }
}

static void open_destination(unsigned leg)
{
    destinations[leg] = pair_xfer(side_of(leg), 0, 1, mode, MKV_DST);
    if (mode == MKV_WRITE) {
        pair_expose(destinations[leg], FIRST, NUM);
    }
}

/* Post on the side that moves the bytes of the leg */
static void post(unsigned leg)
{
    if (mode == MKV_WRITE) {
        plans[leg] = pair_plan(A, leg + 1, 0, FIRST, NUM, 0);
        OK(mkv_xfer_post(source, leg, plans[leg], NULL, NULL));
    } else {
        plans[leg] = pair_plan(side_of(leg), 0, FIRST, 0, NUM, 0);
        OK(mkv_xfer_post(destinations[leg], 0, plans[leg], NULL, NULL));
    }
}

static void seal(unsigned leg)
{
    if (mode == MKV_WRITE) {
        OK(mkv_xfer_seal(source, leg));
    } else {
        OK(mkv_xfer_seal(destinations[leg], 0));
    }
}

static void open_all(mkv_mode_t which)
{
    unsigned i;

    mode = which;
    connect_all();
    open_source();
    for (i = 0; i < DESTINATIONS; ++i) {
        open_destination(i);
    }
    pair_run();
}

static mkv_leg_attr_t leg_of(const mkv_xfer_t *xfer, unsigned leg)
{
    mkv_leg_attr_t attr = {.size = sizeof(attr)};

    OK(mkv_xfer_query_leg(xfer, leg, &attr));
    return attr;
}

/* The last event of a leg; fails the test unless there is exactly one */
static const mkv_event_t *leg_event(unsigned leg)
{
    const mkv_event_t *found = NULL;
    size_t i;

    for (i = 0; i < A->num_events; ++i) {
        if ((A->events[i].type == MKV_EV_LEG) && (A->events[i].leg == leg)) {
            ck_assert_ptr_null(found);
            found = &A->events[i];
        }
    }
    ck_assert_ptr_nonnull(found);
    ck_assert_ptr_eq(found->xfer, source);
    return found;
}

static void expect_leg(unsigned leg, mkv_status_t status, const char *text)
{
    const mkv_leg_attr_t attr = leg_of(source, leg);
    const mkv_event_t *event = leg_event(leg);

    ck_assert_int_eq(attr.status, status);
    ck_assert_ptr_eq(attr.peer, A->peers[leg + 1]);
    ck_assert_ptr_nonnull(strstr(attr.error, text));
    ck_assert_int_eq(event->status, status);
    ck_assert_ptr_eq(event->peer, A->peers[leg + 1]);
    ck_assert_ptr_nonnull(strstr(event->text, text));
}

static void expect_running(void)
{
    ck_assert_int_eq(pair_query(source).status, MKV_INPROGRESS);
    ck_assert_uint_eq(pair_count(A, MKV_EV_FAILED, source), 0);
    ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, source), 0);
}

/* All others move their bytes, and the transfer ends with the error of @a failed */
static void finish_others(unsigned failed, mkv_status_t status)
{
    unsigned i;

    for (i = 0; i < DESTINATIONS; ++i) {
        if (i != failed) {
            expect_running();
            post(i);
            seal(i);
            pair_run();
            ck_assert_int_eq(pair_query(destinations[i]).status, MKV_OK);
            ck_assert(pair_holds(side_of(i), FIRST, 0, NUM - 1));
            expect_leg(i, MKV_OK, "");
            ck_assert_int_eq(leg_of(source, i).is_quiet, 1);
            ck_assert_uint_eq(leg_of(source, i).bytes,
                              NUM * PAIR_PARTS * pair_layers * PAIR_BYTES);
        }
    }
    ck_assert_int_eq(pair_query(source).status, status);
    ck_assert_uint_eq(pair_count(A, MKV_EV_LEG, source), DESTINATIONS);
    ck_assert_uint_eq(pair_count(A, MKV_EV_FAILED, source), 1);
    ck_assert_uint_eq(pair_last(A, MKV_EV_FAILED, source)->leg, failed);
    ck_assert_ptr_eq(pair_last(A, MKV_EV_FAILED, source)->peer, A->peers[failed + 1]);
    ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, source), 1);
}

static void close_all(void)
{
    unsigned i;

    OK(mkv_xfer_close(source));
    for (i = 0; i < DESTINATIONS; ++i) {
        if (destinations[i] != NULL) {
            OK(mkv_xfer_close(destinations[i]));
        }
        if (plans[i] != NULL) {
            OK(mkv_plan_destroy(plans[i]));
        }
    }
    memset(destinations, 0, sizeof(destinations));
    memset(plans, 0, sizeof(plans));
    pair_teardown();
}

/* ---- Destinations that give up --------------------------------------------------- */

/* Loop index: mode, and which leg */
/* CN-03, SM-05 */
START_TEST(what_a_destination_aborts_ends_its_leg)
{
    unsigned leg = (unsigned)_i / 2;

    open_all((_i & 1) ? MKV_READ : MKV_WRITE);
    post(leg);
    OK(mkv_xfer_abort(destinations[leg], MKV_ERR_GATE, "no room"));
    pair_run();
    expect_leg(leg, MKV_ERR_GATE, "no room");
    ck_assert_int_eq(leg_of(source, leg).is_quiet, 1);
    ck_assert_uint_eq(pair_count(side_of(leg), MKV_EV_QUIET, destinations[leg]), 1);
    finish_others(leg, MKV_ERR_GATE);
    close_all();
}
END_TEST

/* The destination gives up before the source has opened the transfer. Loop index: mode.
 */
/* CN-03 */
START_TEST(an_abort_before_the_open_ends_its_leg)
{
    mode = _i ? MKV_READ : MKV_WRITE;
    connect_all();
    open_destination(1);
    OK(mkv_xfer_abort(destinations[1], MKV_ERR_GATE, "gone"));
    pair_run();
    open_source();
    open_destination(0);
    open_destination(2);
    pair_run();
    expect_leg(1, MKV_ERR_GATE, "gone");
    ck_assert_int_eq(pair_query(source).state, MKV_XFER_BOUND);
    finish_others(1, MKV_ERR_GATE);
    close_all();
}
END_TEST

/* Loop index: mode */
/* CN-03 */
START_TEST(a_destination_that_is_gone_ends_its_leg)
{
    open_all(_i ? MKV_READ : MKV_WRITE);
    OK(mkv_xfer_abort(destinations[2], MKV_ERR_ABORTED, NULL));
    OK(mkv_peer_close(side_of(2)->peers[0], MKV_CLOSE_FORCE));
    side_of(2)->peers[0] = NULL;
    pair_run();
    ck_assert_int_lt(leg_of(source, 2).status, MKV_OK);
    ck_assert_uint_eq(pair_count(A, MKV_EV_LEG, source), 1);
    expect_running();
    OK(mkv_xfer_abort(source, MKV_ERR_ABORTED, NULL));
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_LEG, source), DESTINATIONS);
    OK(mkv_xfer_close(source));
    OK(mkv_xfer_close(destinations[0]));
    OK(mkv_xfer_close(destinations[1]));
    OK(mkv_xfer_close(destinations[2]));
    memset(destinations, 0, sizeof(destinations));
    OK(mkv_map_destroy(side_of(2)->maps[0]));
    side_of(2)->maps[0] = NULL;
    pair_teardown();
}
END_TEST

/* A leg ends while calls run: its blocks are not quiet, and other legs do not wait */
/* CN-03 */
START_TEST(a_leg_is_quiet_behind_its_last_call)
{
    mkv_leg_attr_t attr;

    open_all(MKV_WRITE);
    fake_ucp_hold(FAKE_UCP_PUT | FAKE_UCP_LIST);
    post(0);
    pair_run();
    OK(mkv_xfer_abort(destinations[0], MKV_ERR_GATE, "no room"));
    pair_run();
    expect_leg(0, MKV_ERR_GATE, "no room");
    attr = leg_of(source, 0);
    ck_assert_int_eq(attr.is_quiet, 0);
    ck_assert_str_eq(attr.waiting_for, "calls in flight");
    ck_assert_uint_eq(pair_count(side_of(0), MKV_EV_QUIET, destinations[0]), 0);
    fake_ucp_hold(0);
    pair_run();
    ck_assert_int_eq(leg_of(source, 0).is_quiet, 1);
    ck_assert_uint_eq(pair_count(side_of(0), MKV_EV_QUIET, destinations[0]), 1);
    finish_others(0, MKV_ERR_GATE);
    close_all();
}
END_TEST

/* The last one that has not ended, or the only one that was not sealed. Loop index. */
/* CN-03 */
START_TEST(the_last_leg_ends_the_transfer)
{
    open_all(MKV_WRITE);
    if (_i) {
        fake_ucp_hold(FAKE_UCP_PUT | FAKE_UCP_LIST);
    }
    post(0);
    post(1);
    seal(0);
    seal(1);
    pair_run();
    OK(mkv_xfer_abort(destinations[2], MKV_ERR_GATE, "no room"));
    pair_run();
    if (_i) {
        ck_assert_int_eq(pair_query(source).state, MKV_XFER_SEALED);
        expect_running();
        fake_ucp_hold(0);
        pair_run();
    }
    ck_assert_int_eq(pair_query(source).status, MKV_ERR_GATE);
    expect_leg(0, MKV_OK, "");
    expect_leg(1, MKV_OK, "");
    expect_leg(2, MKV_ERR_GATE, "no room");
    ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, source), 1);
    close_all();
}
END_TEST

/* ---- Calls of the source --------------------------------------------------------- */

/* All its legs have failed, and a call for all leaves those out */
START_TEST(nothing_is_exposed_of_a_transfer_that_has_ended)
{
    const mkv_units_t none = {.component = 0};

    mode = MKV_READ;
    connect_all();
    open_source();
    OK(mkv_xfer_abort(source, MKV_ERR_ABORTED, NULL));
    IS(mkv_xfer_expose(source, MKV_LEG_ALL, &none, 1, NULL, 0), MKV_ERR_ABORTED);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "the transfer has ended"));
    pair_run();
    close_all();
}
END_TEST

/* Loop index: mode */
/* CN-03 */
START_TEST(a_source_may_abort_one_leg)
{
    open_all(_i ? MKV_READ : MKV_WRITE);
    IS(mkv_xfer_abort_leg(source, DESTINATIONS, MKV_ERR_GATE, NULL), MKV_ERR_INVALID);
    IS(mkv_xfer_abort_leg(source, 1, MKV_OK, NULL), MKV_ERR_INVALID);
    IS(mkv_xfer_abort_leg(destinations[1], 0, MKV_ERR_GATE, NULL), MKV_ERR_INVALID);
    OK(mkv_xfer_abort_leg(source, 1, MKV_ERR_GATE, "rejected"));
    OK(mkv_xfer_abort_leg(source, 1, MKV_ERR_ABORTED, "again"));
    pair_run();
    expect_leg(1, MKV_ERR_GATE, "rejected by A");
    ck_assert_int_eq(pair_query(destinations[1]).status, MKV_ERR_GATE);
    ck_assert_uint_eq(pair_count(side_of(1), MKV_EV_QUIET, destinations[1]), 1);
    finish_others(1, MKV_ERR_GATE);
    OK(mkv_xfer_abort_leg(source, 0, MKV_ERR_GATE, "late"));
    ck_assert_int_eq(leg_of(source, 0).status, MKV_OK);
    close_all();
}
END_TEST

/* CN-03 */
START_TEST(calls_for_all_leave_out_a_leg_that_has_failed)
{
    const mkv_units_t none = {.component = 0};
    mkv_leg_attr_t attr = {.size = sizeof(attr)};

    open_all(MKV_WRITE);
    post(0);
    post(1);
    post(2);
    OK(mkv_xfer_abort(destinations[1], MKV_ERR_GATE, "no room"));
    pair_run();
    IS(mkv_xfer_post(source, 1, plans[1], NULL, NULL), MKV_ERR_GATE);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "no room"));
    IS(mkv_xfer_seal(source, 1), MKV_ERR_GATE);
    IS(mkv_xfer_query_leg(source, DESTINATIONS, &attr), MKV_ERR_INVALID);
    IS(mkv_xfer_expose(source, 1, &none, 1, NULL, 0), MKV_ERR_INVALID);
    OK(mkv_xfer_request(source, MKV_LEG_ALL, NULL, 0));
    OK(mkv_xfer_seal_data(source, MKV_LEG_ALL, "token", 5));
    pair_run();
    ck_assert_int_eq(pair_query(destinations[0]).status, MKV_OK);
    ck_assert_int_eq(pair_query(destinations[2]).status, MKV_OK);
    ck_assert_int_eq(pair_query(source).status, MKV_ERR_GATE);
    close_all();
}
END_TEST

/* The source of a READ exposes its blocks to the remaining legs */
/* CN-03 */
START_TEST(an_expose_leaves_out_a_leg_that_has_failed)
{
    const mkv_units_t none = {.component = 0};

    mode = MKV_READ;
    connect_all();
    open_bare_source();
    open_destination(0);
    open_destination(1);
    open_destination(2);
    OK(mkv_xfer_abort(destinations[0], MKV_ERR_GATE, "gone"));
    pair_run();
    expect_leg(0, MKV_ERR_GATE, "gone");
    IS(mkv_xfer_expose(source, 0, &none, 1, NULL, 0), MKV_ERR_GATE);
    pair_expose(source, 0, NUM);
    pair_run();
    finish_others(0, MKV_ERR_GATE);
    close_all();
}
END_TEST

/* A waiting source queries one leg, or all legs that have not failed */
START_TEST(a_question_goes_to_the_legs_that_are_meant)
{
    unsigned i;

    mode = MKV_WRITE;
    connect_all();
    open_source();
    OK(mkv_xfer_request(source, 2, NULL, 0));
    pair_run();
    for (i = 0; i < DESTINATIONS; ++i) {
        ck_assert_uint_eq(pair_count(side_of(i), MKV_EV_INCOMING, NULL), i == 2);
    }
    OK(mkv_xfer_abort_leg(source, 1, MKV_ERR_GATE, "rejected"));
    OK(mkv_xfer_request(source, MKV_LEG_ALL, NULL, 0));
    pair_run();
    for (i = 0; i < DESTINATIONS; ++i) {
        ck_assert_uint_eq(pair_count(side_of(i), MKV_EV_INCOMING, NULL),
                          (i == 2) + (i != 1));
    }
    OK(mkv_xfer_abort(source, MKV_ERR_ABORTED, NULL));
    pair_run();
    close_all();
}
END_TEST

static mkv_status_t send_to_all(const void *data, size_t length)
{
    const mkv_units_t none = {.component = 0};

    return (mode == MKV_READ)
               ? mkv_xfer_expose(source, MKV_LEG_ALL, &none, 1, data, length)
               : mkv_xfer_request(source, MKV_LEG_ALL, data, length);
}

/* The message is too large for the last leg alone. Loop index: exposed, or requested */
START_TEST(a_message_to_all_legs_goes_to_none_if_one_cannot_take_it)
{
    static const uint8_t data[5000];
    mkv_event_type_t type = _i ? MKV_EV_INCOMING : MKV_EV_EXPOSED;
    unsigned i, num;

    mode = _i ? MKV_WRITE : MKV_READ;
    connect_with("4k");
    open_bare_source();
    for (i = 0; (i < DESTINATIONS) && (mode == MKV_READ); ++i) {
        open_destination(i);
    }
    for (num = 0; num < 2; ++num) {
        IS(send_to_all(data, (num == 0) ? sizeof(data) : 1),
           (num == 0) ? MKV_ERR_LENGTH : MKV_OK);
        pair_run();
        for (i = 0; i < DESTINATIONS; ++i) {
            ck_assert_uint_eq(pair_count(side_of(i), type, NULL), num);
        }
    }
    OK(mkv_xfer_abort(source, MKV_ERR_ABORTED, NULL));
    pair_run();
    close_all();
}
END_TEST

/* Loop index: the last one binds, or fails */
START_TEST(a_transfer_is_bound_when_its_last_leg_is)
{
    mode = MKV_WRITE;
    connect_all();
    open_source();
    open_destination(0);
    open_destination(1);
    pair_run();
    ck_assert_int_eq(pair_query(source).state, MKV_XFER_INIT);
    if (_i) {
        OK(mkv_xfer_abort_leg(source, 2, MKV_ERR_GATE, "rejected"));
    } else {
        open_destination(2);
        pair_run();
    }
    ck_assert_int_eq(pair_query(source).state, MKV_XFER_BOUND);
    OK(mkv_xfer_abort(source, MKV_ERR_ABORTED, NULL));
    pair_run();
    close_all();
}
END_TEST

START_TEST(a_transfer_is_sealed_when_its_last_leg_is)
{
    unsigned i;

    open_all(MKV_WRITE);
    for (i = 0; i < DESTINATIONS; ++i) {
        post(i);
    }
    fake_ucp_hold(FAKE_UCP_FLUSH);
    for (i = 0; i < DESTINATIONS; ++i) {
        ck_assert_int_eq(pair_query(source).state, MKV_XFER_ACTIVE);
        seal(i);
    }
    ck_assert_int_eq(pair_query(source).state, MKV_XFER_SEALED);
    fake_ucp_hold(0);
    pair_run();
    ck_assert_int_eq(pair_query(source).state, MKV_XFER_DONE);
    close_all();
}
END_TEST

START_TEST(a_leg_that_ends_gives_the_others_no_more_time)
{
    uint64_t deadline;

    open_all(MKV_WRITE);
    post(0);
    pair_run();
    deadline = source->deadline;
    pair_now += 1000 * MKV_NSEC_PER_MSEC;
    OK(mkv_xfer_abort_leg(source, 1, MKV_ERR_GATE, "rejected"));
    pair_run();
    ck_assert_uint_eq(source->deadline, deadline);
    OK(mkv_xfer_abort(source, MKV_ERR_ABORTED, NULL));
    pair_run();
    close_all();
}
END_TEST

START_TEST(a_leg_that_is_complete_stays_so)
{
    unsigned i;

    open_all(MKV_WRITE);
    for (i = 0; i < DESTINATIONS; ++i) {
        post(i);
        seal(i);
        pair_run();
        OK(mkv_xfer_abort_leg(source, 0, MKV_ERR_GATE, "late"));
        pair_run();
        expect_leg(0, MKV_OK, "");
    }
    ck_assert_int_eq(pair_query(source).state, MKV_XFER_DONE);
    ck_assert_int_eq(pair_query(destinations[0]).status, MKV_OK);
    close_all();
}
END_TEST

/* The peer of a complete leg gets no message when the other legs end */
START_TEST(the_peer_of_a_complete_leg_gets_no_message)
{
    uint64_t received;

    open_all(MKV_WRITE);
    post(0);
    seal(0);
    pair_run();
    ck_assert_int_eq(pair_query(destinations[0]).status, MKV_OK);
    received = pair_stats(side_of(0)).msgs_received;
    OK(mkv_xfer_abort(source, MKV_ERR_ABORTED, NULL));
    pair_run();
    ck_assert_int_eq(pair_query(destinations[1]).status, MKV_ERR_ABORTED);
    ck_assert_uint_eq(pair_stats(side_of(0)).msgs_received, received);
    close_all();
}
END_TEST

/* ---- A destination --------------------------------------------------------------- */

static mkv_xfer_t *sources[DESTINATIONS];

/* All of them write to A, whose side `source` is here */
static void open_sources(void)
{
    mkv_xfer_params_t params = {.size = sizeof(params),
                                .id = 1,
                                .mode = MKV_WRITE,
                                .role = MKV_DST,
                                .legs = &A->maps[1],
                                .num_legs = DESTINATIONS};
    unsigned i;

    connect_all();
    OK(mkv_xfer_open(A->ctx, &params, &source));
    pair_expose(source, 0, NUM);
    for (i = 0; i < DESTINATIONS; ++i) {
        sources[i] = pair_xfer(side_of(i), 0, 1, MKV_WRITE, MKV_SRC);
    }
    pair_run();
}

/* CN-03 */
START_TEST(a_destination_needs_all_its_sources)
{
    unsigned i;

    open_sources();
    OK(mkv_xfer_abort(sources[1], MKV_ERR_GATE, "lost its cache"));
    pair_run();
    ck_assert_int_eq(pair_query(source).status, MKV_ERR_GATE);
    ck_assert_uint_eq(pair_last(A, MKV_EV_FAILED, source)->leg, 1);
    ck_assert_ptr_eq(pair_last(A, MKV_EV_FAILED, source)->peer, A->peers[2]);
    for (i = 0; i < DESTINATIONS; ++i) {
        expect_leg(i, MKV_ERR_GATE, "lost its cache");
        ck_assert_int_eq(pair_query(sources[i]).status, MKV_ERR_GATE);
        OK(mkv_xfer_close(sources[i]));
    }
    OK(mkv_xfer_close(source));
    pair_teardown();
}
END_TEST

/* Leg 1 fails first. Blocks of leg 0 are still in use until its connection ends as well
 */
START_TEST(the_first_leg_that_failed_stays_named)
{
    mkv_plan_t *plan;
    unsigned i;

    open_sources();
    plan = pair_plan(side_of(0), 0, 0, 0, NUM, 0);
    fake_ucp_hold(FAKE_UCP_PUT | FAKE_UCP_LIST);
    OK(mkv_xfer_post(sources[0], 0, plan, NULL, NULL));
    OK(mkv_xfer_abort(sources[1], MKV_ERR_GATE, "lost its cache"));
    pair_run();
    ck_assert_uint_eq(pair_last(A, MKV_EV_FAILED, source)->leg, 1);
    ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, source), 0);
    OK(mkv_peer_declare_dead(A->peers[1]));
    pair_run();
    ck_assert_uint_eq(pair_last(A, MKV_EV_QUIET, source)->leg, 1);
    ck_assert_ptr_eq(pair_last(A, MKV_EV_QUIET, source)->peer, A->peers[2]);
    fake_ucp_hold(0);
    fake_ucp_break(UCS_ERR_CONNECTION_RESET);
    for (i = 0; i < 2; ++i) {
        pair_now += 31000 * MKV_NSEC_PER_MSEC;
        pair_run();
    }
    for (i = 0; i < DESTINATIONS; ++i) {
        OK(mkv_xfer_close(sources[i]));
    }
    OK(mkv_plan_destroy(plan));
    OK(mkv_xfer_close(source));
    pair_teardown();
}
END_TEST

/* Every message arrives ten times, in any order, which UCX never does: each leg is
 * complete once, and so is the transfer. Loop index: mode and order */
/* CN-05 */
START_TEST(words_that_come_ten_times_count_once)
{
    unsigned i;

    open_all((_i & 1) ? MKV_READ : MKV_WRITE);
    fake_ucp_repeat_messages(9);
    fake_ucp_shuffle(1 + (unsigned)_i);
    for (i = 0; i < DESTINATIONS; ++i) {
        post(i);
        seal(i);
    }
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_DONE, source), 1);
    ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, source), 1);
    for (i = 0; i < DESTINATIONS; ++i) {
        expect_leg(i, MKV_OK, "");
        ck_assert_uint_eq(pair_count(side_of(i), MKV_EV_DONE, destinations[i]), 1);
        ck_assert_uint_eq(pair_count(side_of(i), MKV_EV_QUIET, destinations[i]), 1);
        ck_assert_int_eq(A->peers[i + 1]->state, MKV_CONN_READY);
    }
    ck_assert_uint_gt(pair_stats((mode == MKV_WRITE) ? B : A).msgs_stale, 0);
    close_all();
}
END_TEST

/* The transfer's events report its only leg */
START_TEST(the_only_leg_has_no_events)
{
    mkv_xfer_t *active, *passive;

    pair_setup();
    active = pair_bind_write(NUM, &passive);
    OK(mkv_xfer_abort(passive, MKV_ERR_GATE, "no room"));
    pair_run();
    ck_assert_int_eq(leg_of(active, 0).status, MKV_ERR_GATE);
    ck_assert_int_eq(leg_of(passive, 0).status, MKV_ERR_GATE);
    ck_assert_int_eq(pair_query(active).status, MKV_ERR_GATE);
    ck_assert_uint_eq(pair_count(A, MKV_EV_LEG, NULL), 0);
    ck_assert_uint_eq(pair_count(B, MKV_EV_LEG, NULL), 0);
    pair_close(active, passive, NULL);
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("legs");

    tcase_add_loop_test(tcase, what_a_destination_aborts_ends_its_leg, 0,
                        2 * DESTINATIONS);
    tcase_add_loop_test(tcase, an_abort_before_the_open_ends_its_leg, 0, 2);
    tcase_add_loop_test(tcase, a_destination_that_is_gone_ends_its_leg, 0, 2);
    tcase_add_test(tcase, a_leg_is_quiet_behind_its_last_call);
    tcase_add_loop_test(tcase, the_last_leg_ends_the_transfer, 0, 2);
    tcase_add_loop_test(tcase, a_source_may_abort_one_leg, 0, 2);
    tcase_add_test(tcase, nothing_is_exposed_of_a_transfer_that_has_ended);
    tcase_add_test(tcase, calls_for_all_leave_out_a_leg_that_has_failed);
    tcase_add_test(tcase, an_expose_leaves_out_a_leg_that_has_failed);
    tcase_add_test(tcase, a_question_goes_to_the_legs_that_are_meant);
    tcase_add_loop_test(tcase, a_message_to_all_legs_goes_to_none_if_one_cannot_take_it,
                        0, 2);
    tcase_add_loop_test(tcase, a_transfer_is_bound_when_its_last_leg_is, 0, 2);
    tcase_add_test(tcase, a_transfer_is_sealed_when_its_last_leg_is);
    tcase_add_test(tcase, a_leg_that_ends_gives_the_others_no_more_time);
    tcase_add_test(tcase, a_leg_that_is_complete_stays_so);
    tcase_add_test(tcase, the_peer_of_a_complete_leg_gets_no_message);
    tcase_add_test(tcase, a_destination_needs_all_its_sources);
    tcase_add_test(tcase, the_first_leg_that_failed_stays_named);
    tcase_add_loop_test(tcase, words_that_come_ten_times_count_once, 0, 10);
    tcase_add_test(tcase, the_only_leg_has_no_events);
    return pair_main("mkv_legs", tcase);
}
