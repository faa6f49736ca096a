/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_UCP_ARRAYS_H
#define PERF_UCP_ARRAYS_H

/**
 * @file
 * Blocks of a job in the form in which UCP takes lists.
 */

#include "perf/kv_perf/engine/engine.h"

#include <ucp/api/ucp.h>


typedef struct perf_ucp_arrays {
    void **buffers;
    size_t *lengths; /**< Bytes */
    ucp_mem_h *memhs;
    uint64_t *remote_addrs;
    ucp_rkey_h *rkeys;
    perf_engine_t *engine; /**< Engine and job of the posts, for their callbacks */
    perf_job_t *job;
} perf_ucp_arrays_t;


/** @return Arrays of @a num zeros, owned by the caller; NULL: no memory. */
perf_ucp_arrays_t *perf_ucp_arrays_create(uint32_t num);

void perf_ucp_arrays_free(perf_ucp_arrays_t *arrays);

#endif
