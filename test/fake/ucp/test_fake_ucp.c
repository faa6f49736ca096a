/* SPDX-License-Identifier: BSD-3-Clause */

/* Promises of the fake UCP: order, visibility, faults, and its texts. */

#include "test/fake/ucp/fake_ucp.h"
#include "test/support/mkv_check.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 64 };

static ucp_context_h context;
static ucp_worker_h workers[2];
static ucp_ep_h ep; /* from the first to the second */
static ucp_mem_h memhs[2];
static ucp_rkey_h rkey;
static uint8_t memory[2][BYTES];
static unsigned num_done, num_failures, num_messages;
static ucs_status_t last_status;
static char last_header[8];
static uint64_t last_attr;


static void on_failure(void *arg, ucp_ep_h failed, ucs_status_t status)
{
    (void)arg;
    (void)failed;
    (void)status;
    ++num_failures;
}

static void on_done(void *request, ucs_status_t status, void *arg)
{
    (void)arg;
    ++num_done;
    last_status = status;
    ucp_request_free(request);
}

static ucs_status_t on_message(void *arg, const void *header, size_t header_length,
                               void *data, size_t length,
                               const ucp_am_recv_param_t *param)
{
    (void)arg;
    ck_assert_uint_lt(header_length, sizeof(last_header));
    memset(last_header, 0, sizeof(last_header));
    if (header_length > 0) {
        memcpy(last_header, header, header_length);
    }
    last_attr = param->recv_attr;
    ck_assert_uint_eq(length, 3);
    ck_assert_mem_eq(data, "abc", 3);
    ++num_messages;
    return UCS_OK;
}

static void open_worker(unsigned i)
{
    const ucp_worker_params_t params = {0};
    const ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
        .id = 1,
        .cb = on_message};
    const ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                    UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                    UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
                                      .address = memory[i],
                                      .length = BYTES};

    ck_assert_int_eq(ucp_worker_create(context, &params, &workers[i]), UCS_OK);
    ck_assert_int_eq(ucp_worker_set_am_recv_handler(workers[i], &handler), UCS_OK);
    ck_assert_int_eq(ucp_mem_map(context, &map, &memhs[i]), UCS_OK);
}

static void setup(void)
{
    const ucp_params_t params = {0};
    ucp_ep_params_t ep_params = {.err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                 .err_handler.cb = on_failure};
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
    void *key;
    size_t length;

    fake_ucp_reset();
    memset(memory[0], 7, BYTES);
    memset(memory[1], 0, BYTES);
    ck_assert_int_eq(ucp_init(&params, NULL, &context), UCS_OK);
    open_worker(0);
    open_worker(1);
    ck_assert_int_eq(ucp_worker_query(workers[1], &attr), UCS_OK);
    ep_params.address = attr.address;
    ck_assert_int_eq(ucp_ep_create(workers[0], &ep_params, &ep), UCS_OK);
    ucp_worker_release_address(workers[1], attr.address);
    ck_assert_int_eq(ucp_rkey_pack(context, memhs[1], &key, &length), UCS_OK);
    ck_assert_int_eq(ucp_ep_rkey_unpack(ep, key, &rkey), UCS_OK);
    ucp_rkey_buffer_release(key);
}

static ucp_request_param_t with_callback(void)
{
    return (ucp_request_param_t){.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_MEMH,
                                 .cb.send = on_done,
                                 .memh = memhs[0]};
}

static void put(size_t length)
{
    const ucp_request_param_t param = with_callback();

    ck_assert(!UCS_PTR_IS_ERR(
        ucp_put_nbx(ep, memory[0], length, (uintptr_t)memory[1], rkey, &param)));
}

static void flush(void)
{
    const ucp_request_param_t param = with_callback();

    ck_assert(!UCS_PTR_IS_ERR(ucp_ep_flush_nbx(ep, &param)));
}

static void progress(void)
{
    unsigned i;

    for (i = 0; i < 8; ++i) {
        ucp_worker_progress(workers[0]);
        ucp_worker_progress(workers[1]);
    }
}

static void teardown(void)
{
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};
    unsigned i;

    fake_ucp_hold(0);
    progress();
    fake_ucp_set_inline(FAKE_UCP_ALL);
    ck_assert_ptr_null(ucp_ep_close_nbx(ep, &force));
    ucp_rkey_destroy(rkey);
    for (i = 0; i < 2; ++i) {
        ck_assert_int_eq(ucp_mem_unmap(context, memhs[i]), UCS_OK);
        ucp_worker_destroy(workers[i]);
    }
    ucp_cleanup(context);
    fake_ucp_reset();
    num_done = num_failures = num_messages = 0;
}

START_TEST(a_put_is_seen_when_it_completes)
{
    fake_ucp_hold(FAKE_UCP_PUT);
    put(BYTES);
    progress();
    ck_assert_uint_eq(num_done, 0);
    ck_assert_uint_eq(memory[1][0], 0);
    fake_ucp_hold(0);
    progress();
    ck_assert_uint_eq(num_done, 1);
    ck_assert_mem_eq(memory[0], memory[1], BYTES);
}
END_TEST

START_TEST(a_flush_waits_for_what_came_before_it)
{
    fake_ucp_hold(FAKE_UCP_PUT);
    put(BYTES);
    flush();
    progress();
    ck_assert_uint_eq(num_done, 0);
    fake_ucp_hold(0);
    progress();
    ck_assert_uint_eq(num_done, 2);
}
END_TEST

START_TEST(a_message_comes_with_the_receivers_progress)
{
    const ucp_request_param_t param = with_callback();
    unsigned i;

    ck_assert(!UCS_PTR_IS_ERR(ucp_am_send_nbx(ep, 1, NULL, 0, "abc", 3, &param)));
    for (i = 0; i < 8; ++i) {
        ucp_worker_progress(workers[0]);
    }
    ck_assert_uint_eq(num_messages, 0);
    progress();
    ck_assert_uint_eq(num_messages, 1);
}
END_TEST

START_TEST(a_message_comes_as_it_was_sent)
{
    ucp_request_param_t param = with_callback();

    ck_assert(!UCS_PTR_IS_ERR(ucp_am_send_nbx(ep, 1, "head", 4, "abc", 3, &param)));
    progress();
    ck_assert_str_eq(last_header, "head");
    ck_assert_uint_eq(last_attr, 0);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_RNDV;
    ck_assert(!UCS_PTR_IS_ERR(ucp_am_send_nbx(ep, 1, NULL, 0, "abc", 3, &param)));
    progress();
    ck_assert_str_eq(last_header, "");
    ck_assert_uint_eq(last_attr, UCP_AM_RECV_ATTR_FLAG_RNDV);
}
END_TEST

START_TEST(the_message_that_was_named_is_lost_or_comes_twice)
{
    const ucp_request_param_t param = with_callback();
    unsigned i;

    fake_ucp_lose_message(2);
    fake_ucp_double_message(3);
    for (i = 0; i < 4; ++i) {
        ck_assert(!UCS_PTR_IS_ERR(ucp_am_send_nbx(ep, 1, NULL, 0, "abc", 3, &param)));
        progress();
        ck_assert_uint_eq(num_messages, (i < 2) ? 1 : i + 1);
    }
    ck_assert_uint_eq(num_done, 4);
}
END_TEST


START_TEST(the_put_that_was_named_fails_and_no_other)
{
    fake_ucp_fail(FAKE_UCP_PUT, 1, UCS_ERR_IO_ERROR);
    put(8);
    progress();
    ck_assert_int_eq(last_status, UCS_OK);
    put(8);
    progress();
    ck_assert_int_eq(last_status, UCS_ERR_IO_ERROR);
    put(8);
    progress();
    ck_assert_int_eq(last_status, UCS_OK);
    ck_assert_uint_eq(num_done, 3);
}
END_TEST

START_TEST(a_broken_connection_ends_operations_with_one_error)
{
    fake_ucp_hold(FAKE_UCP_PUT);
    put(BYTES);
    fake_ucp_break(UCS_ERR_CONNECTION_RESET);
    fake_ucp_hold(0);
    progress();
    ck_assert_uint_eq(num_done, 1);
    ck_assert_int_ne(last_status, UCS_OK);
    ck_assert_uint_eq(num_failures, 1);
    ck_assert_uint_eq(memory[1][0], 0);
}
END_TEST

/* Misuse: each ends the process by SIGABRT. */
START_TEST(bytes_outside_a_registration_abort)
{
    put(BYTES + 1);
}
END_TEST

START_TEST(memory_under_an_operation_is_not_unmapped)
{
    fake_ucp_hold(FAKE_UCP_PUT);
    put(BYTES);
    ucp_mem_unmap(context, memhs[0]);
}
END_TEST

START_TEST(a_worker_with_an_open_endpoint_is_not_destroyed)
{
    ucp_worker_destroy(workers[0]);
}
END_TEST

static void close_below(void *request, ucs_status_t status, void *arg)
{
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};

    (void)request;
    (void)status;
    (void)arg;
    (void)ucp_ep_close_nbx(ep, &force);
}

START_TEST(an_endpoint_is_not_closed_below_its_own_callback)
{
    ucp_request_param_t param = with_callback();

    param.cb.send = close_below;
    (void)ucp_ep_flush_nbx(ep, &param);
    progress();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fake UCP");
    TCase *tcase = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_put_is_seen_when_it_completes);
    tcase_add_test(tcase, a_flush_waits_for_what_came_before_it);
    tcase_add_test(tcase, a_message_comes_with_the_receivers_progress);
    tcase_add_test(tcase, a_message_comes_as_it_was_sent);
    tcase_add_test(tcase, the_message_that_was_named_is_lost_or_comes_twice);
    tcase_add_test(tcase, the_put_that_was_named_fails_and_no_other);
    tcase_add_test(tcase, a_broken_connection_ends_operations_with_one_error);
    if (srunner_fork_status(runner) == CK_FORK) {
        tcase_add_test_raise_signal(tcase, bytes_outside_a_registration_abort, SIGABRT);
        tcase_add_test_raise_signal(tcase, memory_under_an_operation_is_not_unmapped,
                                    SIGABRT);
        tcase_add_test_raise_signal(
            tcase, a_worker_with_an_open_endpoint_is_not_destroyed, SIGABRT);
        tcase_add_test_raise_signal(
            tcase, an_endpoint_is_not_closed_below_its_own_callback, SIGABRT);
    }
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
