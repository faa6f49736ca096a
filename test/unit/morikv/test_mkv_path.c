/* SPDX-License-Identifier: BSD-3-Clause */

/* The path of a pair of memory types is the one that UCX reports for a call, whatever
 * lanes exist. */

#include "src/peer/backend.h"
#include "src/peer/path.h"

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
START_TEST(host_memory_beside_an_xgmi_lane_is_not_reported_as_xgmi)
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
START_TEST(the_path_of_gpu_memory_is_queried_once)
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

static int foreign_pids; /* B is in another pid namespace */

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
    B->ctx->process.spaces.pids += (uint64_t)foreign_pids;
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
    mkv_slow_t slow;
    const char *transport, *name, *value, *expected;
} causes[] = {
    {MKV_SLOW_TLS, "tcp", "UCX_TLS", "tcp",
     "; UCX_TLS=tcp leaves mori_xgmi and mori_rdma out"},
    {MKV_SLOW_TLS, "tcp", "MORIKV_TLS", "tcp,self",
     "; TLS=tcp,self leaves mori_xgmi and mori_rdma"},
    {MKV_SLOW_MODULE, "tcp", "UCX_PLUGIN_PATH", NULL,
     "; UCX_PLUGIN_PATH is not set: mori_env"},
    {MKV_SLOW_MODULE, "tcp", "UCX_PLUGIN_PATH", "/nowhere:/nor/here",
     "; UCX_PLUGIN_PATH=/nowhere:/nor/here has no libuct_mori.so.0"},
    {MKV_SLOW_OTHER, "tcp", "UCX_PLUGIN_PATH", plugins,
     "; mori_doctor shows why mori's transports are missing"},
    {MKV_SLOW_OTHER, "mori_xgmi", "UCX_TLS", NULL,
     "; mori_doctor shows what mori's transports reach"},
};

/* GPU memory over sockets: one line, with the cause and the remedy */
/* OB-03 */
START_TEST(emulated_gpu_memory_is_one_warning_with_its_cause)
{
    mkv_peer_attr_t attr;

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
    attr = peer_of_a();
    ck_assert_int_eq(attr.slow, causes[_i].slow);
    ck_assert_msg((attr.slow_text[0] != '\0') &&
                      (strstr(warning, attr.slow_text) != NULL),
                  "%s", attr.slow_text);
    unsetenv("MORIKV_TLS"); /* an option of all that is opened */
    pair_teardown();
    remove_plugins();
}
END_TEST

static const struct {
    mkv_spaces_t spaces;
    uint32_t pid;
    mkv_slow_t slow;
    const char *expected;
} apart[] = {
    {{.shm = 1, .network = 2, .pids = 3, .user = 4}, 7, MKV_SLOW_NO, ""},
    {{.shm = 1, .network = 2, .pids = 9, .user = 4}, 8, MKV_SLOW_NO, ""},
    {{0}, 7, MKV_SLOW_NO, ""}, /* of a library that sends no spaces */
    {{.shm = 9, .network = 2, .pids = 3, .user = 4}, 8, MKV_SLOW_SHM, "/dev/shm"},
    {{.shm = 1, .network = 2, .pids = 3, .user = 9},
     8,
     MKV_SLOW_USER,
     "user 8 and this process as user 3"},
    {{.shm = 1, .network = 2, .pids = 9, .user = 4},
     7,
     MKV_SLOW_PID,
     "the same pid 7 in another pid namespace"},
    {{.shm = 1, .network = 9, .pids = 3, .user = 4},
     8,
     MKV_SLOW_NETWORK,
     "--network=host"},
};

START_TEST(what_two_containers_do_not_share_is_the_reason)
{
    const mkv_process_t self = {
        .pid = 7, .spaces = {.shm = 1, .network = 2, .pids = 3, .user = 4}};
    const mkv_process_t process = {.pid = apart[_i].pid, .spaces = apart[_i].spaces};
    char text[MKV_SLOW_TEXT_SIZE] = "";

    ck_assert_int_eq(mkv_process_apart(&self, &process, text, sizeof(text)),
                     apart[_i].slow);
    ck_assert_msg(strstr(text, apart[_i].expected) != NULL, "%s", text);
    ck_assert_int_eq(text[0] == '\0', apart[_i].slow == MKV_SLOW_NO);
}
END_TEST

/* A peer of this host in another pid namespace: the warning and the query contain the
 * reason. */
START_TEST(a_peer_of_the_same_pid_is_a_warning_with_the_reason)
{
    mkv_peer_attr_t attr;

    warning[0] = '\0';
    unsetenv("UCX_TLS");
    make_plugins();
    setenv("UCX_PLUGIN_PATH", plugins, 1);
    fake_ucp_reset();
    fake_ucp_set_transport("tcp");
    foreign_pids = 1;
    ck_assert_int_eq(write_gpu_memory(EMULATED).status, MKV_OK);
    foreign_pids = 0;
    ck_assert_msg(strstr(warning, "in another pid namespace") != NULL, "%s", warning);
    attr = peer_of_a();
    ck_assert_int_eq(attr.slow, MKV_SLOW_PID);
    pair_teardown();
    remove_plugins();
}
END_TEST

/* Path in UCX's words. A list without a path is not logged, as pieces may still have
 * one */
START_TEST(a_missing_path_is_logged_and_is_no_path)
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
START_TEST(a_peer_query_describes_the_other_side)
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

/* UCX's texts contain a transport together with its device */
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
START_TEST(messages_of_xgmi_are_reported_as_shared_memory)
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

    tcase_add_test(tcase, host_memory_beside_an_xgmi_lane_is_not_reported_as_xgmi);
    tcase_add_test(tcase, strict_mode_fails_what_another_class_carries);
    tcase_add_test(tcase, a_wanted_backend_that_does_not_carry_is_one_warning);
    tcase_add_loop_test(tcase, the_path_of_gpu_memory_is_queried_once, 0, 2);
    tcase_add_loop_test(tcase, emulated_gpu_memory_is_one_warning_with_its_cause, 0,
                        sizeof(causes) / sizeof(causes[0]));
    tcase_add_loop_test(tcase, what_two_containers_do_not_share_is_the_reason, 0,
                        sizeof(apart) / sizeof(apart[0]));
    tcase_add_test(tcase, a_peer_of_the_same_pid_is_a_warning_with_the_reason);
    tcase_add_test(tcase, a_missing_path_is_logged_and_is_no_path);
    tcase_add_test(tcase, a_peer_query_describes_the_other_side);
    tcase_add_test(tcase, a_transport_is_named_where_its_device_follows);
    tcase_add_test(tcase, messages_of_xgmi_are_reported_as_shared_memory);
    return pair_main("mkv_path", tcase);
}
