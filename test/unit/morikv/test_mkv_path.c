/* SPDX-License-Identifier: BSD-3-Clause */

/* The path of a pair of memory types is the one that UCX reports for a call, whatever
 * lanes exist. */

#include "src/peer/backend.h"

#include "test/support/mkv_pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EMULATED "software emulation tcp/fake0"

static char warning[1024];

static void keep_warning(void *arg, mkv_log_level_t level, const char *text)
{
    (void)arg;
    if (level == MKV_LOG_WARN) {
        mkv_text(warning, sizeof(warning), "%s", text);
    }
}

static mkv_peer_attr_t peer_of_a(void)
{
    mkv_peer_attr_t attr = {.size = sizeof(attr)};

    OK(mkv_peer_query(A->peers[1], &attr));
    return attr;
}

/* Put host memory once. mori_xgmi is connected, but UCX does not use it */
static mkv_xfer_attr_t write_host_memory(unsigned num_blocks)
{
    mkv_xfer_t *active, *passive;
    mkv_xfer_attr_t attr;
    mkv_plan_t *plan;

    fake_ucp_reset();
    fake_ucp_set_path(EMULATED);
    pair_mem_type = UCS_MEMORY_TYPE_HOST;
    pair_open(0);
    A->ctx->log.sink = keep_warning;
    pair_open(1);
    pair_connect(0, 1);
    active = pair_bind_write(num_blocks, &passive);
    plan = pair_plan(A, 1, 0, 0, num_blocks, 0);
    (void)mkv_xfer_post(active, 0, plan, NULL, NULL);
    (void)mkv_xfer_seal(active, 0);
    pair_run();
    attr = pair_query(active);
    pair_close(active, passive, plan);
    return attr;
}

/* OB-02 */
START_TEST(host_memory_beside_an_xgmi_lane_is_not_told_as_xgmi)
{
    mkv_peer_attr_t attr;

    ck_assert_int_eq(write_host_memory(4).status, MKV_OK);
    attr = peer_of_a();
    ck_assert_int_eq(attr.backend, MKV_BACKEND_TCP);
    ck_assert_str_eq(attr.transports, "mori_xgmi/fake0");
    ck_assert_str_eq(attr.paths, "put host>host: tcp (" EMULATED ")");
    pair_teardown();
}
END_TEST

/* OB-03, TR-04 */
START_TEST(strict_mode_fails_what_another_class_carries)
{
    unsigned calls = FAKE_UCP_PUT | FAKE_UCP_LIST;
    mkv_xfer_attr_t attr;

    pair_set("BACKEND", "xgmi");
    pair_set("STRICT", "y");
    attr = write_host_memory(16);
    ck_assert_int_eq(attr.status, MKV_ERR_BACKEND);
    ck_assert_ptr_nonnull(strstr(attr.error, "backend xgmi wanted, but tcp carries a "
                                             "put of host memory to host memory: "));
    ck_assert_ptr_nonnull(strstr(attr.error, "; xgmi is for GPU memory on both sides"));
    ck_assert_uint_eq(fake_ucp_num_calls(calls), 1); /* the queried one */
    pair_teardown();
}
END_TEST

START_TEST(a_wanted_backend_that_does_not_carry_is_one_warning)
{
    pair_set("BACKEND", "xgmi");
    ck_assert_int_eq(write_host_memory(16).status, MKV_OK);
    ck_assert_ptr_nonnull(strstr(warning, "backend xgmi wanted, but tcp carries"));
    pair_teardown();
}
END_TEST

/* Loop index: calls complete within the call, so that UCX makes no request of its own
 */
/* OB-02 */
START_TEST(the_path_of_gpu_memory_is_asked_once)
{
    mkv_xfer_t *active, *passive;
    mkv_peer_attr_t attr;
    mkv_plan_t *plan;
    unsigned i;

    warning[0] = '\0';
    fake_ucp_reset();
    fake_ucp_set_inline(_i ? FAKE_UCP_PUT | FAKE_UCP_LIST : 0);
    pair_open(0);
    A->ctx->log.sink = keep_warning;
    pair_open(1);
    pair_connect(0, 1);
    for (i = 0; i < 2; ++i) {
        active = pair_bind_write(8, &passive); /* block i to 7 - i */
        plan = pair_plan(A, 1, 0, 0, 8, 0);
        OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
        OK(mkv_xfer_seal(active, 0));
        pair_run();
        ck_assert_int_eq(pair_query(active).status, MKV_OK);
        ck_assert(pair_holds(B, 3, 0, 4));
        pair_close(active, passive, plan);
    }
    attr = peer_of_a();
    ck_assert_int_eq(attr.backend, MKV_BACKEND_XGMI);
    ck_assert_str_eq(attr.paths,
                     "list put rocm>rocm: xgmi (zero-copy mori_xgmi/fake0)");
    ck_assert_str_eq(warning, "");
    pair_teardown();
}
END_TEST

/* Eight blocks of GPU memory, posted and sealed */
static mkv_xfer_attr_t write_gpu_memory(const char *words)
{
    mkv_xfer_t *active, *passive;
    mkv_xfer_attr_t attr;
    mkv_plan_t *plan;

    fake_ucp_set_path(words);
    pair_open(0);
    A->ctx->log.sink = keep_warning;
    pair_open(1);
    pair_connect(0, 1);
    active = pair_bind_write(8, &passive);
    plan = pair_plan(A, 1, 0, 0, 8, 0);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    attr = pair_query(active);
    pair_close(active, passive, plan);
    return attr;
}

/* Folder of modules for UCX in this case */
static char plugins[] = "/tmp/mkv_path.XXXXXX", module[64];

static void make_plugins(void)
{
    FILE *file;

    ck_assert_ptr_nonnull(mkdtemp(plugins));
    snprintf(module, sizeof(module), "%s/libuct_mori.so.0", plugins);
    file = fopen(module, "w");
    ck_assert_ptr_nonnull(file);
    fclose(file);
}

static void remove_plugins(void)
{
    (void)unlink(module);
    (void)rmdir(plugins);
    strcpy(plugins, "/tmp/mkv_path.XXXXXX");
}

static const struct {
    const char *transport, *name, *value, *expected;
} causes[] = {
    {"tcp", "UCX_TLS", "tcp", "; UCX_TLS=tcp leaves mori_xgmi and mori_rdma out"},
    {"tcp", "MORIKV_TLS", "tcp,self", "; TLS=tcp,self leaves mori_xgmi and mori_rdma"},
    {"tcp", "UCX_PLUGIN_PATH", NULL, "; UCX_PLUGIN_PATH is not set: mori_env"},
    {"tcp", "UCX_PLUGIN_PATH", "/nowhere",
     "; UCX_PLUGIN_PATH=/nowhere has no libuct_mori.so.0"},
    {"tcp", "UCX_PLUGIN_PATH", plugins,
     "; mori_doctor shows why mori's transports are missing"},
    {"mori_xgmi", "UCX_TLS", NULL, "; mori_doctor shows what mori's transports reach"},
};

/* GPU memory over sockets: one line, with the cause and the remedy */
/* OB-03 */
START_TEST(emulated_gpu_memory_is_one_warning_with_its_cause)
{
    warning[0] = '\0';
    unsetenv("UCX_TLS");
    unsetenv("UCX_PLUGIN_PATH");
    unsetenv("MORIKV_TLS");
    make_plugins();
    if (causes[_i].value != NULL) {
        setenv(causes[_i].name, causes[_i].value, 1);
    }
    fake_ucp_reset();
    fake_ucp_set_transport(causes[_i].transport);
    ck_assert_int_eq(write_gpu_memory(EMULATED).status, MKV_OK);
    ck_assert_ptr_nonnull(strstr(warning, "rocm memory to rocm memory is slow: "));
    ck_assert_msg(strstr(warning, causes[_i].expected) != NULL, "%s", warning);
    unsetenv("MORIKV_TLS"); /* an option of all that is opened */
    pair_teardown();
    remove_plugins();
}
END_TEST

/* Path in UCX's words. A list without a path is not logged, as pieces may still have
 * one */
START_TEST(no_way_is_told_and_is_no_path)
{
    mkv_peer_attr_t attr;

    warning[0] = '\0';
    fake_ucp_reset();
    (void)write_gpu_memory("stub protocol");
    attr = peer_of_a();
    ck_assert_str_eq(attr.paths, "");
    ck_assert_str_eq(warning, "");
    pair_teardown();

    fake_ucp_reset();
    fake_ucp_set_lists(0);
    (void)write_gpu_memory("stub protocol");
    attr = peer_of_a();
    ck_assert_str_eq(attr.paths, "");
    ck_assert_msg(strstr(warning, "UCX has no way for a put of rocm memory to rocm "
                                  "memory over [mori_xgmi/fake0]; ") != NULL,
                  "%s", warning);
    pair_teardown();
}
END_TEST

/* Query a peer: the attributes describe the other side */
START_TEST(a_peer_is_told_as_it_is)
{
    mkv_topology_t *topology;
    uint8_t blob[4096];
    size_t length = sizeof(blob);
    mkv_peer_attr_t attr;
    mkv_peer_t *peer;
    uint64_t epoch;

    fake_ucp_reset();
    pair_open(0);
    pair_open(1);
    topology = &B->ctx->params.topology;
    topology->tp_rank = 1;
    topology->tp_size = 4;
    pair_connect(0, 1);
    OK(mkv_regions_commit(B->ctx, &epoch));
    pair_run();
    attr = peer_of_a();
    ck_assert_int_eq(attr.state, MKV_PEER_READY);
    ck_assert_str_eq(attr.name, "B");
    ck_assert_uint_eq(attr.topology.tp_rank, 1);
    ck_assert_uint_eq(attr.topology.tp_size, 4);
    ck_assert_uint_gt(epoch, 0);
    ck_assert_uint_eq(attr.regions_epoch, epoch);
    ck_assert_int_eq(attr.is_same_host, 1);
    ck_assert_int_eq(attr.has_sgl_put, 1);

    OK(mkv_blob(B->ctx, MKV_BLOB_ADDR, blob, &length));
    OK(mkv_peer_add(A->ctx, blob, length, "decode", &peer)); /* it is there: a name */
    ck_assert_ptr_eq(peer, A->peers[1]);
    attr = peer_of_a();
    ck_assert_str_eq(attr.name, "decode");
    pair_teardown();
}
END_TEST

/* UCX's texts name a transport together with its device */
START_TEST(a_transport_is_named_where_its_device_follows)
{
    ck_assert_int_eq(mkv_backend_of_text("tcp/eth0"), MKV_BACKEND_TCP);
    ck_assert_int_eq(mkv_backend_of_text("zero-copy (tcp/eth0)"), MKV_BACKEND_TCP);
    ck_assert_int_eq(mkv_backend_of_text("xtcp/eth0, tcp/eth1"), MKV_BACKEND_TCP);
    ck_assert_int_eq(mkv_backend_of_text("xtcp/eth0"), MKV_BACKEND_UNKNOWN);
    ck_assert_int_eq(mkv_backend_of_text("copies by tcp are slow"),
                     MKV_BACKEND_UNKNOWN);
    ck_assert_int_eq(mkv_backend_of_text("zero-copy (mori_xgmi/xgmi)"),
                     MKV_BACKEND_XGMI);
}
END_TEST

/* Messages of mori_xgmi go through host memory. */
/* OB-02 */
START_TEST(messages_of_xgmi_are_told_as_shared_memory)
{
    ck_assert_int_eq(mkv_backend_of_text("software emulation mori_xgmi/xgmi"),
                     MKV_BACKEND_SHM);
    ck_assert_int_eq(mkv_backend_of_text("software emulation mori_rdma/bnxt_re0:1"),
                     MKV_BACKEND_RDMA);
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("path");

    tcase_add_test(tcase, host_memory_beside_an_xgmi_lane_is_not_told_as_xgmi);
    tcase_add_test(tcase, strict_mode_fails_what_another_class_carries);
    tcase_add_test(tcase, a_wanted_backend_that_does_not_carry_is_one_warning);
    tcase_add_loop_test(tcase, the_path_of_gpu_memory_is_asked_once, 0, 2);
    tcase_add_loop_test(tcase, emulated_gpu_memory_is_one_warning_with_its_cause, 0,
                        sizeof(causes) / sizeof(causes[0]));
    tcase_add_test(tcase, no_way_is_told_and_is_no_path);
    tcase_add_test(tcase, a_peer_is_told_as_it_is);
    tcase_add_test(tcase, a_transport_is_named_where_its_device_follows);
    tcase_add_test(tcase, messages_of_xgmi_are_told_as_shared_memory);
    return pair_main("mkv_path", tcase);
}
