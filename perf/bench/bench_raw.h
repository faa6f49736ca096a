/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_BENCH_RAW_H
#define PERF_BENCH_RAW_H

/**
 * @file
 * Two UCP workers of this process, opened as libmorikv opens its own, as the baseline
 * for its calls. A worker is used by one thread at a time.
 */

#include <stddef.h>
#include <ucp/api/ucp.h>

typedef struct bench_raw {
    ucp_context_h contexts[2];
    ucp_worker_h workers[2];
    ucp_mem_h memhs[2];
    ucp_ep_h ep; /**< Endpoint from the first worker to the second one */
    ucp_rkey_h rkey;
} bench_raw_t;

/**
 * Register the memory with both workers, and connect the first one to the second one.
 *
 * @param [inout] raw  Zeroed; close it with bench_raw_close() in any case.
 *
 * @return 0, or -1 with a message.
 */
int bench_raw_open(bench_raw_t *raw, void *base, size_t length, ucs_memory_type_t type);

/** Bytes of the second worker's memory to the first one's. @return NULL, a request to
 *  be freed by bench_raw_test(), or an error. */
ucs_status_ptr_t bench_raw_get(bench_raw_t *raw, void *to, const void *from,
                               size_t length);

/** Bytes to the second worker's memory. @return As bench_raw_get(), of the flush. */
ucs_status_ptr_t bench_raw_put(bench_raw_t *raw, const void *from, void *to,
                               size_t length);

/** Progress the first worker. @return 1: ended, 0: not yet, -1 with a message. */
int bench_raw_test(bench_raw_t *raw, ucs_status_ptr_t request);

void bench_raw_close(bench_raw_t *raw);

#endif
