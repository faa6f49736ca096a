/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Eight GPUs, each with a link to each other one, in a sysfs of the test's own. The
 * data of the driver is passed on to UCX. The files look as the driver of ROCm 6 and 7
 * writes them: two processors without a GPU come first.
 */

#include "config.h"

#include "base/muct_links.h"
#include "test/support/ct_side.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NUM_CPUS 2
#define NUM_GPUS 8
#define SLOW_MB 50000
#define FAST_MB 64000

static char dir[] = "/tmp/xgmi_links.XXXXXX";
static muct_links_t links;


static void write_file(const char *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void write_file(const char *text, const char *format, ...)
{
    char path[256], *slash;
    va_list args;
    FILE *file;

    va_start(args, format);
    vsnprintf(path, sizeof(path), format, args);
    va_end(args);
    for (slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static bool is_slow(unsigned gpu, unsigned other)
{
    return ((gpu == 2) && (other == 5)) || ((gpu == 5) && (other == 2));
}

/* GPU i is at 0000:0c:00.0, 0000:1c:00.0, ...; the one of 2 and 5 is slower. */
static void write_gpu(unsigned gpu, unsigned slow_mb)
{
    unsigned node = NUM_CPUS + gpu, to, link = 1;
    char text[256];

    snprintf(text, sizeof(text),
             "cpu_cores_count 0\nsimd_count 1216\nlocation_id %u\ndomain 0\n",
             ((gpu * 16) + 12) << 8);
    write_file(text, "%s/nodes/%u/properties", dir, node);
    snprintf(text, sizeof(text), "type 2\nnode_from %u\nnode_to 0\nmax_bandwidth 1\n",
             node);
    write_file(text, "%s/nodes/%u/io_links/0/properties", dir, node);
    for (to = 0; to < NUM_GPUS; ++to) {
        if (to == gpu) {
            continue;
        }
        snprintf(text, sizeof(text),
                 "type 11\nversion_major 0\nnode_from %u\nnode_to %u\nweight 15\n"
                 "min_bandwidth 1\nmax_bandwidth %u\n",
                 node, NUM_CPUS + to, is_slow(gpu, to) ? slow_mb : FAST_MB);
        write_file(text, "%s/nodes/%u/io_links/%u/properties", dir, node, link++);
    }
}

static void write_cpus(void)
{
    unsigned i;

    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    for (i = 0; i < NUM_CPUS; ++i) {
        write_file("cpu_cores_count 96\nsimd_count 0\nlocation_id 0\ndomain 0\n",
                   "%s/nodes/%u/properties", dir, i);
    }
}

static void write_topology(unsigned slow_mb)
{
    unsigned i;

    write_cpus();
    for (i = 0; i < NUM_GPUS; ++i) {
        write_gpu(i, slow_mb);
    }
}

static void setup(void)
{
    write_topology(SLOW_MB);
}

static void teardown(void)
{
    char command[64];

    free(links.links);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(each_pair_of_gpus_has_its_link)
{
    char from[32], to[32];
    unsigned i, j;

    muct_links_read(dir, &links);
    ck_assert_uint_eq(links.count, NUM_GPUS * (NUM_GPUS - 1));
    for (i = 0; i < NUM_GPUS; ++i) {
        for (j = 0; j < NUM_GPUS; ++j) {
            snprintf(from, sizeof(from), "0000:%02x:00.0", (i * 16) + 12);
            snprintf(to, sizeof(to), "0000:%02x:00.0", (j * 16) + 12);
            ck_assert_double_eq(muct_links_bandwidth(&links, from, to),
                                (i == j)        ? 0
                                : is_slow(i, j) ? SLOW_MB * 1e6
                                                : FAST_MB * 1e6);
        }
    }
    ck_assert_double_eq(muct_links_bandwidth(&links, NULL, NULL), SLOW_MB * 1e6);
    ck_assert_double_eq(muct_links_bandwidth(&links, "0000:0c:00.0", NULL),
                        FAST_MB * 1e6);
    ck_assert_double_eq(muct_links_bandwidth(&links, "0000:0d:00.0", NULL), 0);
    ck_assert_double_eq(muct_links_bandwidth(&links, "<invalid>", NULL), 0);
}
END_TEST

#define NUM_PARTITIONS 4

/* Two GPUs in CPX mode; nodes of one GPU are linked, too. */
static void write_partitions(void)
{
    unsigned node, to, link;
    char text[256];

    for (node = 0; node < 2 * NUM_PARTITIONS; ++node) {
        snprintf(text, sizeof(text), "simd_count 152\nlocation_id %u\ndomain 0\n",
                 ((((node / NUM_PARTITIONS) * 16) + 12) << 8) |
                     ((node % NUM_PARTITIONS) << 28));
        write_file(text, "%s/nodes/%u/properties", dir, NUM_CPUS + node);
        for (to = 0, link = 0; to < 2 * NUM_PARTITIONS; ++to) {
            if (to == node) {
                continue;
            }
            snprintf(text, sizeof(text),
                     "type 11\nnode_from %u\nnode_to %u\nmax_bandwidth %u\n",
                     NUM_CPUS + node, NUM_CPUS + to,
                     (to / NUM_PARTITIONS == node / NUM_PARTITIONS) ? 1 : FAST_MB);
            write_file(text, "%s/nodes/%u/io_links/%u/properties", dir, NUM_CPUS + node,
                       link++);
        }
    }
}

/* HIP names them as functions 0 to 3; the driver has the number in bits 28 to 31. */
START_TEST(partitions_have_the_links_of_their_gpu)
{
    char from[32], to[32];
    unsigned i, j;

    teardown();
    write_cpus();
    write_partitions();
    muct_links_read(dir, &links);
    for (i = 0; i < NUM_PARTITIONS; ++i) {
        for (j = 0; j < NUM_PARTITIONS; ++j) {
            snprintf(from, sizeof(from), "0000:0c:00.%u", i);
            snprintf(to, sizeof(to), "0000:1c:00.%u", j);
            ck_assert_double_eq(muct_links_bandwidth(&links, from, to), FAST_MB * 1e6);
        }
    }
    ck_assert_double_eq(muct_links_bandwidth(&links, NULL, NULL), FAST_MB * 1e6);
}
END_TEST

START_TEST(driver_without_bandwidths_gets_the_default_rate)
{
    teardown();
    write_topology(0);
    muct_links_read(dir, &links);
    ck_assert_double_eq(muct_links_bandwidth(&links, "0000:2c:00.0", "0000:5c:00.0"),
                        50e9);
}
END_TEST

START_TEST(host_without_the_driver_has_no_links)
{
    muct_links_read("/nonexistent", &links);
    ck_assert_uint_eq(links.count, 0);
    ck_assert_double_eq(muct_links_bandwidth(&links, NULL, NULL), 0);
}
END_TEST

/* Bandwidth of a peer's own links where they are known; of all peers where not; or as
 * configured. */
START_TEST(ucx_gets_the_bandwidth_of_the_links)
{
    static const struct {
        const char *bw;
        int has_links;
        double dedicated, shared;
    } rows[] = {{"auto", 1, SLOW_MB * 1e6, 0},
                {"auto", 0, 0, 200.0 * 1024 * 1024 * 1024},
                {"1GBs", 1, 1024.0 * 1024 * 1024, 0}};
    const ct_target_name_t name = {.tl_name = "mori_xgmi"};
    ct_side_t side;

    setenv("UCX_MORI_XGMI_BW", rows[_i].bw, 1);
    setenv("UCX_MORI_XGMI_TOPOLOGY", rows[_i].has_links ? dir : "/nonexistent", 1);
    ck_assert_msg(ct_side_open(&side, &name) == UCS_OK, "%s", side.why);
    ck_assert_double_eq(side.attr.bandwidth.dedicated, rows[_i].dedicated);
    ck_assert_double_eq(side.attr.bandwidth.shared, rows[_i].shared);
    ct_side_close(&side);
}
END_TEST

/* Messages do not take the links. */
START_TEST(ucx_gets_the_cost_of_messages)
{
    static const uct_ep_operation_t ops[] = {CT_PERF_AM_SHORT, CT_PERF_AM_BCOPY};
    const ct_target_name_t name = {.tl_name = "mori_xgmi"};
    uct_perf_attr_t copy = {.operation = CT_PERF_PUT_ZCOPY}, message = {0};
    ct_side_t side;

    ck_assert_msg(ct_side_open(&side, &name) == UCS_OK, "%s", side.why);
    message.operation = ops[_i];
    copy.field_mask = message.field_mask =
        CT_PERF_FIELD_OPERATION | CT_PERF_FIELD_SEND_PRE_OVERHEAD |
        CT_PERF_FIELD_RECV_OVERHEAD | CT_PERF_FIELD_LATENCY | CT_PERF_FIELD_BANDWIDTH |
        CT_PERF_FIELD_PATH_BANDWIDTH;
    ck_assert_int_eq(uct_iface_estimate_perf(side.iface, &copy), UCS_OK);
    ck_assert_int_eq(uct_iface_estimate_perf(side.iface, &message), UCS_OK);
    ck_assert_double_lt(message.latency.c, copy.latency.c);
    ck_assert_double_lt(message.send_pre_overhead, copy.send_pre_overhead);
    ck_assert_double_lt(message.recv_overhead, copy.recv_overhead);
    ck_assert_double_lt(message.bandwidth.dedicated, copy.bandwidth.shared);
    ck_assert_double_gt(message.bandwidth.dedicated, 0);
    ck_assert_double_eq(message.bandwidth.shared, 0);
    ck_assert_double_eq(message.path_bandwidth.dedicated, message.bandwidth.dedicated);
    ct_side_close(&side);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xgmi_links");
    TCase *tcase = tcase_create("links");

    setenv("UCX_MORI_HIP_LIB", HIPCPU_PATH, 1);
    ct_side_find_module();
    mkv_test_init();
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, each_pair_of_gpus_has_its_link);
    tcase_add_test(tcase, partitions_have_the_links_of_their_gpu);
    tcase_add_test(tcase, driver_without_bandwidths_gets_the_default_rate);
    tcase_add_test(tcase, host_without_the_driver_has_no_links);
    tcase_add_loop_test(tcase, ucx_gets_the_cost_of_messages, 0, 2);
    tcase_add_loop_test(tcase, ucx_gets_the_bandwidth_of_the_links, 0, 3);
    suite_add_tcase(suite, tcase);
    return mkv_check_run_forked(suite);
}
