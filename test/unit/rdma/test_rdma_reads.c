/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_log.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Devices whose queue pairs share few responder resources, as measured for ionic: 16
 * for all of them, and EINVAL for a queue pair that requests more than are left. */

#define SIZE 65536
#define GETS 32
#define MAX_CONNS 24

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

static uint64_t num_sends(const rig_conn_t *conn, unsigned at)
{
    fake_verbs_stats_t stats;
    uint64_t sum = 0;
    unsigned i;

    for (i = 0; i < conn->num_qps; i++) {
        fake_verbs_qp_stats(conn->qp_nums[at][i], &stats);
        sum += stats.sends;
    }
    return sum;
}

static size_t unpacked;

static void unpack(void *arg, const void *data, size_t length)
{
    memcpy((char *)arg + unpacked, data, length);
    unpacked += length;
}

static void expect_buffered_get(const rig_conn_t *conn)
{
    static char bytes[4096];
    rig_comp_t comp;

    rig_comp_init(&comp);
    unpacked = 0;
    ck_assert_int_eq(uct_ep_get_bcopy(conn->ep[0], unpack, bytes, sizeof(bytes),
                                      (uintptr_t)rig.mem[1].addr + 100,
                                      rig.rkey[1].rkey, &comp.uct),
                     UCS_INPROGRESS);
    rig_wait_comps(&rig, &comp, 1);
    ck_assert_int_eq(comp.status, UCS_OK);
    ck_assert_mem_eq(bytes, (char *)rig.mem[1].addr + 100, sizeof(bytes));
}

/* Blocks with gaps, each twice at a stride. */
static void expect_list(const rig_conn_t *conn)
{
    enum { BLOCKS = 40, LENGTH = 100, STRIDE = 300, EACH = 1000 };
    size_t i, at, lengths[BLOCKS], counts[BLOCKS], strides[BLOCKS];
    uint64_t addrs[BLOCKS];
    void *buffers[BLOCKS];
    uct_rkey_t rkeys[BLOCKS];
    uct_mem_h memhs[BLOCKS];
    rig_comp_t comp;

    memset(rig.mem[0].addr, 0, SIZE);
    for (i = 0; i < BLOCKS; i++) {
        buffers[i] = (char *)rig.mem[0].addr + i * EACH;
        addrs[i] = (uintptr_t)rig.mem[1].addr + i * EACH;
        lengths[i] = LENGTH;
        counts[i] = 2;
        strides[i] = STRIDE;
        memhs[i] = rig.mem[0].memh;
        rkeys[i] = rig.rkey[1].rkey;
    }
    rig_comp_init(&comp);
    ck_assert_int_eq(uct_ep_get_sgl_zcopy(conn->ep[0], buffers, lengths, memhs, addrs,
                                          rkeys, counts, strides, BLOCKS, &comp.uct),
                     UCS_INPROGRESS);
    rig_wait_comps(&rig, &comp, 1);
    ck_assert_int_eq(comp.status, UCS_OK);
    for (i = 0; i < (size_t)BLOCKS * EACH; i++) {
        at = i % EACH;
        at = (at < STRIDE) ? at : at - STRIDE;
        ck_assert_int_eq(((char *)rig.mem[0].addr)[i],
                         (at < LENGTH) ? ((char *)rig.mem[1].addr)[i] : 0);
    }
}

static rdma_log_watch_t no_reads = {UCS_LOG_LEVEL_WARN,
                                    "all 16 responder resources are in use", 0};

/* Most endpoints have no reads; all of them get, and each device logs one line. */
START_TEST(endpoints_beyond_the_sixteenth_get_by_messages)
{
    const unsigned num = MAX_CONNS / (_i + 1);
    unsigned i;

    start((_i == 0) ? "1" : "2", NULL);
    rdma_log_watch(&no_reads, 1);
    for (i = 0; i < num; i++) {
        rig_connect(&rig, &conns[i]);
    }
    for (i = 0; i < num; i++) {
        expect_gets(&conns[i]);
        expect_buffered_get(&conns[i]);
        expect_list(&conns[i]);
        ck_assert_int_eq(rig_flush(&rig, conns[i].ep[0]), UCS_OK);
    }
    ck_assert_uint_eq(no_reads.num, 2);
    finish(num);
}
END_TEST

/* The request of the first get shows the peer's device to have granted reads. */
START_TEST(endpoint_granted_late_reads_from_its_second_get_on)
{
    const unsigned late = 12;
    uint64_t own, peers;
    unsigned i;

    start("1", NULL);
    for (i = 0; i <= late; i++) {
        rig_connect(&rig, &conns[i]);
    }
    peers = num_sends(&conns[late], 1);
    expect_buffered_get(&conns[late]);
    ck_assert_uint_eq(num_sends(&conns[late], 1), peers + 2); /* bytes, and an answer */
    peers = num_sends(&conns[late], 1);
    own = num_sends(&conns[late], 0);
    expect_buffered_get(&conns[late]);
    ck_assert_uint_eq(num_sends(&conns[late], 0), own + 1);
    ck_assert_uint_eq(num_sends(&conns[late], 1), peers);
    finish(late + 1);
}
END_TEST

/* Calls of ibv_modify_qp() of a connection: INIT of two, all of the datagrams', then
 * RTR of the first, which is repeated without reads. */
START_TEST(refused_queue_pair_connects_without_reads)
{
    start("1", NULL);
    rdma_log_watch(&no_reads, 1);
    fake_verbs_fail_call("ibv_modify_qp", 9, 1, EINVAL);
    rig_connect(&rig, &conns[0]);
    ck_assert_uint_eq(no_reads.num, 1);
    expect_gets(&conns[0]);
    expect_buffered_get(&conns[0]);
    finish(1);
}
END_TEST

/* A put that renews the connection, in which a call of ibv_modify_qp() is refused. */
static void put_beside_refusal(unsigned call)
{
    rig_comp_t comp;

    fake_verbs_fail_wr(FAKE_VERBS_ANY_QP, 1, IBV_WC_RETRY_EXC_ERR);
    fake_verbs_fail_call("ibv_modify_qp", call, 1, EINVAL);
    rig_comp_init(&comp);
    ck_assert_int_eq(rig_put(&rig, conns[0].ep[0], 0, 0, SIZE, &comp), UCS_INPROGRESS);
    rig_wait_comps(&rig, &comp, 1);
    ck_assert_int_eq(comp.status, UCS_OK);
}

/* Another process took the resources meanwhile: a second offer reports that. Calls of a
 * renewal: ERR and INIT of either side, then RTR of the first. */
START_TEST(renewed_queue_pair_may_be_refused_its_reads)
{
    start("1", NULL);
    rig_connect(&rig, &conns[0]);
    expect_gets(&conns[0]);
    put_beside_refusal(5);
    expect_gets(&conns[0]);
    expect_buffered_get(&conns[0]);
    finish(1);
}
END_TEST

/* Later queue pairs, which are connected in another progress, get their reads. */
START_TEST(first_of_many_renewed_queue_pairs_may_be_refused)
{
    start("4", NULL);
    rig_connect(&rig, &conns[0]);
    expect_gets(&conns[0]);
    put_beside_refusal(17);
    ck_assert_uint_eq(fake_verbs_faults_unmet(), 0);
    expect_gets(&conns[0]);
    expect_buffered_get(&conns[0]);
    finish(1);
}
END_TEST

/* A pool that begins with 64 buffers has one when the larger registrations fail. */
static void get_with_the_only_buffer(unsigned at, char *bytes, rig_comp_t *comp)
{
    fake_verbs_fail_call("ibv_reg_mr", 1, 6, ENOMEM);
    rig_comp_init(comp);
    ck_assert_int_eq(uct_ep_get_bcopy(conns[0].ep[at], unpack, bytes, 64,
                                      (uintptr_t)rig.mem[1 - at].addr,
                                      rig.rkey[1 - at].rkey, &comp->uct),
                     UCS_INPROGRESS);
    ck_assert_uint_eq(fake_verbs_faults_unmet(), 0);
}

/* Both sides use all buffers for gets, so neither request nor answer finds one.
 * The request is longer than what goes inline. */
START_TEST(gets_with_the_only_buffers_end)
{
    rig_comp_t comps[2];
    char bytes[2 * 64];

    setenv("UCX_MORI_RDMA_TX_INLINE", (_i == 0) ? "24" : "0", 1);
    start("1", "0");
    rig_connect(&rig, &conns[0]);
    unpacked = 0; /* the second lands behind the first */
    get_with_the_only_buffer(0, bytes, &comps[0]);
    get_with_the_only_buffer(1, bytes, &comps[1]);
    fake_verbs_fail_call("ibv_reg_mr", 1, 1000000, ENOMEM);
    rig_wait_comps(&rig, comps, 2);
    ck_assert_int_eq(comps[0].status, UCS_OK);
    ck_assert_int_eq(comps[1].status, UCS_OK);
    fake_verbs_reset();
    finish(1);
}
END_TEST

/* A fence orders a put behind a get, which ends by a message. */
START_TEST(put_behind_a_fence_waits_for_the_get)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    rig_comp_t get;
    ucs_status_t status;

    start("2", "0");
    rig_connect(&rig, &conns[0]);
    mkv_pattern_fill(rig.mem[1].addr, SIZE, 3, 0);
    memset(rig.mem[0].addr, 0, SIZE);
    rig_comp_init(&get);
    ck_assert_int_eq(rig_get(&rig, conns[0].ep[0], 0, 0, SIZE / 2, &get),
                     UCS_INPROGRESS);
    ck_assert_int_eq(uct_ep_fence(conns[0].ep[0], 0), UCS_OK);
    while ((status = rig_try_put(&rig, conns[0].ep[0], 0, SIZE / 2, SIZE / 2, NULL)) ==
           UCS_ERR_NO_RESOURCE) {
        rig_progress(&rig);
        ck_assert_msg(mkv_test_now_ms() < limit, "the fence does not pass");
    }
    ck_assert_int_eq(status, UCS_INPROGRESS);
    ck_assert_uint_eq(get.num_calls, 1);
    ck_assert_int_eq(get.status, UCS_OK);
    ck_assert_mem_eq(rig.mem[0].addr, rig.mem[1].addr, SIZE / 2);
    ck_assert_int_eq(rig_flush(&rig, conns[0].ep[0]), UCS_OK);
    finish(1);
}
END_TEST

/* The fence also waits for earlier puts of other queue pairs, which the get does not
 * cover. */
START_TEST(fence_beside_a_get_waits_for_earlier_puts)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    rig_comp_t get;
    unsigned i;

    start("2", "0");
    rig_connect(&rig, &conns[0]);
    fake_verbs_hold(conns[0].qp_nums[0][1], FAKE_VERBS_HOLD_SEND);
    for (i = 0; i < 2; i++) {
        ck_assert_int_eq(rig_try_put(&rig, conns[0].ep[0], 0, i * 64, 64, NULL),
                         UCS_INPROGRESS);
    }
    rig_comp_init(&get);
    ck_assert_int_eq(rig_get(&rig, conns[0].ep[0], 0, 4096, 64, &get), UCS_INPROGRESS);
    ck_assert_int_eq(uct_ep_fence(conns[0].ep[0], 0), UCS_OK);
    rig_wait_comps(&rig, &get, 1);
    ck_assert_int_eq(rig_try_put(&rig, conns[0].ep[0], 0, 0, 64, NULL),
                     UCS_ERR_NO_RESOURCE);
    fake_verbs_unhold(FAKE_VERBS_ANY_QP);
    while (rig_try_put(&rig, conns[0].ep[0], 0, 0, 64, NULL) == UCS_ERR_NO_RESOURCE) {
        rig_progress(&rig);
        ck_assert_msg(mkv_test_now_ms() < limit, "the fence does not pass");
    }
    ck_assert_int_eq(rig_flush(&rig, conns[0].ep[0]), UCS_OK);
    finish(1);
}
END_TEST

/* The owner's device took the request, and no posted operation could fail. */
START_TEST(get_ends_when_its_owner_is_gone)
{
    rig_comp_t get;

    setenv("UCX_MORI_RDMA_RECOVERY_TIMEOUT", "50ms", 1);
    start("1", "0");
    rig_connect(&rig, &conns[0]);
    rig.hold[1] = 1; /* it serves nothing */
    rig_comp_init(&get);
    ck_assert_int_eq(rig_get(&rig, conns[0].ep[0], 0, 0, 64, &get), UCS_INPROGRESS);
    (void)rig_progress(&rig);
    (void)rig_progress(&rig);
    fake_verbs_lose(FAKE_VERBS_ANY_QP, 1);
    rig_wait_comps(&rig, &get, 1);
    ck_assert_int_eq(get.status, UCS_ERR_ENDPOINT_TIMEOUT);
    rig_wait_errors(&rig, 0, 1);
    rig.hold[1] = 0;
    fake_verbs_lose(FAKE_VERBS_ANY_QP, 0);
    rig_disconnect(&conns[0]);
    rig_close(&rig);
}
END_TEST

static rdma_log_watch_t refused[] = {
    {UCS_LOG_LEVEL_ERROR, "with a key of no region: refused", 0},
    {UCS_LOG_LEVEL_ERROR, "the peer refused a get of", 0}};

/* The device would refuse a read as well. */
START_TEST(memory_that_is_deregistered_is_not_given)
{
    rig_comp_t comp;

    start("1", "0");
    rig_connect(&rig, &conns[0]);
    rdma_log_watch(refused, 2);
    ct_mem_destroy(&rig.side[1], &rig.mem[1]);
    rig_comp_init(&comp);
    ck_assert_int_eq(uct_ep_get_bcopy(conns[0].ep[0], unpack, NULL, 64,
                                      (uintptr_t)rig.mem[1].addr, rig.rkey[1].rkey,
                                      &comp.uct),
                     UCS_INPROGRESS);
    rig_wait_errors(&rig, 0, 1);
    ck_assert_int_eq(rig.side[0].events.ep_status, UCS_ERR_CONNECTION_RESET);
    ck_assert_uint_eq(comp.num_calls, 1);
    ck_assert_int_eq(comp.status, UCS_ERR_CONNECTION_RESET);
    ck_assert_uint_eq(refused[0].num, 1);
    ck_assert_uint_eq(refused[1].num, 1);
    ck_assert_int_eq(
        ct_mem_create(&rig.side[1], SIZE, UCS_MEMORY_TYPE_HOST, &rig.mem[1]), UCS_OK);
    rig_disconnect(&conns[0]);
    rig_close(&rig);
}
END_TEST

/* Gets that a lost connection meets are requested once, and every byte arrives. */
START_TEST(gets_by_messages_survive_a_lost_connection)
{
    start("1", "0");
    rig_connect(&rig, &conns[0]);
    expect_gets(&conns[0]);
    fake_verbs_fail_wr(FAKE_VERBS_ANY_QP, 1 + (unsigned)_i, IBV_WC_RETRY_EXC_ERR);
    expect_gets(&conns[0]);
    finish(1);
}
END_TEST

static rdma_log_watch_t no_more = {UCS_LOG_LEVEL_ERROR, "UCX_MORI_RDMA_NUM_QPS", 0};

/* Atomics have no other way. */
START_TEST(queue_pair_for_atomics_without_any_is_an_error_with_a_remedy)
{
    uint8_t dev[256], addr[1024];
    rig_conn_t more[2];
    uct_ep_h ep[2];

    setenv("UCX_MORI_RDMA_ATOMICS", "y", 1);
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

static rdma_log_watch_t odd = {UCS_LOG_LEVEL_ERROR, "is no multiple of 8", 0};

/* A device ends the connection when it gets such an atomic. */
START_TEST(atomic_that_no_device_does_is_refused)
{
    uint64_t result = 0, *there;
    uct_iface_attr_t attr;
    rig_comp_t comp;

    setenv("UCX_MORI_RDMA_ATOMICS", "y", 1);
    start("1", (_i == 0) ? "0" : "1");
    rdma_log_watch(&odd, 1);
    rig_connect(&rig, &conns[0]);
    there = rig.mem[1].addr;
    rig_comp_init(&comp);
    ck_assert_int_eq(uct_iface_query(rig.side[0].iface, &attr), UCS_OK);
    ck_assert_int_eq((attr.cap.flags & UCT_IFACE_FLAG_ATOMIC_DEVICE) != 0, _i == 1);
    ck_assert_int_eq(uct_ep_atomic64_fetch(conns[0].ep[0], UCT_ATOMIC_OP_ADD, 5,
                                           &result, (uintptr_t)there + 4 * (unsigned)_i,
                                           rig.rkey[1].rkey, &comp.uct),
                     (_i == 0) ? UCS_ERR_UNSUPPORTED : UCS_ERR_INVALID_PARAM);
    ck_assert_uint_eq(odd.num, _i);
    expect_gets(&conns[0]);
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
    tcase_add_loop_test(tcase, endpoints_beyond_the_sixteenth_get_by_messages, 0, 2);
    tcase_add_test(tcase, endpoint_granted_late_reads_from_its_second_get_on);
    tcase_add_test(tcase, refused_queue_pair_connects_without_reads);
    tcase_add_test(tcase, renewed_queue_pair_may_be_refused_its_reads);
    tcase_add_test(tcase, first_of_many_renewed_queue_pairs_may_be_refused);
    tcase_add_loop_test(tcase, gets_with_the_only_buffers_end, 0, 2);
    tcase_add_test(tcase, put_behind_a_fence_waits_for_the_get);
    tcase_add_test(tcase, fence_beside_a_get_waits_for_earlier_puts);
    tcase_add_test(tcase, get_ends_when_its_owner_is_gone);
    tcase_add_test(tcase, memory_that_is_deregistered_is_not_given);
    tcase_add_loop_test(tcase, gets_by_messages_survive_a_lost_connection, 0, 8);
    tcase_add_test(tcase, queue_pair_for_atomics_without_any_is_an_error_with_a_remedy);
    tcase_add_loop_test(tcase, atomic_that_no_device_does_is_refused, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    ct_side_find_module();
    mkv_test_init();
    return rig_run_forked(reads_suite());
}
