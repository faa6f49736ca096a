/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/bench/bench_raw.h"

#include "perf/base/error.h"

#include <stdint.h>

static int bench_raw_check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        perf_error("%s: %s", what, ucs_status_string(status));
    }
    return (status == UCS_OK) ? 0 : -1;
}

static int bench_raw_open_worker(bench_raw_t *raw, int i)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_RMA | UCP_FEATURE_AM |
                                             UCP_FEATURE_WAKEUP};
    const ucp_worker_params_t worker = {.field_mask =
                                            UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SERIALIZED};

    return (bench_raw_check(ucp_init(&params, NULL, &raw->contexts[i]), "ucp_init()") ||
            bench_raw_check(
                ucp_worker_create(raw->contexts[i], &worker, &raw->workers[i]),
                "ucp_worker_create()"))
               ? -1
               : 0;
}

static int bench_raw_map(bench_raw_t *raw, int i, void *base, size_t length,
                         ucs_memory_type_t type)
{
    const ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                    UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                    UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
                                      .address = base,
                                      .length = length,
                                      .memory_type = type};

    return bench_raw_check(ucp_mem_map(raw->contexts[i], &map, &raw->memhs[i]),
                           "ucp_mem_map()");
}

static int bench_raw_connect(bench_raw_t *raw)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER};
    ucp_address_t *address;
    size_t length;
    int ret;

    if (bench_raw_check(ucp_worker_get_address(raw->workers[1], &address, &length),
                        "ucp_worker_get_address()") != 0) {
        return -1;
    }
    params.address = address;
    ret = bench_raw_check(ucp_ep_create(raw->workers[0], &params, &raw->ep),
                          "ucp_ep_create()");
    ucp_worker_release_address(raw->workers[1], address);
    return ret;
}

static int bench_raw_unpack(bench_raw_t *raw)
{
    size_t length;
    void *key;
    int ret;

    if (bench_raw_check(ucp_rkey_pack(raw->contexts[1], raw->memhs[1], &key, &length),
                        "ucp_rkey_pack()") != 0) {
        return -1;
    }
    ret = bench_raw_check(ucp_ep_rkey_unpack(raw->ep, key, &raw->rkey),
                          "ucp_ep_rkey_unpack()");
    ucp_rkey_buffer_release(key);
    return ret;
}

int bench_raw_open(bench_raw_t *raw, void *base, size_t length, ucs_memory_type_t type)
{
    int i;

    for (i = 0; i < 2; ++i) {
        if ((bench_raw_open_worker(raw, i) != 0) ||
            (bench_raw_map(raw, i, base, length, type) != 0)) {
            return -1;
        }
    }
    return ((bench_raw_connect(raw) == 0) && (bench_raw_unpack(raw) == 0)) ? 0 : -1;
}

static ucp_request_param_t bench_raw_param(const bench_raw_t *raw)
{
    return (ucp_request_param_t){.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH,
                                 .memh = raw->memhs[0]};
}

ucs_status_ptr_t bench_raw_get(bench_raw_t *raw, void *to, const void *from,
                               size_t length)
{
    const ucp_request_param_t param = bench_raw_param(raw);

    return ucp_get_nbx(raw->ep, to, length, (uintptr_t)from, raw->rkey, &param);
}

ucs_status_ptr_t bench_raw_put(bench_raw_t *raw, const void *from, void *to,
                               size_t length)
{
    const ucp_request_param_t param = bench_raw_param(raw), none = {0};
    ucs_status_ptr_t request;

    request = ucp_put_nbx(raw->ep, from, length, (uintptr_t)to, raw->rkey, &param);
    if (UCS_PTR_IS_ERR(request)) {
        return request;
    }
    if (request != NULL) {
        ucp_request_free(request); /* the flush waits for it */
    }
    return ucp_ep_flush_nbx(raw->ep, &none);
}

int bench_raw_test(bench_raw_t *raw, ucs_status_ptr_t request)
{
    ucs_status_t status = UCS_PTR_STATUS(request);

    if (UCS_PTR_IS_PTR(request)) {
        ucp_worker_progress(raw->workers[0]);
        status = ucp_request_check_status(request);
        if (status == UCS_INPROGRESS) {
            return 0;
        }
        ucp_request_free(request);
    }
    return (bench_raw_check(status, "a put or a get") == 0) ? 1 : -1;
}

static void bench_raw_disconnect(bench_raw_t *raw)
{
    const ucp_request_param_t none = {0};
    ucs_status_ptr_t request;

    if (raw->rkey != NULL) {
        ucp_rkey_destroy(raw->rkey);
    }
    if (raw->ep == NULL) {
        return;
    }
    request = ucp_ep_close_nbx(raw->ep, &none);
    if (UCS_PTR_IS_PTR(request)) {
        while (ucp_request_check_status(request) == UCS_INPROGRESS) {
            ucp_worker_progress(raw->workers[0]);
            ucp_worker_progress(raw->workers[1]);
        }
        ucp_request_free(request);
    }
}

void bench_raw_close(bench_raw_t *raw)
{
    int i;

    bench_raw_disconnect(raw);
    for (i = 0; i < 2; ++i) {
        if (raw->memhs[i] != NULL) {
            ucp_mem_unmap(raw->contexts[i], raw->memhs[i]);
        }
        if (raw->workers[i] != NULL) {
            ucp_worker_destroy(raw->workers[i]);
        }
        if (raw->contexts[i] != NULL) {
            ucp_cleanup(raw->contexts[i]);
        }
    }
}
