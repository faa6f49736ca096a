/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * GPU memory to GPU memory of another process without a copy through the host. Three
 * facts are checked together, as each alone could be reported wrongly. The GPU runtimes
 * of both ends have copied no byte from or to host memory. The processor could not
 * touch device memory at either end. UCP reports zero-copy over our lane. The controls
 * remove the direct path, and the same counts are not 0.
 */

#include "test/integration/ucp/it_run.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IT_LARGE ((uint64_t)8388608)

/* First both ends make the resources of their endpoints: mori_xgmi clears four bytes
 * for each queue that it makes, by a copy from the host, and does so once. Then lengths
 * below and above each threshold that UCP may have, and pieces that do not fill pages.
 */
#define IT_ACTIONS                                                                     \
    "mem=rocm alloc=33554432 connect unpack greet count "                              \
    "put=1 get=1 put=8 get=8 put=4097,3 get=4095,5 put=65536,100 get=65536,100 "       \
    "put=8388608 get=8388608 close"
#define IT_NUM_MOVES 10

/* mori_copy is there all the time, so that a way through the host could be taken. */
#define IT_XGMI "mori_xgmi,mori_copy,tcp"
#define IT_RDMA "mori_rdma,mori_copy,tcp"

/** Bytes that one put or get copied. */
typedef struct it_copied {
    char what[16];
    uint64_t count, length;
    uint64_t here_from, here_to, there_from, there_to;
} it_copied_t;

static char it_wire[64];


/* Returns how many lines there are. */
static unsigned it_read_copied(const it_result_t *result, it_copied_t *list)
{
    const char *line = result->output;
    unsigned count = 0;

    while ((line = strstr(line, "copied by ")) != NULL) {
        it_copied_t *copied = &list[count];

        ck_assert_uint_lt(count, IT_NUM_MOVES);
        ck_assert_int_eq(sscanf(line,
                                "copied by %15s %" SCNu64 " x %" SCNu64
                                ": here %" SCNu64 " from the host %" SCNu64
                                " to it, there %" SCNu64 " from the host %" SCNu64,
                                copied->what, &copied->count, &copied->length,
                                &copied->here_from, &copied->here_to,
                                &copied->there_from, &copied->there_to),
                         7);
        ++count;
        ++line;
    }
    return count;
}

static it_pair_t it_move(const char *tls, const char *const *env,
                         it_copied_t copied[IT_NUM_MOVES])
{
    it_pair_t pair = it_run_app(tls, env, NULL, IT_ACTIONS);

    it_expect_status(&pair.client, 0);
    it_expect_status(&pair.server, 0);
    it_expect_no(&pair.client, "error ");
    it_expect(&pair.client, "client done");
    if (it_read_copied(&pair.client, copied) != IT_NUM_MOVES) {
        it_show(&pair.client);
        ck_abort_msg("not each of %d transfers has its counts above", IT_NUM_MOVES);
    }
    return pair;
}

static void it_expect_direct(const char *tls, const char *tl, const char *const *env)
{
    it_copied_t copied[IT_NUM_MOVES];
    it_pair_t pair = it_move(tls, env, copied);
    unsigned i;

    for (i = 0; i < IT_NUM_MOVES; ++i) {
        const it_copied_t *one = &copied[i];

        ck_assert_msg((one->here_from == 0) && (one->here_to == 0) &&
                          (one->there_from == 0) && (one->there_to == 0),
                      "%s %" PRIu64 " x %" PRIu64 ": %" PRIu64 " and %" PRIu64
                      " bytes from and to the host here, %" PRIu64 " and %" PRIu64
                      " there",
                      one->what, one->count, one->length, one->here_from, one->here_to,
                      one->there_from, one->there_to);
    }
    it_expect_zcopy(&pair.client, IT_PUT, tl);
    it_expect_zcopy(&pair.client, IT_GET, tl);
    it_pair_free(&pair);
}

/* Every byte of a put leaves the GPU here for the host and comes from it there; of a
 * get the reverse. */
static void it_expect_bounced(const char *tls, const char *const *env)
{
    it_copied_t copied[IT_NUM_MOVES];
    it_pair_t pair = it_move(tls, env, copied);
    unsigned i;

    for (i = 0; i < IT_NUM_MOVES; ++i) {
        const it_copied_t *one = &copied[i];
        const uint64_t bytes = one->count * one->length;
        const int is_get = strcmp(one->what, "get") == 0;

        ck_assert_msg(((is_get ? one->there_to : one->here_to) >= bytes) &&
                          ((is_get ? one->here_from : one->there_from) >= bytes),
                      "%s %" PRIu64 " x %" PRIu64 ": %" PRIu64 " and %" PRIu64
                      " bytes from and to the host here, %" PRIu64 " and %" PRIu64
                      " there",
                      one->what, one->count, one->length, one->here_from, one->here_to,
                      one->there_from, one->there_to);
    }
    it_pair_free(&pair);
}

/* TR-01 */
START_TEST(xgmi_moves_no_byte_by_way_of_the_host)
{
    static const char *const env[] = {"UCX_PROTO_INFO=y", "HIPCPU_GUARD=1", NULL};

    it_expect_direct(IT_XGMI, "mori_xgmi", env);
    mkv_test_pass("xgmi_moves_no_byte_by_way_of_the_host", IT_XGMI);
}
END_TEST

/* The control: no handle opens. */
/* TR-01 */
START_TEST(what_xgmi_cannot_reach_goes_by_way_of_the_host)
{
    static const char *const env[] = {"HIPCPU_GUARD=1",
                                      "HIPCPU_FAIL=hipIpcOpenMemHandle:0:17",
                                      "UCX_MORI_XGMI_OPEN_TIMEOUT=30s", NULL};

    it_expect_bounced(IT_XGMI, env);
    mkv_test_pass("what_xgmi_cannot_reach_goes_by_way_of_the_host", IT_XGMI);
}
END_TEST

/*
 * A put and a get are over while the owner is stopped: no message of its UCX carries
 * them. UCX_TLS has no transport that moves host memory by itself.
 */
/* XM-08 */
START_TEST(xgmi_moves_private_host_memory_of_a_stopped_owner)
{
    static const char *const env[] = {"UCX_PROTO_INFO=y", NULL};
    it_pair_t pair = it_run_app(IT_XGMI, env, NULL,
                                "mem=rocm alloc=8388608,host connect unpack greet "
                                "put=8388608 get=8388608 put=8 get=8 put=4097,3 "
                                "get=4095,5 put=65536,100 get=65536,100 "
                                "kill=19 post=262144,16 flush drain kill=18 "
                                "put=100000,3 close");

    it_expect_status(&pair.client, 0);
    it_expect_status(&pair.server, 0);
    it_expect_no(&pair.client, "error ");
    it_expect(&pair.client, "client done");
    it_expect_zcopy(&pair.client, IT_PUT, "mori_xgmi");
    it_expect_zcopy(&pair.client, IT_GET, "mori_xgmi");
    it_pair_free(&pair);
    mkv_test_pass("xgmi_moves_private_host_memory_of_a_stopped_owner", IT_XGMI);
}
END_TEST

/* The control: its owner keeps it to itself. */
/* XM-08 */
START_TEST(private_host_memory_that_is_kept_goes_by_messages)
{
    static const char *const env[] = {"UCX_PROTO_INFO=y", "UCX_MORI_XGMI_PRIVATE=n",
                                      NULL};
    it_pair_t pair = it_run_app(IT_XGMI, env, NULL,
                                "mem=rocm alloc=100000,host connect unpack greet "
                                "put=100000 get=100000 close");

    it_expect_status(&pair.client, 0);
    it_expect_no(&pair.client, "error ");
    ck_assert_uint_gt(it_count(&pair.client, "software emulation") +
                          it_count(&pair.client, "rndv using"), /* UCX 1.23 */
                      0);
    it_pair_free(&pair);
    mkv_test_pass("private_host_memory_that_is_kept_goes_by_messages", IT_XGMI);
}
END_TEST

static void it_setup_wire(void)
{
    snprintf(it_wire, sizeof(it_wire), "/tmp/it_direct.%d", (int)getpid());
    setenv("FAKE_VERBS_WIRE", it_wire, 1);
}

static void it_remove_wire(void)
{
    unlink(it_wire);
}

/* Bytes that a device sent and that it read from its peer, as the wire has them. */
static void it_wire_bytes(const char *device, uint64_t *sent, uint64_t *read)
{
    char path[PATH_MAX];
    const char *argv[] = {path, "bytes", device, NULL};
    it_result_t result;

    snprintf(path, sizeof(path), "%s", it_build_path("test/fake/verbs/verbs_ctl"));
    result = it_run(argv, NULL);
    it_expect_status(&result, 0);
    ck_assert_int_eq(sscanf(result.output, "%" SCNu64 " %" SCNu64, sent, read), 2);
    it_result_free(&result);
}

/* And the NIC has carried them once: nothing went through memory in between. Loop
 * index: devices of each family. */
static const char *const it_families[] = {"fake0:ionic,fake1:ionic",
                                          "fake0:bnxt,fake1:bnxt"};

/* TR-01 */
START_TEST(rdma_moves_no_byte_by_way_of_the_host)
{
    const uint64_t put = 1 + 8 + 3 * 4097 + 100 * 65536 + IT_LARGE;
    const uint64_t get = 1 + 8 + 5 * 4095 + 100 * 65536 + IT_LARGE;
    char devices[64];
    const char *env[] = {"UCX_PROTO_INFO=y", "HIPCPU_GUARD=1",
                         "UCX_NET_DEVICES=fake0:1,fake1:1,lo", devices, NULL};
    uint64_t sent[2], read[2];

    setenv("FAKE_VERBS_DEVICES", it_families[_i], 1);
    snprintf(devices, sizeof(devices), "FAKE_VERBS_DEVICES=%s", it_families[_i]);
    it_expect_direct(IT_RDMA, "mori_rdma", env);
    it_wire_bytes("fake0", &sent[0], &read[0]);
    it_wire_bytes("fake1", &sent[1], &read[1]);
    ck_assert_msg((sent[0] + sent[1] >= put) && (sent[0] + sent[1] < put + put / 10) &&
                      (read[0] + read[1] >= get) &&
                      (read[0] + read[1] < get + get / 10),
                  "sent %" PRIu64 " and %" PRIu64 " of %" PRIu64 " bytes, read %" PRIu64
                  " and %" PRIu64 " of %" PRIu64,
                  sent[0], sent[1], put, read[0], read[1], get);
    mkv_test_pass("rdma_moves_no_byte_by_way_of_the_host", "%s", it_families[_i]);
}
END_TEST

/* The controls: the option, and a device that registers no memory of a GPU. */
/* TR-01 */
START_TEST(without_gpu_direct_rdma_goes_by_way_of_the_host)
{
    static const char *const settings[][2] = {
        {"UCX_MORI_RDMA_GPU_DIRECT=n", "FAKE_VERBS_PEERMEM=n"},
        {"FAKE_VERBS_CAPS=dmabuf=0", "FAKE_VERBS_PEERMEM=n"}};
    const char *env[] = {"HIPCPU_GUARD=1", "UCX_NET_DEVICES=fake0:1,fake1:1,lo",
                         settings[_i][0], settings[_i][1], NULL};

    setenv("FAKE_VERBS_DEVICES", it_families[0], 1);
    it_expect_bounced(IT_RDMA, env);
    mkv_test_pass("without_gpu_direct_rdma_goes_by_way_of_the_host", "%s",
                  settings[_i][0]);
}
END_TEST

static Suite *it_suite(int has_rdma)
{
    Suite *suite = suite_create("no way through the host");
    TCase *tcase = tcase_create("xgmi");

    tcase_set_timeout(tcase, 240);
    tcase_add_test(tcase, xgmi_moves_no_byte_by_way_of_the_host);
    tcase_add_test(tcase, what_xgmi_cannot_reach_goes_by_way_of_the_host);
    tcase_add_test(tcase, xgmi_moves_private_host_memory_of_a_stopped_owner);
    tcase_add_test(tcase, private_host_memory_that_is_kept_goes_by_messages);
    suite_add_tcase(suite, tcase);
    if (has_rdma) {
        tcase = tcase_create("rdma");
        tcase_set_timeout(tcase, 240);
        tcase_add_checked_fixture(tcase, it_setup_wire, it_remove_wire);
        tcase_add_loop_test(tcase, rdma_moves_no_byte_by_way_of_the_host, 0, 2);
        tcase_add_loop_test(tcase, without_gpu_direct_rdma_goes_by_way_of_the_host, 0,
                            2);
        suite_add_tcase(suite, tcase);
    }
    return suite;
}

int main(void)
{
    int has_rdma;

    mkv_test_init();
    it_init();
    if ((getenv("MKV_TEST_REAL_HIP") != NULL) || !it_has_transport("mori_xgmi")) {
        return mkv_test_skip("hip", "it_direct",
                             "UCX lists no mori_xgmi over libhipcpu, which counts")
                   ? MKV_TEST_EXIT_FAIL
                   : MKV_TEST_EXIT_SKIP;
    }

    it_use_libraries("test/fake/verbs/.libs");
    has_rdma = it_has_transport("mori_rdma");
    if (!has_rdma &&
        mkv_test_skip("rdma", "it_direct", "UCX lists no mori_rdma here")) {
        return MKV_TEST_EXIT_FAIL;
    }
    return mkv_check_run(it_suite(has_rdma), CK_FORK_GETENV, CK_NORMAL);
}
