/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The steps of bench_notify by UCP alone, as in a program that ignores failures: put,
 * flush beside it, and a message of 8 bytes from the flush's callback.
 */

#include "perf/bench/bench_raw.h"
#include "perf/bench/bench_step.h"
#include "perf/base/error.h"
#include "perf/memory/memory.h"

#include <stdbool.h>
#include <stdint.h>

enum { BENCH_AM = 1 };

typedef struct bench {
    bench_raw_t raw;
    char *base;
    bench_step_t counted;
    bool is_sent, is_received;
    ucs_status_t status;
} bench_t;

static int bench_check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        perf_error("%s: %s", what, ucs_status_string(status));
    }
    return (status == UCS_OK) ? 0 : -1;
}

static ucs_status_t bench_notice_cb(void *arg, const void *header, size_t header_length,
                                    void *data, size_t length,
                                    const ucp_am_recv_param_t *param)
{
    bench_t *bench = arg;

    (void)header;
    (void)header_length;
    (void)data;
    (void)length;
    (void)param;
    bench->is_received = true;
    return UCS_OK;
}

static void bench_flushed(void *request, ucs_status_t status, void *user_data)
{
    static const uint64_t word = 1;
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_AM_SEND_FLAG_EAGER};
    bench_t *bench = user_data;
    ucs_status_ptr_t sent;

    sent =
        ucp_am_send_nbx(bench->raw.ep, BENCH_AM, NULL, 0, &word, sizeof(word), &param);
    if (UCS_PTR_IS_PTR(sent)) {
        ucp_request_free(sent); /* receive it, or the next round does not end */
    }
    bench->status = UCS_PTR_IS_ERR(sent) ? UCS_PTR_STATUS(sent) : status;
    bench->is_sent = true;
    ucp_request_free(request);
}

static int bench_launch(bench_t *bench)
{
    const ucp_request_param_t put = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH,
                                     .memh = bench->raw.memhs[0]};
    const ucp_request_param_t flush = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                       UCP_OP_ATTR_FIELD_USER_DATA,
                                       .cb.send = bench_flushed,
                                       .user_data = bench};
    ucs_status_ptr_t request;

    bench->is_sent = bench->is_received = false;
    bench_step_toggle(bench->counted, BENCH_BESIDE);
    request =
        ucp_put_nbx(bench->raw.ep, bench->base, BENCH_BYTES,
                    (uintptr_t)(bench->base + BENCH_BYTES), bench->raw.rkey, &put);
    if (UCS_PTR_IS_PTR(request)) {
        ucp_request_free(request); /* the flush waits for it */
    }
    ucp_worker_progress(bench->raw.workers[0]); /* starts the copy */
    if (!UCS_PTR_IS_ERR(request)) {
        request = ucp_ep_flush_nbx(bench->raw.ep, &flush);
    }
    bench_step_toggle(bench->counted, BENCH_BESIDE);
    bench_step_dump(bench->counted, BENCH_BESIDE);
    return UCS_PTR_IS_PTR(request)
               ? 0
               : bench_check(UCS_ERR_IO_ERROR,
                             "a put, or a flush that is over at once");
}

static int bench_round(void *arg)
{
    bench_t *bench = arg;

    if (bench_launch(bench) != 0) {
        return -1;
    }
    bench_step_toggle(bench->counted, BENCH_SENT);
    while (!bench->is_sent) {
        ucp_worker_progress(bench->raw.workers[0]);
    }
    bench_step_toggle(bench->counted, BENCH_SENT);
    bench_step_dump(bench->counted, BENCH_SENT);
    if (bench_check(bench->status, "a flush or a message") != 0) {
        return -1;
    }

    bench_step_toggle(bench->counted, BENCH_RECEIVE);
    while (!bench->is_received) {
        ucp_worker_progress(bench->raw.workers[1]);
    }
    bench_step_toggle(bench->counted, BENCH_RECEIVE);
    bench_step_dump(bench->counted, BENCH_RECEIVE);

    bench_step_toggle(bench->counted, BENCH_IDLE);
    ucp_worker_progress(bench->raw.workers[1]);
    bench_step_toggle(bench->counted, BENCH_IDLE);
    bench_step_dump(bench->counted, BENCH_IDLE);
    return 0;
}

/* Connect the endpoint on both sides, which must not be counted. */
static int bench_connect(bench_t *bench)
{
    const ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                        UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                        UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                          .id = BENCH_AM,
                                          .cb = bench_notice_cb,
                                          .arg = bench};
    ucs_status_ptr_t request;
    int ret;

    if (bench_check(ucp_worker_set_am_recv_handler(bench->raw.workers[1], &param),
                    "ucp_worker_set_am_recv_handler()") != 0) {
        return -1;
    }
    request =
        bench_raw_put(&bench->raw, bench->base, bench->base + BENCH_BYTES, BENCH_BYTES);
    while ((ret = bench_raw_test(&bench->raw, request)) == 0) {
        ucp_worker_progress(bench->raw.workers[1]);
    }
    return (ret > 0) ? 0 : -1;
}

int main(void)
{
    bench_t bench = {.counted = BENCH_NUM_STEPS};
    perf_memory_t *memory;
    int ret = -1;

    perf_message_prefix("bench_notify_ucp");
    if (perf_memory_open(PERF_SEGMENT_VRAM, NULL, &memory) != 0) {
        return EXIT_FAILURE;
    }
    bench.base = perf_memory_alloc(memory, 2 * BENCH_BYTES);
    if ((bench.base != NULL) &&
        (bench_raw_open(&bench.raw, bench.base, 2 * BENCH_BYTES,
                        perf_memory_type(memory)) == 0) &&
        (bench_connect(&bench) == 0)) {
        ret = bench_step_rounds(&bench, &bench.counted, bench_round);
    }
    if (bench.base != NULL) {
        bench_raw_close(&bench.raw);
        perf_memory_free(memory, bench.base, 2 * BENCH_BYTES);
    }
    perf_memory_close(memory);
    return (ret == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
