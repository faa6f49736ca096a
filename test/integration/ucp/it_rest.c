/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A worker sleeps while peers send, close and are killed, in many orders (ucp_rest).
 * It comes to rest after each: no transport's descriptor stays readable.
 */

#include "test/integration/ucp/it_run.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IT_EVERY "15" /* in CI; nightly each order */

/* mori_rdma gives a dead peer up soon. */
static const char *const it_hasty[] = {
    "UCX_MORI_RDMA_TIMEOUT=5ms", "UCX_MORI_RDMA_RETRY_COUNT=3",
    "UCX_MORI_RDMA_RECOVERY_TIMEOUT=300ms", "REST_PEER_ENV=UCX_NET_DEVICES=fake1:1,lo",
    NULL};

static const char *const it_tls[] = {"mori_xgmi,mori_copy,self",
                                     "mori_rdma,mori_copy,tcp", "mori_copy,tcp"};

START_TEST(sleeper_rests_behind_each_order_of_ends)
{
    static char program[PATH_MAX], wire[64];
    const bool is_full =
        (getenv("MKV_TEST_NIGHTLY") != NULL) && (getenv("MKV_TEST_FEWER") == NULL);
    const char *argv[] = {program, is_full ? "1" : IT_EVERY, NULL};
    it_result_t result;

    if ((strstr(it_tls[_i], "mori_rdma") != NULL) && !it_has_transport("mori_rdma")) {
        mkv_test_skip("rdma", "it_rest", "UCX lists no mori_rdma here");
        return;
    }

    snprintf(program, sizeof(program), "%s",
             it_build_path("test/integration/ucp/ucp_rest"));
    snprintf(wire, sizeof(wire), "/tmp/it_rest.%d", (int)getpid());
    setenv("FAKE_VERBS_WIRE", wire, 1);
    setenv("UCX_TLS", it_tls[_i], 1);
    setenv("UCX_NET_DEVICES", "fake0:1,lo", 1);
    result = it_run(argv, it_hasty);
    unlink(wire);
    it_expect_status(&result, 0);
    it_expect(&result, "rests");
    it_result_free(&result);
    mkv_test_pass("sleeper_rests_behind_each_order_of_ends", "%s", it_tls[_i]);
}
END_TEST

int main(void)
{
    int status;
    Suite *suite;
    TCase *tcase;

    it_use_libraries("test/fake/verbs/.libs");
    setenv("FAKE_VERBS_DEVICES", "fake0:ionic,fake1:ionic", 1);
    status = it_begin("mori_xgmi", "rest");
    if (status >= 0) {
        return status;
    }

    suite = suite_create("rest");
    tcase = tcase_create("rest");
    tcase_set_timeout(tcase, mkv_test_limit_ms() / 1000.0);
    tcase_add_loop_test(tcase, sleeper_rests_behind_each_order_of_ends, 0,
                        (int)(sizeof(it_tls) / sizeof(it_tls[0])));
    suite_add_tcase(suite, tcase);
    return it_end(suite, 0);
}
