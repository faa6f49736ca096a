/* SPDX-License-Identifier: BSD-3-Clause */

/* What carries a pair of memory types is what UCX says of a call, whatever lanes exist.
 */

#include "src/peer/backend.h"

#include "test/support/mkv_pair.h"

#include <stdlib.h>
#include <string.h>

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

/* One put of host memory where mori_xgmi is connected, and UCX does not take it */
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
    ck_assert_uint_eq(fake_ucp_num_calls(calls), 1); /* the one that was asked */
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

static const struct {
    const char *name, *value, *expected;
} causes[] = {
    {"UCX_TLS", "tcp", "UCX_TLS=tcp leaves mori_xgmi and mori_rdma out"},
    {"UCX_PLUGIN_PATH", NULL, "UCX_PLUGIN_PATH is not set: mori_env"},
    {"UCX_PLUGIN_PATH", "/nowhere", "UCX_PLUGIN_PATH=/nowhere has no libuct_mori.so.0"},
};

/* GPU memory over sockets: one line, with the cause and what helps */
START_TEST(emulated_gpu_memory_is_one_warning_with_its_cause)
{
    mkv_xfer_t *active, *passive;
    mkv_plan_t *plan;

    warning[0] = '\0';
    unsetenv("UCX_TLS");
    unsetenv("UCX_PLUGIN_PATH");
    if (causes[_i].value != NULL) {
        setenv(causes[_i].name, causes[_i].value, 1);
    }
    fake_ucp_reset();
    fake_ucp_set_transport("tcp");
    fake_ucp_set_path(EMULATED);
    pair_open(0);
    A->ctx->log.sink = keep_warning;
    pair_open(1);
    pair_connect(0, 1);
    active = pair_bind_write(8, &passive);
    plan = pair_plan(A, 1, 0, 0, 8, 0);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_ptr_nonnull(strstr(warning, "rocm memory to rocm memory is slow: "));
    ck_assert_msg(strstr(warning, causes[_i].expected) != NULL, "%s", warning);
    pair_close(active, passive, plan);
    pair_teardown();
}
END_TEST

/* Words of UCX's, in which a transport is told with its device */
START_TEST(a_transport_is_named_where_its_device_follows)
{
    ck_assert_int_eq(mkv_backend_of_text("tcp/eth0"), MKV_BACKEND_TCP);
    ck_assert_int_eq(mkv_backend_of_text("zero-copy (tcp/eth0)"), MKV_BACKEND_TCP);
    ck_assert_int_eq(mkv_backend_of_text("xtcp/eth0, tcp/eth1"), MKV_BACKEND_TCP);
    ck_assert_int_eq(mkv_backend_of_text("xtcp/eth0"), MKV_BACKEND_UNKNOWN);
    ck_assert_int_eq(mkv_backend_of_text("copies by tcp are slow"),
                     MKV_BACKEND_UNKNOWN);
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
    tcase_add_test(tcase, a_transport_is_named_where_its_device_follows);
    return pair_main("mkv_path", tcase);
}
