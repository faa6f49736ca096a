/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * GPU memory in a UCX without ROCm: every API, every pair of memory types, over lanes
 * that do not reach GPU memory themselves. The processor may not touch device memory.
 */

#include "test/integration/ucp/it_run.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IT_MESSAGES "tag", "am", "stream", "put", "get"
#define IT_RECOMMENDED "UCX_TLS=mori_xgmi,mori_copy,mori_rdma,tcp"

#define IT_LARGE "3145728"
#define IT_LARGEST "67108864" /* runs no code that the other does not */

/* The limit serves only to end a hang: a run of ucp_copy takes seconds alone, and may
 * take minutes on two processors that run other tests as well. */
#define IT_LIMIT_S "240"
#define IT_TIMEOUT_S 300

static int it_has_rdma;

static it_result_t it_copy(const char *const *env, const char *max_length,
                           const char *mode, const char *const *apis)
{
    const char *argv[16] = {it_build_path("test/integration/ucp/ucp_copy"), max_length,
                            mode};
    it_result_t result;
    size_t i;

    for (i = 0; apis[i] != NULL; ++i) {
        argv[3 + i] = apis[i];
    }
    result = it_run(argv, env);
    return result;
}

static void it_expect_apis(const char *name, const char *const *env,
                           const char *max_length, const char *mode,
                           const char *const *apis)
{
    it_result_t result = it_copy(env, max_length, mode, apis);
    char text[64];
    size_t i;

    it_expect_status(&result, 0);
    for (i = 0; apis[i] != NULL; ++i) {
        snprintf(text, sizeof(text), "%s: ", apis[i]);
        it_expect(&result, text);
    }
    it_expect(&result, "done");
    it_expect_no(&result, "ERROR");
    mkv_test_pass(name, "%s %s, up to %s bytes, %s mode, %s%s", env[0], env[1],
                  max_length, mode, apis[0], (apis[1] != NULL) ? " and others" : "");
    it_result_free(&result);
}

static void it_expect_all(const char *name, const char *const *env,
                          const char *max_length, const char *mode)
{
    /* UCX has no atomic operation over tcp in peer-failure mode, on whatever memory */
    static const char *const all[] = {IT_MESSAGES, "atomic", NULL};
    static const char *const messages[] = {IT_MESSAGES, NULL};

    it_expect_apis(name, env, max_length, mode,
                   (strcmp(mode, "none") == 0) ? all : messages);
}

START_TEST(every_api_moves_every_memory_over_tcp)
{
    static const char *const apis[][2] = {{"tag"}, {"am"},  {"stream"},
                                          {"put"}, {"get"}, {"atomic"}};
    static const char *const env[] = {"UCX_TLS=mori_copy,tcp", "HIPCPU_GUARD=1", NULL};

    it_expect_apis("every_api_moves_every_memory_over_tcp", env,
                   (getenv("MKV_TEST_FEWER") != NULL) ? IT_LARGE : IT_LARGEST, "none",
                   apis[_i]);
}
END_TEST

START_TEST(every_api_works_in_peer_failure_mode)
{
    static const char *const env[] = {IT_RECOMMENDED, "HIPCPU_GUARD=1", NULL};

    it_expect_all("every_api_works_in_peer_failure_mode", env, IT_LARGE, "peer");
}
END_TEST

/* A network device that cannot register GPU memory, neither by dma-buf nor by address.
 */
START_TEST(every_api_works_over_rdma_without_gpu_direct)
{
    static char wire[64];
    static const char *const env[] = {"UCX_TLS=mori_copy,mori_rdma,tcp",
                                      "HIPCPU_GUARD=1",
                                      "UCX_NET_DEVICES=fake0:1,fake1:1,lo",
                                      "FAKE_VERBS_PEERMEM=n",
                                      "FAKE_VERBS_CAPS=dmabuf=0",
                                      wire,
                                      NULL};

    if (!it_has_rdma) {
        ck_assert(!mkv_test_skip("rdma", "every_api_works_over_rdma_without_gpu_direct",
                                 "UCX lists no mori_rdma here"));
        return;
    }

    snprintf(wire, sizeof(wire), "FAKE_VERBS_WIRE=/tmp/it_copy.%d.%d", (int)getpid(),
             _i);
    it_expect_all("every_api_works_over_rdma_without_gpu_direct", env, IT_LARGE,
                  (_i == 0) ? "none" : "peer");
    unlink(strchr(wire, '/'));
}
END_TEST

/* GPUs without a path to each other, or containers without access to each other's
 * memory: AMD's runtime only reports that the handle is invalid. */
START_TEST(every_api_works_where_no_handle_opens)
{
    static const char *const env[] = {
        "UCX_TLS=mori_xgmi,mori_copy,tcp", "HIPCPU_GUARD=1",
        "HIPCPU_FAIL=hipIpcOpenMemHandle:0:17", "UCX_MORI_XGMI_OPEN_TIMEOUT=30s", NULL};

    it_expect_all("every_api_works_where_no_handle_opens", env, IT_LARGE,
                  (_i == 0) ? "none" : "peer");
}
END_TEST

/* Environment of a user that sets nothing but the path of the module. */
START_TEST(every_api_works_with_nothing_set)
{
    static const char *const env[] = {"UCX_TLS", "HIPCPU_GUARD=1", NULL};

    it_expect_all("every_api_works_with_nothing_set", env, IT_LARGE,
                  (_i == 0) ? "none" : "peer");
}
END_TEST

/* Control: the same without mori_copy fails, except puts to private memory that
 * mori_xgmi moves itself. */
START_TEST(nothing_moves_without_it)
{
    static const char *const apis[][2] = {{"tag"}, {"am"}, {"stream"}, {"put"}};
    static const char *const env[] = {"UCX_TLS=mori_xgmi,tcp", "MKV_TEST_LIMIT_S=3",
                                      "UCX_MORI_XGMI_PRIVATE=n", "HIPCPU_GUARD=1",
                                      NULL};
    it_result_t result = it_copy(env, "8192", "peer", apis[_i]);

    ck_assert_int_ne(result.status, 0);
    it_expect(&result, "error ");
    it_expect_no(&result, "done");
    it_result_free(&result);
    mkv_test_pass("nothing_moves_without_it", "%s", apis[_i][0]);
}
END_TEST

static const struct {
    const char *test;
    const char *memory;
} it_perftests[] = {
    {"tag_bw", "rocm,host"},    {"tag_lat", "host,rocm"},    {"ucp_am_bw", "rocm,rocm"},
    {"stream_bw", "rocm,rocm"}, {"ucp_put_bw", "rocm,host"}, {"ucp_get", "rocm,host"},
};

START_TEST(perftest_moves_device_memory_over_tcp)
{
    char args[128];
    it_pair_t pair;

    snprintf(args, sizeof(args), "-t %s -m %s -s 300000 -n 20 -w 2",
             it_perftests[_i].test, it_perftests[_i].memory);
    pair = it_run_perftest("mori_copy,tcp", NULL, args);
    if (strstr(pair.client.output, "Unsupported memory types") != NULL) {
        ck_assert(!mkv_test_skip("ucx_perftest",
                                 "perftest_moves_device_memory_over_tcp",
                                 "%s: this ucx_perftest knows no ROCm memory", args));
        it_pair_free(&pair);
        return;
    }

    it_expect_status(&pair.client, 0);
    it_expect(&pair.client, "Final:");
    it_expect_no(&pair.client, "ERROR");
    it_expect_no(&pair.server, "ERROR");
    it_pair_free(&pair);
    mkv_test_pass("perftest_moves_device_memory_over_tcp", "%s", args);
}
END_TEST

static Suite *it_suite(void)
{
    Suite *suite = suite_create("mori_copy under UCP");
    TCase *tcase = tcase_create("copy");

    tcase_set_timeout(tcase, IT_TIMEOUT_S);
    tcase_add_loop_test(tcase, every_api_moves_every_memory_over_tcp, 0, 6);
    tcase_add_test(tcase, every_api_works_in_peer_failure_mode);
    tcase_add_loop_test(tcase, every_api_works_over_rdma_without_gpu_direct, 0, 2);
    tcase_add_loop_test(tcase, every_api_works_where_no_handle_opens, 0, 2);
    tcase_add_loop_test(tcase, every_api_works_with_nothing_set, 0, 2);
    tcase_add_loop_test(tcase, nothing_moves_without_it, 0, 4);
    tcase_add_loop_test(tcase, perftest_moves_device_memory_over_tcp, 0, 6);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner;
    int failed;

    mkv_test_init();
    it_init();
    if (!it_has_transport("mori_copy")) {
        return mkv_test_skip("hip", "it_copy", "UCX lists no mori_copy here")
                   ? MKV_TEST_EXIT_FAIL
                   : MKV_TEST_EXIT_SKIP;
    }

    it_use_libraries("test/fake/verbs/.libs");
    it_has_rdma = it_has_transport("mori_rdma");
    setenv("UCX_NET_DEVICES", "lo", 0);
    setenv("MKV_TEST_LIMIT_S", IT_LIMIT_S, 0);
    runner = srunner_create(it_suite());
    srunner_run_all(runner, CK_NORMAL);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? MKV_TEST_EXIT_OK : MKV_TEST_EXIT_FAIL;
}
