/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Faults under an unmodified UCX: whatever happens to the peer, to its memory, to
 * the bytes of a key or to the GPU runtime, the client gets an error with a text, or
 * the right bytes; it does not crash, hang, or accept wrong bytes.
 */

#include "test/integration/ucp/it_run.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IT_TLS "mori_xgmi,tcp"

/* mori_copy gives GPU memory a second path when mori_xgmi has none. */
#define IT_COPY_TLS "mori_xgmi,mori_copy,tcp"
#define IT_START "mem=rocm alloc=8388608 connect unpack "

/* GPU memory here and private host memory there, which the kernel copies */
#define IT_PRIVATE "mem=rocm alloc=8388608,host connect unpack "


/* The client went through its actions: not killed, no wrong byte, no hang. */
static void it_expect_survived(const it_pair_t *pair)
{
    it_expect(&pair->client, "client done");
    it_expect_status(&pair->client, 0);
    it_expect_no(&pair->client, "WRONG");
    it_expect_no(&pair->client, "hang:");
    it_expect_no(&pair->client, "AddressSanitizer");
}

static const struct {
    const char *name;
    const char *actions;
    const char *expected; /* a line the client must print */
} it_deaths[] = {
    /* Stopped first, not killed: UCX's tcp does not always survive a refused
     * connection. */
    {"connecting", "mem=rocm alloc=8388608 kill=19 connect unpack kill=9 fail close",
     "error fail: "},
    {"before_unpack", "mem=rocm alloc=8388608 connect kill=9 unpack fail close",
     "error fail: "},
    {"idle", IT_START "put=8 kill=9 fail close", "error fail: "},
    {"idle_after_get", IT_START "put=100000 get=100000 kill=9 fail close",
     "error fail: "},
    {"operations_in_flight", IT_START "put=8 post=1000000,50 kill=9 drain fail close",
     "error fail: "},
    {"many_small_in_flight", IT_START "put=8 post=64,3000 kill=9 drain fail close",
     "error fail: "},
    {"during_flush", IT_START "put=8 post=1000000,20 flush kill=9 drain fail close",
     "error fail: "},
    {"close_without_looking", IT_START "put=8 post=1000000,20 kill=9 close", "drain "},
    {"private_idle", IT_PRIVATE "put=8 get=8 kill=9 fail close", "error fail: "},
    {"private_in_flight", IT_PRIVATE "put=8 post=1000000,50 kill=9 drain fail close",
     "error fail: "},
    {"private_during_flush",
     IT_PRIVATE "put=8 post=64,3000 flush kill=9 drain fail close", "error fail: "},
    {"private_without_looking", IT_PRIVATE "put=8 post=1000000,20 kill=9 close",
     "drain "},
};

START_TEST(death_of_the_peer_is_an_error)
{
    it_pair_t pair = it_run_app(IT_TLS, NULL, NULL, it_deaths[_i].actions);

    it_expect_survived(&pair);
    it_expect(&pair.client, it_deaths[_i].expected);
    it_expect_status(&pair.server, 128 + SIGKILL);
    it_pair_free(&pair);
    mkv_test_pass("death_of_the_peer_is_an_error", "%s", it_deaths[_i].name);
}
END_TEST

static const struct {
    const char *name;
    const char *actions;
} it_stops[] = {
    {"idle", IT_START "put=8 kill=19 kill=18 put=100000 get=100000 close"},
    {"operations_in_flight", IT_START
     "put=8 post=1000000,20 kill=19 post=5000,20 kill=18 drain put=4096 close"},
    {"during_flush", IT_START "put=8 kill=19 post=1000000,20 flush kill=18 drain get=8 "
                              "close"},
    {"stopped_then_killed", IT_START "put=8 kill=19 post=1000000,20 kill=9 drain fail "
                                     "close"},
    {"private_in_flight", IT_PRIVATE
     "put=8 post=1000000,20 kill=19 post=5000,20 kill=18 drain put=4096 close"},
};

START_TEST(stop_of_the_peer_delays_at_most)
{
    it_pair_t pair = it_run_app(IT_TLS, NULL, NULL, it_stops[_i].actions);
    int is_killed = strstr(it_stops[_i].actions, "kill=9") != NULL;

    it_expect_survived(&pair);
    if (!is_killed) {
        it_expect_no(&pair.client, "error ");
        it_expect_status(&pair.server, 0);
    }
    it_pair_free(&pair);
    mkv_test_pass("stop_of_the_peer_delays_at_most", "%s", it_stops[_i].name);
}
END_TEST

/* A close by force while copies run, of the only connection: UCX then stops progressing
 * the lane, and all started operations must complete nevertheless. */
START_TEST(connection_that_is_cut_gives_all_back)
{
    static const char *const env[] = {"HIPCPU_DELAY=20000", NULL};
    it_pair_t pair =
        it_run_app(IT_TLS, NULL, env,
                   (_i == 0) ? IT_START "put=8 post=1000000,20 cut drain"
                             : IT_PRIVATE "put=8 post=1000000,20 cut drain");

    it_expect_survived(&pair);
    it_expect(&pair.client, "post 20 in progress");
    it_expect(&pair.client, "close ok");
    it_expect(&pair.client, "drain ");
    it_expect_status(&pair.server, 0);
    it_pair_free(&pair);
    mkv_test_pass("connection_that_is_cut_gives_all_back", "%s", IT_TLS);
}
END_TEST

/* The server frees what the client has mapped; then a new exchange must be right. */
static const char *const it_frees[] = {
    IT_START "put=8 free=properly try=100000 close",
    IT_START "put=8 free=first try=100000 close",
    IT_START "free=properly try=100000 close",
    IT_START "put=8 post=1000000,20 free=properly drain close",
    IT_START
    "put=8 free=properly try=8 alloc=8388608 unpack put=100000 get=100000 close",
    IT_PRIVATE "put=8 free=properly try=100000 close",
    IT_PRIVATE "put=8 free=first try=100000 close",
    IT_PRIVATE "put=8 post=1000000,20 free=properly drain close",
};

START_TEST(memory_freed_by_its_owner_is_an_error_or_harmless)
{
    static const char *const env[] = {"HIPCPU_RULES=late-end", NULL};
    it_pair_t pair = it_run_app(IT_TLS, NULL, env, it_frees[_i]);

    it_expect_survived(&pair);
    it_expect_status(&pair.server, 0);
    if (strstr(it_frees[_i], "get=100000") != NULL) {
        it_expect(&pair.client, "get 1 x 100000 ok");
    }
    it_pair_free(&pair);
    mkv_test_pass("memory_freed_by_its_owner_is_an_error_or_harmless", "%s",
                  it_frees[_i]);
}
END_TEST

/* UCP's part of a packed key comes first, and UCP trusts it. The test therefore changes
 * bytes of our part, at the end. */
#define IT_UCP_KEY_HEAD 32
/* UCP appends the system device and the distance of the memory, and does not check
 * them. */
#define IT_UCP_KEY_TAIL 5

static size_t it_key_length(void)
{
    it_pair_t pair = it_run_app(IT_TLS, NULL, NULL, "mem=rocm alloc=8388608");
    const char *text = strstr(pair.client.output, " key ");
    size_t length = (text != NULL) ? strtoull(text + 5, NULL, 10) : 0;

    it_pair_free(&pair);
    return length;
}

START_TEST(changed_key_is_an_error)
{
    size_t length = it_key_length(), i, num = 0;
    char actions[256];
    it_pair_t pair;

    ck_assert_uint_gt(length, IT_UCP_KEY_HEAD);
    for (i = IT_UCP_KEY_HEAD; i + IT_UCP_KEY_TAIL < length; i += 13) {
        snprintf(actions, sizeof(actions),
                 "mem=rocm alloc=8388608 connect key=%s,%zu try=8 try=100000 close",
                 (num & 1) ? "flip" : "cut", (num & 1) ? i : length - i);
        pair = it_run_app(IT_TLS, NULL, NULL, actions);
        it_expect_survived(&pair);
        it_expect(&pair.client, "error ");
        it_expect_no(&pair.client, "try 8 ok");
        it_pair_free(&pair);
        ++num;
    }

    mkv_test_pass("changed_key_is_an_error", "%zu changes of %zu bytes", num, length);
}
END_TEST

/* ---- a GPU runtime that fails ---- */

static const char *const it_hip_functions[] = {
    "hipGetDeviceCount",
    "hipRuntimeGetVersion",
    "hipSetDevice",
    "hipGetDevice",
    "hipPointerGetAttributes",
    "hipMemGetAddressRange",
    "hipIpcGetMemHandle",
    "hipIpcOpenMemHandle",
    "hipFree", /* closes memory of the peer */
    "hipStreamCreateWithPriority",
    "hipEventCreateWithFlags",
    "hipEventRecord",
    "hipEventQuery",
    "hipStreamQuery",
    "hipMemcpyAsync",
    "hipModuleLoadData",
    "hipModuleGetFunction",
    "hipModuleLaunchKernel",
    "hipHostMalloc",
    "hipHostRegister",
    "hipHostGetDevicePointer",
    "hipStreamAddCallback",
    "hipDeviceGetPCIBusId",
    "hipDeviceCanAccessPeer",
    "hipDeviceEnablePeerAccess",
};

static const char *const it_hip_when[] = {"1", "2", "5", "0"};

/* The fault may be on either side, and the actions take all paths: one, few, many,
 * large. Returns how many actions ended in an error. */
static unsigned it_run_hip_fault(const char *function, const char *when, int in_both)
{
    char text[128];
    const char *env[] = {text, NULL};
    unsigned num_errors;
    it_pair_t pair;

    snprintf(text, sizeof(text), "HIPCPU_FAIL=%s:%s:999", function, when);
    pair = it_run_app(IT_COPY_TLS, in_both ? env : NULL, in_both ? NULL : env,
                      IT_START "put=8 put=4096,20 get=4096,20 put=4000000 get=8 close");
    it_expect_no(&pair.client, "WRONG");
    if ((pair.client.status < 0) || (pair.client.status > 2) ||
        ((pair.client.status > 0) && (strstr(pair.client.output, "error ") == NULL))) {
        it_show(&pair.client);
        ck_abort_msg("%s: the client ended with %d", text, pair.client.status);
    }
    if ((pair.server.status < 0) || (pair.server.status > 2)) {
        it_show(&pair.server);
        ck_abort_msg("%s: the server ended with %d", text, pair.server.status);
    }

    num_errors = it_count(&pair.client, "\nerror ");
    it_pair_free(&pair);
    return num_errors;
}

/* XP-04 */
START_TEST(failing_hip_call_is_an_error)
{
    const char *function = it_hip_functions[_i];
    size_t num = (getenv("MKV_TEST_FEWER") != NULL)
                     ? 1
                     : sizeof(it_hip_when) / sizeof(it_hip_when[0]);
    unsigned num_errors = 0;
    size_t i;

    for (i = 0; i < num; ++i) {
        num_errors += it_run_hip_fault(function, it_hip_when[i], 0);
    }
    num_errors += it_run_hip_fault(function, "1", 1);
    mkv_test_pass("failing_hip_call_is_an_error", "%s: %zu runs, %u errors", function,
                  num + 1, num_errors);
}
END_TEST

/* Memory of a peer does not open: this is logged once, and another lane carries the
 * bytes. */
START_TEST(memory_that_does_not_open_goes_another_way)
{
    static const char *const env[] = {"HIPCPU_FAIL=hipIpcOpenMemHandle:0:17",
                                      "UCX_MORI_XGMI_OPEN_TIMEOUT=30s",
                                      "UCX_LOG_LEVEL=warn", NULL};
    it_pair_t pair = it_run_app(IT_COPY_TLS, env, env,
                                "mem=rocm alloc=8388608 connect unpack put=100000 "
                                "put=4096,20 get=4096,20 put=4000000 close");

    it_expect_survived(&pair);
    it_expect(&pair.client, "put 20 x 4096 ok");
    it_expect(&pair.client, "get 20 x 4096 ok");
    ck_assert_uint_eq(it_count(&pair.client, "has no way to the memory of peer"), 1);
    it_expect(&pair.client, "--network=host");
    it_pair_free(&pair);
    mkv_test_pass("memory_that_does_not_open_goes_another_way",
                  "over mori_copy and tcp");
}
END_TEST

/* UCP packs with short copies, and ends the process when one fails. A device that gives
 * no stream, or whose current device cannot be queried, must still copy. */
START_TEST(short_copy_needs_no_queue)
{
    static const char *const calls[] = {"hipGetDevice", "hipStreamCreateWithPriority",
                                        "hipHostMalloc"};
    char text[128];
    const char *env[] = {text, NULL};
    it_pair_t pair;

    snprintf(text, sizeof(text), "HIPCPU_FAIL=%s:0:999", calls[_i]);
    pair = it_run_app("mori_copy,tcp", env, env,
                      "mem=rocm alloc=8388608 connect unpack try=8 put=8 close");
    it_expect_survived(&pair);
    it_expect(&pair.client, "put 1 x 8 ok");
    it_pair_free(&pair);
    mkv_test_pass("short_copy_needs_no_queue", "without %s", calls[_i]);
}
END_TEST

/* The faults reach the lane: without this call device memory has no way. */
START_TEST(lane_without_its_calls_is_reported)
{
    ck_assert_uint_ge(it_run_hip_fault("hipMemcpyAsync", "0", 0), 1);
    mkv_test_pass("lane_without_its_calls_is_reported", "copying always fails");
}
END_TEST

/* Host memory needs no GPU: without a runtime it goes another way. */
START_TEST(missing_hip_library_leaves_other_lanes)
{
    static const char *const env[] = {"UCX_MORI_HIP_LIB=libdoes_not_exist.so",
                                      "UCX_LOG_LEVEL=error", NULL};
    it_pair_t pair = it_run_app(IT_TLS, env, NULL,
                                "mem=host alloc=1048576 connect unpack put=100000 "
                                "get=100000 close");

    it_expect_survived(&pair);
    it_expect(&pair.client, "get 1 x 100000 ok");
    it_pair_free(&pair);
    mkv_test_pass("missing_hip_library_leaves_other_lanes", "host memory over tcp");
}
END_TEST

/* The runtime is present on one end and missing on the other. */
/* TR-03 */
START_TEST(hip_library_on_one_side_only_is_harmless)
{
    static const char *const env[] = {"UCX_MORI_HIP_LIB=libdoes_not_exist.so",
                                      "UCX_LOG_LEVEL=error", NULL};
    it_pair_t pair = it_run_app(IT_TLS, NULL, env,
                                "mem=host alloc=1048576 connect unpack put=100000 "
                                "get=100000 close");

    it_expect_survived(&pair);
    it_expect(&pair.client, "get 1 x 100000 ok");
    it_pair_free(&pair);
    mkv_test_pass("hip_library_on_one_side_only_is_harmless", "host memory");
}
END_TEST

#define IT_COUNT(_array) ((int)(sizeof(_array) / sizeof((_array)[0])))

int main(void)
{
    int status = it_begin("mori_xgmi", "faults"), num_failed = 0;
    Suite *suite;
    TCase *tcase;

    if (status >= 0) {
        return status;
    }

    suite = suite_create("faults");
    tcase = tcase_create("faults");
    tcase_set_timeout(tcase, 10.0 * mkv_test_limit_ms() / 1000);
    tcase_add_loop_test(tcase, death_of_the_peer_is_an_error, 0, IT_COUNT(it_deaths));
    tcase_add_loop_test(tcase, stop_of_the_peer_delays_at_most, 0, IT_COUNT(it_stops));
    tcase_add_loop_test(tcase, memory_freed_by_its_owner_is_an_error_or_harmless, 0,
                        IT_COUNT(it_frees));
    tcase_add_test(tcase, changed_key_is_an_error);
    if (getenv("MKV_TEST_REAL_HIP") == NULL) {
        tcase_add_loop_test(tcase, connection_that_is_cut_gives_all_back, 0, 2);
        tcase_add_loop_test(tcase, failing_hip_call_is_an_error, 0,
                            IT_COUNT(it_hip_functions));
        tcase_add_test(tcase, memory_that_does_not_open_goes_another_way);
        tcase_add_loop_test(tcase, short_copy_needs_no_queue, 0, 3);
        tcase_add_test(tcase, lane_without_its_calls_is_reported);
    } else {
        num_failed += mkv_test_skip("hip", "failing_hip_call_is_an_error",
                                    "a real runtime does not fail on demand");
    }
    tcase_add_test(tcase, missing_hip_library_leaves_other_lanes);
    tcase_add_test(tcase, hip_library_on_one_side_only_is_harmless);
    suite_add_tcase(suite, tcase);
    return it_end(suite, num_failed);
}
