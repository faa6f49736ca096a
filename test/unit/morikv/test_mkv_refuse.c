/* SPDX-License-Identifier: BSD-3-Clause */

/* Unknown blocks, components and instances are refused, whether a caller or a peer
 * names them. The refusal does not change transfers that run or have ended. */

#include "src/xfer/leg.h"

#include "test/support/mkv_pair.h"

#include <string.h>

#define NUM 4u

static void expect_text(const mkv_xfer_t *xfer, mkv_status_t status, const char *text)
{
    mkv_xfer_attr_t attr = pair_query(xfer);

    ck_assert_int_eq(attr.status, status);
    ck_assert_msg(strstr(attr.error, text) != NULL, "%s", attr.error);
}

/* ---- Block lists ----------------------------------------------------------------- */

/* Loop index: the last block is one too far; a component twice; one that is not there;
 * no list; a field that a later version may define */
START_TEST(a_wrong_list_is_not_exposed)
{
    static const mkv_status_t expected[] = {MKV_ERR_BOUNDS,      MKV_ERR_DUPLICATE,
                                            MKV_ERR_PAIRING,     MKV_ERR_INVALID,
                                            MKV_ERR_UNSUPPORTED, MKV_ERR_UNSUPPORTED};
    const uint32_t blocks[] = {0, PAIR_BLOCKS - (_i != 0)};
    mkv_units_t units[2] = {{.num_local = 2, .local = blocks},
                            {.component = (_i == 2), .num_local = 1, .local = blocks}};
    mkv_xfer_t *passive;

    pair_setup();
    passive = pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST);
    if (_i == 3) {
        units[0].local = NULL;
    }
    units[0].flags = (_i == 4);
    units[0].reserved[1] = (_i == 5);
    IS(mkv_xfer_expose(passive, 0, units, (_i == 0) || (_i >= 3) ? 1 : 2, NULL, 0),
       expected[_i]);
    pair_expose(passive, 0, NUM); /* nothing has changed */
    OK(mkv_xfer_abort(passive, MKV_ERR_ABORTED, NULL));
    pair_run();
    OK(mkv_xfer_close(passive));
    pair_teardown();
}
END_TEST

START_TEST(a_leg_is_exposed_once_by_the_waiting_side_with_existing_blocks)
{
    static const uint32_t blocks[] = {0, 1};
    mkv_units_t units[MKV_MAX_COMPONENTS + 1] = {
        {.num_local = 2,
         .local = blocks}}; /* the rest is component 0, without blocks */
    mkv_xfer_t *active, *passive;

    pair_setup();
    active = pair_bind_write(NUM, &passive);
    IS(mkv_xfer_expose(active, 0, units, 1, NULL, 0), MKV_ERR_INVALID);
    IS(mkv_xfer_expose(passive, 1, units, 1, NULL, 0), MKV_ERR_INVALID);
    IS(mkv_xfer_expose(passive, 0, units, MKV_MAX_COMPONENTS + 1, NULL, 0),
       MKV_ERR_INVALID);
    IS(mkv_xfer_expose(passive, 0, units, 1, NULL, 0), MKV_ERR_DUPLICATE);
    ck_assert_uint_eq(passive->legs[0].units[0].num_local, NUM);
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
    pair_run();
    pair_close(active, passive, NULL);
    pair_teardown();
}
END_TEST

static void send_expose(mkv_xfer_t *passive, const mkv_wire_units_t *units,
                        uint32_t num_units)
{
    mkv_msg_t msg = {.type = MKV_MSG_EXPOSE, .mode = MKV_WRITE, .num_units = num_units};

    memcpy(msg.units, units, num_units * sizeof(*units));
    OK(mkv_leg_send(&passive->legs[0], &msg));
}

static unsigned occurrences(const char *text, const char *word)
{
    unsigned num = 0;

    for (text = strstr(text, word); text != NULL; text = strstr(text + 1, word)) {
        ++num;
    }
    return num;
}

/* A peer's message contains it. Loop index: as above, but for the last. */
START_TEST(a_wrong_list_of_a_peer_fails_the_transfer)
{
    static const uint8_t far[] = {0, 0, 0, 0, PAIR_BLOCKS, 0, 0, 0};
    static const char *const texts[] = {"block 32 at position 1 is exposed", "twice",
                                        "not in the other side's map"};
    const mkv_wire_units_t units[2] = {
        {.num = (_i == 0) ? 2 : 1, .ids = far, .expect = 1},
        {.component = (_i == 2), .num = 1, .ids = far, .expect = 1}};
    mkv_xfer_t *active, *passive;

    pair_setup();
    active = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    passive = pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST);
    send_expose(passive, units, (_i == 0) ? 1 : 2);
    pair_run();
    expect_text(active, (_i == 0) ? MKV_ERR_BOUNDS : MKV_ERR_PAIRING, texts[_i]);
    /* the peer's text has the names of its own transfer and leg, once */
    expect_text(passive, (_i == 0) ? MKV_ERR_BOUNDS : MKV_ERR_PAIRING, texts[_i]);
    ck_assert_uint_eq(occurrences(pair_query(passive).error, "transfer "), 1);
    ck_assert_uint_eq(occurrences(pair_query(passive).error, "leg "), 1);
    ck_assert_uint_eq(pair_count(A, MKV_EV_EXPOSED, NULL), 0);
    pair_close(active, passive, NULL);
    pair_teardown();
}
END_TEST

/* ---- Instances ------------------------------------------------------------------- */

START_TEST(an_instance_is_opened_once_and_leads_to_each_peer_once)
{
    mkv_map_t *maps[2];
    mkv_xfer_params_t params = {
        .size = sizeof(params), .id = 1, .mode = MKV_WRITE, .legs = maps};
    mkv_xfer_t *active, *other;

    pair_setup();
    maps[0] = maps[1] = A->maps[1];
    params.num_legs = 2;
    IS(mkv_xfer_open(A->ctx, &params, &other), MKV_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "same peer"));
    active = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    params.num_legs = 1;
    IS(mkv_xfer_open(A->ctx, &params, &other), MKV_ERR_DUPLICATE);
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
    pair_run();
    OK(mkv_xfer_close(active));
    pair_teardown();
}
END_TEST

START_TEST(two_epochs_of_an_id_are_two_instances)
{
    mkv_xfer_t *active[2], *passive[2];
    mkv_plan_t *plans[2];
    uint32_t i;

    pair_setup();
    for (i = 0; i < 2; ++i) {
        active[i] = pair_xfer_epoch(A, 1, MKV_SRC, 1 - i);
        passive[i] = pair_xfer_epoch(B, 0, MKV_DST, 1 - i);
    }
    for (i = 0; i < 2; ++i) {
        pair_expose(passive[i], 8 + i * NUM, NUM);
    }
    pair_run();
    for (i = 0; i < 2; ++i) {
        plans[i] = pair_plan(A, 1, i * NUM, 8 + i * NUM, NUM, 0);
        OK(mkv_xfer_post(active[i], 0, plans[i], NULL, NULL));
        OK(mkv_xfer_seal(active[i], 0));
        pair_run();
        ck_assert_int_eq(pair_query(passive[i]).status, MKV_OK);
        ck_assert(pair_holds(B, 8 + i * NUM, 0, i * NUM + NUM - 1));
    }
    for (i = 0; i < 2; ++i) {
        pair_close(active[i], passive[i], plans[i]);
    }
    pair_teardown();
}
END_TEST

/* ---- Posts ----------------------------------------------------------------------- */

static void refuse_post(mkv_xfer_t *xfer, uint32_t leg, mkv_plan_t *plan,
                        const char *text)
{
    IS(mkv_xfer_post(xfer, leg, plan, NULL, NULL), MKV_ERR_INVALID);
    ck_assert_msg(strstr(mkv_last_error(), text) != NULL, "%s", mkv_last_error());
}

START_TEST(a_post_is_for_a_leg_of_the_active_side_that_has_not_ended)
{
    mkv_xfer_t *active, *passive;
    mkv_plan_t *plan;

    pair_setup();
    active = pair_bind_write(NUM, &passive);
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
    refuse_post(active, 1, plan, "leg 1, expected below 1");
    refuse_post(passive, 0, plan, "is the passive side, the destination of a WRITE");
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(passive).status, MKV_OK);
    refuse_post(active, 0, plan, "the transfer has ended: done");
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

START_TEST(nothing_is_posted_on_a_stale_map)
{
    mkv_xfer_t *active, *passive;
    mkv_plan_t *plan;

    pair_setup();
    active = pair_bind_write(NUM, &passive);
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
    A->maps[1]->is_stale = true; /* set as if the peer had dropped a region */
    IS(mkv_xfer_post(active, 0, plan, NULL, NULL), MKV_ERR_STALE);
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
    pair_run();
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

static int answer(void *arg)
{
    return *(int *)arg;
}

static int open_at_once(void *arg)
{
    ++*(unsigned *)arg;
    return 1;
}

/* Credits suffice for a part of the post, so it is scheduled again. A sleeping thread
 * must not wake to check a gate that is already open. */
START_TEST(an_open_gate_is_not_checked_again)
{
    unsigned asked = 0;
    mkv_gate_t gate = {.size = sizeof(gate), .ready = open_at_once, .arg = &asked};
    mkv_xfer_t *active, *passive;
    mkv_plan_t *plan;

    pair_set("MAX_INFLIGHT_OPS", "1");
    pair_setup();
    fake_ucp_set_lists(0);
    active = pair_bind_write(NUM, &passive);
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
    OK(mkv_xfer_post(active, 0, plan, NULL, &gate));
    ck_assert_uint_eq(A->ctx->num_asking_gates, 0);
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(passive).status, MKV_OK);
    ck_assert_uint_eq(asked, 1);
    ck_assert_uint_eq(A->ctx->num_asking_gates, 0);
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

START_TEST(a_closed_gate_is_not_checked_after_the_end)
{
    int says = 0;
    mkv_gate_t gate = {.size = sizeof(gate), .ready = answer, .arg = &says};
    mkv_xfer_t *active, *passive;
    mkv_plan_t *plan;

    pair_setup();
    active = pair_bind_write(NUM, &passive);
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
    OK(mkv_xfer_post(active, 0, plan, NULL, &gate));
    ck_assert_uint_eq(A->ctx->num_asking_gates, 1);
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
    pair_run();
    ck_assert_uint_eq(A->ctx->num_asking_gates, 0);
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

START_TEST(a_gate_that_fails_fails_the_transfer)
{
    int says = 0;
    mkv_gate_t gate = {.size = sizeof(gate), .ready = answer, .arg = &says};
    mkv_xfer_t *active, *passive;
    mkv_plan_t *plan;

    pair_setup();
    active = pair_bind_write(NUM, &passive);
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
    OK(mkv_xfer_post(active, 0, plan, NULL, &gate));
    pair_run();
    ck_assert_int_eq(pair_query(active).status, MKV_INPROGRESS);
    says = -1;
    pair_run();
    expect_text(active, MKV_ERR_GATE, "returned -1");
    ck_assert_int_eq(pair_query(passive).status, MKV_ERR_GATE);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_PUT | FAKE_UCP_LIST), 0);
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* ---- Ends ------------------------------------------------------------------------ */

/* A reader's blocks are written to as long as its get runs */
START_TEST(a_reader_is_quiet_behind_its_gets)
{
    mkv_xfer_t *reader, *owner;
    mkv_plan_t *plan;

    pair_set("READ_BY", "get");
    pair_setup();
    reader = pair_xfer(A, 1, 1, MKV_READ, MKV_DST);
    owner = pair_xfer(B, 0, 1, MKV_READ, MKV_SRC);
    pair_expose(owner, 0, NUM);
    pair_run();
    plan = pair_plan(A, 1, 8, 0, NUM, 0);
    fake_ucp_hold(FAKE_UCP_GET);
    OK(mkv_xfer_post(reader, 0, plan, NULL, NULL));
    pair_run();
    OK(mkv_xfer_abort(reader, MKV_ERR_ABORTED, NULL));
    pair_run();
    ck_assert(!pair_query(reader).is_quiet);
    ck_assert(!pair_query(owner).is_quiet);
    IS(mkv_xfer_close(reader), MKV_ERR_BUSY);
    fake_ucp_hold(0);
    pair_run();
    ck_assert(pair_query(reader).is_quiet);
    ck_assert(pair_query(owner).is_quiet);
    pair_close(reader, owner, plan);
    pair_teardown();
}
END_TEST

/* The puts are complete here, and may still be in flight */
START_TEST(a_writer_is_quiet_behind_its_flush)
{
    mkv_xfer_t *active, *passive;
    mkv_plan_t *plan;

    pair_setup_over("mori_rdma");
    active = pair_bind_write(NUM, &passive);
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    pair_run();
    fake_ucp_hold(FAKE_UCP_FLUSH);
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
    pair_run();
    ck_assert(!pair_query(active).is_quiet);
    ck_assert(!pair_query(passive).is_quiet);
    fake_ucp_hold(0);
    pair_run();
    ck_assert(pair_query(active).is_quiet);
    ck_assert(pair_query(passive).is_quiet);
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

static void refuse_seal(mkv_xfer_t *xfer, uint32_t leg, const char *text)
{
    IS(mkv_xfer_seal(xfer, leg), MKV_ERR_INVALID);
    ck_assert_msg(strstr(mkv_last_error(), text) != NULL, "%s", mkv_last_error());
}

START_TEST(a_leg_is_sealed_once_by_the_posting_side_when_it_is_bound)
{
    mkv_xfer_t *active, *passive;
    mkv_plan_t *plan;

    pair_setup();
    active = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    passive = pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST);
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
    IS(mkv_xfer_post(active, 0, plan, NULL, NULL), MKV_ERR_BUSY);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "post after event EXPOSED"));
    OK(mkv_plan_destroy(plan));
    IS(mkv_xfer_seal(active, 0), MKV_ERR_BUSY);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "seal after event EXPOSED"));
    pair_expose(passive, 0, NUM);
    pair_run();
    refuse_seal(active, 1, "leg 1 on the active side, expected one below 1");
    refuse_seal(passive, 0, "passive side");
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    fake_ucp_hold(FAKE_UCP_FLUSH);
    OK(mkv_xfer_seal(active, 0));
    refuse_seal(active, 0, "is sealed already");
    fake_ucp_hold(0);
    pair_run();
    ck_assert_int_eq(pair_query(passive).status, MKV_OK);
    refuse_seal(active, 0, "has ended");
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* Loop index 1: 65536 legs, of which the first is missing and is not checked */
START_TEST(what_can_be_no_transfer_is_not_opened)
{
    static const char *const texts[] = {"0 legs",      "65536 legs", "mode 2",
                                        "role 2",      "priority 3", "num_expect 65",
                                        "num_expect 1"};
    static mkv_map_t *const none[1];
    const mkv_expect_t expect = {0};
    mkv_xfer_params_t params = {.size = sizeof(params), .num_legs = 1};
    mkv_xfer_t *xfer;

    pair_setup();
    params.legs = (_i == 1) ? none : &A->maps[1];
    params.num_legs = (_i == 0) ? 0 : (_i == 1) ? UINT16_MAX + 1 : 1;
    params.mode = (_i == 2) ? (mkv_mode_t)2 : MKV_WRITE;
    params.role = (_i == 3) ? (mkv_role_t)2 : MKV_SRC;
    params.priority = (_i == 4) ? (mkv_priority_t)3 : MKV_PRIORITY_NORMAL;
    params.expect = (_i == 6) ? NULL : &expect;
    params.num_expect = (_i == 5) ? MKV_MAX_COMPONENTS + 1 : (_i == 6);
    IS(mkv_xfer_open(A->ctx, &params, &xfer), MKV_ERR_INVALID);
    ck_assert_msg(strstr(mkv_last_error(), texts[_i]) != NULL, "%s", mkv_last_error());
    pair_teardown();
}
END_TEST

static void expect_deadline(const mkv_xfer_t *xfer, unsigned ms, mkv_status_t status)
{
    ck_assert_uint_eq(xfer->deadline, pair_now + ms * MKV_NSEC_PER_MSEC);
    ck_assert_int_eq(xfer->deadline_status, status);
}

static void expect_waiting(const mkv_xfer_t *xfer, const char *text)
{
    mkv_xfer_attr_t attr = pair_query(xfer);

    ck_assert_str_eq(attr.waiting_for, text);
}

/* Loop index: WRITE; READ, in which the owner waits for the release */
START_TEST(each_phase_has_its_own_time)
{
    mkv_xfer_params_t params = {.size = sizeof(params),
                                .mode = _i ? MKV_READ : MKV_WRITE,
                                .num_legs = 1,
                                .bind_timeout_ms = 1000,
                                .xfer_timeout_ms = 2000,
                                .release_timeout_ms = 3000,
                                .drain_timeout_ms = 4000};
    mkv_xfer_t *active, *passive;

    pair_setup();
    params.legs = &A->maps[1];
    params.role = _i ? MKV_DST : MKV_SRC;
    OK(mkv_xfer_open(A->ctx, &params, &active));
    params.legs = &B->maps[0];
    params.role = _i ? MKV_SRC : MKV_DST;
    OK(mkv_xfer_open(B->ctx, &params, &passive));
    expect_deadline(active, 1000, MKV_ERR_BIND_TIMEOUT);
    expect_deadline(passive, 1000, MKV_ERR_BIND_TIMEOUT);
    pair_expose(passive, 0, NUM);
    pair_run();
    expect_deadline(active, 2000, MKV_ERR_XFER_TIMEOUT);
    expect_deadline(passive, _i ? 3000 : 2000,
                    _i ? MKV_ERR_RELEASE_TIMEOUT : MKV_ERR_XFER_TIMEOUT);
    expect_waiting(passive,
                   _i ? "leg 0 (peer A): the release" : "leg 0 (peer A): DONE");
    OK(mkv_xfer_abort(passive, MKV_ERR_ABORTED, NULL));
    expect_deadline(passive, 4000, MKV_ERR_DRAIN_TIMEOUT);
    pair_run();
    expect_waiting(passive, "");
    expect_waiting(active, "");
    pair_close(active, passive, NULL);
    pair_teardown();
}
END_TEST

START_TEST(a_transfer_is_of_one_context)
{
    mkv_xfer_params_t params = {
        .size = sizeof(params), .legs = &B->maps[0], .num_legs = 1};
    mkv_xfer_t *xfer;

    pair_setup();
    IS(mkv_xfer_open(A->ctx, &params, &xfer), MKV_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "no map of this context"));
    pair_teardown();
}
END_TEST

START_TEST(an_abort_has_an_error)
{
    mkv_xfer_t *active;

    pair_setup();
    active = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    IS(mkv_xfer_abort(active, MKV_OK, NULL), MKV_ERR_INVALID);
    IS(mkv_xfer_abort_leg(active, 0, MKV_INPROGRESS, NULL), MKV_ERR_INVALID);
    IS(mkv_xfer_extend(active, 0), MKV_ERR_INVALID);
    ck_assert_int_eq(pair_query(active).status, MKV_INPROGRESS);
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
    pair_run();
    OK(mkv_xfer_close(active));
    pair_teardown();
}
END_TEST

/* Loop index: it was done, or failed */
START_TEST(an_abort_changes_nothing_that_has_ended)
{
    mkv_xfer_attr_t before, after;
    mkv_xfer_t *active, *passive;
    mkv_plan_t *plan;
    size_t num_events;

    pair_setup();
    active = pair_bind_write(NUM, &passive);
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
    if (_i) {
        OK(mkv_xfer_abort(active, MKV_ERR_GATE, "first"));
    } else {
        OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
        OK(mkv_xfer_seal(active, 0));
    }
    pair_run();
    before = pair_query(active);
    num_events = A->num_events;
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, "second"));
    pair_run();
    after = pair_query(active);
    ck_assert_int_eq(after.state, _i ? MKV_XFER_FAILED : MKV_XFER_DONE);
    ck_assert_int_eq(after.status, before.status);
    ck_assert_str_eq(after.error, before.error);
    ck_assert_uint_eq(A->num_events, num_events);
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* ---- Contexts -------------------------------------------------------------------- */

/* Loop index: a rank that is not below its size, of each kind */
START_TEST(a_rank_is_below_its_size)
{
    static const char *const texts[] = {"dp 2/2", "pp 2/2", "cp 2/2", "tp 2/2"};
    mkv_open_params_t params = {
        .size = sizeof(params),
        .topology = {.dp_size = 2, .pp_size = 2, .cp_size = 2, .tp_size = 2}};
    uint32_t *const ranks[] = {&params.topology.dp_rank, &params.topology.pp_rank,
                               &params.topology.cp_rank, &params.topology.tp_rank};
    mkv_ctx_t *ctx;

    fake_ucp_reset();
    *ranks[_i] = 1;
    OK(mkv_open(NULL, &params, &ctx));
    OK(mkv_close(ctx));
    *ranks[_i] = 2;
    IS(mkv_open(NULL, &params, &ctx), MKV_ERR_INVALID);
    ck_assert_msg(strstr(mkv_last_error(), texts[_i]) != NULL, "%s", mkv_last_error());
}
END_TEST

START_TEST(a_worker_of_the_caller_comes_with_its_context)
{
    mkv_open_params_t params = {.size = sizeof(params)};
    mkv_ctx_t *ctx;
    int thing;

    fake_ucp_reset();
    params.ucp_worker = (ucp_worker_h)(void *)&thing;
    IS(mkv_open(NULL, &params, &ctx), MKV_ERR_INVALID);
    params.ucp_worker = NULL;
    params.ucp_context = (ucp_context_h)(void *)&thing;
    IS(mkv_open(NULL, &params, &ctx), MKV_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "both"));
}
END_TEST

/* An event that does not fit stays queued */
START_TEST(a_poll_has_room_for_an_event)
{
    mkv_event_t event;
    size_t count = 7;

    pair_setup();
    OK(mkv_send(B->peers[0], 0, 0, NULL, 0, "x", 1));
    (void)mkv_progress(B->ctx);
    (void)mkv_progress(A->ctx);
    IS(mkv_poll(A->ctx, &event, sizeof(event.type), 1, &count), MKV_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "event_size is"));
    ck_assert_uint_eq(count, 7);
    OK(mkv_poll(A->ctx, &event, sizeof(event), 1, &count));
    ck_assert_uint_eq(count, 1);
    ck_assert_int_eq(event.type, MKV_EV_MSG);
    pair_teardown();
}
END_TEST

/* A single thread closes both contexts, so the peer makes no progress, but the flush of
 * a tcp connection waits for it. Loop index: 1 the peer is in another process (control)
 */
START_TEST(a_closing_context_waits_little_for_one_of_its_process)
{
    mkv_peer_t *peer;

    pair_setup();
    peer = A->peers[1];
    fake_ucp_hold(FAKE_UCP_FLUSH);
    OK(mkv_map_destroy(A->maps[1]));
    A->maps[1] = NULL;
    peer->process.ctx_id += (unsigned)_i;
    A->ctx->closer = pthread_self();
    A->ctx->is_closing = true;
    OK(mkv_peer_close(peer, MKV_CLOSE_FORCE));
    A->peers[1] = NULL;
    A->ctx->is_closing = false;
    ck_assert_uint_eq((peer->deadline - pair_now) / 1000000, _i ? 30000 : 1000);
    peer->process.ctx_id -= (unsigned)_i;
    fake_ucp_hold(0);
    pair_run();
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("refuse");

    tcase_add_loop_test(tcase, a_closing_context_waits_little_for_one_of_its_process, 0,
                        2);
    tcase_add_loop_test(tcase, a_rank_is_below_its_size, 0, 4);
    tcase_add_test(tcase, a_worker_of_the_caller_comes_with_its_context);
    tcase_add_test(tcase, a_poll_has_room_for_an_event);
    tcase_add_loop_test(tcase, a_wrong_list_is_not_exposed, 0, 6);
    tcase_add_test(tcase,
                   a_leg_is_exposed_once_by_the_waiting_side_with_existing_blocks);
    tcase_add_loop_test(tcase, a_wrong_list_of_a_peer_fails_the_transfer, 0, 3);
    tcase_add_test(tcase, an_instance_is_opened_once_and_leads_to_each_peer_once);
    tcase_add_test(tcase, two_epochs_of_an_id_are_two_instances);
    tcase_add_test(tcase, nothing_is_posted_on_a_stale_map);
    tcase_add_test(tcase, a_post_is_for_a_leg_of_the_active_side_that_has_not_ended);
    tcase_add_test(tcase, an_open_gate_is_not_checked_again);
    tcase_add_test(tcase, a_closed_gate_is_not_checked_after_the_end);
    tcase_add_test(tcase, a_gate_that_fails_fails_the_transfer);
    tcase_add_test(tcase, a_reader_is_quiet_behind_its_gets);
    tcase_add_test(tcase, a_writer_is_quiet_behind_its_flush);
    tcase_add_test(tcase, a_leg_is_sealed_once_by_the_posting_side_when_it_is_bound);
    tcase_add_loop_test(tcase, what_can_be_no_transfer_is_not_opened, 0, 7);
    tcase_add_loop_test(tcase, each_phase_has_its_own_time, 0, 2);
    tcase_add_test(tcase, a_transfer_is_of_one_context);
    tcase_add_test(tcase, an_abort_has_an_error);
    tcase_add_loop_test(tcase, an_abort_changes_nothing_that_has_ended, 0, 2);
    return pair_main("mkv_refuse", tcase);
}
