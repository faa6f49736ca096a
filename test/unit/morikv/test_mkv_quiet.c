/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What proves that a peer cannot touch exposed blocks any more, by the transports that
 * reach them, by what is seen of its process, and by how the connection ended.
 */

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

/* A, which writes to B, stops with a put in flight */
static void stop_the_writer(const char *transport)
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

static const struct {
    const char *transport;
    int is_seen, is_cut; /* its claim; else UCX says that the connection is broken */
    bool is_proof;
} ends[] = {
    {"mori_xgmi", 1, 0, false}, {"mori_xgmi", 1, 1, false}, {"mori_xgmi", 0, 0, false},
    {"mori_xgmi", 0, 1, false}, {"cma", 0, 0, false},       {"unheard_of", 0, 0, false},
    {"tcp", 1, 0, false},       {"tcp", 1, 1, false},       {"tcp", 0, 0, true},
    {"tcp", 0, 1, false},       {"mori_rdma", 1, 0, true},  {"mori_rdma", 1, 1, true},
    {"mori_rdma", 0, 1, true},
};

/* Nothing is heard from the peer */
START_TEST(an_end_of_the_connection_is_a_proof_where_it_is_one)
{
    if (!ends[_i].is_seen) {
        pair_set("SHM_DIR", "/nowhere");
        pair_set("LOG_LEVEL", "error");
    }
    stop_the_writer(ends[_i].transport);
    if (ends[_i].is_cut) {
        OK(mkv_xfer_abort(passive, MKV_ERR_ABORTED, NULL));
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

/* What it sent before may still come, as long as UCX finds something */
START_TEST(a_released_claim_counts_when_nothing_comes_any_more)
{
    mkv_peer_t *from_c;
    unsigned i;

    stop_the_writer("tcp");
    pair_open(2);
    pair_connect(2, 1);
    from_c = pair_sides[2].peers[1];
    OK(mkv_xfer_abort(passive, MKV_ERR_ABORTED, NULL));
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

/* It has lost its side, and connects again before we have noticed */
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
    ck_assert_int_eq(again->state, MKV_CONN_READY); /* whose claim is held */
    pair_close(active, passive, NULL);
    pair_teardown();
}
END_TEST

/* A burst of clients that went away before their requests came here: each is told so
 * when it is opened, and the next one is not disturbed */
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

    tcase_add_loop_test(tcase, an_end_of_the_connection_is_a_proof_where_it_is_one, 0,
                        sizeof(ends) / sizeof(ends[0]));
    tcase_add_test(tcase, a_released_claim_counts_when_nothing_comes_any_more);
    tcase_add_test(tcase,
                   blocks_of_a_former_connection_are_free_when_its_claim_is_over);
    tcase_add_test(tcase, thousands_of_aborts_disturb_no_new_transfer);
    return pair_main("test_mkv_quiet", tcase);
}
