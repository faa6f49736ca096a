/* SPDX-License-Identifier: BSD-3-Clause */

/* WRITE from GPU memory to a peer's private host memory, by gets of its owner: its
 * bytes, its ends, and forbidden calls of a writer. */

#include "test/support/mkv_pair.h"

#include "src/message/message.h"

#include <string.h>

#define NUM 16u
#define PIECES (NUM * 4 * PAIR_PARTS) /* four layers, nothing merges */

static mkv_xfer_t *writer, *owner; /* of A and of B */
static mkv_plan_t *plan;

/* A has memory of one type and B of the other, which UCX puts to by rendezvous */
static void setup(ucs_memory_type_t from, ucs_memory_type_t to)
{
    fake_ucp_reset();
    pair_now = 1000000000ull;
    pair_knows_lists = false;
    pair_mem_type = from;
    pair_open(0);
    pair_mem_type = to;
    pair_open(1);
    fake_ucp_close_way(B->mem);
    pair_connect(0, 1);
}

static void setup_host(void)
{
    setup(UCS_MEMORY_TYPE_ROCM, UCS_MEMORY_TYPE_HOST);
}

/* B exposes its blocks 4..19, A puts its 0..15 there in reverse */
static void bind_write(uint64_t id)
{
    writer = pair_xfer(A, 1, id, MKV_WRITE, MKV_SRC);
    owner = pair_xfer(B, 0, id, MKV_WRITE, MKV_DST);
    pair_expose(owner, 4, NUM);
    pair_run();
    plan = pair_plan(A, 1, 0, 4, NUM, 0);
}

static void post_all(void)
{
    OK(mkv_xfer_post(writer, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(writer, 0));
    pair_run();
}

static void check_moved(void)
{
    uint32_t i;

    for (i = 0; i < PAIR_BLOCKS; ++i) {
        ck_assert(((i >= 4) && (i < 4 + NUM)) ? pair_holds(B, i, 0, 4 + NUM - 1 - i)
                                              : pair_holds(B, i, 1, i));
        ck_assert(pair_holds(A, i, 0, i));
    }
}

static void check_done(void)
{
    ck_assert_int_eq(pair_query(writer).state, MKV_XFER_DONE);
    ck_assert_int_eq(pair_query(owner).state, MKV_XFER_DONE);
    ck_assert_uint_eq(pair_count(A, MKV_EV_DONE, writer), 1);
    ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, writer), 1);
    ck_assert_uint_eq(pair_count(B, MKV_EV_DONE, owner), 1);
    ck_assert_uint_eq(pair_count(B, MKV_EV_QUIET, owner), 1);
    ck_assert_uint_eq(pair_query(writer).completed, PIECES);
    ck_assert_uint_eq(pair_query(writer).bytes, PIECES * PAIR_BYTES);
    ck_assert_uint_eq(pair_query(owner).bytes, PIECES * PAIR_BYTES);
    check_moved();
}

static void close_both(void)
{
    pair_close(writer, owner, plan);
}

static void finish(void)
{
    close_both();
    pair_teardown();
}

/* ---- Choice of the way ----------------------------------------------------------- */

/* The first put shows that UCX emulates. Later posts need no flush. Loop index: the
 * option, of the writer and of the owner; then other types of memory; then a way. */
/* XM-08 */
START_TEST(the_owner_of_private_host_memory_gets)
{
    static const struct {
        const char *writer, *owner;
        ucs_memory_type_t from, to;
        bool has_way;
        unsigned pulls;
    } cases[] = {{"auto", "auto", UCS_MEMORY_TYPE_ROCM, UCS_MEMORY_TYPE_HOST, false, 1},
                 {"push", "auto", UCS_MEMORY_TYPE_ROCM, UCS_MEMORY_TYPE_HOST, false, 1},
                 {"get", "auto", UCS_MEMORY_TYPE_ROCM, UCS_MEMORY_TYPE_HOST, false, 0},
                 {"auto", "get", UCS_MEMORY_TYPE_ROCM, UCS_MEMORY_TYPE_HOST, false, 0},
                 {"auto", "auto", UCS_MEMORY_TYPE_HOST, UCS_MEMORY_TYPE_HOST, false, 0},
                 {"auto", "auto", UCS_MEMORY_TYPE_ROCM, UCS_MEMORY_TYPE_ROCM, false, 0},
                 {"auto", "auto", UCS_MEMORY_TYPE_ROCM, UCS_MEMORY_TYPE_HOST, true, 0}};
    const mkv_sel_t notify = {.size = sizeof(notify), .fields = MKV_SEL_NOTIFY};
    unsigned pulls = cases[_i].pulls;
    uint64_t flushes;

    fake_ucp_reset();
    pair_now = 1000000000ull;
    pair_knows_lists = false;
    pair_mem_type = cases[_i].from;
    pair_set("READ_BY", cases[_i].writer);
    pair_open(0);
    pair_mem_type = cases[_i].to;
    pair_set("READ_BY", cases[_i].owner);
    pair_open(1);
    fake_ucp_close_way(cases[_i].has_way ? NULL : B->mem);
    pair_connect(0, 1);
    bind_write(1);
    post_all();
    check_done();
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_GET), pulls * PIECES);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_PUT),
                      ((pulls > 0) || cases[_i].has_way) ? 1 : PIECES);
    ck_assert_uint_eq(pair_stats(A).pulls_sent, pulls);
    ck_assert_uint_eq(pair_stats(B).pulls_served, pulls);
    ck_assert_uint_eq(pair_stats(A).bytes_written, PIECES * PAIR_BYTES);
    close_both();
    bind_write(2); /* the way is known now */
    flushes = pair_stats(A).flushes;
    OK(mkv_xfer_post(writer, 0, plan, &notify, NULL));
    OK(mkv_xfer_seal(writer, 0));
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_ARRIVED, owner), 1);
    ck_assert_int_eq(pair_stats(A).flushes > flushes,
                     (pulls == 0) && !cases[_i].has_way);
    ck_assert_uint_eq(pair_stats(B).flushes, 0);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_GET), 2 * pulls * PIECES);
    ck_assert_uint_eq(pair_stats(A).pulls_sent, 2 * pulls);
    finish();
}
END_TEST

START_TEST(one_block_is_got_as_well)
{
    mkv_plan_t *one;

    setup_host();
    bind_write(1);
    one = pair_plan(A, 1, 3, 9, 1, 0);
    OK(mkv_xfer_post(writer, 0, one, NULL, NULL));
    pair_run();
    ck_assert_uint_eq(pair_stats(B).pulls_served, 1);
    ck_assert(pair_holds(B, 9, 0, 3));
    OK(mkv_plan_destroy(one));
    OK(mkv_xfer_abort(writer, MKV_ERR_ABORTED, NULL));
    pair_run();
    finish();
}
END_TEST

START_TEST(one_block_may_go_to_two_places)
{
    static const uint32_t from[] = {3, 3}, to[] = {9, 7};
    const mkv_units_t units = {
        .num_local = 2, .num_remote = 2, .local = from, .remote = to};
    mkv_plan_t *twice;

    setup_host();
    bind_write(1);
    OK(mkv_plan_create(A->maps[1], &units, 1, 0, &twice));
    OK(mkv_xfer_post(writer, 0, twice, NULL, NULL));
    pair_run();
    ck_assert_uint_eq(pair_stats(B).pulls_served, 1);
    ck_assert(pair_holds(B, 9, 0, 3) && pair_holds(B, 7, 0, 3));
    OK(mkv_plan_destroy(twice));
    OK(mkv_xfer_abort(writer, MKV_ERR_ABORTED, NULL));
    pair_run();
    finish();
}
END_TEST

/* Over a connection to a different host, the owner's gets were emulated as well */
START_TEST(another_hosts_owner_does_not_get)
{
    setup_host();
    A->peers[1]->is_same_host = false;
    bind_write(1);
    post_all();
    check_done();
    ck_assert_uint_eq(pair_stats(A).pulls_sent, 0);
    finish();
}
END_TEST

/* The owner's first gets turn out to be emulated as well: then the writer puts */
START_TEST(an_owner_with_emulated_gets_refuses)
{
    setup_host();
    fake_ucp_set_path("software emulation mori_xgmi/fake0");
    bind_write(1);
    post_all();
    check_done();
    ck_assert_uint_eq(pair_stats(B).pulls_served, 1);
    close_both();
    bind_write(2);
    post_all();
    ck_assert_int_eq(pair_query(writer).state, MKV_XFER_DONE);
    check_moved();
    ck_assert_uint_eq(pair_stats(A).pulls_refused, 1);
    ck_assert_uint_eq(pair_stats(B).pulls_served, 1);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_GET), PIECES);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_PUT), 1 + PIECES);
    finish();
}
END_TEST

/* Loop index: 1: the owner refuses a layer in between, which this side then puts */
START_TEST(layers_are_notified_in_every_order)
{
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_LAYERS | MKV_SEL_NOTIFY};
    unsigned seed;

    mkv_tuning.sgl_max = 7;
    for (seed = 1; seed < 30; ++seed) {
        setup_host();
        fake_ucp_shuffle(seed);
        bind_write(1);
        for (sel.layer_lo = 0; sel.layer_lo < 4; ++sel.layer_lo) {
            sel.layer_hi = sel.layer_lo + 1;
            sel.notify = 70 + (uint32_t)sel.layer_lo;
            OK(mkv_xfer_post(writer, 0, plan, &sel, NULL));
            if (sel.layer_lo == 1) {
                pair_run();
                B->maps[0]->is_stale = (_i == 1);
            }
        }
        OK(mkv_xfer_seal(writer, 0));
        pair_run();
        B->maps[0]->is_stale = 0;
        check_done();
        ck_assert_uint_eq(pair_count(A, MKV_EV_LOCAL_DONE, writer), 4);
        ck_assert_uint_eq(pair_count(B, MKV_EV_ARRIVED, owner), 4);
        ck_assert_int_eq(pair_stats(A).pulls_refused > 0, _i == 1);
        finish();
    }
}
END_TEST

/* ---- Complete -------------------------------------------------------------------- */

/* And ARRIVED for the flush of the trial, which puts the same bytes */
START_TEST(done_and_arrived_wait_for_the_gets)
{
    mkv_sel_t sel = {.size = sizeof(sel), .fields = MKV_SEL_NOTIFY, .notify = 7};

    setup_host();
    bind_write(1);
    fake_ucp_hold(FAKE_UCP_GET);
    OK(mkv_xfer_post(writer, 0, plan, &sel, NULL));
    OK(mkv_xfer_seal(writer, 0));
    pair_run();
    ck_assert_uint_eq(fake_ucp_num_waiting(FAKE_UCP_GET), PIECES);
    ck_assert_uint_eq(pair_query(writer).completed, 0);
    ck_assert_uint_eq(pair_count(A, MKV_EV_LOCAL_DONE, NULL), 0);
    ck_assert_uint_eq(pair_count(B, MKV_EV_ARRIVED, NULL), 0);
    ck_assert_uint_eq(pair_count(B, MKV_EV_DONE, NULL), 0);
    ck_assert_ptr_nonnull(strstr(pair_query(writer).waiting_for, "the owner's gets"));
    fake_ucp_hold(FAKE_UCP_FLUSH);
    pair_run();
    ck_assert_uint_eq(pair_query(writer).completed, PIECES);
    ck_assert_uint_eq(pair_count(A, MKV_EV_LOCAL_DONE, NULL), 1);
    ck_assert_uint_eq(pair_count(B, MKV_EV_ARRIVED, NULL), 0);
    fake_ucp_hold(0);
    pair_run();
    check_done();
    ck_assert_uint_eq(pair_last(B, MKV_EV_ARRIVED, owner)->value, 7);
    finish();
}
END_TEST

/* ---- Ends by error --------------------------------------------------------------- */

/* Loop index: the owner aborts */
START_TEST(memory_is_quiet_when_the_owner_gets_no_more)
{
    setup_host();
    bind_write(1);
    fake_ucp_hold(FAKE_UCP_GET);
    OK(mkv_xfer_post(writer, 0, plan, NULL, NULL));
    pair_run();
    OK(mkv_xfer_abort(_i ? owner : writer, MKV_ERR_ABORTED, "test"));
    pair_run();
    ck_assert_int_eq(pair_query(writer).state, MKV_XFER_ABORTED);
    ck_assert_int_eq(pair_query(owner).state, MKV_XFER_ABORTED);
    ck_assert(!pair_query(writer).is_quiet);
    ck_assert(!pair_query(owner).is_quiet);
    IS(mkv_plan_destroy(plan), MKV_ERR_BUSY);
    fake_ucp_hold(0);
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_QUIET, writer), 1);
    ck_assert_uint_eq(pair_count(B, MKV_EV_QUIET, owner), 1);
    ck_assert_uint_eq(pair_stats(B).inflight_ops, 0);
    finish();
}
END_TEST

START_TEST(a_get_that_fails_there_fails_both_sides)
{
    setup_host();
    bind_write(1);
    fake_ucp_fail(FAKE_UCP_GET, 3, UCS_ERR_IO_ERROR);
    OK(mkv_xfer_post(writer, 0, plan, NULL, NULL));
    pair_run();
    ck_assert_int_eq(pair_query(writer).status, MKV_ERR_TRANSPORT);
    ck_assert_int_eq(pair_query(owner).status, MKV_ERR_TRANSPORT);
    ck_assert_ptr_nonnull(strstr(pair_query(writer).error, "get(component"));
    ck_assert(pair_query(writer).is_quiet);
    ck_assert(pair_query(owner).is_quiet);
    finish();
}
END_TEST

/* The writer's memory stays quarantined while the owner may get from it */
START_TEST(a_stopped_owner_ends_by_the_deadline)
{
    setup_host();
    bind_write(1);
    post_all(); /* the trial */
    close_both();
    bind_write(2);
    B->is_stopped = 1;
    fake_ucp_stop_worker(fake_ucp_worker(1), 1);
    post_all();
    pair_now += 300001 * MKV_NSEC_PER_MSEC;
    pair_run();
    ck_assert_int_eq(pair_query(writer).status, MKV_ERR_XFER_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(pair_query(writer).error, "the owner's gets"));
    ck_assert(!pair_query(writer).is_quiet);
    B->is_stopped = 0;
    fake_ucp_stop_worker(fake_ucp_worker(1), 0);
    pair_run();
    ck_assert(pair_query(writer).is_quiet);
    ck_assert(pair_query(owner).is_quiet);
    finish();
}
END_TEST

/* ---- A false writer -------------------------------------------------------------- */

/* Loop index: one block before the exposed ones; one behind them; none of its own */
START_TEST(what_was_not_exposed_is_not_got)
{
    mkv_plan_t *other;

    setup_host();
    bind_write(1);
    post_all(); /* the trial */
    close_both();
    bind_write(2);
    other = pair_plan(A, 1, 0, (_i == 0) ? 3 : ((_i == 1) ? 5 : 20),
                      (_i == 2) ? 12 : NUM, MKV_PLAN_UNCHECKED);
    OK(mkv_xfer_post(writer, 0, other, NULL, NULL));
    pair_run();
    ck_assert_int_eq(pair_query(owner).status, MKV_ERR_BOUNDS);
    ck_assert_int_eq(pair_query(writer).status, MKV_ERR_BOUNDS);
    ck_assert_ptr_nonnull(strstr(pair_query(owner).error, "B has not exposed block"));
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_GET), PIECES);
    OK(mkv_plan_destroy(other));
    finish();
}
END_TEST

/* A writer that sends FIN before PULLED is not trusted: the owner's blocks are quiet
 * when its gets have ended */
START_TEST(a_fin_in_mid_get_frees_nothing)
{
    mkv_msg_t msg = {.type = MKV_MSG_FIN};

    setup_host();
    bind_write(1);
    fake_ucp_hold(FAKE_UCP_GET);
    OK(mkv_xfer_post(writer, 0, plan, NULL, NULL));
    pair_run();
    msg.id = writer->id;
    msg.epoch = writer->epoch;
    msg.from_nonce = writer->nonce;
    msg.to_nonce = writer->legs[0].remote_nonce;
    OK(mkv_message_send(A->peers[1], &msg));
    pair_run();
    ck_assert_int_eq(pair_query(owner).status, MKV_ERR_PROTOCOL);
    ck_assert(!pair_query(owner).is_quiet);
    fake_ucp_hold(0);
    pair_run();
    ck_assert(pair_query(owner).is_quiet);
    ck_assert(pair_query(writer).is_quiet);
    finish();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("fetch");

    tcase_add_loop_test(tcase, the_owner_of_private_host_memory_gets, 0, 7);
    tcase_add_test(tcase, one_block_is_got_as_well);
    tcase_add_test(tcase, one_block_may_go_to_two_places);
    tcase_add_test(tcase, another_hosts_owner_does_not_get);
    tcase_add_test(tcase, an_owner_with_emulated_gets_refuses);
    tcase_add_loop_test(tcase, layers_are_notified_in_every_order, 0, 2);
    tcase_add_test(tcase, done_and_arrived_wait_for_the_gets);
    tcase_add_loop_test(tcase, memory_is_quiet_when_the_owner_gets_no_more, 0, 2);
    tcase_add_test(tcase, a_get_that_fails_there_fails_both_sides);
    tcase_add_test(tcase, a_stopped_owner_ends_by_the_deadline);
    tcase_add_loop_test(tcase, what_was_not_exposed_is_not_got, 0, 3);
    tcase_add_test(tcase, a_fin_in_mid_get_frees_nothing);
    return pair_main("mkv_fetch", tcase);
}
