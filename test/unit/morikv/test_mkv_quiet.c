/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Proofs that a peer cannot touch exposed blocks any more: by the transports that reach
 * them, by the state of its process, and by how the connection ended.
 */

#include "src/message/peer_close.h"

#include "test/support/mkv_pair.h"

#include <stdlib.h>
#include <string.h>

#define NUM 4

static mkv_xfer_t *active, *passive;
static mkv_plan_t *plan;

static void pass_ms(uint64_t ms)
{
    pair_now += ms * MKV_NSEC_PER_MSEC;
    pair_run();
}

static bool is_quiet(const mkv_xfer_t *xfer)
{
    return pair_query(xfer).is_quiet;
}

/* A writes to B, with puts in flight */
static void start_to_write(const char *transport)
{
    fake_ucp_reset();
    fake_ucp_set_transport(transport);
    pair_now = 1000000000ull;
    pair_open(0);
    pair_open(1);
    pair_connect(0, 1);
    active = pair_bind_write(NUM, &passive);
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
    fake_ucp_hold(FAKE_UCP_PUT);
    fake_ucp_set_lists(0);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    pair_run();
}

static void stop_the_writer(const char *transport)
{
    start_to_write(transport);
    A->is_stopped = 1;
    fake_ucp_stop_worker(fake_ucp_worker(0), 1);
}

static void go_on_and_close(void)
{
    A->is_stopped = 0;
    fake_ucp_stop_worker(fake_ucp_worker(0), 0);
    fake_ucp_hold(0);
    fake_ucp_break(UCS_ERR_CONNECTION_RESET);
    pass_ms(1000);
    pass_ms(31000);
    ck_assert(is_quiet(active) && is_quiet(passive));
    pair_close(active, passive, plan);
    pair_teardown();
}

/* UCX has failed the endpoint, and copies take longer than a drain may: the endpoint is
 * closed behind the last of them, since UCX would not progress their transport then */
START_TEST(a_failed_endpoint_is_closed_when_its_calls_are_back)
{
    start_to_write("mori_xgmi");
    fake_ucp_set_copying(1);
    fake_ucp_break(UCS_ERR_CONNECTION_RESET);
    pass_ms(1000);
    pass_ms(1000000);
    ck_assert_int_eq(A->peers[1]->state, MKV_CONN_FAILED);
    ck_assert(!is_quiet(active));
    fake_ucp_hold(0);
    pass_ms(1000);
    ck_assert_int_eq(A->peers[1]->state, MKV_CONN_GONE);
    ck_assert(is_quiet(active));
    pass_ms(31000);
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* The caller declares that they never come back */
START_TEST(calls_to_a_peer_declared_dead_are_not_waited_for)
{
    start_to_write("mori_xgmi");
    fake_ucp_break(UCS_ERR_CONNECTION_RESET);
    ++A->peers[1]->inflight_ops; /* one that UCX has lost */
    fake_ucp_hold(0);
    pass_ms(1000);
    pass_ms(1000000);
    ck_assert_int_eq(A->peers[1]->state, MKV_CONN_FAILED);
    OK(mkv_peer_declare_dead(A->peers[1]));
    pass_ms(1);
    ck_assert_int_eq(A->peers[1]->state, MKV_CONN_GONE);
    --A->peers[1]->inflight_ops;
    go_on_and_close();
}
END_TEST

/* B learns of a connection after A has given it up, so B never sees its claim held. The
 * claim of the next connection of the same context decides. The test sets up the claim
 * as that of a different process. */
/* AB-05 */
START_TEST(an_ended_claim_is_found_by_the_next_connection)
{
    mkv_peer_t *former;

    pair_setup();
    former = B->peers[0];
    mkv_peer_fail(A->peers[1], MKV_ERR_PEER, "of the test");
    pair_run();
    OK(mkv_map_destroy(A->maps[1]));
    OK(mkv_map_destroy(B->maps[0]));
    pair_connect(0, 1);
    ck_assert_ptr_ne(B->peers[0], former);
    mkv_watch_stop(&former->watch);
    former->watch.owner = former->watch.claim = 5;
    ck_assert_int_eq(mkv_peer_look_claim(former), MKV_CLAIM_UNKNOWN);
    mkv_watch_stop(&B->peers[0]->watch);
    B->peers[0]->watch.owner = 5;
    B->peers[0]->watch.state = MKV_CLAIM_GONE;
    ck_assert_int_eq(mkv_peer_look_claim(former), MKV_CLAIM_GONE);
    pair_teardown();
}
END_TEST

static const struct {
    const char *transport;
    int is_seen; /* its claim */
    mkv_status_t
        cut; /* reason of the cut here; MKV_OK: UCX reports that it is broken */
    bool is_proof;
} ends[] = {
    {"mori_xgmi", 1, MKV_OK, false},
    {"mori_xgmi", 1, MKV_ERR_DRAIN_TIMEOUT, false},
    {"mori_xgmi", 0, MKV_OK, false},
    {"mori_xgmi", 0, MKV_ERR_DRAIN_TIMEOUT, false},
    {"cma", 0, MKV_OK, false},
    {"unheard_of", 0, MKV_OK, false},
    {"tcp", 1, MKV_OK, false},
    {"tcp", 1, MKV_ERR_DRAIN_TIMEOUT, false},
    {"tcp", 0, MKV_OK, true},
    {"tcp", 0, MKV_ERR_DRAIN_TIMEOUT, false},
    {"tcp", 0, MKV_ERR_TRANSPORT, false}, /* UCX does not take a key that it sent */
    {"ud_mlx5", 0, MKV_OK, true},
    {"mori_rdma", 1, MKV_OK, true},
    {"mori_rdma", 1, MKV_ERR_DRAIN_TIMEOUT, true},
    {"mori_rdma", 0, MKV_ERR_DRAIN_TIMEOUT, true},
};

/* The peer sends nothing */
/* AB-05 */
START_TEST(an_end_of_the_connection_is_a_proof_where_it_is_one)
{
    if (!ends[_i].is_seen) {
        pair_set("SHM_DIR", "/nowhere");
        pair_set("LOG_LEVEL", "error");
    }
    stop_the_writer(ends[_i].transport);
    if (ends[_i].cut != MKV_OK) {
        mkv_peer_fail(B->peers[0], ends[_i].cut, "of the test");
    } else {
        fake_ucp_break(UCS_ERR_CONNECTION_RESET);
    }
    pass_ms(31000);
    pass_ms(1000);
    ck_assert(pair_query(passive).status < MKV_OK);
    ck_assert_int_eq(is_quiet(passive), ends[_i].is_proof);
    if (!is_quiet(passive)) {
        OK(mkv_xfer_declare_dead(passive));
        pair_run();
    }
    go_on_and_close();
}
END_TEST

/* ---- Late ------------------------------------------------------------------------ */

#define DRAIN_MS 30001

static void go_on(unsigned index)
{
    pair_sides[index].is_stopped = 0;
    fake_ucp_stop_worker(fake_ucp_worker(index), 0);
    fake_ucp_hold(0);
    pass_ms(1000);
}

/* A second transfer, over the same connection */
static void move_another(void)
{
    mkv_xfer_t *source = pair_xfer(A, 1, 2, MKV_WRITE, MKV_SRC);
    mkv_xfer_t *dest = pair_xfer(B, 0, 2, MKV_WRITE, MKV_DST);
    mkv_plan_t *blocks;

    pair_expose(dest, 8, NUM);
    pair_run();
    blocks = pair_plan(A, 1, 0, 8, NUM, 0);
    OK(mkv_xfer_post(source, 0, blocks, NULL, NULL));
    OK(mkv_xfer_seal(source, 0));
    pair_run();
    ck_assert_int_eq(pair_query(dest).state, MKV_XFER_DONE);
    pair_close(source, dest, blocks);
}

static void expect_no_failure(void)
{
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_FAILED, NULL), 0);
    ck_assert_uint_eq(pair_count(B, MKV_EV_PEER_FAILED, NULL), 0);
}

static const char *const lanes[] = {"mori_xgmi", "mori_rdma", "tcp"};

/* The writer's application does something else for a while */
/* AB-02, AB-05 */
START_TEST(a_late_drain_is_its_transfers_fate_alone)
{
    stop_the_writer(lanes[_i]);
    OK(mkv_xfer_abort(passive, MKV_ERR_ABORTED, NULL));
    pass_ms(DRAIN_MS);
    pass_ms(500);
    ck_assert(pair_query(passive).is_quarantined && !is_quiet(passive));
    ck_assert_int_eq(pair_last(B, MKV_EV_WARN, passive)->status, MKV_ERR_DRAIN_TIMEOUT);
    IS(mkv_xfer_close(passive), MKV_ERR_BUSY);
    go_on(0);
    ck_assert(is_quiet(active) && is_quiet(passive));
    ck_assert(!pair_query(passive).is_quarantined);
    move_another();
    expect_no_failure();
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* The writer's puts hang, but it answers: ending the connection would not help */
/* AB-05 */
START_TEST(a_peer_that_answers_is_never_cut)
{
    unsigned i;

    stop_the_writer(lanes[_i]);
    A->is_stopped = 0;
    fake_ucp_stop_worker(fake_ucp_worker(0), 0);
    OK(mkv_xfer_abort(passive, MKV_ERR_ABORTED, NULL));
    pair_run();
    for (i = 0; i < 5; ++i) {
        pass_ms(DRAIN_MS);
        pass_ms(1); /* messages of a deadline leave with the next progress */
        ck_assert(pair_query(active).is_quarantined);
        ck_assert(pair_query(passive).is_quarantined);
    }
    ck_assert_uint_eq(pair_count(B, MKV_EV_WARN, passive), 1);
    expect_no_failure();
    go_on(0);
    ck_assert(is_quiet(active) && is_quiet(passive));
    move_another();
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* The peer does not answer the probe either. Over queue pairs a cut is a proof, so the
 * connection is cut. Elsewhere it is kept, as the proof may still arrive over it */
/* AB-05 */
START_TEST(a_silent_peer_is_cut_where_that_is_a_proof)
{
    bool is_proof = strcmp(lanes[_i], "mori_rdma") == 0;

    stop_the_writer(lanes[_i]);
    OK(mkv_xfer_abort(passive, MKV_ERR_ABORTED, NULL));
    pass_ms(DRAIN_MS);
    expect_no_failure();
    pass_ms(DRAIN_MS);
    pass_ms(DRAIN_MS);
    ck_assert_uint_eq(pair_count(B, MKV_EV_PEER_FAILED, NULL), is_proof);
    ck_assert_int_eq(is_quiet(passive), is_proof);
    if (is_proof) {
        ck_assert_int_eq(pair_last(B, MKV_EV_PEER_FAILED, NULL)->status,
                         MKV_ERR_DRAIN_TIMEOUT);
    }
    go_on(0);
    pass_ms(1000);
    ck_assert(is_quiet(passive));
    ck_assert_uint_eq(pair_count(A, MKV_EV_PEER_FAILED, NULL), is_proof);
    go_on_and_close();
}
END_TEST

/* Queue pairs refuse late operations, and a GPU of the same host has none */
START_TEST(a_silent_peer_with_another_way_is_not_cut)
{
    stop_the_writer("mori_rdma");
    B->peers[0]->has_local_lane = true;
    OK(mkv_xfer_abort(passive, MKV_ERR_ABORTED, NULL));
    pass_ms(DRAIN_MS);
    pass_ms(DRAIN_MS);
    pass_ms(DRAIN_MS);
    expect_no_failure();
    ck_assert(!is_quiet(passive));
    go_on(0);
    ck_assert(is_quiet(passive));
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* A side that receives a goodbye waits for the peer's calls in flight to its blocks */
START_TEST(goodbye_waits_until_the_blocks_are_quiet)
{
    mkv_peer_t *peer;

    start_to_write("tcp");
    peer = B->peers[0];
    OK(mkv_peer_close(peer, MKV_CLOSE_FORCE));
    B->peers[0] = NULL;
    ck_assert_int_eq(pair_query(passive).status, MKV_ERR_PEER);
    pass_ms(10);
    ck_assert_int_eq(peer->state, MKV_CONN_ENDING);
    ck_assert(!is_quiet(passive));
    fake_ucp_hold(0);
    pass_ms(10);
    ck_assert_int_eq(A->peers[1]->end, MKV_PEER_END_LEFT);
    ck_assert(is_quiet(passive));
    pair_close(active, passive, plan);
    OK(mkv_map_destroy(B->maps[0]));
    B->maps[0] = NULL;
    pair_teardown();
}
END_TEST

/* A goodbye means that all data of the sender has arrived. Loop index 1: the flush
 * succeeds, the control. */
START_TEST(no_goodbye_is_sent_after_a_failed_flush)
{
    pair_setup();
    OK(mkv_map_destroy(A->maps[1]));
    A->maps[1] = NULL;
    if (!_i) {
        fake_ucp_fail(FAKE_UCP_FLUSH, 0, UCS_ERR_IO_ERROR);
    }
    OK(mkv_peer_close(A->peers[1], MKV_CLOSE_FLUSH));
    A->peers[1] = NULL;
    pair_run();
    ck_assert_int_eq(B->peers[0]->end == MKV_PEER_END_LEFT, _i);
    ck_assert_uint_eq(pair_count(B, MKV_EV_PEER_CLOSED, NULL), (unsigned)_i);
    pair_teardown();
}
END_TEST

/* Messages may have another lane than the puts, which goes on */
START_TEST(a_flush_that_fails_proves_nothing)
{
    start_to_write("mori_rdma");
    OK(mkv_xfer_seal(active, 0));
    fake_ucp_hold(0);
    fake_ucp_fail(FAKE_UCP_FLUSH, 0, UCS_ERR_IO_ERROR);
    while (pair_query(active).status == MKV_INPROGRESS) {
        (void)mkv_progress(A->ctx);
    }
    fake_ucp_hold(FAKE_UCP_FLUSH);
    pair_run();
    ck_assert_int_eq(pair_query(passive).status, MKV_ERR_TRANSPORT);
    ck_assert(!is_quiet(passive));
    fake_ucp_hold(0);
    pair_run();
    ck_assert(is_quiet(active) && is_quiet(passive));
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* Nothing but the goodbye proves it: the claim is not visible, and the peer's GPU could
 * reach the blocks. Loop index 1: this side closes the connection as well, before the
 * goodbye arrives */
START_TEST(a_peer_after_its_goodbye_touches_nothing)
{
    mkv_peer_t *peer;

    pair_set("SHM_DIR", "/nowhere");
    pair_set("LOG_LEVEL", "error");
    pair_setup();
    passive = pair_xfer(B, 0, 1, MKV_WRITE, MKV_DST);
    pair_expose(passive, 0, NUM);
    pair_run();
    OK(mkv_map_destroy(A->maps[1]));
    A->maps[1] = NULL;
    OK(mkv_peer_close(A->peers[1], MKV_CLOSE_FLUSH));
    A->peers[1] = NULL;
    peer = B->peers[0];
    if (_i) {
        B->is_stopped = 1;
        pair_run();
        B->is_stopped = 0;
        OK(mkv_peer_close(peer, MKV_CLOSE_FORCE));
        B->peers[0] = NULL;
    }
    pair_run();
    ck_assert(peer->has_local_lane);
    ck_assert_int_eq(pair_query(passive).status, MKV_ERR_PEER);
    ck_assert(is_quiet(passive));
    OK(mkv_xfer_close(passive));
    pair_teardown();
}
END_TEST

/* This side's calls hang: they end with the connection */
/* AB-05 */
START_TEST(calls_to_a_silent_peer_end_with_the_connection)
{
    stop_the_writer("tcp");
    A->is_stopped = 0;
    fake_ucp_stop_worker(fake_ucp_worker(0), 0);
    B->is_stopped = 1;
    fake_ucp_stop_worker(fake_ucp_worker(1), 1);
    OK(mkv_xfer_abort(active, MKV_ERR_ABORTED, NULL));
    pass_ms(DRAIN_MS);
    expect_no_failure();
    ck_assert(pair_query(active).is_quarantined && !is_quiet(active));
    pass_ms(DRAIN_MS);
    ck_assert_int_eq(pair_last(A, MKV_EV_PEER_FAILED, NULL)->status,
                     MKV_ERR_DRAIN_TIMEOUT);
    go_on(1);
    go_on_and_close();
}
END_TEST

/* Calls to a dead peer are cut at once, whatever time they had left */
START_TEST(calls_to_a_peer_found_dead_are_not_waited_for)
{
    start_to_write("tcp");
    OK(mkv_peer_declare_dead(A->peers[1]));
    pass_ms(0);
    ck_assert_int_eq(A->peers[1]->state, MKV_CONN_GONE);
    go_on_and_close();
}
END_TEST

/* UCX has nothing to wait for */
START_TEST(an_endpoint_may_be_closed_at_once)
{
    start_to_write("tcp");
    fake_ucp_set_inline(FAKE_UCP_CLOSE);
    fake_ucp_hold(0);
    pair_run();
    mkv_peer_fail(A->peers[1], MKV_ERR_DRAIN_TIMEOUT, "of a test");
    pair_run();
    ck_assert_int_eq(A->peers[1]->state, MKV_CONN_GONE);
    fake_ucp_set_inline(0);
    go_on_and_close();
}
END_TEST

/* Loop index: the peer has ended; this side cut the connection, which ends all calls */
START_TEST(calls_to_an_ended_peer_have_the_drain_timeout)
{
    start_to_write("tcp");
    mkv_peer_fail(A->peers[1], _i ? MKV_ERR_DRAIN_TIMEOUT : MKV_ERR_PEER, "of a test");
    pass_ms(DRAIN_MS - 2);
    ck_assert_int_eq(A->peers[1]->state, _i ? MKV_CONN_GONE : MKV_CONN_FAILED);
    pass_ms(2);
    ck_assert_int_ge(A->peers[1]->state, MKV_CONN_CLOSING);
    go_on_and_close();
}
END_TEST

/* B closes the connection while the writer is slow, and has no time for a goodbye. Loop
 * index: the transport; a destroyed queue pair accepts no more data */
START_TEST(a_connection_that_was_cut_while_it_closed_is_no_proof)
{
    mkv_peer_t *peer;

    pair_set("SHM_DIR", "/nowhere");
    pair_set("LOG_LEVEL", "error");
    stop_the_writer(_i ? "mori_rdma" : "tcp");
    peer = B->peers[0];
    OK(mkv_peer_close(peer, MKV_CLOSE_FORCE));
    B->peers[0] = NULL;
    pass_ms(DRAIN_MS - 2);
    ck_assert_int_eq(peer->state, MKV_CONN_ENDING);
    pass_ms(2);
    ck_assert_int_eq(peer->state, MKV_CONN_GONE);
    ck_assert_int_eq(is_quiet(passive), _i);
    mkv_peer_declare_dead_locked(peer); /* the caller has other evidence */
    go_on_and_close();
}
END_TEST

/* Close returns the memory to the caller. It must wait while our calls read the memory
 * or a peer may write to it. Loop index: the writer closes; the side with exposed
 * blocks closes. */
START_TEST(a_context_closes_when_all_is_quiet)
{
    pair_side_t *side = &pair_sides[_i];
    uint64_t start;
    void *mem;

    if (_i == 0) {
        start_to_write("tcp");
    } else {
        stop_the_writer("tcp");
    }
    pair_tick = 10 * MKV_NSEC_PER_MSEC;
    start = pair_now;
    IS(mkv_close(side->ctx), MKV_ERR_DRAIN_TIMEOUT);
    ck_assert_uint_ge(pair_now - start, DRAIN_MS * MKV_NSEC_PER_MSEC);
    pair_tick = 0;
    mem = side->mem; /* not free yet: it was not quiet */
    pair_forget(side);
    if (_i == 1) {
        go_on(0);
    }
    fake_ucp_hold(0);
    pass_ms(1000);
    pass_ms(1000);
    ck_assert(is_quiet(_i ? active : passive));
    OK(mkv_xfer_close(_i ? active : passive));
    if (_i == 1) {
        OK(mkv_plan_destroy(plan));
    }
    free(mem);
    pair_teardown();
}
END_TEST

/* ---- Claims ---------------------------------------------------------------------- */

/* UCX has closed the endpoint and still has one of its calls: the peer must not
 * conclude that this side touches nothing */
START_TEST(a_claim_is_held_until_all_calls_are_back)
{
    mkv_peer_t *peer;

    pair_now = 1000000000ull;
    pair_setup();
    peer = A->peers[1];
    ck_assert_uint_ne(peer->claim, 0);
    ++peer->inflight_ops;
    mkv_peer_fail(peer, MKV_ERR_DRAIN_TIMEOUT, "of the test");
    pass_ms(31000);
    pass_ms(1000);
    ck_assert_int_eq(peer->state, MKV_CONN_GONE);
    ck_assert_uint_ne(peer->claim, 0);
    --peer->inflight_ops;
    pass_ms(1000);
    ck_assert_uint_eq(peer->claim, 0);
    pair_teardown();
}
END_TEST

/* B's claim ends, and B does nothing any more; A checks after two seconds */
static void lose_b(void)
{
    mkv_peer_t *peer = B->peers[0];

    mkv_peer_fail(peer, MKV_ERR_PEER, "of the test");
    while (peer->claim != 0) {
        (void)mkv_progress(B->ctx);
    }
    B->is_stopped = 1;
    pass_ms(1000);
    pass_ms(1000);
}

/* Queue pairs would retry for seconds. Calls that wait for credits of a dead process
 * would wait until UCX checks its endpoints */
START_TEST(calls_to_a_peer_that_is_gone_are_cut_at_once)
{
    start_to_write("tcp");
    lose_b();
    ck_assert_int_eq(pair_last(A, MKV_EV_PEER_FAILED, NULL)->status, MKV_ERR_PEER);
    ck_assert_int_eq(A->peers[1]->state, MKV_CONN_GONE);
    ck_assert(is_quiet(active));
    go_on(1);
    go_on_and_close();
}
END_TEST

/* Copies complete by themselves after the cut, but UCX sends no wakeup for a closed
 * endpoint */
START_TEST(copies_to_a_peer_that_is_gone_are_polled)
{
    start_to_write("mori_xgmi");
    fake_ucp_set_copying(1);
    fake_ucp_set_inline(FAKE_UCP_CLOSE);
    lose_b();
    ck_assert_int_eq(A->peers[1]->state, MKV_CONN_GONE);
    ck_assert(!is_quiet(active));
    ck_assert_uint_le(A->ctx->next_deadline, pair_now + 20 * MKV_NSEC_PER_MSEC);
    go_on(1);
    ck_assert(is_quiet(active));
    ck_assert_uint_gt(A->ctx->next_deadline, pair_now + 20 * MKV_NSEC_PER_MSEC);
    go_on_and_close();
}
END_TEST

/* Loop index: the peer is gone before the flush, and in the middle of the goodbye */
START_TEST(goodbye_to_a_peer_that_is_gone_is_not_waited_for)
{
    mkv_peer_t *peer;

    pair_now = 1000000000ull;
    pair_setup();
    peer = A->peers[1];
    fake_ucp_hold((_i == 0) ? FAKE_UCP_FLUSH : FAKE_UCP_AM);
    OK(mkv_peer_close(peer, MKV_CLOSE_FLUSH));
    A->peers[1] = NULL;
    (void)mkv_progress(A->ctx);
    ck_assert_int_eq(peer->state, MKV_CONN_LEAVING);
    lose_b();
    ck_assert_int_eq(peer->state, MKV_CONN_GONE);
    go_on(1);
    pair_teardown();
}
END_TEST

/* Messages sent before the release may still arrive, as long as UCX makes progress */
/* AB-05 */
START_TEST(a_released_claim_counts_when_nothing_comes_any_more)
{
    mkv_peer_t *from_c;
    unsigned i;

    stop_the_writer("tcp");
    pair_open(2);
    pair_connect(2, 1);
    from_c = pair_sides[2].peers[1];
    mkv_peer_fail(B->peers[0], MKV_ERR_DRAIN_TIMEOUT, "of the test");
    pass_ms(31000);
    B->is_stopped = 1;
    A->is_stopped = 0;
    fake_ucp_stop_worker(fake_ucp_worker(0), 0);
    fake_ucp_hold(0);
    pass_ms(1000);
    pass_ms(1000);
    ck_assert(is_quiet(active));
    for (i = 0; i < 5; ++i) {
        OK(mkv_send(from_c, i, 1, NULL, 0, NULL, 0));
        (void)mkv_progress(pair_sides[2].ctx);
        pair_now += 100 * MKV_NSEC_PER_MSEC;
        ck_assert_uint_gt(mkv_progress(B->ctx), 0);
        ck_assert(!is_quiet(passive));
    }
    B->is_stopped = 0;
    pass_ms(1000);
    ck_assert(is_quiet(passive));
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* A loses its side and connects again before B has noticed */
START_TEST(blocks_of_a_former_connection_are_free_when_its_claim_is_over)
{
    uint8_t blob[4096];
    size_t length = sizeof(blob);
    mkv_peer_t *again;

    pair_setup();
    active = pair_bind_write(NUM, &passive);
    mkv_peer_fail(A->peers[1], MKV_ERR_PEER, "of the test");
    (void)mkv_progress(A->ctx);
    OK(mkv_blob(B->ctx, MKV_BLOB_ADDR, blob, &length));
    OK(mkv_peer_add(A->ctx, blob, length, NULL, &again));
    pass_ms(500);
    ck_assert_int_eq(pair_query(passive).status, MKV_ERR_PEER);
    ck_assert(is_quiet(passive));
    ck_assert_int_eq(again->state, MKV_CONN_READY); /* peer whose claim is held */
    pair_close(active, passive, NULL);
    pair_teardown();
}
END_TEST

/* No boot id, no /proc, no folder that both see: nothing shows the peer's state, and
 * only an operator's declaration ends the wait */
/* AB-05 */
START_TEST(where_nothing_is_seen_only_a_word_frees)
{
    pair_set("SHM_DIR", "/nowhere");
    pair_set("LOG_LEVEL", "error");
    fake_ucp_reset();
    fake_ucp_set_transport("mori_xgmi");
    pair_now = 1000000000ull;
    pair_open(0);
    pair_open(1);
    A->ctx->process.host_id = B->ctx->process.host_id = 0;
    pair_connect(0, 1);
    active = pair_bind_write(NUM, &passive);
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
    fake_ucp_hold(FAKE_UCP_PUT);
    fake_ucp_set_lists(0);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    pair_run();
    A->is_stopped = 1;
    fake_ucp_stop_worker(fake_ucp_worker(0), 1);
    fake_ucp_break(UCS_ERR_CONNECTION_RESET);
    pass_ms(1000);
    pass_ms(1000000000);
    ck_assert_int_lt(pair_query(passive).status, 0);
    ck_assert(!is_quiet(passive));
    OK(mkv_peer_declare_dead(B->peers[0]));
    pair_run();
    ck_assert(is_quiet(passive));
    go_on_and_close();
}
END_TEST

/* A burst of clients left before their requests arrived: each open reports this at
 * once, and the next transfer is not disturbed */
/* AB-01, SM-07 */
START_TEST(thousands_of_aborts_disturb_no_new_transfer)
{
    enum { NUM_ABORTS = 4096 };
    unsigned i;

    pair_setup();
    for (i = 0; i < NUM_ABORTS; ++i) {
        passive = pair_xfer(B, 0, 1000 + i, MKV_WRITE, MKV_DST);
        pair_expose(passive, 0, NUM);
        OK(mkv_xfer_abort(passive, MKV_ERR_ABORTED, "client gone"));
        pair_run();
        OK(mkv_xfer_close(passive));
        A->num_events = B->num_events = 0;
    }
    active = pair_bind_write(NUM, &passive);
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_int_eq(pair_query(passive).state, MKV_XFER_DONE);
    pair_close(active, passive, plan);
    for (i = 0; i < NUM_ABORTS; ++i) {
        active = pair_xfer(A, 1, 1000 + i, MKV_WRITE, MKV_SRC);
        ck_assert_int_eq(pair_query(active).status, MKV_ERR_ABORTED);
        ck_assert_ptr_nonnull(strstr(pair_query(active).error, "client gone"));
        pair_run();
        OK(mkv_xfer_close(active));
        A->num_events = B->num_events = 0;
    }
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("quiet");

    tcase_add_test(tcase, a_failed_endpoint_is_closed_when_its_calls_are_back);
    tcase_add_test(tcase, an_ended_claim_is_found_by_the_next_connection);
    tcase_add_test(tcase, calls_to_a_peer_declared_dead_are_not_waited_for);
    tcase_add_test(tcase, a_silent_peer_with_another_way_is_not_cut);
    tcase_add_test(tcase, goodbye_waits_until_the_blocks_are_quiet);
    tcase_add_loop_test(tcase, no_goodbye_is_sent_after_a_failed_flush, 0, 2);
    tcase_add_test(tcase, a_flush_that_fails_proves_nothing);
    tcase_add_loop_test(tcase, a_peer_after_its_goodbye_touches_nothing, 0, 2);
    tcase_add_loop_test(tcase, an_end_of_the_connection_is_a_proof_where_it_is_one, 0,
                        sizeof(ends) / sizeof(ends[0]));
    tcase_add_loop_test(tcase, a_late_drain_is_its_transfers_fate_alone, 0, 3);
    tcase_add_loop_test(tcase, a_peer_that_answers_is_never_cut, 0, 3);
    tcase_add_loop_test(tcase, a_silent_peer_is_cut_where_that_is_a_proof, 0, 3);
    tcase_add_test(tcase, calls_to_a_silent_peer_end_with_the_connection);
    tcase_add_test(tcase, calls_to_a_peer_found_dead_are_not_waited_for);
    tcase_add_test(tcase, an_endpoint_may_be_closed_at_once);
    tcase_add_loop_test(tcase, calls_to_an_ended_peer_have_the_drain_timeout, 0, 2);
    tcase_add_loop_test(tcase, a_connection_that_was_cut_while_it_closed_is_no_proof, 0,
                        2);
    tcase_add_loop_test(tcase, a_context_closes_when_all_is_quiet, 0, 2);
    tcase_add_test(tcase, a_claim_is_held_until_all_calls_are_back);
    tcase_add_test(tcase, calls_to_a_peer_that_is_gone_are_cut_at_once);
    tcase_add_test(tcase, copies_to_a_peer_that_is_gone_are_polled);
    tcase_add_loop_test(tcase, goodbye_to_a_peer_that_is_gone_is_not_waited_for, 0, 2);
    tcase_add_test(tcase, a_released_claim_counts_when_nothing_comes_any_more);
    tcase_add_test(tcase,
                   blocks_of_a_former_connection_are_free_when_its_claim_is_over);
    tcase_add_test(tcase, where_nothing_is_seen_only_a_word_frees);
    tcase_add_test(tcase, thousands_of_aborts_disturb_no_new_transfer);
    return pair_main("test_mkv_quiet", tcase);
}
