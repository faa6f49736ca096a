/* SPDX-License-Identifier: BSD-3-Clause */

/* Choice of UCP and arrival of the bytes: our lane in peer-failure mode. */

#include "test/integration/ucp/it_run.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IT_TLS "mori_xgmi,tcp"


static const char *const it_proto_info[] = {"UCX_PROTO_INFO=y", NULL};

static void it_expect_moved(const char *memory, const char *actions, const char *name)
{
    char text[512];
    it_pair_t pair;

    snprintf(text, sizeof(text), "mem=%s alloc=33554432 connect unpack %s close",
             memory, actions);
    pair = it_run_app(IT_TLS, it_proto_info, NULL, text);
    it_expect_status(&pair.client, 0);
    it_expect_status(&pair.server, 0);
    it_expect_no(&pair.client, "error ");
    it_expect(&pair.client, "client done");
    if (strcmp(memory, "rocm") == 0) {
        it_expect_zcopy(&pair.client, IT_PUT, "mori_xgmi");
        it_expect_zcopy(&pair.client, IT_GET, "mori_xgmi");
    }
    it_pair_free(&pair);
    mkv_test_pass(name, "%s memory: %s", memory, actions);
}

#define IT_SIZES                                                                       \
    "put=8 get=8 put=1 put=0 put=4097,3 get=4095,5 put=65536,100 get=65536,100 "       \
    "put=1048577,9 get=8388608,2"

/* TR-01 */
START_TEST(device_memory_goes_by_our_lane)
{
    it_expect_moved("rocm", IT_SIZES, "device_memory_goes_by_our_lane");
}
END_TEST

/* CPX mode has four devices with one PCI address, which is all that UCX can see */
/* TR-15 */
START_TEST(partitions_of_a_gpu_reach_each_other)
{
    setenv("HIPCPU_DEVICES", "4", 1);
    setenv("HIPCPU_PARTITIONS", "4", 1);
    it_expect_moved("rocm", IT_SIZES, "partitions_of_a_gpu_reach_each_other");
}
END_TEST

START_TEST(host_memory_arrives)
{
    it_expect_moved("host", IT_SIZES, "host_memory_arrives");
}
END_TEST

static uint64_t it_free_memory_gib(void)
{
    unsigned long long kib = 0;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "r");

    while ((file != NULL) && (fgets(line, sizeof(line), file) != NULL) &&
           (sscanf(line, "MemAvailable: %llu", &kib) != 1)) {
    }
    if (file != NULL) {
        fclose(file);
    }
    return kib >> 20;
}

/* More than 32 bits of bytes, every one compared. */
/* TR-11 */
START_TEST(six_gigabytes_arrive_in_one_operation)
{
    uint64_t gib = it_free_memory_gib();
    it_pair_t pair;

    if (getenv("MKV_TEST_FEWER") != NULL) {
        ck_assert(
            !mkv_test_skip("large", "six_gigabytes_arrive_in_one_operation",
                           "half a minute, and what the full set of tests has run"));
        return;
    }
    setenv("MKV_TEST_LIMIT_S", "240", 1); /* seconds alone, minutes under load */
    if (gib < 8) {
        ck_assert(!mkv_test_skip("memory", "six_gigabytes_arrive_in_one_operation",
                                 "8 GiB of free memory are needed, there are %u",
                                 (unsigned)gib));
        return;
    }

    pair = it_run_app(IT_TLS, it_proto_info, NULL,
                      "mem=rocm alloc=6442450944 connect unpack large close");
    it_expect_status(&pair.client, 0);
    it_expect(&pair.client, "large 6442450944 ok");
    it_expect_zcopy(&pair.client, IT_PUT, "mori_xgmi");
    it_pair_free(&pair);
    mkv_test_pass("six_gigabytes_arrive_in_one_operation", "every byte compared");
}
END_TEST

START_TEST(endpoint_can_be_closed_and_made_again)
{
    it_pair_t pair =
        it_run_app(IT_TLS, NULL, NULL,
                   "mem=rocm alloc=4194304 connect unpack put=1024,1000 "
                   "get=1024,1000 close connect unpack put=4096,500 close");

    it_expect_status(&pair.client, 0);
    it_expect(&pair.client, "put 1000 x 1024 ok");
    it_expect(&pair.client, "put 500 x 4096 ok");
    it_expect_no(&pair.client, "error ");
    it_pair_free(&pair);
    mkv_test_pass("endpoint_can_be_closed_and_made_again", "two endpoints in turn");
}
END_TEST

/* ---- the same by UCX's own tool, unmodified ---- */

static const struct {
    const char *args;
    const char *operation; /* name in UCP's table of protocols, or NULL */
} it_perftests[] = {
    {"-t ucp_put_bw -m rocm -e -s 1048576 -n 50 -w 5", IT_PUT},
    {"-t ucp_put_bw -m rocm -e -s 8 -n 200 -w 10", IT_PUT},
    {"-t ucp_put_lat -m rocm -e -s 8 -n 100 -w 5", IT_PUT},
    {"-t ucp_put_lat -m rocm -e -s 65536 -n 50 -w 5", IT_PUT},
    {"-t ucp_get -m rocm -e -s 8 -n 100 -w 5", IT_GET},
    {"-t ucp_get -m rocm -e -s 1048576 -n 50 -w 5", IT_GET},
    {"-t ucp_put_bw -m host -e -s 65536 -n 100 -w 5", NULL},
    {"-t ucp_put_lat -m host -e -s 8 -n 100 -w 5", NULL},
    {"-t ucp_get -m host -e -s 65536 -n 100 -w 5", NULL},
    {"-t ucp_put_bw -m rocm -s 1048576 -n 50 -w 5", IT_PUT},
};

START_TEST(ucx_perftest_runs_over_our_lane)
{
    const char *args = it_perftests[_i].args;
    it_pair_t pair = it_run_perftest(IT_TLS, it_proto_info, args);

    if (strstr(pair.client.output, "Unsupported memory types") != NULL) {
        ck_assert(!mkv_test_skip("ucx_perftest", "ucx_perftest_runs_over_our_lane",
                                 "%s: this ucx_perftest knows no ROCm memory", args));
        it_pair_free(&pair);
        return;
    }

    it_expect_status(&pair.client, 0);
    it_expect_status(&pair.server, 0);
    if (it_perftests[_i].operation != NULL) {
        it_expect_zcopy(&pair.client, it_perftests[_i].operation, "mori_xgmi");
    }
    it_expect_no(&pair.client, "ERROR");
    it_pair_free(&pair);
    mkv_test_pass("ucx_perftest_runs_over_our_lane", "%s", args);
}
END_TEST

/* The tool must be able to use the runtime: its rocm plug-in needs a HIP library that
 * it can link with at load time. */
static int it_has_perftest_rocm(void)
{
    it_pair_t pair =
        it_run_perftest("tcp", NULL, "-t ucp_put_bw -m host -s 8 -n 10 -w 1");
    int is_ok = (pair.client.status == 0);

    it_pair_free(&pair);
    return is_ok;
}

int main(void)
{
    int status = it_begin("mori_xgmi", "selection");
    TCase *app, *tool;
    Suite *suite;

    if (status >= 0) {
        return status;
    }

    suite = suite_create("selection");
    app = tcase_create("application");
    tool = tcase_create("ucx_perftest");
    tcase_set_timeout(app, 4.0 * mkv_test_limit_ms() / 1000);
    tcase_add_test(app, device_memory_goes_by_our_lane);
    tcase_add_test(app, partitions_of_a_gpu_reach_each_other);
    tcase_add_test(app, host_memory_arrives);
    tcase_add_test(app, six_gigabytes_arrive_in_one_operation);
    tcase_add_test(app, endpoint_can_be_closed_and_made_again);
    suite_add_tcase(suite, app);
    tcase_set_timeout(tool, 4.0 * mkv_test_limit_ms() / 1000);
    if (it_has_perftest_rocm()) {
        tcase_add_loop_test(tool, ucx_perftest_runs_over_our_lane, 0,
                            (int)(sizeof(it_perftests) / sizeof(it_perftests[0])));
    } else {
        mkv_test_skip("ucx_perftest", "ucx_perftest",
                      "it does not run on this machine");
    }
    suite_add_tcase(suite, tool);
    return it_end(suite, 0);
}
