/* SPDX-License-Identifier: BSD-3-Clause */

/* Small pieces of a WRITE that go through staging: what moves, what bounds it, what
 * ends it, and what a source may not scatter. */

#include "test/support/mkv_pair.h"

#include "src/cache/staging.h"
#include "src/xfer/leg.h"

#include <stdlib.h>
#include <string.h>

#define NUM 16u
#define PIECES (NUM * 4 * PAIR_PARTS) /* four layers, nothing merges */
#define CHUNK 512u                    /* of STAGING_SIZE=4096 */
#define CHUNKS (PIECES * PAIR_BYTES / CHUNK)

static mkv_xfer_t *source, *sink; /* of A and of B */
static mkv_plan_t *plan;

static void set_options(void)
{
    pair_set("STAGING_BELOW", "1k");
    pair_set("STAGING_SIZE", "4096");
}

static void set_up(ucs_memory_type_t type)
{
    set_options();
    pair_mem_type = type;
    pair_setup_over("mori_rdma");
}

/* A writes its blocks 0..15 in reverse to B's 4..19 */
static void bind_write(void)
{
    A->num_events = B->num_events = 0;
    source = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    sink = pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST);
    pair_expose(sink, 4, NUM);
    pair_run();
    plan = pair_plan(A, 1, 0, 4, NUM, 0);
}

static void post_all(void)
{
    OK(mkv_xfer_post(source, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(source, 0));
    pair_run();
}

static void check_moved(void)
{
    uint32_t i;

    for (i = 0; i < PAIR_BLOCKS; ++i) {
        ck_assert((i < 4) || (i >= 4 + NUM) ? pair_holds(B, i, 1, i)
                                            : pair_holds(B, i, 0, 4 + NUM - 1 - i));
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
    ck_assert_uint_eq(pair_query(source).completed, PIECES);
    ck_assert_uint_eq(pair_query(source).bytes, PIECES * PAIR_BYTES);
    ck_assert_uint_eq(pair_query(sink).bytes, PIECES * PAIR_BYTES);
    check_moved();
}

static void finish(void)
{
    pair_close(source, sink, plan);
    pair_teardown();
}

/* ---- What moves ------------------------------------------------------------------ */

/* Loop index: host memory, by the processor; a GPU's, by a list to ourselves */
START_TEST(small_pieces_are_gathered_moved_as_one_and_scattered)
{
    set_up(_i ? UCS_MEMORY_TYPE_ROCM : UCS_MEMORY_TYPE_HOST);
    bind_write();
    post_all();
    check_done();
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_PUT), CHUNKS);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_LIST), _i ? 2 * CHUNKS : 0);
    ck_assert_uint_eq(pair_stats(A).chunks_staged, CHUNKS);
    ck_assert_uint_eq(pair_stats(A).pieces_staged, PIECES);
    finish();
}
END_TEST

START_TEST(chunks_come_through_in_every_order)
{
    unsigned seed;

    set_options();
    for (seed = 1; seed < 20; ++seed) {
        pair_mem_type = (seed & 1) ? UCS_MEMORY_TYPE_ROCM : UCS_MEMORY_TYPE_HOST;
        pair_setup_over("mori_rdma");
        fake_ucp_shuffle(seed);
        fake_ucp_set_inline((seed % 3) ? 0 : FAKE_UCP_ALL & ~FAKE_UCP_CLOSE);
        bind_write();
        post_all();
        check_done();
        ck_assert_uint_eq(pair_stats(A).pieces_staged, PIECES);
        finish();
    }
}
END_TEST

/* Positions by twos: each post is two chunks */
START_TEST(a_plan_may_be_posted_in_parts)
{
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_POSITIONS};

    pair_set("STAGING_MIN", "1");
    set_up(UCS_MEMORY_TYPE_HOST);
    bind_write();
    OK(mkv_plan_destroy(plan));
    plan = pair_plan(A, 1, 0, 4, NUM, MKV_PLAN_KEEP_ORDER);
    for (sel.pos_lo = 0; sel.pos_lo < NUM; sel.pos_lo = sel.pos_hi) {
        sel.pos_hi = sel.pos_lo + 2;
        OK(mkv_xfer_post(source, 0, plan, &sel, NULL));
    }
    OK(mkv_xfer_seal(source, 0));
    pair_run();
    check_done();
    ck_assert_uint_eq(pair_stats(A).pieces_staged, PIECES);
    ck_assert_uint_eq(pair_stats(A).chunks_staged, CHUNKS);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_LIST), 0);
    finish();
}
END_TEST

/* Of each block all but its ends; and of them every second byte, by slices */
START_TEST(pieces_of_bytes_go_through_staging)
{
    uint64_t local[NUM], remote[NUM], length[NUM], count[NUM], stride[NUM];
    mkv_bytes_t bytes = {
        .num = NUM, .local = local, .remote = remote, .length = length};
    uint32_t i, at;

    pair_set("STAGING_MIN", "1");
    set_up(UCS_MEMORY_TYPE_HOST);
    source = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    sink = pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST);
    pair_expose(sink, 4, NUM);
    pair_run();
    for (i = 0; i < NUM; ++i) {
        local[i] = i * PAIR_BYTES + 1;
        remote[i] = (4 + i) * PAIR_BYTES + 1;
        length[i] = _i ? 1 : PAIR_BYTES - 2;
        count[i] = (PAIR_BYTES - 2) / 2;
        stride[i] = 2;
    }
    bytes.count = _i ? count : NULL;
    bytes.local_stride = bytes.remote_stride = _i ? stride : NULL;
    OK(mkv_plan_create_bytes(A->maps[1], &bytes, 1, 0, &plan));
    OK(mkv_xfer_post(source, 0, plan, NULL, NULL));
    pair_run();
    ck_assert_uint_eq(pair_stats(A).pieces_staged, _i ? NUM * count[0] : NUM);
    for (at = 0; at < PAIR_BLOCKS * PAIR_BYTES; ++at) {
        uint32_t block = at / PAIR_BYTES, byte = at % PAIR_BYTES;
        bool is_moved = (block >= 4) && (block < 4 + NUM) && (byte > 0) &&
                        (byte < PAIR_BYTES - 1) && (!_i || (byte % 2 == 1));

        ck_assert_uint_eq(B->mem[at], is_moved ? pair_byte(0, 0, 0, block - 4, byte)
                                               : pair_byte(1, 0, 0, block, byte));
    }
    OK(mkv_xfer_abort(source, MKV_ERR_ABORTED, NULL));
    pair_run();
    finish();
}
END_TEST

/* Blocks of component 1, of host memory, beside the small ones of component 0 */
static void move_beside(uint64_t bytes, uint32_t num, uint8_t *mine, uint8_t *theirs)
{
    mkv_region_t region = {.size = sizeof(region),
                           .component = 1,
                           .length = bytes * num,
                           .unit_bytes = bytes,
                           .n_units = num};
    uint32_t ids[PAIR_BLOCKS], there[PAIR_BLOCKS], i;
    mkv_units_t units[2] = {
        {.num_local = NUM, .num_remote = NUM, .local = ids, .remote = there},
        {.component = 1, .num_local = num, .num_remote = num, .local = ids}};

    fake_ucp_reset();
    fake_ucp_set_transport("mori_rdma");
    pair_now = 1000000000ull;
    for (i = 0; i < 2; ++i) {
        pair_open(i);
        region.base = i ? theirs : mine;
        pair_add(pair_sides[i].ctx, &region);
        OK(mkv_regions_commit(pair_sides[i].ctx, NULL));
    }
    pair_connect(0, 1);
    source = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    sink = pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST);
    for (i = 0; i < PAIR_BLOCKS; ++i) {
        ids[i] = i;
        there[i] = (i ^ 1) % PAIR_BLOCKS;
    }
    units[1].remote = there;
    OK(mkv_xfer_expose(sink, MKV_LEG_ALL, units, 2, NULL, 0));
    pair_run();
    OK(mkv_plan_create(A->maps[1], units, 2, 0, &plan));
    OK(mkv_xfer_post(source, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(source, 0));
    pair_run();
    ck_assert_int_eq(pair_query(sink).state, MKV_XFER_DONE);
    for (i = 0; i < NUM; ++i) {
        ck_assert(pair_holds(B, i ^ 1, 0, i));
    }
    for (i = 0; i < num; ++i) {
        ck_assert_mem_eq(theirs + (i ^ 1) * bytes, mine + i * bytes, bytes);
    }
}

enum { LARGE = 2048, FEW = 4, MOST = 32 };

static uint8_t beside[2][LARGE * FEW];

static void fill_beside(void)
{
    size_t i;

    for (i = 0; i < sizeof(beside[0]); ++i) {
        beside[0][i] = (uint8_t)(i * 7 + i / 256);
        beside[1][i] = 0;
    }
}

/* Loop index: whether they are below the threshold; they do not fit into a chunk */
START_TEST(large_pieces_go_by_themselves)
{
    pair_set("STAGING_BELOW", _i ? "1m" : "1k");
    pair_set("STAGING_SIZE", "4096");
    pair_mem_type = UCS_MEMORY_TYPE_HOST;
    fill_beside();
    move_beside(LARGE, FEW, beside[0], beside[1]);
    ck_assert_uint_eq(pair_stats(A).pieces_staged, PIECES);
    finish();
}
END_TEST

/* More chunks of one type than a leg has slots, and then one of another type */
START_TEST(types_of_memory_have_slots_of_their_own)
{
    set_options();
    fill_beside();
    move_beside(PAIR_BYTES, MOST, beside[0], beside[1]);
    ck_assert_uint_eq(pair_stats(A).pieces_staged, PIECES + MOST);
    finish();
}
END_TEST

/* ---- Whether --------------------------------------------------------------------- */

/* Loop index: what keeps small pieces in lists; the first one does not */
START_TEST(both_sides_and_the_pieces_have_to_be_so)
{
    bool is_staged = (_i == 0);

    pair_set("STAGING_SIZE", "4096");
    pair_set("STAGING_BELOW", (_i == 1) ? "64" : "65");
    pair_set("STAGING_MIN", (_i == 2) ? "129" : "128");
    pair_mem_type = (_i == 3) ? UCS_MEMORY_TYPE_ROCM : UCS_MEMORY_TYPE_HOST;
    fake_ucp_reset();
    fake_ucp_set_loop((_i == 3) ? "mori_rdma" : "mori_xgmi");
    fake_ucp_set_transport((_i == 4) ? "mori_xgmi" : "mori_rdma");
    pair_now = 1000000000ull;
    pair_open(0);
    pair_set("STAGING_BELOW", (_i == 5) ? "0" : "65");
    pair_open(1);
    pair_connect(0, 1);
    if (_i == 6) {
        A->peers[1]->remote.info.features &= ~(uint64_t)MKV_FEATURE_STAGE;
    } else if (_i == 7) {
        A->peers[1]->remote.info.max_staged = 63; /* no piece fits */
    }
    ck_assert_uint_eq(A->peers[1]->remote.info.max_staged,
                      (_i == 5) ? 0 : ((_i == 7) ? 63 : CHUNK));
    bind_write();
    post_all();
    check_done();
    ck_assert_uint_eq(pair_stats(A).pieces_staged, is_staged ? PIECES : 0);
    ck_assert_uint_eq(pair_stats(B).msgs_received > 6, is_staged);
    finish();
}
END_TEST

/* Loop index: whose pool UCX does not give. It is asked for once */
START_TEST(without_memory_for_staging_pieces_move_as_before)
{
    uint64_t id;

    set_up(UCS_MEMORY_TYPE_ROCM);
    bind_write();
    fake_ucp_fail_map(_i ? 2 : 1);
    post_all();
    check_done();
    ck_assert_uint_eq(pair_stats(A).chunks_staged, 0);
    pair_close(source, sink, plan);
    id = pair_stats(B).msgs_received;
    bind_write();
    post_all();
    check_done();
    ck_assert_uint_eq(pair_stats(B).msgs_received - id, 3); /* no STAGE */
    finish();
}
END_TEST

/* mori_xgmi is there, and UCX takes another lane: the bytes are right, and later
 * transfers go without */
START_TEST(copies_by_a_nic_are_not_repeated)
{
    uint64_t num;

    set_up(UCS_MEMORY_TYPE_ROCM);
    fake_ucp_set_path("zero-copy mori_rdma/fake0");
    bind_write();
    post_all();
    check_done();
    num = pair_stats(A).chunks_staged;
    ck_assert_uint_gt(num, 0);
    pair_close(source, sink, plan);
    bind_write();
    post_all();
    check_done();
    ck_assert_uint_eq(pair_stats(A).chunks_staged, num);
    finish();
}
END_TEST

/* ---- Bounds ---------------------------------------------------------------------- */

/* Half of the slots are one leg's, and nobody spins meanwhile */
START_TEST(staging_is_bounded_and_the_rest_waits)
{
    unsigned before;

    set_up(UCS_MEMORY_TYPE_HOST);
    bind_write();
    before = fake_ucp_num_memh();
    fake_ucp_hold(FAKE_UCP_PUT);
    post_all();
    ck_assert_uint_eq(fake_ucp_num_waiting(FAKE_UCP_PUT), MKV_NUM_SLOTS / 2);
    ck_assert_uint_eq(source->legs[0].num_slots, MKV_NUM_SLOTS / 2);
    ck_assert_uint_eq(mkv_progress(A->ctx), 0);
    ck_assert_uint_eq(mkv_progress(B->ctx), 0);
    ck_assert_ptr_nonnull(strstr(pair_query(source).waiting_for, "pieces in staging"));
    fake_ucp_hold(0);
    pair_run();
    check_done();
    ck_assert_uint_eq(fake_ucp_num_memh(), before + 2); /* A's and B's pool */
    finish();
}
END_TEST

#define MANY 5u

/* Transfers of A to one B, more than there is staging for; each has blocks of its own
 */
START_TEST(transfers_share_the_staging)
{
    mkv_xfer_t *sources[MANY], *sinks[MANY];
    mkv_plan_t *plans[MANY];
    unsigned i;

    pair_set("STAGING_MIN", "1");
    set_up(_i ? UCS_MEMORY_TYPE_ROCM : UCS_MEMORY_TYPE_HOST);
    for (i = 0; i < MANY; ++i) {
        sources[i] = pair_xfer(A, 1, i + 1, MKV_WRITE, MKV_SRC);
        sinks[i] = pair_xfer(B, 0, i + 1, MKV_WRITE, MKV_DST);
        pair_expose(sinks[i], i * 6, 6);
    }
    pair_run();
    fake_ucp_hold(FAKE_UCP_PUT);
    for (i = 0; i < MANY; ++i) {
        plans[i] = pair_plan(A, 1, i * 6, i * 6, 6, 0);
        OK(mkv_xfer_post(sources[i], 0, plans[i], NULL, NULL));
        OK(mkv_xfer_seal(sources[i], 0));
    }
    pair_run();
    ck_assert_uint_eq(fake_ucp_num_waiting(FAKE_UCP_PUT), MKV_NUM_SLOTS);
    fake_ucp_hold(0);
    pair_run();
    for (i = 0; i < MANY * 6; ++i) {
        ck_assert(pair_holds(B, i, 0, i / 6 * 6 + 5 - i % 6));
    }
    for (i = 0; i < MANY; ++i) {
        ck_assert_int_eq(pair_query(sinks[i]).state, MKV_XFER_DONE);
        pair_close(sources[i], sinks[i], plans[i]);
    }
    ck_assert_uint_eq(pair_stats(A).pieces_staged, MANY * 6 * 4 * PAIR_PARTS);
    pair_teardown();
}
END_TEST

/* C's are the slots that a stopped A may write to for ever: B gives them to nobody, and
 * A's first transfer after that goes without. The control is that they come back. */
START_TEST(slots_that_may_never_come_back_are_not_waited_for)
{
    mkv_xfer_t *lost[2], *gone[2];
    mkv_plan_t *plans[2];
    unsigned i;

    pair_set("STAGING_MIN", "1");
    set_up(UCS_MEMORY_TYPE_HOST);
    pair_open(2);
    pair_connect(2, 1);
    fake_ucp_hold(FAKE_UCP_PUT);
    for (i = 0; i < 2; ++i) {
        lost[i] = pair_xfer(&pair_sides[2], 1, i + 1, MKV_WRITE, MKV_SRC);
        gone[i] = pair_xfer(B, 2, i + 1, MKV_WRITE, MKV_DST);
        pair_expose(gone[i], i * 6, 6);
        pair_run();
        plans[i] = pair_plan(&pair_sides[2], 1, 0, i * 6, 6, 0);
        OK(mkv_xfer_post(lost[i], 0, plans[i], NULL, NULL));
        pair_run();
    }
    ck_assert_uint_eq(fake_ucp_num_waiting(FAKE_UCP_PUT), MKV_NUM_SLOTS);
    pair_sides[2].is_stopped = 1;
    OK(mkv_xfer_abort(gone[0], MKV_ERR_ABORTED, NULL));
    bind_write();
    OK(mkv_xfer_post(source, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(source, 0));
    pair_run(); /* half may come back */
    ck_assert_uint_eq(pair_query(source).state, MKV_XFER_SEALED);
    OK(mkv_xfer_abort(gone[1], MKV_ERR_ABORTED, NULL));
    fake_ucp_hold(0);
    pair_run();
    check_done();
    ck_assert_uint_eq(pair_stats(A).chunks_staged, 0);
    ck_assert(!pair_query(gone[0]).is_quiet);
    pair_sides[2].is_stopped = 0;
    pair_run();
    ck_assert(pair_query(gone[0]).is_quiet);
    pair_close(source, sink, plan);
    for (i = 0; i < 2; ++i) {
        pair_close(lost[i], gone[i], plans[i]);
    }
    bind_write();
    post_all();
    check_done();
    ck_assert_uint_eq(pair_stats(A).chunks_staged, CHUNKS);
    finish();
}
END_TEST

/* All slots are with a source that does nothing, and lives: whoever waits goes on
 * without in time. Loop index: the slots of the destination; those of the source, whose
 * peer B does nothing */
START_TEST(who_waits_too_long_does_without)
{
    pair_side_t *c = &pair_sides[2];
    mkv_xfer_t *slow[2], *other[2];
    mkv_plan_t *plans[2];
    unsigned i;

    pair_set("STAGING_MIN", "1");
    set_up(UCS_MEMORY_TYPE_HOST);
    pair_open(2);
    pair_connect(_i ? 0 : 2, _i ? 2 : 1);
    if (_i == 0) {
        fake_ucp_hold(FAKE_UCP_PUT);
    }
    for (i = 0; i < 2; ++i) { /* C to B, or A to C */
        slow[i] = pair_xfer(_i ? A : c, _i ? 2 : 1, i + 2, MKV_WRITE, MKV_SRC);
        other[i] = pair_xfer(_i ? c : B, _i ? 0 : 2, i + 2, MKV_WRITE, MKV_DST);
        pair_expose(other[i], i * 6, 6);
        pair_run();
        plans[i] = pair_plan(_i ? A : c, _i ? 2 : 1, 0, i * 6, 6, 0);
    }
    bind_write();
    c->is_stopped = _i;
    for (i = 0; i < 2; ++i) {
        OK(mkv_xfer_post(slow[i], 0, plans[i], NULL, NULL));
        OK(mkv_xfer_seal(slow[i], 0));
        pair_run();
    }
    c->is_stopped = 1;
    post_all();
    ck_assert_int_eq(pair_query(source).state, MKV_XFER_SEALED);
    pair_now += 2000000000ull;
    fake_ucp_hold(0);
    pair_run();
    check_done();
    ck_assert_uint_eq(A->peers[1]->count.chunks_staged, 0);
    c->is_stopped = 0;
    pair_run();
    pair_close(source, sink, plan);
    for (i = 0; i < 2; ++i) {
        ck_assert_int_eq(pair_query(other[i]).state, MKV_XFER_DONE);
        pair_close(slow[i], other[i], plans[i]);
    }
    pair_teardown();
}
END_TEST

/* ---- What is told ---------------------------------------------------------------- */

static void post_part(uint32_t pos_lo, uint32_t pos_hi)
{
    mkv_sel_t sel = {.size = sizeof(sel),
                     .fields = MKV_SEL_POSITIONS | MKV_SEL_LAYERS,
                     .layer_hi = 1,
                     .pos_lo = pos_lo,
                     .pos_hi = pos_hi};

    OK(mkv_xfer_post(source, 0, plan, &sel, NULL));
    pair_run();
}

/* What was put while a flush ran waits for the next one */
START_TEST(nothing_is_scattered_before_its_flush)
{
    pair_set("STAGING_MIN", "1");
    set_up(UCS_MEMORY_TYPE_HOST);
    bind_write();
    OK(mkv_plan_destroy(plan));
    plan = pair_plan(A, 1, 0, 4, NUM, MKV_PLAN_KEEP_ORDER);
    fake_ucp_hold(FAKE_UCP_FLUSH);
    post_part(0, 8);
    ck_assert_uint_eq(fake_ucp_num_waiting(FAKE_UCP_FLUSH), 1);
    post_part(8, 16);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_PUT), 4);
    ck_assert(pair_holds(B, 4, 1, 4));
    fake_ucp_hold(0);
    (void)mkv_progress(A->ctx); /* the first flush ends, and a second one begins */
    fake_ucp_hold(FAKE_UCP_FLUSH);
    pair_run();
    ck_assert_uint_eq(pair_query(source).completed, 16);
    ck_assert_uint_eq(fake_ucp_num_waiting(FAKE_UCP_FLUSH), 1);
    fake_ucp_hold(0);
    pair_run();
    ck_assert_uint_eq(pair_query(source).completed, 32);
    OK(mkv_xfer_abort(source, MKV_ERR_ABORTED, NULL));
    pair_run();
    finish();
}
END_TEST

/* Until B's copies are over nothing has arrived; fences come after them. Loop index:
 * FENCE=hook */
START_TEST(done_and_arrived_wait_for_the_scatter)
{
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_TELL, .tell = 17};

    if (_i) {
        pair_set("FENCE", "hook");
    }
    set_up(UCS_MEMORY_TYPE_ROCM);
    bind_write();
    fake_ucp_hold(FAKE_UCP_PUT);
    OK(mkv_xfer_post(source, 0, plan, &sel, NULL));
    OK(mkv_xfer_seal(source, 0));
    pair_run();
    fake_ucp_hold(FAKE_UCP_LIST);
    pair_run();
    ck_assert_uint_eq(fake_ucp_num_waiting(FAKE_UCP_LIST), MKV_NUM_SLOTS);
    ck_assert_uint_eq(pair_count(B, MKV_EV_ARRIVED, NULL), 0);
    ck_assert_uint_eq(pair_count(B, MKV_EV_FENCE, NULL), 0);
    ck_assert_uint_eq(pair_query(source).completed, 0);
    fake_ucp_hold(0);
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_ARRIVED, sink), 1);
    ck_assert_uint_eq(pair_last(B, MKV_EV_ARRIVED, sink)->value, 17);
    ck_assert_uint_eq(pair_count(A, MKV_EV_LOCAL_DONE, source), 1);
    if (_i) {
        ck_assert_uint_eq(pair_count(B, MKV_EV_DONE, sink), 0);
        OK(mkv_fence_done(sink, MKV_OK));
        pair_run();
    }
    check_done();
    finish();
}
END_TEST

/* ---- Ends by error --------------------------------------------------------------- */

enum { GATHER, MOVE, SCATTER, NUM_STAGES };

/* Layer 0: as many chunks as a leg has slots */
static void post_few(void)
{
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_LAYERS, .layer_hi = 1};

    OK(mkv_xfer_post(source, 0, plan, &sel, NULL));
    pair_run();
}

/* Stop them at this stage */
static void reach(int stage)
{
    pair_set("STAGING_MIN", "1");
    set_up(UCS_MEMORY_TYPE_ROCM);
    bind_write();
    fake_ucp_hold((stage == GATHER) ? FAKE_UCP_LIST : FAKE_UCP_PUT);
    post_few();
    if (stage == SCATTER) {
        fake_ucp_hold(FAKE_UCP_LIST);
        pair_run();
    }
    ck_assert_uint_eq(fake_ucp_num_waiting(FAKE_UCP_PUT | FAKE_UCP_LIST),
                      MKV_NUM_SLOTS / 2);
    ck_assert_uint_eq(sink->legs[0].num_scatters,
                      (stage == SCATTER) ? MKV_NUM_SLOTS / 2 : 0);
}

/* Nothing of it is left: slots, credits, lists */
static void check_given_back(void)
{
    ck_assert_uint_eq(pair_stats(A).inflight_ops, 0);
    ck_assert_uint_eq(pair_stats(A).inflight_bytes, 0);
    ck_assert(mkv_list_is_empty(&source->legs[0].chunks));
    ck_assert(mkv_list_is_empty(&sink->legs[0].scatters));
    ck_assert_uint_eq(source->legs[0].num_slots, 0);
    ck_assert_uint_eq(
        mkv_list_length(&A->ctx->pools[MKV_POOL_SEND][UCS_MEMORY_TYPE_ROCM]->free),
        MKV_NUM_SLOTS);
}

/* Who gives up */
static void give_up(int who)
{
    if (who == 2) {
        pair_now += 301000000000ull; /* XFER_TIMEOUT of both */
    } else {
        OK(mkv_xfer_abort(who ? sink : source, MKV_ERR_ABORTED, "test"));
    }
    pair_run();
}

/* Loop index: the stage, and who gives up. A is quiet when its gathers are over, B when
 * A writes nothing more and its own copies are over; then another transfer goes. */
START_TEST(quiet_waits_for_what_is_copied)
{
    int stage = _i % NUM_STAGES, who = _i / NUM_STAGES;

    reach(stage);
    give_up(who);
    ck_assert_int_ge(pair_query(source).state, MKV_XFER_FAILED);
    ck_assert_int_ge(pair_query(sink).state, MKV_XFER_FAILED);
    ck_assert_int_eq(pair_query(source).status,
                     (who == 2) ? MKV_ERR_XFER_TIMEOUT : MKV_ERR_ABORTED);
    ck_assert_int_eq(pair_query(source).is_quiet, stage == SCATTER);
    ck_assert(!pair_query(sink).is_quiet);
    fake_ucp_hold(0);
    pair_run();
    ck_assert(pair_query(source).is_quiet);
    ck_assert(pair_query(sink).is_quiet);
    check_given_back();
    pair_close(source, sink, plan);
    bind_write();
    post_all();
    check_done();
    finish();
}
END_TEST

/* Loop index: the stage in which the connection breaks */
START_TEST(a_lost_peer_leaves_nothing_behind)
{
    reach(_i);
    fake_ucp_break(UCS_ERR_CONNECTION_RESET);
    pair_run();
    ck_assert_int_eq(pair_query(source).status, MKV_ERR_PEER);
    ck_assert_int_eq(pair_query(sink).status, MKV_ERR_PEER);
    ck_assert(!pair_query(sink).is_quiet || (_i != SCATTER));
    fake_ucp_hold(0);
    pair_run();
    OK(mkv_peer_declare_dead(A->peers[1]));
    OK(mkv_peer_declare_dead(B->peers[0]));
    pair_run();
    ck_assert(pair_query(source).is_quiet);
    ck_assert(pair_query(sink).is_quiet);
    check_given_back();
    finish();
}
END_TEST

/* Loop index: the stage in which UCX fails a call */
START_TEST(a_call_that_fails_fails_the_transfer)
{
    pair_set("STAGING_MIN", "1");
    set_up(UCS_MEMORY_TYPE_ROCM);
    bind_write();
    fake_ucp_fail((_i == MOVE) ? FAKE_UCP_PUT : FAKE_UCP_LIST,
                  (_i == SCATTER) ? MKV_NUM_SLOTS / 2 : 0, UCS_ERR_IO_ERROR);
    post_few();
    ck_assert_int_eq(pair_query(source).status, MKV_ERR_TRANSPORT);
    ck_assert_int_eq(pair_query(sink).status, MKV_ERR_TRANSPORT);
    ck_assert_ptr_nonnull(strstr(pair_query(sink).error,
                                 (_i == GATHER) ? "cannot be gathered"
                                 : (_i == MOVE) ? "of small pieces failed"
                                                : "cannot be copied to their blocks"));
    ck_assert(pair_query(source).is_quiet);
    ck_assert(pair_query(sink).is_quiet);
    check_given_back();
    finish();
}
END_TEST

/* ---- What a peer may say --------------------------------------------------------- */

static mkv_msg_t stage_msg(mkv_msg_type_t type, uint32_t serial)
{
    return (mkv_msg_t){.type = type,
                       .serial = serial,
                       .value = UCS_MEMORY_TYPE_HOST,
                       .bytes = 2 * PAIR_BYTES};
}

static void say(mkv_xfer_t *xfer, mkv_msg_t *msg)
{
    OK(mkv_leg_send(&xfer->legs[0], msg));
    pair_run();
}

/* Loop index: what is wrong with a SCATTER of two blocks; the first one is right */
START_TEST(places_are_checked_before_a_byte_is_copied)
{
    uint32_t region;
    const struct {
        mkv_wire_places_t places;
        mkv_status_t status;
        const char *text;
    } cases[] = {
        {{0, PAIR_BYTES, 2, 4 * PAIR_BYTES, PAIR_BYTES}, MKV_INPROGRESS, ""},
        {{0, PAIR_BYTES, 2, 3 * PAIR_BYTES, PAIR_BYTES}, MKV_ERR_BOUNDS, "exposed"},
        {{0, PAIR_BYTES, 2, 4 * PAIR_BYTES - 1, PAIR_BYTES}, MKV_ERR_BOUNDS, "exposed"},
        {{0, PAIR_BYTES, 2, 19 * PAIR_BYTES, PAIR_BYTES}, MKV_ERR_BOUNDS, "exposed"},
        {{0, PAIR_BYTES, 2, 4 * PAIR_BYTES, 28 * PAIR_BYTES},
         MKV_ERR_BOUNDS,
         "outside"},
        {{0, PAIR_BYTES, 2, UINT64_MAX - 8, PAIR_BYTES}, MKV_ERR_BOUNDS, "outside"},
        {{0, PAIR_BYTES, 2, 4 * PAIR_BYTES, UINT64_MAX - 4096}, MKV_ERR_BOUNDS, ""},
        {{0, PAIR_BYTES, 3, 4 * PAIR_BYTES, PAIR_BYTES}, MKV_ERR_BOUNDS, "more"},
        {{0, PAIR_BYTES, 1, 4 * PAIR_BYTES, PAIR_BYTES}, MKV_ERR_BOUNDS, "less"},
        {{0, 0, 2, 4 * PAIR_BYTES, PAIR_BYTES}, MKV_ERR_BOUNDS, "more"},
        {{0, 1, UINT32_MAX, 4 * PAIR_BYTES, 0}, MKV_ERR_BOUNDS, "more"},
        {{99, PAIR_BYTES, 2, 4 * PAIR_BYTES, PAIR_BYTES}, MKV_ERR_BOUNDS, "none of"},
    };
    mkv_msg_t msg = stage_msg(MKV_MSG_STAGE, 1);
    mkv_wire_places_t places = cases[_i].places;
    mkv_slot_t *slot;
    mkv_wbuf_t wire;
    uint32_t i;

    set_up(UCS_MEMORY_TYPE_HOST);
    bind_write();
    region = B->maps[0]->pairs[0].local->id;
    places.region += (places.region == 0) ? region : 0;
    fake_ucp_set_inline(FAKE_UCP_AM); /* what A says goes before it hears anything */
    OK(mkv_leg_send(&source->legs[0], &msg));
    (void)mkv_progress(B->ctx);
    slot = &B->ctx->pools[MKV_POOL_RECEIVE][UCS_MEMORY_TYPE_HOST]->slots[0];
    memset(slot->base, 0xee, CHUNK);
    mkv_wbuf_init(&wire);
    mkv_wire_put_places(&wire, &places);
    msg = stage_msg(MKV_MSG_SCATTER, 1);
    msg.data = wire.data;
    msg.length = wire.length;
    OK(mkv_leg_send(&source->legs[0], &msg));
    (void)mkv_progress(B->ctx);
    ck_assert_int_eq(pair_query(sink).status, cases[_i].status);
    ck_assert_ptr_nonnull(strstr(pair_query(sink).error, cases[_i].text));
    for (i = 0; i < PAIR_BLOCKS * PAIR_BYTES; ++i) {
        bool is_theirs = (_i == 0) && (i >= 4 * PAIR_BYTES) && (i < 6 * PAIR_BYTES);

        ck_assert_uint_eq(
            B->mem[i],
            is_theirs ? 0xee : pair_byte(1, 0, 0, i / PAIR_BYTES, i % PAIR_BYTES));
    }
    mkv_wbuf_cleanup(&wire);
    pair_run();
    OK(mkv_xfer_abort(source, MKV_ERR_ABORTED, NULL));
    pair_run();
    finish();
}
END_TEST

/* Loop index: what a source sends that it must not */
START_TEST(a_source_that_breaks_the_order_fails)
{
    mkv_msg_t msg = stage_msg(MKV_MSG_STAGE, 1);
    uint32_t i;

    set_up(UCS_MEMORY_TYPE_HOST);
    bind_write();
    fake_ucp_set_inline(FAKE_UCP_AM);
    switch (_i) {
    case 0: /* filled, and never asked for */
        msg.type = MKV_MSG_SCATTER;
        break;
    case 1: /* twice the same */
        OK(mkv_leg_send(&source->legs[0], &msg));
        break;
    case 2: /* without end */
        for (i = 0; i < 64; ++i) {
            msg.serial = 2 + i;
            OK(mkv_leg_send(&source->legs[0], &msg));
        }
        msg.serial = 1;
        break;
    case 3: /* nothing is staged there */
        B->ctx->features &= ~(uint64_t)MKV_FEATURE_STAGE;
        break;
    case 4: /* the end, while it has staging */
        OK(mkv_leg_send(&source->legs[0], &msg));
        msg = (mkv_msg_t){.type = MKV_MSG_FIN};
        break;
    default: /* what is the other side's to send */
        msg.type = MKV_MSG_SCATTERED;
        break;
    }
    OK(mkv_leg_send(&source->legs[0], &msg));
    (void)mkv_progress(B->ctx);
    ck_assert_int_eq(pair_query(sink).status, MKV_ERR_PROTOCOL);
    pair_run();
    ck_assert(pair_query(sink).is_quiet);
    ck_assert(mkv_list_is_empty(&sink->legs[0].scatters));
    finish();
}
END_TEST

/* Loop index: what a destination sends that it must not */
START_TEST(a_destination_that_breaks_the_order_fails)
{
    mkv_msg_t msg = stage_msg((_i & 1) ? MKV_MSG_STAGED : MKV_MSG_SCATTERED, 1);

    set_up(UCS_MEMORY_TYPE_HOST);
    bind_write();
    if (_i >= 2) {
        fake_ucp_hold(FAKE_UCP_PUT); /* chunk 1 is being put */
        OK(mkv_xfer_post(source, 0, plan, NULL, NULL));
        pair_run();
    }
    msg.offset = (uintptr_t)B->mem;
    say(sink, &msg);
    ck_assert_int_eq(pair_query(source).status, MKV_ERR_PROTOCOL);
    fake_ucp_hold(0);
    pair_run();
    ck_assert(pair_query(source).is_quiet);
    ck_assert(pair_query(sink).is_quiet);
    finish();
}
END_TEST

/* A key that UCX cannot take, or none: the transfer ends, not the process */
START_TEST(staging_without_a_key_is_an_error)
{
    mkv_msg_t msg = stage_msg(MKV_MSG_STAGED, 1);

    set_up(UCS_MEMORY_TYPE_HOST);
    bind_write();
    B->is_stopped = 1;
    OK(mkv_xfer_post(source, 0, plan, NULL, NULL));
    pair_run();
    msg.offset = 4096;
    OK(mkv_leg_send(&sink->legs[0], &msg));
    (void)ucp_worker_progress(fake_ucp_worker(1)); /* sends, and hears of STAGE after */
    pair_run();
    ck_assert_int_eq(pair_query(source).status, MKV_ERR_TRANSPORT);
    B->is_stopped = 0;
    pair_run();
    ck_assert(pair_query(sink).is_quiet);
    finish();
}
END_TEST

static TCase *stage_tcase(void)
{
    TCase *tcase = pair_tcase("stage");

    tcase_add_loop_test(tcase, small_pieces_are_gathered_moved_as_one_and_scattered, 0,
                        2);
    tcase_add_test(tcase, chunks_come_through_in_every_order);
    tcase_add_test(tcase, a_plan_may_be_posted_in_parts);
    tcase_add_loop_test(tcase, pieces_of_bytes_go_through_staging, 0, 2);
    tcase_add_loop_test(tcase, large_pieces_go_by_themselves, 0, 2);
    tcase_add_test(tcase, types_of_memory_have_slots_of_their_own);
    tcase_add_loop_test(tcase, both_sides_and_the_pieces_have_to_be_so, 0, 8);
    tcase_add_loop_test(tcase, without_memory_for_staging_pieces_move_as_before, 0, 2);
    tcase_add_test(tcase, copies_by_a_nic_are_not_repeated);
    tcase_add_test(tcase, staging_is_bounded_and_the_rest_waits);
    tcase_add_loop_test(tcase, transfers_share_the_staging, 0, 2);
    tcase_add_test(tcase, slots_that_may_never_come_back_are_not_waited_for);
    tcase_add_loop_test(tcase, who_waits_too_long_does_without, 0, 2);
    tcase_add_test(tcase, nothing_is_scattered_before_its_flush);
    tcase_add_loop_test(tcase, done_and_arrived_wait_for_the_scatter, 0, 2);
    tcase_add_loop_test(tcase, quiet_waits_for_what_is_copied, 0, 3 * NUM_STAGES);
    tcase_add_loop_test(tcase, a_lost_peer_leaves_nothing_behind, 0, NUM_STAGES);
    tcase_add_loop_test(tcase, a_call_that_fails_fails_the_transfer, 0, NUM_STAGES);
    tcase_add_loop_test(tcase, places_are_checked_before_a_byte_is_copied, 0, 12);
    tcase_add_loop_test(tcase, a_source_that_breaks_the_order_fails, 0, 6);
    tcase_add_loop_test(tcase, a_destination_that_breaks_the_order_fails, 0, 4);
    tcase_add_test(tcase, staging_without_a_key_is_an_error);
    return tcase;
}

int main(void)
{
    return pair_main("mkv_stage", stage_tcase());
}
