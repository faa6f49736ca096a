/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Option STAGE_BELOW: pieces by way of staging, its bounds and ends, and messages that
 * a peer must not send.
 */

#include "test/support/mkv_pair.h"

#include "src/stage/stage_buf.h"
#include "src/xfer/leg.h"

#include <stdlib.h>
#include <string.h>

#define NUM 16u
#define PIECES (NUM * 4 * PAIR_PARTS) /* four layers, nothing merges */
#define SLOT 512u
#define CHUNKS (PIECES * PAIR_BYTES / SLOT)
#define FIRST 4 /* block of B */

static mkv_xfer_t *source, *sink; /* of A and of B */
static mkv_mode_t mode;           /* READ: A puts what B requests */
static mkv_plan_t *plan;

/* pair_teardown() undoes it */
static void set_tuning(void)
{
    mkv_tuning.stage_slot = SLOT;
    mkv_tuning.stage_min = 1;
}

static void set_options(void)
{
    mode = MKV_WRITE;
    pair_set("STAGE_BELOW", "65");
    set_tuning();
}

static void set_up(void)
{
    set_options();
    pair_setup_over("mori_rdma");
}

static mkv_xfer_t *poster(void)
{
    return (mode == MKV_READ) ? sink : source;
}

/* A's blocks 0..15 move in reverse to B's 4..19 */
static void bind_xfer(void)
{
    A->num_events = B->num_events = 0;
    source = pair_xfer(A, 1, 1, mode, MKV_SRC);
    sink = pair_xfer(B, 0, 1, mode, MKV_DST);
    if (mode == MKV_READ) {
        pair_expose(source, 0, NUM);
    } else {
        pair_expose(sink, FIRST, NUM);
    }
    pair_run();
    plan = (mode == MKV_READ) ? pair_plan(B, 0, FIRST, 0, NUM, 0)
                              : pair_plan(A, 1, 0, FIRST, NUM, 0);
}

static void post_all(void)
{
    OK(mkv_xfer_post(poster(), 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(poster(), 0));
    pair_run();
}

static void check_moved(void)
{
    uint32_t i;

    for (i = 0; i < PAIR_BLOCKS; ++i) {
        ck_assert((i < FIRST) || (i >= FIRST + NUM)
                      ? pair_holds(B, i, 1, i)
                      : pair_holds(B, i, 0, FIRST + NUM - 1 - i));
        ck_assert(pair_holds(A, i, 0, i));
    }
}

static void check_done(void)
{
    ck_assert_int_eq(pair_query(source).state, MKV_XFER_DONE);
    ck_assert_int_eq(pair_query(sink).state, MKV_XFER_DONE);
    ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, source), 1);
    ck_assert_uint_eq(pair_count(B, MKV_EV_DONE, sink), 1);
    ck_assert_uint_eq(pair_count(B, MKV_EV_QUIET, sink), 1);
    ck_assert_uint_eq(pair_query(poster()).completed, PIECES);
    ck_assert_uint_eq(pair_query(source).bytes, PIECES * PAIR_BYTES);
    ck_assert_uint_eq(pair_query(sink).bytes, PIECES * PAIR_BYTES);
    ck_assert_uint_eq(pair_stats(A).inflight_ops, 0);
    ck_assert_uint_eq(pair_stats(A).inflight_bytes, 0);
    check_moved();
}

static void finish(void)
{
    pair_close(source, sink, plan);
    pair_teardown();
}

/* A whole transfer. @return Puts into staging. */
static unsigned move_all(void)
{
    unsigned before = fake_ucp_num_calls(FAKE_UCP_PUT);

    bind_xfer();
    post_all();
    check_done();
    pair_close(source, sink, plan);
    return fake_ucp_num_calls(FAKE_UCP_PUT) - before;
}

/* ---- What moves ------------------------------------------------------------------ */

/* Loop index: bit 0 without the option, as a control; bit 1 a READ */
START_TEST(short_pieces_are_gathered_put_as_one_and_scattered)
{
    bool is_control = _i & 1;

    set_options();
    mode = (_i & 2) ? MKV_READ : MKV_WRITE;
    if (is_control) {
        pair_set("STAGE_BELOW", "0");
    }
    pair_setup_over("mori_rdma");
    ck_assert_uint_eq(move_all(), is_control ? 0 : CHUNKS);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_LIST), is_control ? 1 : 2 * CHUNKS);
    ck_assert_uint_eq(fake_ucp_num_pieces(), is_control ? PIECES : 2 * PIECES);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_GET), 0);
    pair_teardown();
}
END_TEST

/* A peer of another version may have larger slots */
START_TEST(slots_may_differ_in_size)
{
    fake_ucp_reset();
    fake_ucp_set_transport("mori_rdma");
    pair_now = 1000000000ull;
    set_options();
    pair_open(0);
    mkv_tuning.stage_slot = 2 * SLOT;
    pair_open(1);
    pair_connect(0, 1);
    ck_assert_uint_eq(move_all(), CHUNKS);
    pair_teardown();
}
END_TEST

/* Loop index: a READ */
START_TEST(slots_come_through_in_every_order)
{
    unsigned seed;

    set_options();
    mode = _i ? MKV_READ : MKV_WRITE;
    for (seed = 1; seed < 20; ++seed) {
        set_tuning();
        pair_setup_over("mori_rdma");
        fake_ucp_shuffle(seed);
        fake_ucp_set_inline((seed % 3) ? 0 : FAKE_UCP_ALL & ~FAKE_UCP_CLOSE);
        ck_assert_uint_eq(move_all(), CHUNKS);
        ck_assert_uint_eq(move_all(), CHUNKS);
        pair_teardown();
    }
}
END_TEST

/* Positions by twos: each post is two slots; the last is reported */
START_TEST(a_plan_may_be_posted_in_parts)
{
    mkv_sel_t sel = {.size = sizeof(sel)};

    set_up();
    bind_xfer();
    OK(mkv_plan_destroy(plan));
    plan = pair_plan(A, 1, 0, FIRST, NUM, MKV_PLAN_KEEP_ORDER);
    for (sel.pos_lo = 0; sel.pos_lo < NUM; sel.pos_lo = sel.pos_hi) {
        sel.pos_hi = sel.pos_lo + 2;
        sel.notify = (sel.pos_hi == NUM) ? 17 : 0;
        sel.fields = MKV_SEL_POSITIONS | ((sel.notify != 0) ? MKV_SEL_NOTIFY : 0);
        OK(mkv_xfer_post(source, 0, plan, &sel, NULL));
    }
    OK(mkv_xfer_seal(source, 0));
    pair_run();
    check_done();
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_PUT), CHUNKS);
    ck_assert_uint_eq(pair_last(B, MKV_EV_ARRIVED, sink)->value, 17);
    finish();
}
END_TEST

/* Of each block all but its ends; or of them every second byte, by slices */
START_TEST(pieces_of_bytes_go_through_staging)
{
    uint64_t local[NUM], remote[NUM], length[NUM], count[NUM], stride[NUM];
    mkv_bytes_t bytes = {
        .num = NUM, .local = local, .remote = remote, .length = length};
    uint32_t i, at;

    set_up();
    source = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    sink = pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST);
    pair_expose(sink, FIRST, NUM);
    pair_run();
    for (i = 0; i < NUM; ++i) {
        local[i] = i * PAIR_BYTES + 1;
        remote[i] = (FIRST + i) * PAIR_BYTES + 1;
        length[i] = _i ? 1 : PAIR_BYTES - 2;
        count[i] = (PAIR_BYTES - 2) / 2;
        stride[i] = 2;
    }
    bytes.count = _i ? count : NULL;
    bytes.local_stride = bytes.remote_stride = _i ? stride : NULL;
    OK(mkv_plan_create_bytes(A->maps[1], &bytes, 1, 0, &plan));
    OK(mkv_xfer_post(source, 0, plan, NULL, NULL));
    pair_run();
    ck_assert_uint_gt(fake_ucp_num_calls(FAKE_UCP_PUT), 0);
    for (at = 0; at < PAIR_BLOCKS * PAIR_BYTES; ++at) {
        uint32_t block = at / PAIR_BYTES, byte = at % PAIR_BYTES;
        bool is_moved = (block >= FIRST) && (block < FIRST + NUM) && (byte > 0) &&
                        (byte < PAIR_BYTES - 1) && (!_i || (byte % 2 == 1));

        ck_assert_uint_eq(B->mem[at], is_moved ? pair_byte(0, 0, 0, block - FIRST, byte)
                                               : pair_byte(1, 0, 0, block, byte));
    }
    OK(mkv_xfer_abort(source, MKV_ERR_ABORTED, NULL));
    pair_run();
    finish();
}
END_TEST

/* Both directions at once, by two transfers each */
START_TEST(transfers_share_the_slots)
{
    mkv_xfer_t *sources[4], *sinks[4];
    mkv_plan_t *plans[4];
    unsigned i;

    set_up();
    fake_ucp_shuffle(_i);
    for (i = 0; i < 4; ++i) {
        pair_side_t *from = (i % 2) ? B : A, *to = (i % 2) ? A : B;

        sources[i] = pair_xfer(from, !(i % 2), i + 1, MKV_WRITE, MKV_SRC);
        sinks[i] = pair_xfer(to, i % 2, i + 1, MKV_WRITE, MKV_DST);
        pair_expose(sinks[i], 16 + i / 2 * 8, 8);
        pair_run();
        plans[i] = pair_plan(from, !(i % 2), i / 2 * 8, 16 + i / 2 * 8, 8, 0);
    }
    for (i = 0; i < 4; ++i) {
        OK(mkv_xfer_post(sources[i], 0, plans[i], NULL, NULL));
        OK(mkv_xfer_seal(sources[i], 0));
    }
    pair_run();
    for (i = 0; i < 16; ++i) {
        ck_assert(pair_holds(B, 16 + i, 0, i / 8 * 8 + 7 - i % 8));
        ck_assert(pair_holds(A, 16 + i, 1, i / 8 * 8 + 7 - i % 8));
    }
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_PUT), 2 * CHUNKS);
    for (i = 0; i < 4; ++i) {
        ck_assert_int_eq(pair_query(sinks[i]).state, MKV_XFER_DONE);
        pair_close(sources[i], sinks[i], plans[i]);
    }
    pair_teardown();
}
END_TEST

/* ---- Whether --------------------------------------------------------------------- */

/* Loop index: a reason that keeps short pieces in lists; the first is none */
START_TEST(both_sides_and_the_pieces_have_to_be_so)
{
    set_options();
    pair_set("STAGE_BELOW", (_i == 1) ? "64" : "65");
    mkv_tuning.stage_min = (_i == 2) ? PIECES + 1 : PIECES;
    mkv_tuning.stage_slot = (_i == 3) ? PAIR_BYTES - 1 : SLOT;
    pair_mem_type = (_i == 4) ? UCS_MEMORY_TYPE_HOST : UCS_MEMORY_TYPE_ROCM;
    fake_ucp_reset();
    fake_ucp_set_loop((_i == 5) ? "mori_rdma" : "mori_xgmi");
    fake_ucp_set_transport((_i == 6) ? "mori_xgmi" : "mori_rdma");
    pair_now = 1000000000ull;
    pair_open(0);
    pair_set("STAGE_BELOW", (_i == 7) ? "0" : "65");
    pair_open(1);
    pair_connect(0, 1);
    ck_assert_uint_eq(move_all(), (_i == 0) ? CHUNKS : 0);
    pair_teardown();
}
END_TEST

static unsigned num_warnings;

static void count_warnings(void *arg, mkv_log_level_t level, const char *text)
{
    (void)arg;
    num_warnings += (level <= MKV_LOG_WARN) && (strstr(text, "for staging") != NULL);
}

/* Loop index: the side to which UCX gives no memory. It is wanted once. */
START_TEST(without_memory_for_staging_pieces_move_as_before)
{
    uint64_t num;

    set_up();
    num_warnings = 0;
    A->ctx->log.sink = B->ctx->log.sink = count_warnings;
    fake_ucp_fail_map(_i ? 2 : 1);
    ck_assert_uint_eq(move_all(), 0);
    ck_assert_uint_eq(num_warnings, 1);
    num = pair_stats(B).msgs_received;
    ck_assert_uint_eq(move_all(), 0);
    ck_assert_uint_eq(num_warnings, 1);
    ck_assert_uint_eq(pair_stats(B).msgs_received - num, 3); /* none of them STAGE */
    pair_teardown();
}
END_TEST

/* mori_xgmi is there, and UCX takes another lane: the bytes are right, and later
 * transfers go without */
START_TEST(copies_by_a_nic_are_not_repeated)
{
    set_up();
    fake_ucp_set_path("zero-copy mori_rdma/fake0");
    ck_assert_uint_lt(move_all(), CHUNKS);
    ck_assert_uint_eq(move_all(), 0);
    pair_teardown();
}
END_TEST

/* The first copy of B names the lane */
START_TEST(a_sink_that_copies_by_a_nic_scatters_no_more)
{
    set_up();
    bind_xfer();
    fake_ucp_hold(FAKE_UCP_PUT);
    post_all();
    fake_ucp_set_path("zero-copy mori_rdma/fake0");
    fake_ucp_hold(0);
    pair_run();
    check_done();
    ck_assert_uint_lt(fake_ucp_num_calls(FAKE_UCP_PUT), CHUNKS);
    finish();
}
END_TEST

/* Loop index: the copy that fails, on either side */
START_TEST(after_a_copy_that_fails_pieces_are_put)
{
    set_up();
    fake_ucp_fail(FAKE_UCP_LIST, (unsigned)_i, UCS_ERR_IO_ERROR);
    ck_assert_uint_lt(move_all(), CHUNKS);
    ck_assert_uint_eq(move_all(), 0);
    pair_teardown();
}
END_TEST

/* ---- Bounds and order ------------------------------------------------------------ */

/* The rest waits for slots, and progress is idle meanwhile */
START_TEST(slots_that_are_busy_hold_the_rest_back)
{
    unsigned before;

    set_up();
    bind_xfer();
    before = fake_ucp_num_memh();
    fake_ucp_hold(FAKE_UCP_PUT);
    post_all();
    ck_assert_uint_eq(fake_ucp_num_waiting(FAKE_UCP_PUT), MKV_STAGE_SLOTS);
    ck_assert_uint_eq(mkv_progress(A->ctx), 0);
    ck_assert_uint_eq(mkv_progress(B->ctx), 0);
    fake_ucp_hold(0);
    pair_run();
    check_done();
    ck_assert_uint_eq(fake_ucp_num_memh(), before + 2); /* one of each side */
    finish();
}
END_TEST

START_TEST(nothing_is_scattered_before_a_flush)
{
    unsigned before;

    set_up();
    bind_xfer();
    before = fake_ucp_num_calls(FAKE_UCP_LIST);
    fake_ucp_hold(FAKE_UCP_FLUSH);
    post_all();
    ck_assert_uint_eq(fake_ucp_num_waiting(FAKE_UCP_PUT), 0);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_LIST) - before, MKV_STAGE_SLOTS);
    ck_assert(pair_holds(B, FIRST, 1, FIRST));
    fake_ucp_hold(0);
    pair_run();
    check_done();
    finish();
}
END_TEST

/* FENCE=flush reads a byte of each slot, and one of the blocks */
START_TEST(fence_reads_back_before_the_scatter)
{
    pair_set("FENCE", "flush");
    set_up();
    bind_xfer();
    fake_ucp_hold(FAKE_UCP_GET);
    post_all();
    ck_assert_uint_gt(fake_ucp_num_waiting(FAKE_UCP_GET), 0);
    ck_assert(pair_holds(B, FIRST, 1, FIRST));
    fake_ucp_hold(0);
    pair_run();
    check_done();
    ck_assert_uint_ge(fake_ucp_num_calls(FAKE_UCP_GET), CHUNKS);
    finish();
}
END_TEST

/* ---- Ends ------------------------------------------------------------------------ */

enum { GATHER, MOVE, FLUSH, SCATTER, NUM_STAGES };

/* Stop all slots at this stage */
static void reach(int stage, mkv_mode_t of)
{
    static const unsigned kinds[] = {FAKE_UCP_LIST, FAKE_UCP_PUT, FAKE_UCP_FLUSH};

    set_up();
    mode = of;
    bind_xfer();
    fake_ucp_hold((stage == SCATTER) ? FAKE_UCP_PUT : kinds[stage]);
    OK(mkv_xfer_post(poster(), 0, plan, NULL, NULL));
    pair_run();
    if (stage == SCATTER) {
        fake_ucp_hold(FAKE_UCP_LIST);
        pair_run();
    }
    ck_assert_uint_eq(
        fake_ucp_num_waiting((stage == SCATTER) ? FAKE_UCP_LIST : kinds[stage]),
        MKV_STAGE_SLOTS);
    ck_assert_uint_eq(sink->legs[0].num_scatters,
                      (stage == SCATTER) ? MKV_STAGE_SLOTS : 0);
}

/* Loop index: the stage, the end (by the source, the sink, or the clock), and the mode.
 * A is quiet when UCX reads none of its blocks, in a READ when B is quiet as well. B is
 * quiet when its own copies are over as well. Then the slots serve another transfer. */
START_TEST(quiet_waits_for_what_is_copied)
{
    int stage = _i % NUM_STAGES, end = _i / NUM_STAGES % 3;
    mkv_mode_t of = (_i / NUM_STAGES / 3) ? MKV_READ : MKV_WRITE;
    unsigned lists;

    reach(stage, of);
    if (end == 2) {
        pair_now += 301000000000ull; /* XFER_TIMEOUT of both */
    } else {
        OK(mkv_xfer_abort(end ? sink : source, MKV_ERR_ABORTED, "test"));
    }
    pair_run();
    ck_assert_int_ge(pair_query(source).state, MKV_XFER_FAILED);
    ck_assert_int_ge(pair_query(sink).state, MKV_XFER_FAILED);
    ck_assert_int_eq(pair_query(source).is_quiet,
                     (stage == SCATTER) && (of == MKV_WRITE));
    ck_assert(!pair_query(sink).is_quiet);
    lists = fake_ucp_num_calls(FAKE_UCP_LIST);
    fake_ucp_hold(0);
    pair_run();
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_LIST), lists);
    ck_assert(pair_query(source).is_quiet);
    ck_assert(pair_query(sink).is_quiet);
    ck_assert_uint_eq(pair_stats(A).inflight_ops, 0);
    ck_assert_uint_eq(pair_stats(A).inflight_bytes, 0);
    pair_close(source, sink, plan);
    ck_assert_uint_eq(move_all(), CHUNKS);
    pair_teardown();
}
END_TEST

/* Loop index: the stage in which the connection breaks, and the mode */
START_TEST(a_lost_peer_leaves_nothing_behind)
{
    reach(_i % NUM_STAGES, (_i < NUM_STAGES) ? MKV_WRITE : MKV_READ);
    fake_ucp_break(UCS_ERR_CONNECTION_RESET);
    pair_run();
    ck_assert_int_eq(pair_query(source).status, MKV_ERR_PEER);
    ck_assert_int_eq(pair_query(sink).status, MKV_ERR_PEER);
    ck_assert(!pair_query(sink).is_quiet || (_i % NUM_STAGES != SCATTER));
    fake_ucp_hold(0);
    pair_run();
    OK(mkv_peer_declare_dead(A->peers[1]));
    OK(mkv_peer_declare_dead(B->peers[0]));
    pair_run();
    ck_assert(pair_query(source).is_quiet);
    ck_assert(pair_query(sink).is_quiet);
    ck_assert_uint_eq(pair_stats(A).inflight_ops, 0);
    finish();
}
END_TEST

/* Loop index: the stage in which the source's context is closed, while its peer sleeps.
 * UCX ends its calls when connections are cut. */
START_TEST(a_context_may_be_closed_meanwhile)
{
    reach(_i, MKV_WRITE);
    B->is_stopped = 1;
    if (_i != SCATTER) {
        fake_ucp_hold(0);
    }
    pair_tick = 1000000;
    (void)mkv_map_destroy(A->maps[1]);
    ck_assert_int_ne(mkv_close(A->ctx), MKV_OK); /* a transfer and a plan were open */
    free(A->mem);
    pair_forget(A);
    fake_ucp_hold(0);
    pair_tick = 0;
    B->is_stopped = 0;
    OK(mkv_peer_declare_dead(B->peers[0]));
    pair_run();
    ck_assert(pair_query(sink).is_quiet);
    OK(mkv_xfer_close(sink));
    pair_teardown();
}
END_TEST

/* Loop index: the put or the flush. The slot may still be written to, and is not used
 * again. */
START_TEST(a_slot_of_a_failed_put_is_not_used_again)
{
    set_up();
    bind_xfer();
    fake_ucp_fail(_i ? FAKE_UCP_FLUSH : FAKE_UCP_PUT, 0, UCS_ERR_IO_ERROR);
    fake_ucp_hold(FAKE_UCP_PUT);
    OK(mkv_xfer_post(source, 0, plan, NULL, NULL));
    pair_run();
    fake_ucp_hold(0);
    pair_run();
    ck_assert_int_eq(pair_query(source).status, MKV_ERR_TRANSPORT);
    ck_assert_int_eq(pair_query(sink).status, MKV_ERR_TRANSPORT);
    ck_assert(pair_query(source).is_quiet);
    ck_assert(pair_query(sink).is_quiet);
    pair_close(source, sink, plan);
    bind_xfer();
    fake_ucp_hold(FAKE_UCP_PUT);
    post_all();
    ck_assert_uint_eq(fake_ucp_num_waiting(FAKE_UCP_PUT), MKV_STAGE_SLOTS - 1);
    fake_ucp_hold(0);
    pair_run();
    check_done();
    finish();
}
END_TEST

/* Then short pieces are put, as no slot is left */
START_TEST(without_slots_pieces_are_put)
{
    unsigned i;

    set_up();
    for (i = 0; i < MKV_STAGE_SLOTS; ++i) {
        bind_xfer();
        fake_ucp_fail(FAKE_UCP_PUT, 0, UCS_ERR_IO_ERROR);
        post_all();
        ck_assert_int_eq(pair_query(source).status, MKV_ERR_TRANSPORT);
        ck_assert(pair_query(sink).is_quiet);
        pair_close(source, sink, plan);
    }
    ck_assert_uint_eq(move_all(), 0);
    pair_teardown();
}
END_TEST

/* B's transfer ends while the bytes are on their way: they go nowhere */
START_TEST(what_comes_too_late_is_dropped)
{
    set_up();
    bind_xfer();
    fake_ucp_hold(FAKE_UCP_FLUSH);
    OK(mkv_xfer_post(source, 0, plan, NULL, NULL));
    pair_run();
    B->is_stopped = 1;
    fake_ucp_hold(0);
    pair_run(); /* A has sent STAGE */
    OK(mkv_xfer_abort(sink, MKV_ERR_ABORTED, "test"));
    B->is_stopped = 0;
    pair_run();
    ck_assert_int_eq(pair_query(source).status, MKV_ERR_ABORTED);
    ck_assert(pair_holds(B, FIRST, 1, FIRST));
    ck_assert(pair_holds(B, FIRST + NUM - 1, 1, FIRST + NUM - 1));
    ck_assert(pair_query(sink).is_quiet);
    pair_close(source, sink, plan);
    ck_assert_uint_eq(move_all(), CHUNKS);
    pair_teardown();
}
END_TEST

/* ---- What a peer must not send --------------------------------------------------- */

/* B has staging, and a transfer that is bound */
static void set_up_forged(void)
{
    set_up();
    ck_assert_uint_eq(move_all(), CHUNKS);
    bind_xfer();
    fake_ucp_set_inline(FAKE_UCP_AM); /* messages of A reach B before an answer */
}

/* Send to B alone. A would refuse the answer */
static void forge(mkv_msg_t *msg)
{
    OK(mkv_leg_send(&source->legs[0], msg));
    (void)mkv_progress(B->ctx);
}

/* The caller cleans @a wire up */
static void set_places(mkv_msg_t *msg, mkv_wbuf_t *wire, const mkv_places_t *places)
{
    mkv_wbuf_init(wire);
    mkv_wire_put_places(wire, places);
    msg->data = wire->data;
    msg->length = wire->length;
}

static void finish_forged(void)
{
    fake_ucp_hold(0);
    OK(mkv_peer_declare_dead(A->peers[1]));
    OK(mkv_peer_declare_dead(B->peers[0]));
    pair_run();
    ck_assert(pair_query(source).is_quiet);
    ck_assert(pair_query(sink).is_quiet);
    finish();
}

/* Loop index: places of two blocks; the first two are right */
START_TEST(places_are_checked_before_a_byte_is_copied)
{
    const uint64_t unit = PAIR_BYTES, region = PAIR_BLOCKS * PAIR_BYTES;
    const struct {
        mkv_places_t places;
        mkv_status_t status;
    } cases[] = {
        {{FIRST * unit, unit, PAIR_BYTES, 2}, MKV_INPROGRESS},
        {{(FIRST + 1) * unit, -unit, PAIR_BYTES, 2}, MKV_INPROGRESS},
        {{(FIRST - 1) * unit, unit, PAIR_BYTES, 2}, MKV_ERR_BOUNDS},
        {{FIRST * unit - 1, unit, PAIR_BYTES, 2}, MKV_ERR_BOUNDS},
        {{(FIRST + NUM - 1) * unit, unit, PAIR_BYTES, 2}, MKV_ERR_BOUNDS},
        {{(FIRST + NUM) * unit - 1, unit, 2 * PAIR_BYTES, 1}, MKV_ERR_BOUNDS},
        {{FIRST * unit, 28 * unit, PAIR_BYTES, 2}, MKV_ERR_BOUNDS},
        {{FIRST * unit, 0 - FIRST * unit, PAIR_BYTES, 2}, MKV_ERR_BOUNDS},
        {{8 * region, unit, PAIR_BYTES, 2}, MKV_ERR_BOUNDS},
        {{0 - (uint64_t)4096, unit, PAIR_BYTES, 2}, MKV_ERR_BOUNDS},
        {{FIRST * unit, unit, PAIR_BYTES, 3}, MKV_ERR_LENGTH},
        {{FIRST * unit, unit, PAIR_BYTES, 1}, MKV_ERR_LENGTH},
        {{FIRST * unit, unit, 0, 2}, MKV_ERR_LENGTH},
        {{FIRST * unit, unit, 2, 0}, MKV_ERR_LENGTH},
        {{FIRST * unit, 0, 1, UINT32_MAX}, MKV_ERR_LENGTH},
    };
    mkv_msg_t msg = {.type = MKV_MSG_STAGE, .bytes = 2 * PAIR_BYTES};
    mkv_places_t places = cases[_i].places;
    static uint8_t before[PAIR_BLOCKS * PAIR_BYTES];
    bool is_right = (cases[_i].status == MKV_INPROGRESS);
    mkv_wbuf_t wire;
    unsigned lists;

    set_up_forged();
    memcpy(before, B->mem, sizeof(before));
    memset(B->mem + FIRST * PAIR_BYTES, 0, 2 * PAIR_BYTES);
    places.address += (uintptr_t)B->mem;
    set_places(&msg, &wire, &places);
    lists = fake_ucp_num_calls(FAKE_UCP_LIST);
    forge(&msg);
    (void)mkv_progress(B->ctx);
    mkv_wbuf_cleanup(&wire);
    ck_assert_int_eq(pair_query(sink).status, cases[_i].status);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_LIST) - lists, is_right);
    ck_assert_mem_eq(B->mem, before, FIRST * PAIR_BYTES);
    ck_assert_mem_eq(B->mem + (FIRST + 2) * PAIR_BYTES,
                     before + (FIRST + 2) * PAIR_BYTES,
                     sizeof(before) - (FIRST + 2) * PAIR_BYTES);
    finish_forged();
}
END_TEST

/* Loop index: a message that a source must not send. It fails the peer or the leg. */
START_TEST(a_source_that_breaks_the_order_fails)
{
    mkv_places_t places = {.length = PAIR_BYTES, .count = 1};
    mkv_msg_t msg = {.type = MKV_MSG_STAGE, .bytes = PAIR_BYTES};
    mkv_wbuf_t wire;
    bool is_peer = true;

    set_up_forged();
    places.address = (uintptr_t)B->mem + FIRST * PAIR_BYTES;
    set_places(&msg, &wire, &places);
    switch (_i) {
    case 0: /* a slot that there is not */
        msg.serial = MKV_STAGE_SLOTS;
        break;
    case 1: /* a slot that is being copied */
        fake_ucp_hold(FAKE_UCP_LIST);
        forge(&msg);
        ck_assert_uint_eq(sink->legs[0].num_scatters, 1);
        break;
    case 2: /* more than a slot has */
        msg.bytes = SLOT + 1;
        break;
    case 3: /* nothing is staged there */
        B->ctx->features &= ~(uint64_t)MKV_FEATURE_STAGE;
        break;
    case 4: /* the end, while a copy runs */
        fake_ucp_hold(FAKE_UCP_LIST);
        forge(&msg);
        msg = (mkv_msg_t){.type = MKV_MSG_FIN};
        is_peer = false;
        break;
    default: /* an answer to nothing */
        msg = (mkv_msg_t){.type = MKV_MSG_STAGED, .serial = (_i == 5) ? 0 : 99};
        break;
    }
    forge(&msg);
    ck_assert_int_eq(is_peer ? B->peers[0]->status : pair_query(sink).status,
                     MKV_ERR_PROTOCOL);
    mkv_wbuf_cleanup(&wire);
    finish_forged();
}
END_TEST

/* As an election of ranks leaves it */
START_TEST(a_map_without_pairs_takes_no_bytes)
{
    mkv_places_t places = {.length = PAIR_BYTES, .count = 1};
    mkv_msg_t msg = {.type = MKV_MSG_STAGE, .bytes = PAIR_BYTES};
    mkv_pair_t *pairs;
    mkv_wbuf_t wire;
    mkv_map_t *map;
    uint32_t num;

    set_up_forged();
    set_places(&msg, &wire, &places);
    map = sink->legs[0].map;
    pairs = map->pairs;
    num = map->num_pairs;
    map->pairs = NULL;
    map->num_pairs = 0;
    forge(&msg);
    map->pairs = pairs;
    map->num_pairs = num;
    mkv_wbuf_cleanup(&wire);
    ck_assert_int_eq(pair_query(sink).status, MKV_ERR_BOUNDS);
    finish_forged();
}
END_TEST

/* Loop index: a reader that requested nothing, and bytes outside of its region */
START_TEST(a_read_is_scattered_to_its_region_while_it_waits)
{
    mkv_places_t places = {.length = PAIR_BYTES, .count = 1};
    mkv_msg_t msg = {.type = MKV_MSG_STAGE, .bytes = PAIR_BYTES};
    mkv_wbuf_t wire;
    unsigned lists;

    set_up();
    mode = MKV_READ;
    ck_assert_uint_eq(move_all(), CHUNKS);
    bind_xfer();
    fake_ucp_hold(FAKE_UCP_LIST);
    if (_i) {
        OK(mkv_xfer_post(sink, 0, plan, NULL, NULL));
        pair_run();
    }
    fake_ucp_set_inline(FAKE_UCP_AM);
    places.address = (uintptr_t)B->mem + FIRST * PAIR_BYTES;
    places.address -= _i ? (FIRST + 1) * PAIR_BYTES : 0;
    set_places(&msg, &wire, &places);
    lists = fake_ucp_num_calls(FAKE_UCP_LIST);
    forge(&msg);
    mkv_wbuf_cleanup(&wire);
    ck_assert_int_eq(pair_query(sink).status, _i ? MKV_ERR_BOUNDS : MKV_ERR_PROTOCOL);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_LIST), lists);
    finish_forged();
}
END_TEST

/* The slot is the source's again, and no other transfer sees it */
START_TEST(a_slot_for_no_such_transfer_is_given_back)
{
    mkv_msg_t msg = {.type = MKV_MSG_STAGE, .bytes = PAIR_BYTES};
    uint64_t sent;

    set_up_forged();
    sent = pair_stats(B).msgs_sent;
    source->nonce ^= 1;
    forge(&msg);
    source->nonce ^= 1;
    ck_assert_uint_eq(pair_stats(B).msgs_sent - sent, 1);
    ck_assert_int_eq(pair_query(sink).status, MKV_INPROGRESS);
    finish_forged();
}
END_TEST

/* Loop index: a slot that is empty, and the address of staging, which A has already */
START_TEST(an_answer_that_nothing_waits_for_fails_the_peer)
{
    mkv_msg_t msg = {.type = MKV_MSG_STAGED, .serial = _i ? MKV_STAGE_WANTED : 0};

    set_up_forged();
    OK(mkv_leg_send(&sink->legs[0], &msg));
    (void)mkv_progress(A->ctx);
    ck_assert_int_eq(A->peers[1]->status, MKV_ERR_PROTOCOL);
    finish_forged();
}
END_TEST

/* Loop index: GPU memory that B has not, host memory, and no type at all. It gives
 * none, and stays connected */
START_TEST(staging_is_of_memory_that_regions_have)
{
    static const uint32_t types[] = {UCS_MEMORY_TYPE_CUDA, UCS_MEMORY_TYPE_HOST, 77};
    mkv_msg_t msg = {.type = MKV_MSG_STAGE,
                     .serial = MKV_STAGE_WANTED,
                     .value = types[_i],
                     .bytes = SLOT};
    unsigned before;

    set_up();
    bind_xfer();
    before = fake_ucp_num_memh();
    fake_ucp_set_inline(FAKE_UCP_AM);
    forge(&msg);
    ck_assert_uint_eq(fake_ucp_num_memh(), before);
    ck_assert_int_eq(B->peers[0]->state, MKV_CONN_READY);
    finish_forged();
}
END_TEST

static TCase *stage_tcase(void)
{
    TCase *tcase = pair_tcase("stage");

    tcase_add_loop_test(tcase, short_pieces_are_gathered_put_as_one_and_scattered, 0,
                        4);
    tcase_add_test(tcase, slots_may_differ_in_size);
    tcase_add_loop_test(tcase, slots_come_through_in_every_order, 0, 2);
    tcase_add_test(tcase, a_plan_may_be_posted_in_parts);
    tcase_add_loop_test(tcase, pieces_of_bytes_go_through_staging, 0, 2);
    tcase_add_loop_test(tcase, transfers_share_the_slots, 0, 8);
    tcase_add_loop_test(tcase, both_sides_and_the_pieces_have_to_be_so, 0, 8);
    tcase_add_loop_test(tcase, without_memory_for_staging_pieces_move_as_before, 0, 2);
    tcase_add_test(tcase, copies_by_a_nic_are_not_repeated);
    tcase_add_test(tcase, a_sink_that_copies_by_a_nic_scatters_no_more);
    tcase_add_loop_test(tcase, after_a_copy_that_fails_pieces_are_put, 0, 8);
    tcase_add_test(tcase, slots_that_are_busy_hold_the_rest_back);
    tcase_add_test(tcase, nothing_is_scattered_before_a_flush);
    tcase_add_test(tcase, fence_reads_back_before_the_scatter);
    tcase_add_loop_test(tcase, quiet_waits_for_what_is_copied, 0, 6 * NUM_STAGES);
    tcase_add_loop_test(tcase, a_lost_peer_leaves_nothing_behind, 0, 2 * NUM_STAGES);
    tcase_add_loop_test(tcase, a_context_may_be_closed_meanwhile, 0, NUM_STAGES);
    tcase_add_loop_test(tcase, a_slot_of_a_failed_put_is_not_used_again, 0, 2);
    tcase_add_test(tcase, without_slots_pieces_are_put);
    tcase_add_test(tcase, what_comes_too_late_is_dropped);
    tcase_add_loop_test(tcase, places_are_checked_before_a_byte_is_copied, 0, 15);
    tcase_add_loop_test(tcase, a_source_that_breaks_the_order_fails, 0, 7);
    tcase_add_test(tcase, a_map_without_pairs_takes_no_bytes);
    tcase_add_loop_test(tcase, a_read_is_scattered_to_its_region_while_it_waits, 0, 2);
    tcase_add_test(tcase, a_slot_for_no_such_transfer_is_given_back);
    tcase_add_loop_test(tcase, an_answer_that_nothing_waits_for_fails_the_peer, 0, 2);
    tcase_add_loop_test(tcase, staging_is_of_memory_that_regions_have, 0, 3);
    return tcase;
}

int main(void)
{
    return pair_main("test_mkv_stage", stage_tcase());
}
