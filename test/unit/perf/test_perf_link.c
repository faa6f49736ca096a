/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/kv_perf/report/link.h"
#include "test/support/mkv_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char sys[] = "/tmp/test_perf_link.XXXXXX";

/* A file with its folders; the path has no characters of the shell. */
static void put(const char *path, const char *text)
{
    char command[512], name[256];
    FILE *file;

    snprintf(name, sizeof(name), "%s/%s", sys, path);
    snprintf(command, sizeof(command), "mkdir -p $(dirname %s)", name);
    ck_assert_int_eq(system(command), 0);
    file = fopen(name, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static void setup(void)
{
    strcpy(sys + strlen(sys) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(sys));
}

static void teardown(void)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -r %s", sys);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(rate_is_that_of_the_devices_in_the_path)
{
    put("class/infiniband/nic0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
    put("class/infiniband/nic1/ports/2/rate", "100 Gb/sec (4X EDR)\n");
    put("class/net/eth0/speed", "25000\n");
    put("class/net/lo/speed", "-1\n");
    ck_assert_double_eq(
        perf_link_rate("put host>host: rdma (zero-copy mori_rdma/nic0:1)", sys), 50);
    ck_assert_double_eq(
        perf_link_rate("put a>b: 80% on mori_rdma/nic0:1 and 20% on mori_rdma/nic1:2; "
                       "list put a>b: rdma (sgl mori_rdma/nic0:1)",
                       sys),
        62.5);
    ck_assert_double_eq(
        perf_link_rate("put a>b: tcp (software emulation tcp/eth0)", sys), 3.125);
    /* unknown: a device without a rate, two transports, no device */
    ck_assert_double_eq(perf_link_rate("put a>b: tcp (emulation tcp/lo)", sys), 0);
    ck_assert_double_eq(perf_link_rate("put mori_rdma/nic0:1; get mori_rdma/no:1", sys),
                        0);
    ck_assert_double_eq(perf_link_rate("put mori_rdma/nic0:1; get tcp/eth0", sys), 0);
    ck_assert_double_eq(perf_link_rate("", sys), 0);
}
END_TEST

START_TEST(rate_of_xgmi_is_given_where_all_links_are_alike)
{
    static const char path[] = "put rocm>rocm: xgmi (zero-copy mori_xgmi/xgmi)";

    ck_assert_double_eq(perf_link_rate(path, sys), 0);
    put("class/kfd/kfd/topology/nodes/0/properties",
        "cpu_cores_count 8\nsimd_count 0\n");
    put("class/kfd/kfd/topology/nodes/1/properties", "simd_count 304\n");
    put("class/kfd/kfd/topology/nodes/2/properties", "simd_count 304\n");
    put("class/kfd/kfd/topology/nodes/1/io_links/0/properties",
        "type 11\nnode_to 0\nmax_bandwidth 36000\n"); /* to the processor */
    put("class/kfd/kfd/topology/nodes/1/io_links/1/properties",
        "type 11\nnode_to 2\nmax_bandwidth 64000\n");
    ck_assert_double_eq(perf_link_rate(path, sys), 64);
    put("class/kfd/kfd/topology/nodes/2/io_links/0/properties",
        "type 2\nnode_to 1\nmax_bandwidth 32000\n"); /* PCIe */
    ck_assert_double_eq(perf_link_rate(path, sys), 64);
    put("class/kfd/kfd/topology/nodes/2/io_links/1/properties",
        "type 11\nnode_to 1\nmax_bandwidth 50000\n");
    ck_assert_double_eq(perf_link_rate(path, sys), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("perf_link");
    TCase *tcase = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, rate_is_that_of_the_devices_in_the_path);
    tcase_add_test(tcase, rate_of_xgmi_is_given_where_all_links_are_alike);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
