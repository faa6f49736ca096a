/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_inside.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <ucs/datastruct/string_buffer.h>
#include <ucs/sys/topo/base/topo.h>
#include <ucs/vfs/base/vfs_obj.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Filling of queues: depth, credits, doorbells, stripes, and devices with low limits.
 * The fake aborts when a completion queue is overrun and refuses requests that do not
 * fit.
 */

#define SIZE (1u << 20)

static rig_t rig;
static rig_conn_t conn, other;

static uint64_t doorbells(const rig_conn_t *which, unsigned from)
{
    fake_verbs_stats_t stats;
    uint64_t sum = 0;
    unsigned i;

    for (i = 0; i < which->num_qps; i++) {
        fake_verbs_qp_stats(which->qp_nums[from][i], &stats);
        sum += stats.doorbells;
    }

    return sum;
}

/* ---- queues ---- */

/* CC-07 */
START_TEST(full_queue_is_back_pressure_and_nothing_else)
{
    const unsigned num = mkv_test_rounds(100000, 5000);
    fake_verbs_stats_t stats;
    ucs_status_t status;
    unsigned i;

    setenv("UCX_MORI_RDMA_TX_DEPTH", "16", 1);
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    for (i = 0; i < num; i++) {
        status = rig_put(&rig, conn.ep[0], 0, i % (SIZE / 8) * 8, 8, NULL);
        ck_assert(!UCS_STATUS_IS_ERR(status));
    }
    ck_assert_int_eq(rig_flush(&rig, conn.ep[0]), UCS_OK);
    rig_check(&rig, 0, num % (SIZE / 8) * 8);
    fake_verbs_qp_stats(conn.qp_nums[0][0], &stats);
    ck_assert_uint_eq(stats.sends, num);
    ck_assert_uint_le(stats.max_in_use, 16);
    ck_assert_uint_eq(rig.side[0].events.num_ep_errors, 0);
    rig_disconnect(&conn);
    rig_close(&rig);
}
END_TEST

START_TEST(full_queue_takes_nothing_while_the_device_holds_it)
{
    static rig_comp_t comps[64];
    unsigned posted = 0;
    ucs_status_t status;

    setenv("UCX_MORI_RDMA_TX_DEPTH", "16", 1);
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    fake_verbs_hold(conn.qp_nums[0][0], FAKE_VERBS_HOLD_CQE);
    do {
        rig_comp_init(&comps[posted]);
        status = rig_try_put(&rig, conn.ep[0], 0, posted * 64, 64, &comps[posted]);
        posted += status == UCS_INPROGRESS;
        ck_assert_uint_lt(posted, 64);
    } while (status == UCS_INPROGRESS);
    ck_assert_int_eq(status, UCS_ERR_NO_RESOURCE);
    ck_assert_uint_eq(posted, 16);
    rig_progress(&rig);
    ck_assert_int_eq(rig_try_put(&rig, conn.ep[0], 0, 0, 64, &comps[posted]),
                     UCS_ERR_NO_RESOURCE);
    fake_verbs_unhold(conn.qp_nums[0][0]);
    rig_wait_comps(&rig, comps, posted);
    ck_assert_int_eq(rig_try_put(&rig, conn.ep[0], 0, 0, 64, NULL), UCS_INPROGRESS);
    ck_assert_int_eq(rig_flush(&rig, conn.ep[0]), UCS_OK);
    rig_disconnect(&conn);
    rig_close(&rig);
}
END_TEST

START_TEST(stalled_endpoint_slows_no_other)
{
    static rig_comp_t stuck[8], comps[512];
    unsigned i;

    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    rig_connect(&rig, &other);
    fake_verbs_hold(conn.qp_nums[0][0], FAKE_VERBS_HOLD_SEND);
    for (i = 0; i < 8; i++) {
        rig_comp_init(&stuck[i]);
        ck_assert_int_eq(rig_put(&rig, conn.ep[0], 0, 0, 64, &stuck[i]),
                         UCS_INPROGRESS);
    }
    for (i = 0; i < 512; i++) {
        rig_comp_init(&comps[i]);
        ck_assert_int_eq(rig_put(&rig, other.ep[0], 0, i * 64, 64, &comps[i]),
                         UCS_INPROGRESS);
    }
    rig_wait_comps(&rig, comps, 512);
    for (i = 0; i < 8; i++) {
        ck_assert_uint_eq(stuck[i].num_calls, 0);
    }
    fake_verbs_unhold(conn.qp_nums[0][0]);
    rig_wait_comps(&rig, stuck, 8);
    rig_disconnect(&conn);
    rig_disconnect(&other);
    rig_close(&rig);
}
END_TEST

/* ---- active messages and credits ---- */

static uint64_t rnr(const rig_conn_t *which)
{
    fake_verbs_stats_t stats;
    uint64_t sum = 0;
    unsigned i;

    for (i = 0; i < 2; i++) {
        fake_verbs_qp_stats(which->qp_nums[i][0], &stats);
        sum += stats.rnr;
    }

    return sum;
}

/* Send messages until the receiver, which makes no progress, has no receive left. */
static unsigned send_blindly(void)
{
    unsigned sent = 0;

    rig.hold[1] = 1;
    while (rig_try_am(&rig, conn.ep[0], 0, 100) == UCS_OK) {
        sent++;
        rig_progress(&rig);
    }
    rig.hold[1] = 0;
    return sent;
}

START_TEST(receives_grow_with_use)
{
    fake_verbs_stats_t stats;
    unsigned i, sent;

    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    fake_verbs_qp_stats(conn.qp_nums[1][0], &stats);
    ck_assert_uint_eq(stats.recvs, 4 + 4); /* and four for credits */
    sent = send_blindly();
    ck_assert_uint_eq(sent, 4);
    for (i = 0; i < 200; i++) {
        while (rig_try_am(&rig, conn.ep[0], 0, 100) == UCS_ERR_NO_RESOURCE) {
            rig_progress(&rig);
        }
    }
    while (rig.num_am[1] < sent + i) {
        rig_progress(&rig);
    }
    for (i = 0; i < 10; i++) {
        rig_progress(&rig); /* the last credits */
    }
    ck_assert_uint_gt(send_blindly(), 32); /* of 64; up to half are owed */
    ck_assert_int_eq(rig_flush(&rig, conn.ep[0]), UCS_OK);
    ck_assert_uint_eq(rig.bad_am[1], 0);
    ck_assert_uint_eq(rnr(&conn), 0);
    rig_disconnect(&conn);
    rig_close(&rig);
}
END_TEST

/* Thirty endpoints, where a first queue has room for one: five queues a side, not 30.
 */
START_TEST(many_endpoints_share_few_queues)
{
    static rig_conn_t conns[30];
    fake_verbs_objects_t objects;
    unsigned i;

    setenv("UCX_MORI_RDMA_CQ_DEPTH", "580", 1);
    setenv("UCX_MORI_RDMA_RECOVERY", "0", 1);
    rig_open(&rig, SIZE);
    for (i = 0; i < 30; i++) {
        rig_connect(&rig, &conns[i]);
    }
    fake_verbs_objects(&objects);
    ck_assert_uint_le(objects.cqs, 2 * 5);
    /* an interrupt of its own for each queue of a side */
    ck_assert_int_ge(__builtin_popcount(objects.vectors), (int)objects.cqs / 2);
    for (i = 0; i < 30; i++) {
        ck_assert_int_eq(rig_try_am(&rig, conns[i].ep[0], 0, 100), UCS_OK);
        ck_assert_int_eq(rig_flush(&rig, conns[i].ep[0]), UCS_OK);
    }
    while (rig.num_am[1] < 30) {
        rig_progress(&rig);
    }
    for (i = 0; i < 30; i++) {
        rig_disconnect(&conns[i]);
    }
    rig_close(&rig);
}
END_TEST

/* Loop index: a device that has them, one whose call fails, one without, the user's no
 */
START_TEST(queue_pairs_are_in_a_thread_domain)
{
    static const char *const profiles[] = {
        "fake0:mlx5,fake1:bnxt", "fake0:mlx5,fake1:mlx5", "fake0:rxe,fake1:rxe",
        "fake0:ionic,fake1:ionic"};
    fake_verbs_objects_t objects;

    setenv("FAKE_VERBS_DEVICES", profiles[_i], 1);
    if (_i == 1) {
        fake_verbs_fail_call("ibv_alloc_parent_domain", 1, 2, ENOMEM);
    }
    if (_i == 3) {
        setenv("UCX_MORI_RDMA_THREAD_DOMAIN", "n", 1);
    }
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    fake_verbs_objects(&objects);
    ck_assert_uint_eq(objects.td_qps, (_i == 0) ? 2 : 0);
    ck_assert_uint_eq(objects.tds, (_i == 0) ? 2 : 0);
    ck_assert(!UCS_STATUS_IS_ERR(rig_put(&rig, conn.ep[0], 0, 0, SIZE, NULL)));
    ck_assert_int_eq(rig_flush(&rig, conn.ep[0]), UCS_OK);
    rig_check(&rig, 0, SIZE);
    rig_disconnect(&conn);
    rig_close(&rig);
}
END_TEST

START_TEST(children_get_no_registered_memory)
{
    setenv("FAKE_VERBS_FORK", "old", 1);
    if (_i == 1) {
        setenv("UCX_MORI_RDMA_FORK", "n", 1);
    }
    rig_open(&rig, SIZE);
    ck_assert_int_eq(ibv_is_fork_initialized(),
                     (_i == 0) ? IBV_FORK_ENABLED : IBV_FORK_DISABLED);
    rig_close(&rig);
}
END_TEST

/* The options reach each queue pair; 4.096 us * 2^13 is the next above 20 ms. */
/* TR-13 */
START_TEST(retry_budget_of_a_queue_pair_is_the_options)
{
    uint8_t timeout = 0, retry_count = 0;
    unsigned side, i;

    setenv("UCX_MORI_RDMA_NUM_QPS", "2", 1);
    setenv("UCX_MORI_RDMA_TIMEOUT", "20ms", 1);
    setenv("UCX_MORI_RDMA_RETRY_COUNT", "3", 1);
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    ck_assert_uint_eq(conn.num_qps, 2);
    for (side = 0; side < 2; side++) {
        for (i = 0; i < conn.num_qps; i++) {
            ck_assert(
                fake_verbs_qp_retries(conn.qp_nums[side][i], &timeout, &retry_count));
            ck_assert_uint_eq(timeout, 13);
            ck_assert_uint_eq(retry_count, 3);
        }
    }
    rig_disconnect(&conn);
    rig_close(&rig);
}
END_TEST

/* RG-02 */
START_TEST(closed_interfaces_leave_nothing)
{
    unsigned i, num_files = 0;
    size_t bytes = 0;

    for (i = 0; i < 40; i++) {
        rig_open(&rig, SIZE);
        rig_connect(&rig, &conn);
        ck_assert_int_eq(uct_iface_event_arm(rig.side[0].iface, UCT_EVENT_RECV),
                         UCS_OK);
        rig_disconnect(&conn);
        rig_close(&rig);
        if (i == 8) {
            num_files = mkv_test_num_files("/proc/self/fd");
            bytes = mallinfo2().uordblks;
        }
    }
    ck_assert_uint_eq(mkv_test_num_files("/proc/self/fd"), num_files);
    /* Valgrind's heap counts its own padding and free blocks, and varies by 40 KiB. */
    if (getenv("MKV_UNDER_VALGRIND") == NULL) {
        ck_assert_uint_le(mallinfo2().uordblks, bytes + 4096);
    }
}
END_TEST

START_TEST(sender_without_credits_waits_for_the_receiver)
{
    unsigned sent = 0;
    ucs_status_t status;

    setenv("UCX_MORI_RDMA_RX_DEPTH", "16", 1);
    rig_open(&rig, SIZE);
    rdma_inside_set_first_receives(rig.side[1].iface, 16);
    rig_connect(&rig, &conn);
    rig.hold[1] = 1;
    while ((status = rig_try_am(&rig, conn.ep[0], 0, 100)) == UCS_OK) {
        sent++;
        rig_progress(&rig);
        ck_assert_uint_le(sent, 16);
    }
    ck_assert_int_eq(status, UCS_ERR_NO_RESOURCE);
    ck_assert_uint_gt(sent, 8);
    rig.hold[1] = 0;
    while (rig_try_am(&rig, conn.ep[0], 0, 100) == UCS_ERR_NO_RESOURCE) {
        rig_progress(&rig);
    }
    ck_assert_int_eq(rig_flush(&rig, conn.ep[0]), UCS_OK);
    while (rig.num_am[1] < sent + 1) {
        rig_progress(&rig);
    }
    ck_assert_uint_eq(rig.bad_am[1], 0);
    ck_assert_uint_eq(rnr(&conn), 0);
    rig_disconnect(&conn);
    rig_close(&rig);
}
END_TEST

/* Random sizes, both ways, both sides pausing at random: no message meets an empty
 * receive queue, none is lost, and the credits are all there in the end. */
/* CC-07 */
START_TEST(credits_add_up_whatever_happens)
{
    const uint64_t num = mkv_test_rounds(20000, 1000);
    uint64_t sent[2] = {0, 0}, seed = 1, burst;
    unsigned i;

    setenv("UCX_MORI_RDMA_RX_DEPTH", _i ? "64" : "1", 1);
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    while ((rig.num_am[0] < num) || (rig.num_am[1] < num)) {
        for (i = 0; i < 2; i++) {
            if ((sent[i] < num) &&
                (rig_try_am(&rig, conn.ep[i], i, 8 + mkv_test_random(&seed) % 2000) ==
                 UCS_OK)) {
                sent[i]++;
            }
            rig.hold[i] = (mkv_test_random(&seed) & 3) == 0;
        }
        rig_progress(&rig);
    }
    rig.hold[0] = rig.hold[1] = 0;
    ck_assert_uint_eq(rig.bad_am[0] + rig.bad_am[1], 0);
    ck_assert_uint_eq(rnr(&conn), 0);

    for (i = 0; i < 1000; i++) {
        rig_progress(&rig); /* owed credits are returned */
    }
    rig.hold[1] = 1;
    for (burst = 0; rig_try_am(&rig, conn.ep[0], 0, 64) == UCS_OK; burst++) {
        rig_progress(&rig);
    }
    ck_assert_uint_ge(burst, _i ? 32 : 1);
    ck_assert_uint_eq(rnr(&conn), 0);
    rig.hold[1] = 0;
    rig_disconnect(&conn);
    rig_close(&rig);
}
END_TEST

/* ---- doorbells and stripes ---- */

/* CF-03, TR-06 */
START_TEST(list_takes_one_doorbell_a_batch)
{
    static const unsigned batches[] = {1, 16, 64};
    const unsigned batch = batches[_i], count = 256;
    rig_comp_t comp;
    uint64_t before;
    char text[16];

    snprintf(text, sizeof(text), "%u", batch);
    setenv("UCX_MORI_RDMA_POST_BATCH", text, 1);
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    before = doorbells(&conn, 0);
    rig_comp_init(&comp);
    ck_assert_int_eq(rig_put_list(&rig, conn.ep[0], 0, count, 1024, 2048, &comp),
                     UCS_INPROGRESS);
    rig_wait_comps(&rig, &comp, 1);
    ck_assert_int_eq(comp.status, UCS_OK);
    ck_assert_uint_eq(doorbells(&conn, 0) - before, (count + batch - 1) / batch);
    rig_check(&rig, 255 * 2048, 1024);
    rig_disconnect(&conn);
    rig_close(&rig);
}
END_TEST

START_TEST(neighbours_become_one_request)
{
    fake_verbs_stats_t stats;
    rig_comp_t comp;

    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    rig_comp_init(&comp);
    ck_assert_int_eq(rig_put_list(&rig, conn.ep[0], 0, 64, 4096, 4096, &comp),
                     UCS_INPROGRESS);
    rig_wait_comps(&rig, &comp, 1);
    fake_verbs_qp_stats(conn.qp_nums[0][0], &stats);
    ck_assert_uint_eq(stats.sends, 1);
    rig_check(&rig, 0, 64 * 4096);
    rig_disconnect(&conn);
    rig_close(&rig);
}
END_TEST

/* CF-02, TR-05 */
START_TEST(stripes_are_even_in_bytes)
{
    fake_verbs_stats_t stats;
    rig_comp_t comp;
    unsigned i;

    setenv("UCX_MORI_RDMA_NUM_QPS", "4", 1);
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    ck_assert_uint_eq(conn.num_qps, 4);
    rig_comp_init(&comp);
    ck_assert_int_eq(_i ? rig_put_list(&rig, conn.ep[0], 0, 128, 4096, 8192, &comp)
                        : rig_put(&rig, conn.ep[0], 0, 0, SIZE, &comp),
                     UCS_INPROGRESS);
    rig_wait_comps(&rig, &comp, 1);
    rig_check(&rig, 0, _i ? 4096 : SIZE);
    for (i = 0; i < 4; i++) {
        fake_verbs_qp_stats(conn.qp_nums[0][i], &stats);
        ck_assert_msg((stats.bytes_out >= SIZE / (_i ? 2 : 1) / 8) &&
                          (stats.bytes_out <= SIZE / (_i ? 2 : 1) / 2),
                      "queue pair %u carried %llu bytes", i,
                      (unsigned long long)stats.bytes_out);
    }
    rig_disconnect(&conn);
    rig_close(&rig);
}
END_TEST

/* ---- devices that can do little ---- */

typedef struct device_row {
    const char *profile;
    const char *caps;
} device_row_t;

static const device_row_t devices[] = {
    {"ionic", ""},
    {"bnxt", ""},
    {"mlx5", ""},
    {"mlx5_ib", ""},
    {"mlx5_ib", "grh=1"},
    {"mlx5_ib", "limited=2"},
    {"rxe", ""},
    {"tiny", "max_mr_size=1g"},
    {"ionic", "max_sge=1,max_inline=0"},
    {"ionic", "max_qp_wr=8"},
    {"mlx5", "max_msg_sz=4k"},
    {"mlx5", "max_rd_atom=1,max_init_rd_atom=1"},
};

/* TR-12 */
START_TEST(every_device_carries_everything)
{
    rig_comp_t put, get, list;
    char text[64];
    unsigned i;

    snprintf(text, sizeof(text), "fake0:%s,fake1:%s", devices[_i].profile,
             devices[_i].profile);
    setenv("FAKE_VERBS_DEVICES", text, 1);
    setenv("FAKE_VERBS_CAPS", devices[_i].caps, 1);
    setenv("FAKE_VERBS_MODE", "late", 1);
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    rig_comp_init(&put);
    rig_comp_init(&get);
    rig_comp_init(&list);
    ck_assert(!UCS_STATUS_IS_ERR(rig_put(&rig, conn.ep[0], 0, 0, SIZE, &put)));
    rig_wait_comps(&rig, &put, 1);
    rig_check(&rig, 0, SIZE);

    memset(rig.mem[0].addr, 0, SIZE);
    ck_assert(!UCS_STATUS_IS_ERR(rig_get(&rig, conn.ep[0], 0, 0, SIZE, &get)));
    rig_wait_comps(&rig, &get, 1);
    ck_assert_int_eq(get.status, UCS_OK);
    ck_assert_int_eq(memcmp(rig.mem[0].addr, rig.mem[1].addr, SIZE), 0);

    memset(rig.mem[1].addr, 0, SIZE);
    ck_assert(
        !UCS_STATUS_IS_ERR(rig_put_list(&rig, conn.ep[0], 0, 100, 1000, 5000, &list)));
    rig_wait_comps(&rig, &list, 1);
    for (i = 0; i < 100; i++) {
        rig_check(&rig, i * 5000, 1000);
    }

    for (i = 0; i < 500; i++) {
        while (rig_try_am(&rig, conn.ep[0], 0, 8 + i) == UCS_ERR_NO_RESOURCE) {
            rig_progress(&rig);
        }
    }
    ck_assert_int_eq(rig_flush(&rig, conn.ep[0]), UCS_OK);
    while (rig.num_am[1] < 500) {
        rig_progress(&rig);
    }
    ck_assert_uint_eq(rig.bad_am[1], 0);
    rig_disconnect(&conn);
    rig_close(&rig);
}
END_TEST

/* RG-01 */
START_TEST(region_larger_than_the_device_takes_is_split)
{
    rig_comp_t comp;

    setenv("FAKE_VERBS_CAPS", "max_mr_size=1m", 1);
    rig_open(&rig, 5 * SIZE + 5000);
    rig_connect(&rig, &conn);
    rig_comp_init(&comp);
    ck_assert_int_eq(rig_put(&rig, conn.ep[0], 0, 1000, 5 * SIZE, &comp),
                     UCS_INPROGRESS);
    rig_wait_comps(&rig, &comp, 1);
    ck_assert_int_eq(comp.status, UCS_OK);
    rig_check(&rig, 1000, 5 * SIZE);
    rig_disconnect(&conn);
    rig_close(&rig);
}
END_TEST

/* A number of UCX's VFS, of side 0's interface. */
static unsigned long vfs_number(const char *name)
{
    char dir[128], path[256], text[64];
    UCS_STRING_BUFFER_FIXED(buffer, text, sizeof(text));
    ucs_vfs_path_info_t info;

    /* looking at the folder fills it */
    snprintf(dir, sizeof(dir), "/uct/worker/%p/iface/%p", (void *)rig.side[0].worker,
             (void *)rig.side[0].iface);
    ck_assert_msg(ucs_vfs_path_get_info(dir, &info) == UCS_OK, "no %s", dir);
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    ck_assert_msg(ucs_vfs_path_read_file(path, &buffer) == UCS_OK, "no %s", path);
    return strtoul(ucs_string_buffer_cstr(&buffer), NULL, 10);
}

/* CF-02 */
START_TEST(user_sees_what_each_queue_pair_posted)
{
    fake_verbs_stats_t stats;
    rig_comp_t comp;

    setenv("UCX_MORI_RDMA_NUM_QPS", "2", 1);
    setenv("UCX_MORI_RDMA_POST_BATCH", "8", 1);
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    ck_assert_uint_eq(vfs_number("num_qps"), 2);
    ck_assert_uint_eq(vfs_number("post_batch"), 8);
    ck_assert_uint_eq(vfs_number("num_eps"), 1);
    ck_assert_uint_eq(vfs_number("qp/0/doorbells"), 0);
    rig_comp_init(&comp);
    ck_assert_int_eq(rig_put_list(&rig, conn.ep[0], 0, 128, 4096, 8192, &comp),
                     UCS_INPROGRESS);
    rig_wait_comps(&rig, &comp, 1);
    ck_assert_uint_eq(vfs_number("qp/0/bytes"), 64 * 4096);
    ck_assert_uint_eq(vfs_number("qp/1/bytes"), 64 * 4096);
    fake_verbs_qp_stats(conn.qp_nums[0][1], &stats);
    ck_assert_uint_eq(vfs_number("qp/1/work_requests"), stats.sends);
    ck_assert_uint_eq(vfs_number("qp/1/doorbells"), stats.doorbells);
    ck_assert_uint_eq(stats.doorbells, 8);

    /* they are the interface's: they do not go with the endpoint */
    rig_disconnect(&conn);
    ck_assert_uint_eq(vfs_number("num_eps"), 0);
    ck_assert_uint_eq(vfs_number("qp/0/bytes"), 64 * 4096);
    rig_close(&rig);
}
END_TEST

/* UCX chooses rails by the device's PCI address. The library's path is used for it, as
 * this machine's sysfs has no such device. */
START_TEST(device_is_at_its_pci_address)
{
    char dir[] = "/tmp/rdma_flow.XXXXXX", command[64], bdf[32];
    uct_tl_resource_desc_t *list;
    unsigned num;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    setenv("FAKE_VERBS_SYSFS", dir, 1);
    setenv("FAKE_VERBS_DEVICES", "fake0:mlx5@0000:a1:00.0,fake1:mlx5@0000:b2:00.1", 1);
    rig_open(&rig, SIZE);
    ck_assert_int_eq(uct_md_query_tl_resources(rig.side[1].md, &list, &num), UCS_OK);
    ck_assert_uint_eq(num, 1);
    ck_assert_ptr_nonnull(
        ucs_topo_sys_device_bdf_name(list[0].sys_device, bdf, sizeof(bdf)));
    ck_assert_str_eq(bdf, "0000:b2:00.1");
    uct_release_tl_resource_list(list);
    rig_close(&rig);
    snprintf(command, sizeof(command), "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

static double estimated_bandwidth(uct_ep_operation_t op)
{
    uct_perf_attr_t attr = {.field_mask = CT_PERF_FIELD_OPERATION |
                                          CT_PERF_FIELD_BANDWIDTH |
                                          CT_PERF_FIELD_PATH_BANDWIDTH,
                            .operation = op};

    ck_assert_int_eq(uct_iface_estimate_perf(rig.side[0].iface, &attr), UCS_OK);
    ck_assert(attr.path_bandwidth.shared == attr.bandwidth.shared);
    return attr.bandwidth.shared;
}

/* UCP copies all it sends over a link slower than memory when estimates are equal. */
START_TEST(cut_operations_have_a_lower_estimate)
{
    static const uct_ep_operation_t cut[] = {CT_PERF_PUT_BCOPY, CT_PERF_GET_BCOPY,
                                             CT_PERF_AM_BCOPY, CT_PERF_AM_ZCOPY};
    double whole;
    unsigned i;

    setenv("FAKE_VERBS_DEVICES", "fake0:rxe,fake1:rxe", 1);
    rig_open(&rig, SIZE);
    whole = rig.side[0].attr.bandwidth.shared;
    ck_assert(estimated_bandwidth(CT_PERF_PUT_ZCOPY) == whole);
    ck_assert(estimated_bandwidth(CT_PERF_GET_ZCOPY) == whole);
    for (i = 0; i < sizeof(cut) / sizeof(cut[0]); i++) {
        ck_assert(estimated_bandwidth(cut[i]) < whole);
        ck_assert(estimated_bandwidth(cut[i]) > whole * 0.98);
    }
    ck_assert_uint_eq(rig.side[0].attr.cap.put.max_bcopy,
                      8192); /* of 8256: 2 packets */
    ck_assert_uint_eq(rig.side[0].attr.cap.get.max_bcopy, 8192);
    rig_close(&rig);
}
END_TEST

static Suite *flow_suite(void)
{
    Suite *suite = suite_create("mori_rdma flow");
    TCase *tcase = tcase_create("flow");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, full_queue_is_back_pressure_and_nothing_else);
    tcase_add_test(tcase, full_queue_takes_nothing_while_the_device_holds_it);
    tcase_add_test(tcase, stalled_endpoint_slows_no_other);
    tcase_add_test(tcase, receives_grow_with_use);
    tcase_add_test(tcase, many_endpoints_share_few_queues);
    tcase_add_loop_test(tcase, queue_pairs_are_in_a_thread_domain, 0, 4);
    tcase_add_loop_test(tcase, children_get_no_registered_memory, 0, 2);
    tcase_add_test(tcase, retry_budget_of_a_queue_pair_is_the_options);
    tcase_add_test(tcase, closed_interfaces_leave_nothing);
    tcase_add_test(tcase, sender_without_credits_waits_for_the_receiver);
    tcase_add_loop_test(tcase, credits_add_up_whatever_happens, 0, 2);
    tcase_add_loop_test(tcase, list_takes_one_doorbell_a_batch, 0, 3);
    tcase_add_test(tcase, neighbours_become_one_request);
    tcase_add_loop_test(tcase, stripes_are_even_in_bytes, 0, 2);
    tcase_add_loop_test(tcase, every_device_carries_everything, 0,
                        sizeof(devices) / sizeof(devices[0]));
    tcase_add_test(tcase, user_sees_what_each_queue_pair_posted);
    tcase_add_test(tcase, device_is_at_its_pci_address);
    tcase_add_test(tcase, cut_operations_have_a_lower_estimate);
    tcase_add_test(tcase, region_larger_than_the_device_takes_is_split);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    ct_side_find_module();
    mkv_test_init();
    return rig_run_forked(flow_suite());
}
