/* SPDX-License-Identifier: BSD-3-Clause */

/* READ by the owner's puts: its bytes, its ends, and forbidden calls of a reader. */

#include "test/support/mkv_pair.h"

#include "src/message/message.h"
#include "src/post/post_units.h"

#include <stdlib.h>
#include <string.h>

#define NUM 16u
#define PIECES (NUM * 4 * PAIR_PARTS) /* four layers, nothing merges */
#define PUTS (FAKE_UCP_PUT | FAKE_UCP_LIST)

static mkv_xfer_t *reader, *owner; /* of A and of B */
static mkv_plan_t *plan;

/* B exposes its blocks 4..19, A reads them in reverse into its 0..15 */
static void bind_read(uint32_t flags)
{
    reader = pair_xfer(A, 1, 1, MKV_READ, MKV_DST);
    owner = pair_xfer(B, 0, 1, MKV_READ, MKV_SRC);
    pair_expose(owner, 4, NUM);
    pair_run();
    plan = pair_plan(A, 1, 0, 4, NUM, flags);
}

static void post_all(void)
{
    OK(mkv_xfer_post(reader, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(reader, 0));
    pair_run();
}

static void check_moved(void)
{
    uint32_t i;

    for (i = 0; i < PAIR_BLOCKS; ++i) {
        ck_assert(i < NUM ? pair_holds(A, i, 1, 4 + NUM - 1 - i)
                          : pair_holds(A, i, 0, i));
        ck_assert(pair_holds(B, i, 1, i));
    }
}

static void check_done(void)
{
    ck_assert_int_eq(pair_query(reader).state, MKV_XFER_DONE);
    ck_assert_int_eq(pair_query(owner).state, MKV_XFER_DONE);
    ck_assert_uint_eq(pair_count(A, MKV_EV_DONE, reader), 1);
    ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, reader), 1);
    ck_assert_uint_eq(pair_count(B, MKV_EV_DONE, owner), 1);
    ck_assert_uint_eq(pair_count(B, MKV_EV_QUIET, owner), 1);
    check_moved();
}

static void finish(void)
{
    pair_close(reader, owner, plan);
    pair_teardown();
}

/* ---- Choice of the way ----------------------------------------------------------- */

/* Loop index: the option, at the reader and at the owner; gets are the control */
/* XF-10 */
START_TEST(a_read_is_put_by_its_owner_by_default)
{
    static const struct {
        const char *reader, *owner;
        unsigned pulls;
    } cases[] = {{"auto", "auto", 1}, {"push", "auto", 1}, {"get", "auto", 0},
                 {"auto", "get", 0},  {"push", "get", 0},  {"auto", "push", 1}};
    unsigned is_push = cases[_i].pulls;

    fake_ucp_reset();
    pair_now = 1000000000ull;
    pair_set("READ_BY", cases[_i].reader);
    pair_open(0);
    pair_set("READ_BY", cases[_i].owner);
    pair_open(1);
    pair_connect(0, 1);
    bind_read(0);
    post_all();
    check_done();
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_GET), is_push ? 0 : PIECES);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_LIST), is_push ? 1 : 0);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_PUT), 0);
    ck_assert_uint_eq(pair_stats(A).pulls_sent, is_push);
    ck_assert_uint_eq(pair_stats(B).pulls_served, is_push);
    ck_assert_uint_eq(pair_stats(B).bytes_pushed, is_push * PIECES * PAIR_BYTES);
    ck_assert_uint_eq(pair_stats(A).bytes_read, PIECES * PAIR_BYTES);
    ck_assert_uint_eq(pair_query(reader).completed, PIECES);
    ck_assert_uint_eq(pair_query(reader).bytes, PIECES * PAIR_BYTES);
    ck_assert_uint_eq(pair_query(owner).bytes, PIECES * PAIR_BYTES);
    finish();
}
END_TEST

/* Loop index: a lane without lists; such a lane with READ_BY=push; a small post */
/* XF-10 */
START_TEST(auto_requests_a_put_where_it_is_one_call)
{
    if (_i == 1) {
        pair_set("READ_BY", "push");
    } else if (_i == 2) {
        mkv_tuning.push_min = 129;
    }
    pair_setup();
    if (_i < 2) {
        pair_teardown();
        fake_ucp_set_transport("tcp");
        pair_now = 1000000000ull;
        pair_open(0);
        pair_open(1);
        pair_connect(0, 1);
    }
    bind_read(0);
    post_all();
    check_done();
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_GET), (_i == 1) ? 0 : PIECES);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_PUT), (_i == 1) ? PIECES : 0);
    finish();
}
END_TEST

/* WR-01, XF-10 */
START_TEST(a_peer_that_cannot_push_gets_no_request)
{
    pair_set("READ_BY", "push");
    pair_setup();
    A->peers[1]->remote.info.features = 0; /* without MKV_FEATURE_PUSH */
    bind_read(0);
    post_all();
    check_done();
    ck_assert_uint_eq(pair_stats(A).pulls_sent, 0);
    finish();
}
END_TEST

/* Loop index: layer by layer; by positions */
/* XF-10 */
START_TEST(a_plan_travels_once)
{
    mkv_sel_t sel = {.size = sizeof(sel)};
    uint64_t messages;
    unsigned i;

    mkv_tuning.push_min = 1;
    pair_setup();
    bind_read(MKV_PLAN_KEEP_ORDER);
    messages = B->ctx->count.msgs_received;
    for (i = 0; i < 4; ++i) {
        sel.fields = _i ? MKV_SEL_POSITIONS : MKV_SEL_LAYERS;
        sel.layer_lo = _i ? 0 : (int32_t)i;
        sel.layer_hi = _i ? 0 : (int32_t)i + 1;
        sel.pos_lo = _i ? 4 * i : 0;
        sel.pos_hi = _i ? 4 * i + 4 : 0;
        OK(mkv_xfer_post(reader, 0, plan, &sel, NULL));
        pair_run();
        ck_assert_uint_eq(pair_query(reader).completed, (i + 1) * PIECES / 4);
        ck_assert_uint_eq(reader->legs[0].pulled_plan, plan->serial);
    }
    OK(mkv_xfer_seal(reader, 0));
    pair_run();
    check_done();
    ck_assert_uint_eq(pair_stats(B).pulls_served, 4);
    ck_assert_uint_eq(pair_stats(B).plans_created, 1);
    ck_assert_uint_eq(B->ctx->count.msgs_received - messages, 5); /* and FIN */
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_GET), 0);
    finish();
}
END_TEST

START_TEST(a_plan_too_large_for_a_message_is_got)
{
    pair_setup();
    bind_read(0);
    ((mkv_options_t *)(uintptr_t)A->ctx->opts)->max_message = 300;
    post_all();
    check_done();
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_GET), PIECES);
    finish();
}
END_TEST

/* Loop index: the owner's map is stale; its pairs are others; it has no memory for it
 */
/* XF-10 */
START_TEST(what_the_owner_refuses_is_got)
{
    pair_setup();
    bind_read(0);
    if (_i == 0) {
        B->maps[0]->is_stale = 1;
    } else if (_i == 1) {
        ++B->maps[0]->pairs[3].remote_id;
    } else {
        ((mkv_options_t *)(uintptr_t)B->ctx->opts)->max_queued = 127;
    }
    post_all();
    check_done();
    ck_assert_uint_eq(pair_stats(A).pulls_refused, 1);
    ck_assert_uint_eq(pair_stats(B).pulls_served, 0);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_GET), PIECES);
    ck_assert_uint_eq(fake_ucp_num_calls(PUTS), 0);
    if (_i == 1) {
        --B->maps[0]->pairs[3].remote_id;
    }
    finish();
}
END_TEST

static void touch(mkv_pair_t *pair, unsigned which, int by)
{
    mkv_place_t *here = &pair->here, *there = &pair->there;
    mkv_grid_t *grid = &pair->grid;
    uint64_t *const words[] = {&here->base,       &here->stride,    &here->step,
                               &there->base,      &there->stride,   &there->step,
                               &grid->local_row,  &grid->local_col, &grid->remote_row,
                               &grid->remote_col, &grid->length};
    uint32_t *const halves[] = {&here->split, &there->split, &grid->rows, &grid->cols};
    const unsigned num_words = sizeof(words) / sizeof(words[0]);

    if (which < num_words) {
        *words[which] += (uint64_t)by;
    } else {
        *halves[which - num_words] += (uint32_t)by;
    }
}

/* The reader has layers of the next pipeline stage as well, and selects some of both */
START_TEST(a_range_beyond_the_layers_of_the_owner_is_put)
{
    mkv_map_params_t params = {.size = sizeof(params), .flags = MKV_MAP_INTERSECT};
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_LAYERS, .layer_hi = 1};
    uint8_t blob[4096];
    size_t length = sizeof(blob);

    pair_set("READ_BY", "push");
    fake_ucp_reset();
    pair_now = 1000000000ull;
    pair_open(0);
    pair_layers = 2; /* from here on; the reader has four */
    pair_open(1);
    OK(mkv_blob(B->ctx, MKV_BLOB_ADDR, blob, &length));
    OK(mkv_peer_add(A->ctx, blob, length, NULL, &A->peers[1]));
    pair_run();
    B->peers[0] = mkv_peer_find(B->ctx, A->ctx->process.ctx_id);
    OK(mkv_map_create(A->peers[1], &params, &A->maps[1]));
    OK(mkv_map_create(B->peers[0], &params, &B->maps[0]));
    pair_run();
    bind_read(0);
    OK(mkv_xfer_post(reader, 0, plan, &sel, NULL));
    sel.layer_lo = 1;
    sel.layer_hi = 3;
    OK(mkv_xfer_post(reader, 0, plan, &sel, NULL));
    OK(mkv_xfer_seal(reader, 0));
    pair_run();
    check_done();
    ck_assert_uint_eq(pair_stats(B).pulls_served, 2);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_GET), 0);
    finish();
}
END_TEST

/* Maps that were made at different times. Loop index: the difference in the owner's map
 */
START_TEST(bytes_of_which_the_sides_differ_are_not_put)
{
    pair_setup();
    bind_read(0);
    touch(&B->maps[0]->pairs[3], (unsigned)_i, 1);
    post_all();
    touch(&B->maps[0]->pairs[3], (unsigned)_i, -1);
    check_done();
    ck_assert_uint_eq(pair_stats(A).pulls_refused, 1);
    ck_assert_uint_eq(fake_ucp_num_calls(PUTS), 0);
    finish();
}
END_TEST

/* The reader has given up when the answer arrives: it posts no gets, and waits for none
 */
START_TEST(a_refusal_that_comes_too_late_moves_nothing)
{
    pair_setup();
    bind_read(0);
    B->maps[0]->is_stale = 1;
    fake_ucp_hold_peer(fake_ucp_worker(0));
    OK(mkv_xfer_post(reader, 0, plan, NULL, NULL));
    pair_run();
    OK(mkv_xfer_abort(reader, MKV_ERR_ABORTED, NULL));
    fake_ucp_hold_peer(NULL);
    pair_run();
    ck_assert(pair_query(reader).is_quiet);
    ck_assert(mkv_list_is_empty(&reader->legs[0].posts));
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_GET | PUTS), 0);
    finish();
}
END_TEST

START_TEST(lists_refused_there_go_piece_by_piece)
{
    pair_setup();
    fake_ucp_set_lists(0);
    bind_read(0);
    post_all();
    check_done();
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_PUT), PIECES);
    finish();
}
END_TEST

START_TEST(pushes_take_the_credits_of_their_owner)
{
    fake_ucp_reset();
    pair_now = 1000000000ull;
    pair_open(0);
    pair_set("MAX_INFLIGHT_OPS", "3");
    mkv_tuning.sgl_max = 5;
    pair_open(1);
    pair_connect(0, 1);
    bind_read(0);
    fake_ucp_hold(PUTS);
    post_all();
    ck_assert_uint_eq(fake_ucp_num_waiting(PUTS), 3);
    ck_assert_uint_eq(pair_stats(B).inflight_ops, 3);
    fake_ucp_hold(0);
    pair_run();
    check_done();
    ck_assert_uint_eq(pair_stats(B).inflight_bytes, 0);
    finish();
}
END_TEST

/* ---- Complete -------------------------------------------------------------------- */

/* Completion of the put suffices on this lane. Loop index: 0 lists of mori_xgmi.
 * Controls: 1 a different lane, 2 a second lane that takes lists as well, 3 single
 * calls, 4 lists forced over any lane */
START_TEST(what_mori_xgmi_has_put_has_arrived)
{
    static const char *const sgl[] = {"try", "try", "try", "no", "yes"};

    pair_set("READ_BY", "push");
    pair_set("SGL", sgl[_i]);
    fake_ucp_reset();
    fake_ucp_set_transport((_i == 1) ? "mori_rdma" : "mori_xgmi");
    fake_ucp_add_transport((_i == 2) ? "mori_rdma" : "tcp");
    pair_now = 1000000000ull;
    pair_open(0);
    pair_open(1);
    pair_connect(0, 1);
    bind_read(0);
    fake_ucp_hold(FAKE_UCP_FLUSH);
    OK(mkv_xfer_post(reader, 0, plan, NULL, NULL));
    pair_run();
    ck_assert_uint_eq(pair_query(reader).completed, (_i == 0) ? PIECES : 0);
    OK(mkv_xfer_seal(reader, 0));
    fake_ucp_hold(0);
    pair_run();
    check_done();
    finish();
}
END_TEST

/* Loop index: the held call; the control is that it then ends */
/* XF-11 */
START_TEST(done_waits_for_the_put_and_its_flush)
{
    pair_setup_over("mori_rdma");
    bind_read(0);
    fake_ucp_hold(_i ? FAKE_UCP_FLUSH : FAKE_UCP_LIST);
    post_all();
    ck_assert_uint_eq(pair_query(reader).completed, 0);
    ck_assert_uint_eq(pair_count(A, MKV_EV_DONE, NULL), 0);
    ck_assert_ptr_nonnull(strstr(pair_query(reader).waiting_for, "the owner's puts"));
    fake_ucp_hold(0);
    pair_run();
    check_done();
    finish();
}
END_TEST

/* A flush that began before a put does not cover it */
/* XF-11 */
START_TEST(a_later_push_waits_for_a_flush_of_its_own)
{
    mkv_sel_t sel = {
        .size = sizeof(sel), .fields = MKV_SEL_LAYERS, .layer_lo = 0, .layer_hi = 2};

    pair_setup_over("mori_rdma");
    bind_read(0);
    fake_ucp_hold(FAKE_UCP_FLUSH);
    OK(mkv_xfer_post(reader, 0, plan, &sel, NULL));
    pair_run();
    ck_assert_uint_eq(fake_ucp_num_waiting(FAKE_UCP_FLUSH), 1);
    sel.layer_lo = 2;
    sel.layer_hi = 4;
    OK(mkv_xfer_post(reader, 0, plan, &sel, NULL));
    OK(mkv_xfer_seal(reader, 0));
    fake_ucp_hold(FAKE_UCP_FLUSH | FAKE_UCP_LIST);
    pair_run();
    fake_ucp_hold(FAKE_UCP_LIST); /* the first flush ends, the second put does not */
    pair_run();
    ck_assert_uint_eq(pair_query(reader).completed, PIECES / 2);
    fake_ucp_hold(FAKE_UCP_FLUSH);
    pair_run();
    ck_assert_uint_eq(pair_query(reader).completed, PIECES / 2);
    ck_assert_uint_eq(fake_ucp_num_waiting(FAKE_UCP_FLUSH), 1);
    fake_ucp_hold(0);
    pair_run();
    check_done();
    finish();
}
END_TEST

START_TEST(pushes_complete_in_every_order)
{
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_LAYERS};
    unsigned seed;

    mkv_tuning.push_min = 1;
    mkv_tuning.sgl_max = 7;
    for (seed = 1; seed < 30; ++seed) {
        pair_setup();
        fake_ucp_shuffle(seed);
        fake_ucp_set_lists(seed % 3);
        bind_read(0);
        for (sel.layer_lo = 0; sel.layer_lo < 4; ++sel.layer_lo) {
            sel.layer_hi = sel.layer_lo + 1;
            OK(mkv_xfer_post(reader, 0, plan, &sel, NULL));
        }
        OK(mkv_xfer_seal(reader, 0));
        pair_run();
        check_done();
        finish();
    }
}
END_TEST

/* ---- Ends by error --------------------------------------------------------------- */

/* Loop index: bit 0 the owner aborts, bit 1 the flush is held instead of the put */
/* XF-11 */
START_TEST(memory_is_quiet_when_the_owner_puts_no_more)
{
    int by_owner = _i & 1;

    pair_setup_over("mori_rdma");
    bind_read(0);
    fake_ucp_hold((_i & 2) ? FAKE_UCP_FLUSH : FAKE_UCP_LIST);
    OK(mkv_xfer_post(reader, 0, plan, NULL, NULL));
    pair_run();
    OK(mkv_xfer_abort(by_owner ? owner : reader, MKV_ERR_ABORTED, "test"));
    pair_run();
    ck_assert_int_eq(pair_query(reader).state, MKV_XFER_ABORTED);
    ck_assert_int_eq(pair_query(owner).state, MKV_XFER_ABORTED);
    ck_assert(!pair_query(reader).is_quiet);
    ck_assert(!pair_query(owner).is_quiet);
    IS(mkv_plan_destroy(plan), MKV_ERR_BUSY);
    fake_ucp_hold(0);
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, reader), 1);
    ck_assert_uint_eq(pair_count(B, MKV_EV_QUIET, owner), 1);
    ck_assert_uint_eq(pair_stats(B).inflight_ops, 0);
    finish();
}
END_TEST

START_TEST(a_put_that_fails_there_fails_both_sides)
{
    pair_setup();
    bind_read(0);
    fake_ucp_fail(FAKE_UCP_LIST, 0, UCS_ERR_IO_ERROR);
    OK(mkv_xfer_post(reader, 0, plan, NULL, NULL));
    pair_run();
    ck_assert_int_eq(pair_query(reader).status, MKV_ERR_TRANSPORT);
    ck_assert_int_eq(pair_query(owner).status, MKV_ERR_TRANSPORT);
    ck_assert_ptr_nonnull(strstr(pair_query(reader).error, "list put"));
    ck_assert(pair_query(reader).is_quiet);
    ck_assert(pair_query(owner).is_quiet);
    finish();
}
END_TEST

/* The reader's memory stays quarantined while the owner may put into it */
/* XF-11 */
START_TEST(a_stopped_owner_ends_by_the_deadline)
{
    pair_setup();
    bind_read(0);
    B->is_stopped = 1;
    fake_ucp_stop_worker(fake_ucp_worker(1), 1);
    OK(mkv_xfer_post(reader, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(reader, 0));
    pair_run();
    pair_now += 300001 * MKV_NSEC_PER_MSEC;
    pair_run();
    ck_assert_int_eq(pair_query(reader).status, MKV_ERR_XFER_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(pair_query(reader).error, "the owner's puts"));
    ck_assert(!pair_query(reader).is_quiet);
    pair_now += 30001 * MKV_NSEC_PER_MSEC;
    pair_run();
    ck_assert(pair_query(reader).is_quarantined);
    pair_now += 1000 * MKV_NSEC_PER_MSEC;
    pair_run();
    ck_assert(!pair_query(reader).is_quiet);
    B->is_stopped = 0; /* it detects that it was cut */
    fake_ucp_stop_worker(fake_ucp_worker(1), 0);
    pair_now += 1000 * MKV_NSEC_PER_MSEC;
    pair_run();
    pair_now += 1000 * MKV_NSEC_PER_MSEC;
    pair_run();
    ck_assert(pair_query(reader).is_quiet);
    OK(mkv_plan_destroy(plan)); /* nothing of it is kept */
    pair_close(reader, owner, NULL);
    pair_teardown();
}
END_TEST

/* ---- A false reader -------------------------------------------------------------- */

static mkv_msg_t message_of(const mkv_xfer_t *xfer, mkv_msg_type_t type)
{
    return (mkv_msg_t){.type = type,
                       .id = xfer->id,
                       .epoch = xfer->epoch,
                       .from_nonce = xfer->nonce,
                       .to_nonce = xfer->legs[0].remote_nonce,
                       .plan = 77,
                       .serial = 5,
                       .sel = {.size = sizeof(mkv_sel_t)}};
}

static void check_failed(mkv_status_t status, const char *text)
{
    ck_assert_int_eq(pair_query(owner).status, status);
    ck_assert_msg(strstr(pair_query(owner).error, text) != NULL, "%s",
                  pair_query(owner).error);
    ck_assert_int_eq(pair_query(reader).status, status);
    ck_assert_uint_eq(fake_ucp_num_calls(PUTS), 0);
    ck_assert(pair_query(owner).is_quiet);
    ck_assert(pair_query(reader).is_quiet);
}

/* Loop index: one block before the exposed ones; one behind them; none of its own */
/* XF-11 */
START_TEST(what_was_not_exposed_is_not_put)
{
    mkv_plan_t *other;

    pair_setup();
    bind_read(0);
    other = pair_plan(A, 1, 0, (_i == 0) ? 3 : ((_i == 1) ? 5 : 20),
                      (_i == 2) ? 12 : NUM, MKV_PLAN_UNCHECKED);
    OK(mkv_xfer_post(reader, 0, other, NULL, NULL));
    pair_run();
    check_failed(MKV_ERR_BOUNDS, "B has not exposed block");
    OK(mkv_plan_destroy(other));
    finish();
}
END_TEST

/* Loop index: a run; the words of it are not those of blocks that exist. Then two
 * runs have more blocks than a plan has numbers for, in regions that have them, and
 * many have more than the owner has room for */
/* XF-11 */
START_TEST(runs_from_the_wire_are_bounded)
{
    static const mkv_run_t runs[] = {
        {.local = 0, .remote = 4, .count = UINT32_MAX},
        {.local = UINT32_MAX, .remote = 4, .count = 1},
        {.local = 0, .remote = UINT32_MAX, .count = 1},
        {.local = 0, .remote = 31, .count = 2},
        {.local = 31, .remote = 4, .count = 2},
        {.count = UINT32_MAX},
        {.count = 5},
    };
    mkv_run_t many[16];
    const mkv_run_t *given = (_i == 6) ? many : &runs[_i];
    const uint32_t nums[] = {1, 1, 1, 1, 1, 2, 16};
    mkv_map_component_t *component;
    uint64_t units;
    mkv_msg_t msg;
    size_t i;

    for (i = 0; i < 16; ++i) {
        many[i] = (mkv_run_t){.remote = 4, .count = NUM};
    }
    pair_set("MAX_QUEUED", "inf");
    pair_setup();
    bind_read(0);
    component = &B->maps[0]->components[0];
    units = component->local_units;
    if (_i == 5) {
        component->local_units = component->remote_units = UINT64_MAX / 2;
    } else if (_i == 6) {
        ((mkv_options_t *)(uintptr_t)B->ctx->opts)->max_queued = 16 * NUM * 8 - 1;
    }
    msg = message_of(reader, MKV_MSG_PULL);
    msg.num_units = 1;
    msg.units[0] = (mkv_wire_units_t){.num = nums[_i], .ids = (const uint8_t *)given};
    OK(mkv_message_send(A->peers[1], &msg));
    pair_run();
    ck_assert_int_ne(pair_query(reader).status, MKV_INPROGRESS);
    ck_assert_int_ne(pair_query(reader).status, MKV_OK);
    ck_assert_uint_eq(fake_ucp_num_calls(PUTS), 0);
    ck_assert_uint_eq(pair_stats(B).plans_created, 0);
    component->local_units = component->remote_units = units;
    finish();
}
END_TEST

/* Set the digest and bytes that a pull of these blocks has, so that only the selection
 * is wrong */
static void set_digest(mkv_msg_t *msg, uint32_t num)
{
    mkv_plan_t *mine = pair_plan(B, 0, 4, 0, num, MKV_PLAN_KEEP_ORDER);
    mkv_post_t post = {.leg = &owner->legs[0], .plan = mine};

    msg->digest = mkv_post_digest(&post, &msg->bytes);
    OK(mkv_plan_destroy(mine));
}

#define MANY 500u

/* A reader requests more than the owner keeps for one peer. Loop index: all requests
 * have one plan */
/* XF-11 */
START_TEST(what_a_reader_requests_is_bounded)
{
    static const mkv_run_t run = {.local = 0, .remote = 4, .count = 2};
    uint64_t num;
    mkv_msg_t msg;
    unsigned i;

    pair_setup();
    bind_read(0);
    ((mkv_options_t *)(uintptr_t)B->ctx->opts)->max_queued = 65536;
    msg = message_of(reader, MKV_MSG_PULL);
    msg.num_units = 1;
    msg.units[0] = (mkv_wire_units_t){.num = 1, .ids = (const uint8_t *)&run};
    set_digest(&msg, 2);
    num = pair_stats(B).plans_created;
    fake_ucp_hold(FAKE_UCP_PUT | FAKE_UCP_LIST);
    for (i = 0; i < MANY; ++i) {
        msg.plan += _i ? 0 : 1;
        msg.serial = i + 1;
        OK(mkv_message_send(A->peers[1], &msg));
    }
    pair_run();
    ck_assert_int_eq(pair_query(reader).status, MKV_ERR_PROTOCOL); /* it is refused */
    num = pair_stats(B).plans_created - num;
    ck_assert_uint_ge(num, _i ? 1 : 10);
    ck_assert_uint_lt(num, _i ? 2 : MANY / 2);
    fake_ucp_hold(0);
    pair_run();
    pair_close(reader, owner, plan);
    ck_assert_uint_eq(B->peers[0]->push_bytes, 0);
    pair_teardown();
}
END_TEST

/* Loop index: none; unknown fields; an unknown plan; a part of the units; the
 * notification flag, which selects no part */
START_TEST(a_selection_from_the_wire_is_checked)
{
    static const mkv_run_t run = {.local = 0, .remote = 4, .count = 2};
    mkv_msg_t msg;

    pair_setup();
    bind_read(0);
    msg = message_of(reader, MKV_MSG_PULL);
    msg.num_units = (_i == 2) ? 0 : 1;
    msg.units[0] = (mkv_wire_units_t){.num = 1, .ids = (const uint8_t *)&run};
    msg.sel.fields =
        ((const uint32_t[]){0, 64, 0, MKV_SEL_POSITIONS, MKV_SEL_NOTIFY})[_i];
    msg.sel.pos_hi = (_i == 3) ? 3 : 0; /* there are two */
    set_digest(&msg, 2);
    OK(mkv_message_send(A->peers[1], &msg));
    pair_run();
    ck_assert_uint_eq(fake_ucp_num_calls(PUTS) > 0, (_i == 0));
    /* PULLED comes without a request, unless the owner has already failed */
    ck_assert_int_eq(pair_query(reader).status,
                     (_i == 3) ? MKV_ERR_BOUNDS : MKV_ERR_PROTOCOL);
    finish();
}
END_TEST

/* The sender has the block list, and has not bound */
START_TEST(a_pull_before_the_binding_fails)
{
    mkv_msg_t msg;

    pair_setup();
    owner = pair_xfer(B, 0, 1, MKV_READ, MKV_SRC);
    pair_expose(owner, 4, NUM);
    pair_run();
    msg = message_of(owner, MKV_MSG_PULL);
    msg.from_nonce = 12345;
    msg.to_nonce = owner->nonce;
    OK(mkv_message_send(A->peers[1], &msg));
    pair_run();
    ck_assert_int_eq(pair_query(owner).status, MKV_ERR_PROTOCOL);
    ck_assert_ptr_nonnull(
        strstr(pair_query(owner).error, "it sent PULL while exposed"));
    ck_assert_uint_eq(fake_ucp_num_calls(PUTS), 0);
    OK(mkv_xfer_close(owner));
    pair_teardown();
}
END_TEST

START_TEST(pulled_unasked_fails)
{
    mkv_msg_t msg;

    pair_setup();
    bind_read(0);
    msg = message_of(owner, MKV_MSG_PULLED);
    OK(mkv_message_send(B->peers[0], &msg));
    pair_run();
    check_failed(MKV_ERR_PROTOCOL, "PULLED of post 5");
    finish();
}
END_TEST

/* The bytes of the first one stay as long as the transfer. Loop index: whether its
 * event was there before the second one */
START_TEST(a_second_end_fails)
{
    const void *data;
    mkv_msg_t msg;
    size_t length;

    pair_setup();
    bind_read(0);
    msg = message_of(reader, MKV_MSG_FIN);
    msg.data = (const uint8_t *)"bytes";
    msg.length = 5;
    OK(mkv_message_send(A->peers[1], &msg));
    if (_i == 1) {
        pair_run();
    }
    msg.data = (const uint8_t *)"other";
    OK(mkv_message_send(A->peers[1], &msg));
    pair_run();
    ck_assert_int_eq(pair_query(owner).status, (_i == 0) ? MKV_ERR_PROTOCOL : MKV_OK);
    if (_i == 1) {
        OK(mkv_xfer_done_data(owner, 0, &data, &length));
        ck_assert_uint_eq(length, 5);
        ck_assert_mem_eq(data, "bytes", 5);
    }
    OK(mkv_xfer_abort(reader, MKV_ERR_ABORTED, NULL));
    pair_run();
    finish();
}
END_TEST

/* The owner's claimed bytes are the requested ones */
START_TEST(pulled_of_other_bytes_fails)
{
    mkv_msg_t msg;

    pair_setup();
    bind_read(0);
    fake_ucp_hold(FAKE_UCP_LIST);
    OK(mkv_xfer_post(reader, 0, plan, NULL, NULL));
    pair_run();
    msg = message_of(owner, MKV_MSG_PULLED);
    msg.serial = 1;
    msg.bytes = 100;
    OK(mkv_message_send(B->peers[0], &msg));
    pair_run();
    ck_assert_int_eq(pair_query(reader).status, MKV_ERR_LENGTH);
    fake_ucp_hold(0);
    pair_run();
    ck_assert(pair_query(reader).is_quiet);
    finish();
}
END_TEST

static mkv_xfer_t *other_reader, *other_owner;
static mkv_plan_t *other_plan;

/* Start a second transfer between A and B, and post it */
static void start_another(void)
{
    other_reader = pair_xfer(A, 1, 2, MKV_READ, MKV_DST);
    other_owner = pair_xfer(B, 0, 2, MKV_READ, MKV_SRC);
    pair_expose(other_owner, 24, 4);
    pair_run();
    other_plan = pair_plan(A, 1, 24, 24, 4, 0);
    OK(mkv_xfer_post(other_reader, 0, other_plan, NULL, NULL));
    OK(mkv_xfer_seal(other_reader, 0));
    pair_run();
}

/* A reader that sends RELEASE before PULLED is not trusted: the owner gets its blocks
 * back when the puts have ended. Loop index: the puts run; they are being flushed; they
 * wait for credits of a different transfer, or for its flush. */
/* XF-11 */
START_TEST(a_release_in_mid_push_frees_nothing)
{
    mkv_msg_t msg;

    mkv_tuning.push_min = 1;
    if (_i == 2) {
        pair_set("MAX_INFLIGHT_OPS", "1");
    }
    pair_setup_over("mori_rdma");
    bind_read(0);
    fake_ucp_hold((_i & 1) ? FAKE_UCP_FLUSH : FAKE_UCP_LIST);
    if (_i > 1) {
        start_another();
    }
    OK(mkv_xfer_post(reader, 0, plan, NULL, NULL));
    pair_run();
    msg = message_of(reader, MKV_MSG_FIN);
    OK(mkv_message_send(A->peers[1], &msg));
    pair_run();
    ck_assert_int_eq(pair_query(owner).status, MKV_ERR_PROTOCOL);
    ck_assert_int_eq(pair_query(owner).is_quiet, _i == 2); /* none was given to UCX */
    fake_ucp_hold(0);
    pair_run();
    ck_assert(pair_query(owner).is_quiet);
    ck_assert(pair_query(reader).is_quiet);
    if (_i > 1) {
        ck_assert_int_eq(pair_query(other_reader).status, MKV_OK);
        pair_close(other_reader, other_owner, other_plan);
    }
    finish();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("pull");

    tcase_add_loop_test(tcase, a_read_is_put_by_its_owner_by_default, 0, 6);
    tcase_add_loop_test(tcase, auto_requests_a_put_where_it_is_one_call, 0, 3);
    tcase_add_test(tcase, a_peer_that_cannot_push_gets_no_request);
    tcase_add_loop_test(tcase, a_plan_travels_once, 0, 2);
    tcase_add_test(tcase, a_plan_too_large_for_a_message_is_got);
    tcase_add_loop_test(tcase, what_the_owner_refuses_is_got, 0, 3);
    tcase_add_test(tcase, a_range_beyond_the_layers_of_the_owner_is_put);
    tcase_add_loop_test(tcase, bytes_of_which_the_sides_differ_are_not_put, 0, 15);
    tcase_add_test(tcase, a_refusal_that_comes_too_late_moves_nothing);
    tcase_add_test(tcase, lists_refused_there_go_piece_by_piece);
    tcase_add_test(tcase, pushes_take_the_credits_of_their_owner);
    tcase_add_loop_test(tcase, what_mori_xgmi_has_put_has_arrived, 0, 5);
    tcase_add_loop_test(tcase, done_waits_for_the_put_and_its_flush, 0, 2);
    tcase_add_test(tcase, a_later_push_waits_for_a_flush_of_its_own);
    tcase_add_test(tcase, pushes_complete_in_every_order);
    tcase_add_loop_test(tcase, memory_is_quiet_when_the_owner_puts_no_more, 0, 4);
    tcase_add_test(tcase, a_put_that_fails_there_fails_both_sides);
    tcase_add_test(tcase, a_stopped_owner_ends_by_the_deadline);
    tcase_add_loop_test(tcase, what_was_not_exposed_is_not_put, 0, 3);
    tcase_add_loop_test(tcase, runs_from_the_wire_are_bounded, 0, 7);
    tcase_add_loop_test(tcase, what_a_reader_requests_is_bounded, 0, 2);
    tcase_add_loop_test(tcase, a_selection_from_the_wire_is_checked, 0, 5);
    tcase_add_test(tcase, a_pull_before_the_binding_fails);
    tcase_add_test(tcase, pulled_unasked_fails);
    tcase_add_loop_test(tcase, a_second_end_fails, 0, 2);
    tcase_add_test(tcase, pulled_of_other_bytes_fails);
    tcase_add_loop_test(tcase, a_release_in_mid_push_frees_nothing, 0, 4);
    return pair_main("mkv_pull", tcase);
}
