/* SPDX-License-Identifier: BSD-3-Clause */

/* Options against the limits of a device; codes of verbs. */

#include "test/support/mkv_check.h"
#include "test/support/rdma_log.h"

#include "base/muct_tuning.h"
#include "rdma/device/rdma_config.h"
#include "rdma/device/rdma_family.h"
#include "rdma/memory/rdma_gpu_way.h"
#include "rdma/memory/rdma_mr.h"
#include "rdma/queue/rdma_qp.h"
#include "rdma/queue/rdma_wc.h"

#include <ucs/sys/string.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static muct_rdma_iface_config_t config;
static muct_rdma_device_t device;
static muct_rdma_port_t port;
static muct_rdma_limits_t limits;

/* A small device without atomics, two scatter entries, no shared receive queue. */
static void setup(void)
{
    memset(&config, 0, sizeof(config));
    config.num_qps = 1;
    config.tx_depth = 512;
    config.rx_depth = 64;
    config.cq_depth = 16384;
    config.max_sge = 4;
    config.max_inline = 128;
    config.post_batch = UCS_ULUNITS_AUTO;
    config.seg_size = 8256;
    config.stripe_size = 65536;
    config.retry_count = 7;
    config.rnr_retry = 7;
    config.traffic_class = UCS_ULUNITS_AUTO;
    config.hop_limit = 255;
    config.max_reads = UCS_ULUNITS_AUTO;

    memset(&device, 0, sizeof(device));
    strcpy(device.name, "small0");
    device.attr.max_qp_wr = 4096;
    device.attr.max_cqe = 8192;
    device.attr.max_sge = 2;
    device.attr.max_qp_rd_atom = 16;
    device.attr.max_qp_init_rd_atom = 8;

    memset(&port, 0, sizeof(port));
    port.mtu_shift = 10;
    port.max_msg_size = 1u << 30;
}

static ucs_status_t fit(void)
{
    memset(&limits, 0xa5, sizeof(limits));
    return muct_rdma_limits_init(&config, &device, &port, &limits);
}

/* CF-06 */
START_TEST(what_is_left_to_us_follows_the_family_of_the_device)
{
    static const struct {
        uint32_t vendor_id;
        unsigned long qps, depth, entries, max_inline, retries;
        double timeout;
    } rows[] = {{0x1dd8, 2, 511, 2, 24, 7, 0.268},
                {0x14e4, 1, 512, 4, 96, 7, 0.268},
                {0x02c9, 1, 512, 4, 128, 7, 0.268},
                {0xffffff, 1, 512, 4, 128, 6, 0.067},
                {0x1234, 1, 512, 4, 128, 7, 0.268}};

    device.attr.vendor_id = rows[_i].vendor_id;
    config.tx_depth = config.max_sge = config.max_inline = UCS_ULUNITS_AUTO;
    config.num_qps = config.retry_count = UCS_ULUNITS_AUTO;
    muct_rdma_family_fill(&device, &port, &config);
    ck_assert_uint_eq(config.num_qps, rows[_i].qps);
    ck_assert_uint_eq(config.tx_depth, rows[_i].depth);
    ck_assert_uint_eq(config.max_sge, rows[_i].entries);
    ck_assert_uint_eq(config.max_inline, rows[_i].max_inline);
    ck_assert_uint_eq(config.retry_count, rows[_i].retries);
    ck_assert(config.timeout == rows[_i].timeout);
    ck_assert(config.port_down_timeout > 0);
}
END_TEST

START_TEST(an_option_of_the_user_overrides_the_family)
{
    device.attr.vendor_id = 0x1dd8;
    config.timeout = 3;
    config.port_down_timeout = 4;
    muct_rdma_family_fill(&device, &port, &config);
    ck_assert_uint_eq(config.num_qps, 1);
    ck_assert_uint_eq(config.tx_depth, 512);
    ck_assert_uint_eq(config.max_sge, 4);
    ck_assert_uint_eq(config.max_inline, 128);
    ck_assert(config.timeout == 3);
    ck_assert(config.port_down_timeout == 4);
}
END_TEST

/* Write sysfs as it looks for a bond: its entries of the GID table belong to net0. */
static void write_file(const char *path, const char *text)
{
    char command[512];

    snprintf(command, sizeof(command), "mkdir -p $(dirname %s) && echo %s >%s", path,
             text, path);
    ck_assert_int_eq(system(command), 0);
}

/* CF-06 */
START_TEST(bond_has_a_queue_pair_a_link)
{
    static const struct {
        const char *links;
        unsigned long qps;
    } rows[] = {{"1", 1}, {"2", 2}, {"8", 4}, {"none", 1}};
    struct ibv_device ibv = {0};
    struct ibv_context context = {.device = &ibv};
    char path[300], root[] = "/tmp/rdma_limits.XXXXXX";

    ck_assert_ptr_nonnull(mkdtemp(root));
    snprintf(ibv.ibdev_path, sizeof(ibv.ibdev_path), "%.100s/infiniband/small0", root);
    snprintf(path, sizeof(path), "%.250s/ports/1/gid_attrs/ndevs/3", ibv.ibdev_path);
    write_file(path, "net0");
    snprintf(path, sizeof(path), "%.100s/net/net0/bonding/ad_num_ports", root);
    write_file(path, rows[_i].links);
    device.context = &context;
    muct_rdma_net_name(&ibv, 1, 3, port.net);
    ck_assert_str_eq(port.net, "net0");
    config.num_qps = UCS_ULUNITS_AUTO;
    muct_rdma_family_fill(&device, &port, &config);
    ck_assert_uint_eq(config.num_qps, rows[_i].qps);
    muct_rdma_net_name(&ibv, 1, 4, port.net);
    ck_assert_str_eq(port.net, "");
    snprintf(path, sizeof(path), "rm -r %.100s", root);
    ck_assert_int_eq(system(path), 0);
}
END_TEST

/* RT-02 */
START_TEST(kernel_without_shared_device_memory_is_detected)
{
    static const struct {
        const char *file, *line, *release, *lack;
    } rows[] = {
        {"boot/config-6.1.0-1", "'# CONFIG_PCI_P2PDMA is not set'", "6.1.0-1",
         "kernel 6.1.0-1 has no CONFIG_PCI_P2PDMA"},
        {"lib/modules/6.1.0-1/config", "'# CONFIG_DMABUF_MOVE_NOTIFY is not set'",
         "6.1.0-1", "kernel 6.1.0-1 has no CONFIG_DMABUF_MOVE_NOTIFY"},
        {"boot/config-6.1.0-1", "CONFIG_PCI_P2PDMA=y", "6.1.0-1", ""},
        {"boot/config-6.1.0-1", "'# CONFIG_PCI_P2PDMA is not set'", "6.1.0-2", ""},
        {"boot/other", "x", "5.11.22",
         "kernel 5.11.22 is older than 5.12, the first with dma-bufs in verbs"},
        {"proc/config.gz", "'# CONFIG_PCI_P2PDMA is not set'", "6.1.0-3",
         "kernel 6.1.0-3 has no CONFIG_PCI_P2PDMA"},
    };
    char lack[128], path[128], root[] = "/tmp/rdma_limits.XXXXXX";

    ck_assert_ptr_nonnull(mkdtemp(root));
    snprintf(path, sizeof(path), "%s/%s", root, rows[_i].file);
    write_file(path, rows[_i].line);
    if (_i == 5) {
        snprintf(path, sizeof(path), "f=%s/%s && gzip -c $f >$f.new && mv $f.new $f",
                 root, rows[_i].file);
        ck_assert_int_eq(system(path), 0);
    }
    muct_rdma_kernel_lack(root, rows[_i].release, lack, sizeof(lack));
    ck_assert_str_eq(lack, rows[_i].lack);
    snprintf(path, sizeof(path), "rm -r %s", root);
    ck_assert_int_eq(system(path), 0);
}
END_TEST

/* A full page table is EINVAL on ionic (InferenceX PR 3330). */
START_TEST(refused_registration_names_huge_pages)
{
    ck_assert_ptr_nonnull(strstr(muct_rdma_mr_remedy(EINVAL), "huge pages"));
}
END_TEST

/* RT-02 */
START_TEST(way_to_gpu_memory_follows_device_kernel_and_release)
{
    static const struct {
        bool is_peermem_first, needs_dmabuf;
        int version;
        const char *lack;
        muct_rdma_gpu_way_t first;
    } rows[] = {
        {false, false, 60400001, NULL, MUCT_RDMA_GPU_WAY_DMABUF},
        {true, false, 60400001, NULL, MUCT_RDMA_GPU_WAY_PEERMEM},
        {false, false, 70200001, NULL, MUCT_RDMA_GPU_WAY_PEERMEM},
        {false, true, 70200001, NULL, MUCT_RDMA_GPU_WAY_PEERMEM},
        {false, false, 71500001, NULL, MUCT_RDMA_GPU_WAY_PEERMEM},
        {false, false, 80000001, NULL, MUCT_RDMA_GPU_WAY_DMABUF},
        {false, true, 60400001, NULL, MUCT_RDMA_GPU_WAY_DMABUF},
        {false, true, 60400001, "no P2P", MUCT_RDMA_GPU_WAY_PEERMEM},
    };
    const muct_rdma_gpu_way_params_t params = {.dmabuf = UCS_TRY,
                                               .peermem = UCS_TRY,
                                               .has_call = true,
                                               .is_peermem_first =
                                                   rows[_i].is_peermem_first,
                                               .needs_dmabuf = rows[_i].needs_dmabuf,
                                               .hip_version = rows[_i].version,
                                               .kernel_lack = rows[_i].lack};
    muct_rdma_gpu_ways_t ways;

    ck_assert_int_eq(muct_rdma_gpu_ways_init(&params, &ways), UCS_OK);
    ck_assert_uint_eq(ways.num, 2);
    ck_assert_int_eq(ways.list[0], rows[_i].first);
    ck_assert_int_ne(ways.list[1], ways.list[0]);
    ck_assert_uint_gt(strlen(ways.why), 0);
}
END_TEST

/* RT-02 */
START_TEST(way_to_gpu_memory_may_be_forced)
{
    static const struct {
        ucs_ternary_auto_value_t dmabuf, peermem;
        bool has_call;
        ucs_status_t status;
        muct_rdma_gpu_way_t way;
    } rows[] = {
        {UCS_YES, UCS_TRY, true, UCS_OK, MUCT_RDMA_GPU_WAY_DMABUF},
        {UCS_TRY, UCS_NO, true, UCS_OK, MUCT_RDMA_GPU_WAY_DMABUF},
        {UCS_NO, UCS_TRY, true, UCS_OK, MUCT_RDMA_GPU_WAY_PEERMEM},
        {UCS_TRY, UCS_YES, true, UCS_OK, MUCT_RDMA_GPU_WAY_PEERMEM},
        {UCS_TRY, UCS_TRY, false, UCS_OK, MUCT_RDMA_GPU_WAY_PEERMEM},
        {UCS_YES, UCS_TRY, false, UCS_ERR_UNSUPPORTED, MUCT_RDMA_GPU_WAY_DMABUF},
        {UCS_YES, UCS_YES, true, UCS_ERR_INVALID_PARAM, MUCT_RDMA_GPU_WAY_DMABUF},
        {UCS_NO, UCS_NO, true, UCS_ERR_INVALID_PARAM, MUCT_RDMA_GPU_WAY_DMABUF},
    };
    const muct_rdma_gpu_way_params_t params = {.dmabuf = rows[_i].dmabuf,
                                               .peermem = rows[_i].peermem,
                                               .has_call = rows[_i].has_call};
    muct_rdma_gpu_ways_t ways;

    ck_assert_int_eq(muct_rdma_gpu_ways_init(&params, &ways), rows[_i].status);
    if (rows[_i].status == UCS_OK) {
        ck_assert_uint_eq(ways.num, 1);
        ck_assert_int_eq(ways.list[0], rows[_i].way);
    }
}
END_TEST

START_TEST(wishes_are_met_where_the_device_can)
{
    device.attr.max_sge = 16;
    ck_assert_int_eq(fit(), UCS_OK);
    ck_assert_uint_eq(limits.tx_depth, 512);
    ck_assert_uint_eq(limits.rx_depth, 64);
    ck_assert_uint_eq(limits.max_sge, 4);
    ck_assert_uint_eq(limits.batch, MUCT_RDMA_POST_BATCH_AUTO);
    ck_assert_uint_eq(limits.max_reads, 8);
    ck_assert_uint_eq(limits.max_dest_reads, 16);
    ck_assert_uint_eq(limits.max_msg_size, 1u << 30);
    ck_assert(!limits.has_atomics);
}
END_TEST

/* CF-06 */
START_TEST(wishes_beyond_the_device_are_clamped)
{
    static rdma_log_watch_t warnings[] = {
        {UCS_LOG_LEVEL_WARN, "small0: UCX_MORI_RDMA_TX_DEPTH=100000 is more", 0},
        {UCS_LOG_LEVEL_WARN, "small0: UCX_MORI_RDMA_RX_DEPTH=30000 is more", 0},
        {UCS_LOG_LEVEL_WARN, "small0: UCX_MORI_RDMA_MAX_READS=200 is more", 0},
        {UCS_LOG_LEVEL_WARN, "small0: UCX_MORI_RDMA_PATH_MTU=4096 is more", 0}};
    unsigned i;

    config.tx_depth = 100000;
    config.rx_depth = 30000;
    config.max_reads = 200;
    config.path_mtu = 5;
    rdma_log_watch(warnings, 4);
    ck_assert_int_eq(fit(), UCS_OK);
    for (i = 0; i < 4; ++i) {
        ck_assert_msg(warnings[i].num > 0, "no warning: %s", warnings[i].text);
    }
    ck_assert_uint_le(limits.tx_depth, 4096);
    ck_assert_uint_eq(limits.cq_depth, 8192);
    ck_assert_uint_le(limits.tx_depth + limits.rx_depth + MUCT_RDMA_CREDIT_RECEIVES,
                      limits.cq_depth);
    ck_assert_uint_eq(limits.max_sge, 2);
    ck_assert_uint_eq(limits.max_reads, 8);
    ck_assert_uint_eq(limits.mtu_shift, 10);
}
END_TEST

START_TEST(queue_pair_always_fits_a_completion_queue)
{
    config.cq_depth = 16; /* fewer than one queue pair needs: the queue grows */
    ck_assert_int_eq(fit(), UCS_OK);
    ck_assert_uint_eq(limits.tx_depth, 512);
    ck_assert_uint_ge(limits.cq_depth, 512 + 64 + MUCT_RDMA_CREDIT_RECEIVES);

    device.attr.max_cqe = 64; /* and when it cannot, the queue pair shrinks */
    ck_assert_int_eq(fit(), UCS_OK);
    ck_assert_uint_le(limits.tx_depth + limits.rx_depth + MUCT_RDMA_CREDIT_RECEIVES,
                      64);
    ck_assert_uint_ge(limits.tx_depth, 2);
    ck_assert_uint_ge(limits.rx_depth, 1);
}
END_TEST

START_TEST(chain_is_at_most_half_the_queue)
{
    config.post_batch = 10000;
    ck_assert_int_eq(fit(), UCS_OK);
    ck_assert_uint_eq(limits.batch, 256);
    config.post_batch = 1;
    ck_assert_int_eq(fit(), UCS_OK);
    ck_assert_uint_eq(limits.batch, 1);
}
END_TEST

START_TEST(values_without_sense_are_refused)
{
    switch (_i) {
    case 0:
        config.num_qps = 0;
        break;
    case 1:
        config.num_qps = MUCT_RDMA_ADDR_MAX_QPS + 1;
        break;
    case 2:
        config.retry_count = 8;
        break;
    case 3:
        config.sl = 16;
        break;
    case 4:
        config.traffic_class = 256;
        break;
    case 5:
        config.seg_size = 100;
        break;
    case 6:
        config.post_batch = 0;
        break;
    case 7:
        config.hop_limit = 0;
        break;
    default:
        config.rx_depth = 0;
    }
    ck_assert_int_eq(fit(), UCS_ERR_INVALID_PARAM);
}
END_TEST

START_TEST(timeouts_have_the_next_larger_code)
{
    ck_assert_uint_eq(muct_rdma_qp_timeout_code(0), 1);
    ck_assert_uint_eq(muct_rdma_qp_timeout_code(0.067), 14);
    ck_assert_uint_eq(muct_rdma_qp_timeout_code(1.0), 18);
    ck_assert_uint_eq(muct_rdma_qp_timeout_code(1e9), 31);
    ck_assert_uint_eq(muct_rdma_qp_rnr_code(0), 1);
    ck_assert_uint_eq(muct_rdma_qp_rnr_code(0.0006), 12);
    ck_assert_uint_eq(muct_rdma_qp_rnr_code(0.001), 14);
    ck_assert_uint_eq(muct_rdma_qp_rnr_code(10), 0);
}
END_TEST

START_TEST(link_rates_are_those_of_the_standard)
{
    ck_assert_double_eq_tol(muct_rdma_link_bandwidth(32, 2), 12.5e9, 1);  /* EDR x4 */
    ck_assert_double_eq_tol(muct_rdma_link_bandwidth(128, 2), 50e9, 1);   /* NDR x4 */
    ck_assert_double_eq_tol(muct_rdma_link_bandwidth(256, 2), 100e9, 1);  /* XDR x4 */
    ck_assert_double_eq_tol(muct_rdma_link_bandwidth(32, 8), 37.5e9, 1);  /* EDR x12 */
    ck_assert_double_eq_tol(muct_rdma_link_bandwidth(64, 16), 12.5e9, 1); /* HDR x2 */
    ck_assert(muct_rdma_link_bandwidth(77, 99) > 0);
}
END_TEST

START_TEST(best_gid_is_routable_and_ipv4)
{
    union ibv_gid ipv4 = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}};
    union ibv_gid global = {.raw = {0x20, 0x01, [15] = 1}};
    union ibv_gid local = {.raw = {0xfe, 0x80, [15] = 1}};
    union ibv_gid none = {.raw = {0}};
    unsigned v1_ipv4 = muct_rdma_gid_score(&ipv4, MUCT_RDMA_LINK_ROCE_V1);
    unsigned v2_ipv4 = muct_rdma_gid_score(&ipv4, MUCT_RDMA_LINK_ROCE_V2);
    unsigned v2_global = muct_rdma_gid_score(&global, MUCT_RDMA_LINK_ROCE_V2);
    unsigned v2_local = muct_rdma_gid_score(&local, MUCT_RDMA_LINK_ROCE_V2);

    ck_assert_uint_gt(v2_ipv4, v2_global);
    ck_assert_uint_gt(v2_global, v2_local);
    ck_assert_uint_gt(v2_local, v1_ipv4);
    ck_assert_uint_eq(muct_rdma_gid_score(&none, MUCT_RDMA_LINK_ROCE_V2), 0);
}
END_TEST

START_TEST(lists_include_and_exclude)
{
    char *names[] = {(char *)"a", (char *)"b:2"};
    ucs_config_allow_list_t list = {.array = {names, 2, 0}};

    list.mode = UCS_CONFIG_ALLOW_LIST_ALLOW_ALL;
    ck_assert(muct_rdma_device_is_listed(&list, "c", 1));
    list.mode = UCS_CONFIG_ALLOW_LIST_ALLOW;
    ck_assert(muct_rdma_device_is_listed(&list, "a", 1));
    ck_assert(muct_rdma_device_is_listed(&list, "a", 2));
    ck_assert(!muct_rdma_device_is_listed(&list, "b", 1));
    ck_assert(muct_rdma_device_is_listed(&list, "b", 2));
    ck_assert(!muct_rdma_device_is_listed(&list, "c", 1));
    list.mode = UCS_CONFIG_ALLOW_LIST_NEGATE;
    ck_assert(!muct_rdma_device_is_listed(&list, "a", 1));
    ck_assert(muct_rdma_device_is_listed(&list, "b", 1));
    ck_assert(muct_rdma_device_is_listed(&list, "c", 1));
}
END_TEST

START_TEST(every_completion_status_has_a_meaning)
{
    ck_assert_int_eq(muct_rdma_wc_status(IBV_WC_SUCCESS), UCS_OK);
    ck_assert_int_eq(muct_rdma_wc_status(IBV_WC_RETRY_EXC_ERR),
                     UCS_ERR_ENDPOINT_TIMEOUT);
    ck_assert_int_eq(muct_rdma_wc_status(IBV_WC_REM_ACCESS_ERR),
                     UCS_ERR_CONNECTION_RESET);
    ck_assert_int_eq(muct_rdma_wc_status(IBV_WC_WR_FLUSH_ERR), UCS_ERR_CANCELED);
    ck_assert_int_eq(muct_rdma_wc_status(IBV_WC_LOC_PROT_ERR), UCS_ERR_IO_ERROR);
    ck_assert_int_eq(muct_rdma_wc_status((enum ibv_wc_status)_i) == UCS_OK,
                     _i == IBV_WC_SUCCESS);
    ck_assert_ptr_nonnull(muct_rdma_wc_hint((enum ibv_wc_status)_i));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdma limits");
    TCase *tcase = tcase_create("limits");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, what_is_left_to_us_follows_the_family_of_the_device, 0,
                        5);
    tcase_add_test(tcase, an_option_of_the_user_overrides_the_family);
    tcase_add_loop_test(tcase, bond_has_a_queue_pair_a_link, 0, 4);
    tcase_add_loop_test(tcase, kernel_without_shared_device_memory_is_detected, 0, 6);
    tcase_add_test(tcase, refused_registration_names_huge_pages);
    tcase_add_loop_test(tcase, way_to_gpu_memory_follows_device_kernel_and_release, 0,
                        8);
    tcase_add_loop_test(tcase, way_to_gpu_memory_may_be_forced, 0, 8);
    tcase_add_test(tcase, wishes_are_met_where_the_device_can);
    tcase_add_test(tcase, wishes_beyond_the_device_are_clamped);
    tcase_add_test(tcase, queue_pair_always_fits_a_completion_queue);
    tcase_add_test(tcase, chain_is_at_most_half_the_queue);
    tcase_add_loop_test(tcase, values_without_sense_are_refused, 0, 9);
    tcase_add_test(tcase, timeouts_have_the_next_larger_code);
    tcase_add_test(tcase, link_rates_are_those_of_the_standard);
    tcase_add_test(tcase, best_gid_is_routable_and_ipv4);
    tcase_add_test(tcase, lists_include_and_exclude);
    tcase_add_loop_test(tcase, every_completion_status_has_a_meaning, 0,
                        IBV_WC_TM_RNDV_INCOMPLETE + 1);
    suite_add_tcase(suite, tcase);

    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
