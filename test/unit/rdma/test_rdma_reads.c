/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_log.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <stdlib.h>
#include <string.h>

/* Devices whose queue pairs share few responder resources, as measured for ionic: 16
 * for all of them, and EINVAL for a queue pair that requests more than are left. */

#define SIZE 65536
#define GETS 32
#define MAX_CONNS 16

static rig_t rig;
static rig_conn_t conns[MAX_CONNS];

static void start(const char *qps, const char *reads)
{
    setenv("FAKE_VERBS_DEVICES", "fake0:pollara,fake1:pollara", 1);
    setenv("UCX_MORI_RDMA_NUM_QPS", qps, 1);
    if (reads != NULL) {
        setenv("UCX_MORI_RDMA_MAX_READS", reads, 1);
    }
    rig_open(&rig, SIZE);
}

static void finish(unsigned num)
{
    unsigned i;

    ck_assert_uint_eq(rig.side[0].events.num_ep_errors, 0);
    ck_assert_uint_eq(rig.side[1].events.num_ep_errors, 0);
    for (i = 0; i < num; i++) {
        rig_disconnect(&conns[i]);
    }
    rig_close(&rig);
}

/* More at once than any queue pair answers, both ways. */
static void expect_gets(const rig_conn_t *conn)
{
    rig_comp_t comps[2][GETS];
    unsigned i, at;

    for (at = 0; at < 2; at++) {
        memset(rig.mem[at].addr, 0, SIZE);
        mkv_pattern_fill(rig.mem[1 - at].addr, SIZE, 7 + at, 0);
        for (i = 0; i < GETS; i++) {
            rig_comp_init(&comps[at][i]);
            ck_assert(
                !UCS_STATUS_IS_ERR(rig_get(&rig, conn->ep[at], at, i * (SIZE / GETS),
                                           SIZE / GETS, &comps[at][i])));
        }
        rig_wait_comps(&rig, comps[at], GETS);
        for (i = 0; i < GETS; i++) {
            ck_assert_int_eq(comps[at][i].status, UCS_OK);
        }
        ck_assert_mem_eq(rig.mem[0].addr, rig.mem[1].addr, SIZE);
    }
}

START_TEST(sixteen_queue_pairs_connect_by_default)
{
    const unsigned num = 16 / (_i + 1);
    unsigned i;

    start((_i == 0) ? "1" : "2", NULL);
    for (i = 0; i < num; i++) {
        rig_connect(&rig, &conns[i]);
    }
    for (i = 0; i < num; i++) {
        expect_gets(&conns[i]);
    }
    finish(num);
}
END_TEST

/* Endpoints get 6, 6, and 4 of the 6 offered to the peer, which gets an update. */
START_TEST(fewer_reads_are_agreed_when_the_device_refuses)
{
    unsigned i;

    start("1", "6");
    for (i = 0; i < 3; i++) {
        rig_connect(&rig, &conns[i]);
        expect_gets(&conns[i]);
    }
    rig_disconnect(&conns[0]);
    rig_connect(&rig, &conns[0]); /* the peer is offered 4 at once */
    for (i = 0; i < 3; i++) {
        expect_gets(&conns[i]);
    }
    finish(3);
}
END_TEST

static rdma_log_watch_t no_more = {UCS_LOG_LEVEL_ERROR, "UCX_MORI_RDMA_NUM_QPS", 0};

START_TEST(queue_pair_without_any_is_an_error_with_a_remedy)
{
    uint8_t dev[256], addr[1024];
    rig_conn_t more[2];
    uct_ep_h ep[2];

    start("1", "16");
    rig_connect(&rig, &conns[0]);
    rdma_log_watch(&no_more, 1);
    ep[0] = rig_create_ep(&rig, 0, &more[0]);
    ep[1] = rig_create_ep(&rig, 1, &more[1]);
    ck_assert_int_eq(
        uct_iface_get_device_address(rig.side[1].iface, (uct_device_addr_t *)dev),
        UCS_OK);
    ck_assert_int_eq(uct_ep_get_address(ep[1], (uct_ep_addr_t *)addr), UCS_OK);
    ck_assert_int_eq(rig_connect_to(ep[0], dev, addr, 64), UCS_OK);
    rig_wait_errors(&rig, 0, 1); /* in the next progress: UCP answers the peer first */
    ck_assert_int_eq(rig.side[0].events.ep_status, UCS_ERR_UNREACHABLE);
    ck_assert_uint_eq(no_more.num, 1);
    uct_ep_destroy(ep[0]);
    uct_ep_destroy(ep[1]);
    rig.side[0].events.num_ep_errors = 0;
    finish(1);
}
END_TEST

static Suite *reads_suite(void)
{
    Suite *suite = suite_create("mori_rdma responder resources");
    TCase *tcase = tcase_create("reads");

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, sixteen_queue_pairs_connect_by_default, 0, 2);
    tcase_add_test(tcase, fewer_reads_are_agreed_when_the_device_refuses);
    tcase_add_test(tcase, queue_pair_without_any_is_an_error_with_a_remedy);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    ct_side_find_module();
    mkv_test_init();
    return rig_run_forked(reads_suite());
}
