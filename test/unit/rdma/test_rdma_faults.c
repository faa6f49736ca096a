/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_log.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Failures in an order that the test decides. Each operation completes once with its
 * own status, the error handler runs once, other endpoints continue, and a new endpoint
 * works. Recovery is off.
 */

#define SIZE 65536
#define BLOCK 1024
#define NUM 8

static rig_t rig;
static rig_conn_t conn, other;
static rig_comp_t comps[NUM];

static void start(void)
{
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    rig_connect(&rig, &other);
}

static void post_all(uct_ep_h ep)
{
    unsigned i;

    for (i = 0; i < NUM; i++) {
        rig_comp_init(&comps[i]);
        ck_assert_int_eq(rig_put(&rig, ep, 0, i * BLOCK, BLOCK, &comps[i]),
                         UCS_INPROGRESS);
    }
}

/* The first `good' ended well, the one behind with `status', the rest with an error. */
static void expect_ends(unsigned good, ucs_status_t status)
{
    unsigned i;

    rig_wait_comps(&rig, comps, NUM);
    for (i = 0; i < NUM; i++) {
        ck_assert_uint_eq(comps[i].order, i);
        if (i < good) {
            ck_assert_int_eq(comps[i].status, UCS_OK);
        } else if (i == good) {
            ck_assert_msg(comps[i].status == status, "status %s",
                          ucs_status_string(comps[i].status));
        } else {
            ck_assert(UCS_STATUS_IS_ERR(comps[i].status));
        }
    }
}

static void expect_works(rig_conn_t *which)
{
    rig_comp_t comp;

    rig_fill(&rig);
    rig_comp_init(&comp);
    ck_assert(!UCS_STATUS_IS_ERR(rig_put(&rig, which->ep[0], 0, 0, SIZE, &comp)));
    ck_assert_int_eq(rig_flush(&rig, which->ep[0]), UCS_OK);
    rig_check(&rig, 0, SIZE);
    ck_assert_int_eq(rig_try_am(&rig, which->ep[0], 0, 64), UCS_OK);
    ck_assert_int_eq(rig_flush(&rig, which->ep[0]), UCS_OK);
}

/* The broken pair is destroyed, a new one works, and the other pair is not affected. */
static void expect_recovery(void)
{
    rig_conn_t fresh;

    expect_works(&other);
    rig_disconnect(&conn);
    rig_connect(&rig, &fresh);
    expect_works(&fresh);
    rig_disconnect(&fresh);
    rig_disconnect(&other);
    rig_close(&rig);
}

/* ucp_wireup_ep_connect() asserts that a failed uct_ep_create() left NULL. */
START_TEST(endpoint_is_null_where_none_could_be_made)
{
    const int not_an_ep = 0;
    uct_ep_params_t params = {.field_mask = UCT_EP_PARAM_FIELD_IFACE};
    uct_ep_h ep = (uct_ep_h)&not_an_ep;

    start();
    params.iface = rig.side[0].iface;
    fake_verbs_remove("fake0");
    rig_wait_errors(&rig, 0, 2);
    ck_assert_int_eq(uct_ep_create(&params, &ep), UCS_ERR_NO_DEVICE);
    ck_assert_ptr_null(ep);
    rig_disconnect(&conn);
    rig_disconnect(&other);
    rig_close(&rig);
}
END_TEST

static rdma_log_watch_t old_provider[] = {
    {UCS_LOG_LEVEL_WARN, "rdma-core 63", 0},
    {UCS_LOG_LEVEL_ERROR, "rdma-core 63", 0},
    {UCS_LOG_LEVEL_ERROR, "takes 4000 of all processes", 0}};

static void *start_in_thread(void *arg)
{
    start();
    return arg;
}

/* Thor2 with rdma-core 39 to 50: EFAULT for most queue pairs made off a thread. */
START_TEST(queue_pair_that_the_provider_spoils_is_made_again)
{
    pthread_t thread;

    setenv("FAKE_VERBS_DEVICES", "fake0:thor2,fake1:thor2", 1);
    rdma_log_watch(old_provider, 3);
    ck_assert_int_eq(pthread_create(&thread, NULL, start_in_thread, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_gt(old_provider[0].num, 0);
    ck_assert_uint_eq(old_provider[1].num, 0);
    expect_works(&conn);
    rig_disconnect(&conn);
    rig_disconnect(&other);
    rig_close(&rig);
}
END_TEST

START_TEST(queue_pair_that_cannot_be_made_names_the_remedy)
{
    uct_ep_params_t params = {.field_mask = UCT_EP_PARAM_FIELD_IFACE};
    uct_ep_h ep;

    setenv("FAKE_VERBS_DEVICES", "fake0:thor2,fake1:thor2", 1);
    start();
    rdma_log_watch(old_provider, 3);
    params.iface = rig.side[0].iface;
    fake_verbs_fail_call("ibv_create_qp", 1, 1000000, EFAULT);
    ck_assert_int_eq(uct_ep_create(&params, &ep), UCS_OK);
    rig_wait_errors(&rig, 0, 1);
    ck_assert_int_eq(rig.side[0].events.ep_status, UCS_ERR_IO_ERROR);
    ck_assert_uint_eq(old_provider[1].num, 1);
    ck_assert_uint_eq(old_provider[2].num, 1);
    fake_verbs_reset();
    uct_ep_destroy(ep);
    expect_recovery();
}
END_TEST

/* UCP leaves endpoints that failed during their creation. */
START_TEST(interface_destroys_the_endpoints_that_are_left)
{
    start();
    fake_verbs_hold(conn.qp_nums[0][0], FAKE_VERBS_HOLD_SEND);
    post_all(conn.ep[0]);
    rig_close(&rig);
    ck_assert_int_eq(comps[0].status, UCS_ERR_CANCELED);
}
END_TEST

/* UCX's uct_md tests require this of every transport. */
START_TEST(comparison_of_keys_checks_its_parameters)
{
    uct_rkey_compare_params_t params = {.field_mask = 0};
    int result = 1;

    start();
    ck_assert_int_eq(uct_rkey_compare(rig.side[0].component, rig.rkey[0].rkey,
                                      rig.rkey[0].rkey, &params, NULL),
                     UCS_ERR_INVALID_PARAM);
    ck_assert_int_eq(uct_rkey_compare(rig.side[0].component, rig.rkey[0].rkey,
                                      rig.rkey[0].rkey, &params, &result),
                     UCS_OK);
    ck_assert_int_eq(result, 0);
    params.field_mask = UCS_BIT(40);
    ck_assert_int_eq(uct_rkey_compare(rig.side[0].component, rig.rkey[0].rkey,
                                      rig.rkey[0].rkey, &params, &result),
                     UCS_ERR_INVALID_PARAM);
    rig_disconnect(&conn);
    rig_disconnect(&other);
    rig_close(&rig);
}
END_TEST

START_TEST(nth_request_fails)
{
    start();
    fake_verbs_hold(conn.qp_nums[0][0], FAKE_VERBS_HOLD_SEND);
    fake_verbs_fail_wr(conn.qp_nums[0][0], 4, IBV_WC_RETRY_EXC_ERR);
    post_all(conn.ep[0]);
    fake_verbs_unhold(conn.qp_nums[0][0]);
    expect_ends(3, UCS_ERR_ENDPOINT_TIMEOUT);
    rig_wait_errors(&rig, 0, 1);
    ck_assert_int_eq(rig.side[0].events.ep_status, UCS_ERR_ENDPOINT_TIMEOUT);
    ck_assert_ptr_eq(rig.side[0].events.ep, conn.ep[0]);
    ck_assert(UCS_STATUS_IS_ERR(rig_try_put(&rig, conn.ep[0], 0, 0, BLOCK, &comps[0])));
    expect_recovery();
}
END_TEST

typedef struct status_row {
    enum ibv_wc_status verbs;
    ucs_status_t ucs;
} status_row_t;

static const status_row_t rows[] = {
    {IBV_WC_REM_ACCESS_ERR, UCS_ERR_CONNECTION_RESET},
    {IBV_WC_REM_INV_REQ_ERR, UCS_ERR_CONNECTION_RESET},
    {IBV_WC_REM_OP_ERR, UCS_ERR_CONNECTION_RESET},
    {IBV_WC_RNR_RETRY_EXC_ERR, UCS_ERR_ENDPOINT_TIMEOUT},
    {IBV_WC_LOC_PROT_ERR, UCS_ERR_IO_ERROR},
    {IBV_WC_LOC_QP_OP_ERR, UCS_ERR_IO_ERROR},
    {IBV_WC_GENERAL_ERR, UCS_ERR_IO_ERROR},
};

START_TEST(status_distinguishes_local_and_remote_faults)
{
    const status_row_t *row = &rows[_i];

    start();
    fake_verbs_hold(conn.qp_nums[0][0], FAKE_VERBS_HOLD_SEND);
    fake_verbs_fail_wr(conn.qp_nums[0][0], 1, row->verbs);
    post_all(conn.ep[0]);
    fake_verbs_unhold(conn.qp_nums[0][0]);
    expect_ends(0, row->ucs);
    rig_wait_errors(&rig, 0, 1);
    expect_recovery();
}
END_TEST

START_TEST(deregistered_remote_memory_fails_the_endpoint)
{
    start();
    ct_mem_destroy(&rig.side[1], &rig.mem[1]); /* the key outlives it */
    post_all(conn.ep[0]);
    rig_wait_comps(&rig, comps, NUM);
    ck_assert_int_eq(comps[0].status, UCS_ERR_CONNECTION_RESET);
    rig_wait_errors(&rig, 0, 1);
    rig_wait_errors(&rig, 1, 1); /* the peer's queue pair is in error as well */
    ck_assert_int_eq(
        ct_mem_create(&rig.side[1], SIZE, UCS_MEMORY_TYPE_HOST, &rig.mem[1]), UCS_OK);
    rig_disconnect(&conn);
    rig_disconnect(&other);
    rig_close(&rig);
}
END_TEST

START_TEST(fatal_queue_pair_fails_its_endpoint_alone)
{
    start();
    fake_verbs_hold(conn.qp_nums[0][0], FAKE_VERBS_HOLD_SEND);
    post_all(conn.ep[0]);
    fake_verbs_qp_fatal(conn.qp_nums[0][0]);
    rig_wait_comps(&rig, comps, NUM);
    rig_wait_errors(&rig, 0, 1);
    expect_recovery();
}
END_TEST

START_TEST(idle_endpoint_with_a_fatal_queue_pair_fails)
{
    start();
    fake_verbs_qp_fatal(conn.qp_nums[0][0]);
    rig_wait_errors(&rig, 0, 1);
    expect_recovery();
}
END_TEST

/* TR-13, TS-11 */
START_TEST(peer_that_vanishes_times_out)
{
    setenv("UCX_MORI_RDMA_TIMEOUT", "1ms", 1);
    setenv("UCX_MORI_RDMA_RETRY_COUNT", "1", 1);
    start();
    fake_verbs_lose(conn.qp_nums[1][0], 1);
    post_all(conn.ep[0]);
    expect_ends(0, UCS_ERR_ENDPOINT_TIMEOUT);
    rig_wait_errors(&rig, 0, 1);
    fake_verbs_lose(conn.qp_nums[1][0], 0);
    expect_recovery();
}
END_TEST

START_TEST(check_finds_a_dead_peer_without_traffic)
{
    setenv("UCX_MORI_RDMA_TIMEOUT", "1ms", 1);
    setenv("UCX_MORI_RDMA_RETRY_COUNT", "1", 1);
    start();
    uct_ep_destroy(conn.ep[1]);
    ck_assert_int_eq(uct_ep_check(conn.ep[0], 0, NULL), UCS_OK);
    rig_wait_errors(&rig, 0, 1);
    ck_assert_int_eq(rig.side[0].events.ep_status, UCS_ERR_ENDPOINT_TIMEOUT);
    uct_ep_destroy(conn.ep[0]);
    expect_works(&other);
    rig_disconnect(&other);
    rig_close(&rig);
}
END_TEST

START_TEST(short_outage_of_the_link_loses_nothing)
{
    start();
    fake_verbs_hold(conn.qp_nums[0][0], FAKE_VERBS_HOLD_SEND);
    post_all(conn.ep[0]);
    fake_verbs_stop_clock();
    fake_verbs_link("fake0", 0);
    fake_verbs_unhold(conn.qp_nums[0][0]);
    rig_progress(&rig);
    ck_assert_uint_eq(comps[0].num_calls, 0);
    fake_verbs_link("fake0", 1);
    expect_ends(NUM, UCS_OK);
    rig_check(&rig, 0, NUM * BLOCK);
    ck_assert_uint_eq(rig.side[0].events.num_ep_errors, 0);
    expect_works(&conn);
    expect_works(&other);
    rig_disconnect(&conn);
    rig_disconnect(&other);
    rig_close(&rig);
}
END_TEST

/* TR-13 */
START_TEST(link_that_stays_down_fails_every_endpoint)
{
    setenv("UCX_MORI_RDMA_PORT_DOWN_TIMEOUT", "10ms", 1);
    start();
    fake_verbs_link("fake0", 0);
    rig_wait_errors(&rig, 0, 2);
    rig_comp_init(&comps[1]); /* sent from B, whose link is up: no peer answers */
    ck_assert_int_eq(rig_put(&rig, conn.ep[1], 1, 0, BLOCK, &comps[1]), UCS_INPROGRESS);
    rig_wait_comps(&rig, &comps[1], 1);
    ck_assert_int_eq(comps[1].status, UCS_ERR_ENDPOINT_TIMEOUT);
    ck_assert(UCS_STATUS_IS_ERR(rig_try_put(&rig, conn.ep[0], 0, 0, BLOCK, &comps[0])));
    fake_verbs_link("fake0", 1);
    rig_disconnect(&conn);
    rig_disconnect(&other);
    rig_connect(&rig, &conn);
    expect_works(&conn);
    rig_disconnect(&conn);
    rig_close(&rig);
}
END_TEST

START_TEST(removed_device_ends_everything_without_completions)
{
    start();
    fake_verbs_hold(FAKE_VERBS_ANY_QP, FAKE_VERBS_HOLD_SEND);
    post_all(conn.ep[0]);
    fake_verbs_remove("fake0");
    rig_wait_comps(&rig, comps, NUM);
    rig_wait_errors(&rig, 0, 2);
    ck_assert(
        UCS_STATUS_IS_ERR(rig_try_put(&rig, other.ep[0], 0, 0, BLOCK, &comps[0])));
    rig_disconnect(&conn);
    rig_disconnect(&other);
    rig_close(&rig);
}
END_TEST

/* First the event of the removal is unread, then it is read. */
START_TEST(memory_has_no_keys_with_a_removed_device)
{
    fake_verbs_objects_t before, after;
    ct_mem_t more;

    start();
    fake_verbs_remove("fake0");
    if (_i == 1) {
        rig_wait_errors(&rig, 0, 2);
    }
    fake_verbs_objects(&before);
    ck_assert_int_eq(ct_mem_create(&rig.side[0], SIZE, UCS_MEMORY_TYPE_HOST, &more),
                     UCS_OK);
    fake_verbs_objects(&after);
    ck_assert_uint_eq(after.mrs, before.mrs);
    ct_mem_destroy(&rig.side[0], &more);
    rig_disconnect(&conn);
    rig_disconnect(&other);
    rig_close(&rig);
}
END_TEST

/* The same error from a device that is there is an error. */
START_TEST(refused_registration_is_an_error)
{
    ct_mem_t more;

    start();
    fake_verbs_fail_call("ibv_reg_mr", 1, 1, EIO);
    ck_assert_int_eq(ct_mem_create(&rig.side[0], SIZE, UCS_MEMORY_TYPE_HOST, &more),
                     UCS_ERR_IO_ERROR);
    ck_assert_int_eq(ct_mem_create(&rig.side[0], SIZE, UCS_MEMORY_TYPE_HOST, &more),
                     UCS_OK);
    ct_mem_destroy(&rig.side[0], &more);
    expect_recovery();
}
END_TEST

START_TEST(destroyed_endpoint_ends_what_it_had)
{
    start();
    fake_verbs_hold(conn.qp_nums[0][0], FAKE_VERBS_HOLD_SEND);
    post_all(conn.ep[0]);
    rig_disconnect(&conn);
    rig_wait_comps(&rig, comps, NUM);
    ck_assert_int_eq(comps[0].status, UCS_ERR_CANCELED);
    ck_assert_uint_eq(rig.side[0].events.num_ep_errors, 0);
    expect_works(&other);
    rig_disconnect(&other);
    rig_close(&rig);
}
END_TEST

START_TEST(cancelling_flush_ends_what_there_was)
{
    rig_comp_t flush;

    start();
    rig_comp_init(&flush);
    fake_verbs_hold(conn.qp_nums[0][0], FAKE_VERBS_HOLD_SEND);
    post_all(conn.ep[0]);
    ck_assert(!UCS_STATUS_IS_ERR(
        uct_ep_flush(conn.ep[0], UCT_FLUSH_FLAG_CANCEL, &flush.uct)));
    rig_wait_comps(&rig, comps, NUM);
    ck_assert_int_eq(comps[0].status, UCS_ERR_CANCELED);
    ck_assert_uint_eq(rig.side[0].events.num_ep_errors, 0);
    expect_recovery();
}
END_TEST

static unsigned num_cancels;

static void cancel_ep(uct_completion_t *self)
{
    (void)self;
    ck_assert_int_eq(uct_ep_flush(conn.ep[0], UCT_FLUSH_FLAG_CANCEL, NULL), UCS_OK);
    ++num_cancels;
}

static int is_cancelled(void *arg)
{
    (void)arg;
    return num_cancels > 0;
}

/* A caller that closes an endpoint because an operation failed gets no error callback,
 * as with UCX's rc (UCT_RC_EP_FLAG_FLUSH_CANCEL). Loop index: operations that fail
 * before. */
START_TEST(endpoint_closed_in_its_failure_gets_no_callback)
{
    start();
    fake_verbs_hold(conn.qp_nums[0][0], FAKE_VERBS_HOLD_SEND);
    fake_verbs_fail_wr(conn.qp_nums[0][0], 1, IBV_WC_RETRY_EXC_ERR);
    post_all(conn.ep[0]);
    comps[_i].uct.func = cancel_ep;
    fake_verbs_unhold(conn.qp_nums[0][0]);
    rig_wait(&rig, is_cancelled, NULL);
    ck_assert_uint_eq(num_cancels, 1);
    ck_assert_uint_eq(comps[NUM - 1].num_calls, 1);
    ck_assert_uint_eq(rig.side[0].events.num_ep_errors, 0);
    num_cancels = 0;
    expect_recovery();
}
END_TEST

START_TEST(post_that_fails_once_fails_cleanly)
{
    unsigned i;

    start();
    fake_verbs_fail_call("ibv_post_send", 2, 1, _i ? ENOMEM : EINVAL);
    fake_verbs_hold(conn.qp_nums[0][0], FAKE_VERBS_HOLD_SEND);
    post_all(conn.ep[0]);
    rig_progress(&rig); /* posts the rest, behind the one that is held */
    fake_verbs_unhold(FAKE_VERBS_ANY_QP);
    rig_wait_comps(&rig, comps, NUM);
    if (_i) { /* no room is no failure: it is tried again */
        for (i = 0; i < NUM; i++) {
            ck_assert_int_eq(comps[i].status, UCS_OK);
        }
        ck_assert_uint_eq(rig.side[0].events.num_ep_errors, 0);
        rig_check(&rig, 0, NUM * BLOCK);
    } else {
        rig_wait_errors(&rig, 0, 1);
    }
    expect_recovery();
}
END_TEST

/* Every call of every verb fails while two sides are opened and connected: an error
 * comes out, nothing is left behind, and the next attempt works. */
typedef struct verb_row {
    const char *name;
    unsigned count; /* calls that fail in a row: some are tried again with less */
} verb_row_t;

static const verb_row_t verbs[] = {
    {"ibv_open_device", 1}, {"ibv_query_device", 1}, {"ibv_query_port", 1},
    {"ibv_alloc_pd", 1},    {"ibv_reg_mr", 1},       {"ibv_create_cq", 1},
    {"ibv_create_qp", 16},  {"ibv_modify_qp", 1},    {"ibv_create_comp_channel", 1},
    {"ibv_post_recv", 1},
};

static bool try_all(void)
{
    static const char *const devices[] = {"fake0:1", "fake1:1"};
    uint8_t dev[2][256], addr[2][1024];
    ucs_status_t status = UCS_OK;
    unsigned i, opened, created;
    ct_side_t side[2];
    uct_ep_h ep[2];

    for (opened = 0; (opened < 2) && (status == UCS_OK); opened++) {
        const ct_target_name_t name = {.tl_name = "mori_rdma",
                                       .dev_name = devices[opened]};

        status = ct_side_open(&side[opened], &name);
    }
    opened -= (status != UCS_OK);

    for (created = 0; (created < 2) && (status == UCS_OK); created++) {
        const uct_ep_params_t params = {.field_mask = UCT_EP_PARAM_FIELD_IFACE,
                                        .iface = side[created].iface};

        status = uct_ep_create(&params, &ep[created]);
    }
    created -= (created > 0) && (status != UCS_OK);

    for (i = 0; (i < 2) && (status == UCS_OK); i++) {
        uct_iface_get_device_address(side[i].iface, (void *)dev[i]);
        status = uct_ep_get_address(ep[i], (void *)addr[i]);
    }
    for (i = 0; (i < 2) && (status == UCS_OK); i++) {
        status = uct_ep_connect_to_ep(ep[i], (void *)dev[!i], (void *)addr[!i]);
    }
    for (i = 0; (i < 2) && (status == UCS_OK); i++) {
        uct_worker_progress(side[i].worker); /* one that could not be made fails now */
        status = (side[i].events.num_ep_errors > 0) ? side[i].events.ep_status : UCS_OK;
    }

    for (i = 0; i < created; i++) {
        uct_ep_destroy(ep[i]);
    }
    for (i = 0; i < opened; i++) {
        ct_side_close(&side[i]);
    }

    return status == UCS_OK;
}

START_TEST(any_verb_may_fail_at_any_call)
{
    fake_verbs_objects_t objects;
    unsigned nth, unmet, failures = 0;

    ck_assert(try_all());
    for (nth = 1, unmet = 0; unmet == 0;
         nth += mkv_test_rounds(1, 3)) { /* until there is no such call */
        fake_verbs_fail_call(verbs[_i].name, nth, verbs[_i].count, ENOMEM);
        failures += !try_all();
        unmet = fake_verbs_faults_unmet();
        fake_verbs_reset();
        fake_verbs_objects(&objects);
        ck_assert_msg(objects.contexts + objects.pds + objects.mrs + objects.cqs +
                              objects.qps + objects.channels ==
                          0,
                      "%s, call %u: something is left", verbs[_i].name, nth);
    }
    ck_assert_uint_gt(failures, 0);
    ck_assert(try_all());
}
END_TEST

static rdma_log_watch_t reason = {
    UCS_LOG_LEVEL_ERROR, "ibv_query_device(fake0) failed: Cannot allocate memory", 0};

START_TEST(failed_query_names_the_reason_it_returned)
{
    rdma_log_watch(&reason, 1);
    fake_verbs_fail_call("ibv_query_device", 1, 1, ENOMEM);
    ck_assert(!try_all());
    fake_verbs_reset();
    ck_assert_uint_eq(reason.num, 1);
}
END_TEST

static Suite *faults_suite(void)
{
    Suite *suite = suite_create("mori_rdma faults");
    TCase *tcase = tcase_create("faults");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, endpoint_is_null_where_none_could_be_made);
    tcase_add_test(tcase, queue_pair_that_the_provider_spoils_is_made_again);
    tcase_add_test(tcase, queue_pair_that_cannot_be_made_names_the_remedy);
    tcase_add_test(tcase, interface_destroys_the_endpoints_that_are_left);
    tcase_add_test(tcase, comparison_of_keys_checks_its_parameters);
    tcase_add_test(tcase, failed_query_names_the_reason_it_returned);
    tcase_add_test(tcase, nth_request_fails);
    tcase_add_loop_test(tcase, status_distinguishes_local_and_remote_faults, 0,
                        sizeof(rows) / sizeof(rows[0]));
    tcase_add_test(tcase, deregistered_remote_memory_fails_the_endpoint);
    tcase_add_test(tcase, fatal_queue_pair_fails_its_endpoint_alone);
    tcase_add_test(tcase, idle_endpoint_with_a_fatal_queue_pair_fails);
    tcase_add_test(tcase, peer_that_vanishes_times_out);
    tcase_add_test(tcase, check_finds_a_dead_peer_without_traffic);
    tcase_add_test(tcase, short_outage_of_the_link_loses_nothing);
    tcase_add_test(tcase, link_that_stays_down_fails_every_endpoint);
    tcase_add_test(tcase, removed_device_ends_everything_without_completions);
    tcase_add_loop_test(tcase, memory_has_no_keys_with_a_removed_device, 0, 2);
    tcase_add_test(tcase, refused_registration_is_an_error);
    tcase_add_test(tcase, destroyed_endpoint_ends_what_it_had);
    tcase_add_test(tcase, cancelling_flush_ends_what_there_was);
    tcase_add_loop_test(tcase, endpoint_closed_in_its_failure_gets_no_callback, 0, 2);
    tcase_add_loop_test(tcase, post_that_fails_once_fails_cleanly, 0, 2);
    tcase_add_loop_test(tcase, any_verb_may_fail_at_any_call, 0,
                        sizeof(verbs) / sizeof(verbs[0]));
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    ct_side_find_module();
    mkv_test_init();
    setenv("UCX_MORI_RDMA_RECOVERY", "0", 1); /* test_rdma_recover is about that */
    return rig_run_forked(faults_suite());
}
