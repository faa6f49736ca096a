/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

/*
 * Messages without a posted receive: UCP or the application keeps them. They never stop
 * a sender, however many there are. Two workers send to each other.
 */

#define MESSAGE 8000 /* eager, and in one receive */
#define NUM ((total + MESSAGE - 1) / MESSAGE)
#define MAX_MESSAGES 10000
#define AM_ID 5
#define TAG 77

static ucp_context_h context;
static ucp_worker_h workers[2];
static ucp_ep_h eps[2]; /* of worker i, to the other */
static char *source, *target;
static size_t num_sent, num_failed;
static size_t total, num_messages;
static ucp_err_handling_mode_t mode;

typedef struct kept {
    void *data;
    size_t length;
} kept_t;

static kept_t kept[2][MAX_MESSAGES];
static size_t num_kept[2];

static void progress(void)
{
    ucp_worker_progress(workers[0]);
    ucp_worker_progress(workers[1]);
}

static void on_sent(void *request, ucs_status_t status, void *arg)
{
    (void)arg;
    num_sent++;
    num_failed += (status != UCS_OK);
    ucp_request_free(request);
}

static void count_send(void *request)
{
    if (!UCS_PTR_IS_PTR(request)) {
        num_sent++;
        num_failed += (UCS_PTR_STATUS(request) != UCS_OK);
    }
}

static void wait_sent(size_t num)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();

    while (num_sent < num) {
        progress();
        ck_assert_msg(mkv_test_now_ms() < limit, "%zu of %zu were sent", num_sent, num);
    }
    ck_assert_uint_eq(num_failed, 0);
}

static size_t wait_received(void *request, size_t length)
{
    const uint64_t limit = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    ucs_status_t status;

    ck_assert_msg(!UCS_PTR_IS_ERR(request), "%s",
                  ucs_status_string(UCS_PTR_STATUS(request)));
    if (request == NULL) {
        return length;
    }

    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        progress();
        ck_assert_msg(mkv_test_now_ms() < limit, "nothing is received");
    }
    ck_assert_int_eq(status, UCS_OK);
    ucp_request_free(request);
    return length;
}

static ucs_status_t keep(void *arg, const void *header, size_t header_length,
                         void *data, size_t length, const ucp_am_recv_param_t *param)
{
    const unsigned at = (arg == &workers[1]);

    (void)header;
    (void)header_length;
    ck_assert(!(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV));
    ck_assert_uint_lt(num_kept[at], num_messages);
    kept[at][num_kept[at]].length = length;
    if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) {
        kept[at][num_kept[at]++].data = data;
        return UCS_INPROGRESS;
    }

    kept[at][num_kept[at]].data = NULL; /* UCP needs it back: compare at once */
    ck_assert_uint_eq(mkv_pattern_check(data, length, num_kept[at]++, 0), length);
    return UCS_OK;
}

static void connect_worker(unsigned i)
{
    const ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = AM_ID,
        .cb = keep,
        .arg = &workers[i]};

    if (mode == UCP_ERR_HANDLING_MODE_PEER) {
        ck_assert_int_eq(ucp_worker_set_am_recv_handler(workers[i], &handler), UCS_OK);
    }
    ck_assert_int_eq(rig_ucp_connect(workers, i, mode, NULL, &eps[i]), UCS_OK);
}

static void start_with(ucp_err_handling_mode_t err_mode, uint64_t features)
{
    unsigned i;

    mode = err_mode;
    rig_ucp_open(features, &context, workers);
    for (i = 0; i < 2; i++) {
        connect_worker(i);
    }
    total = mkv_test_rounds(64u << 20, 4u << 20);
    num_messages = mkv_test_rounds(MAX_MESSAGES, 640);
    source = malloc(total);
    target = calloc(1, total);
    ck_assert(source && target);
    mkv_pattern_fill(source, total, 1, 0);
    num_sent = num_failed = num_kept[0] = num_kept[1] = 0;
}

static void start(void)
{
    start_with(UCP_ERR_HANDLING_MODE_PEER,
               UCP_FEATURE_TAG | UCP_FEATURE_STREAM | UCP_FEATURE_AM);
}

static void finish(void)
{
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};
    const ucp_request_param_t flush = {0}; /* force is for error handling alone */
    void *requests[2];
    unsigned i;

    for (i = 0; i < 2; i++) {
        requests[i] = ucp_ep_close_nbx(
            eps[i], (mode == UCP_ERR_HANDLING_MODE_PEER) ? &force : &flush);
    }
    wait_received(requests[0], 0);
    wait_received(requests[1], 0);
    rig_ucp_close(context, workers, NULL);
    free(source);
    free(target);
}

static size_t length_at(size_t offset)
{
    return (total - offset < MESSAGE) ? total - offset : MESSAGE;
}

/* RC-03 */
START_TEST(unexpected_tags_are_kept)
{
    const ucp_request_param_t send = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK,
                                      .cb.send = on_sent};
    const ucp_request_param_t none = {0};
    size_t offset, length;

    start();
    for (offset = 0; offset < total; offset += MESSAGE) {
        count_send(
            ucp_tag_send_nbx(eps[0], source + offset, length_at(offset), TAG, &send));
    }
    wait_sent(NUM);
    for (offset = 0; offset < total; offset += length) {
        length = length_at(offset);
        wait_received(
            ucp_tag_recv_nbx(workers[1], target + offset, length, TAG, -1ull, &none),
            length);
    }
    ck_assert_int_eq(memcmp(source, target, total), 0);
    finish();
}
END_TEST

static void send_stream(void)
{
    const ucp_request_param_t send = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK,
                                      .cb.send = on_sent};
    size_t offset;

    for (offset = 0; offset < total; offset += MESSAGE) {
        count_send(
            ucp_stream_send_nbx(eps[0], source + offset, length_at(offset), &send));
    }
}

static void receive_stream(void)
{
    const ucp_request_param_t all = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                     .flags = UCP_STREAM_RECV_FLAG_WAITALL};
    size_t offset, length, received;

    for (offset = 0; offset < total; offset += length) {
        length = length_at(offset);
        wait_received(
            ucp_stream_recv_nbx(eps[1], target + offset, length, &received, &all),
            length);
    }
    ck_assert_int_eq(memcmp(source, target, total), 0);
}

/* RC-03 */
START_TEST(unread_stream_data_is_kept)
{
    start();
    send_stream();
    wait_sent(NUM);
    receive_stream();
    finish();
}
END_TEST

/* UCX 1.23.0 blocks on the interface with streams alone until the first message
 * wakes it; its release candidate does not. test_rdma_wait covers our part of it. */
START_TEST(stream_without_error_handling_runs_through)
{
    start_with(UCP_ERR_HANDLING_MODE_NONE, UCP_FEATURE_STREAM);
    total = 1000 * MESSAGE;
    source = realloc(source, total);
    target = realloc(target, total);
    ck_assert(source && target);
    mkv_pattern_fill(source, total, 2, 0);
    send_stream();
    receive_stream();
    wait_sent(NUM);
    finish();
}
END_TEST

static void send_kept(unsigned from, size_t number)
{
    const ucp_request_param_t send = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                      UCP_OP_ATTR_FIELD_FLAGS,
                                      .flags = UCP_AM_SEND_FLAG_EAGER,
                                      .cb.send = on_sent};
    const size_t length = (number * 37) % (MESSAGE + 1);
    char *data = source + (from * 16 + number) % 64 * MESSAGE;

    /* one of 64 places: it is sent when the next but 63 is written */
    mkv_pattern_fill(data, length, number, 0);
    count_send(ucp_am_send_nbx(eps[from], AM_ID, NULL, 0, data, length, &send));
}

/* Lengths of 0 to 8000 bytes in an order of no pattern. */
/* RC-03 */
START_TEST(messages_kept_by_the_application_block_no_sender)
{
    size_t i, at, length;

    start();
    for (i = 0; i < num_messages; i++) {
        send_kept(0, i);
        send_kept(1, i);
        if (i % 16 == 15) {
            wait_sent(2 * (i + 1)); /* its places are free again */
        }
    }
    wait_sent(2 * num_messages);
    while ((num_kept[0] < num_messages) || (num_kept[1] < num_messages)) {
        progress();
    }

    for (at = 0; at < 2; at++) {
        for (i = 0; i < num_messages; i++) {
            length = kept[at][i].length;
            ck_assert_uint_eq(length, (i * 37) % (MESSAGE + 1));
            if (kept[at][i].data != NULL) {
                ck_assert_uint_eq(mkv_pattern_check(kept[at][i].data, length, i, 0),
                                  length);
                ucp_am_data_release(workers[at], kept[at][i].data);
            }
        }
    }
    finish();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mori_rdma and messages nobody asked for");
    TCase *tcase = tcase_create("unexpected");

    rig_ucp_environment(NULL);
    setenv("UCX_RNDV_THRESH", "inf", 1);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, unexpected_tags_are_kept);
    tcase_add_test(tcase, unread_stream_data_is_kept);
    tcase_add_test(tcase, stream_without_error_handling_runs_through);
    tcase_add_test(tcase, messages_kept_by_the_application_block_no_sender);
    suite_add_tcase(suite, tcase);
    ct_side_find_module();
    mkv_test_init();
    return rig_run_forked(suite);
}
