/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/kv_perf/report/result.h"

#include <string.h>


void perf_result_init(perf_result_t *result)
{
    memset(result, 0, sizeof(*result));
    perf_histogram_init(&result->prep);
    perf_histogram_init(&result->post);
    perf_histogram_init(&result->tx);
}

void perf_ends_add(perf_ends_t *ends, const perf_ends_t *other)
{
    if (other->num_flows == 0) {
        return;
    }
    if ((ends->num_flows == 0) || (other->first_ns < ends->first_ns)) {
        ends->first_ns = other->first_ns;
    }
    if (other->last_ns > ends->last_ns) {
        ends->last_ns = other->last_ns;
    }
    ends->num_flows += other->num_flows;
}

void perf_result_merge(perf_result_t *result, const perf_result_t *other)
{
    if (!other->is_active) {
        return;
    }
    if (!result->is_active) {
        memcpy(result->path, other->path, sizeof(result->path));
        result->block_size = other->block_size;
        memcpy(result->label, other->label, sizeof(result->label));
        result->num_layers = other->num_layers;
    }

    perf_ends_add(&result->there, &other->there);
    perf_ends_add(&result->back, &other->back);
    result->is_active = 1;
    result->num_requests += other->num_requests;
    result->num_descs += other->num_descs;
    result->num_merged += other->num_merged;
    result->num_ucp_calls += other->num_ucp_calls;
    result->bytes += other->bytes;
    result->wall_ns =
        (other->wall_ns > result->wall_ns) ? other->wall_ns : result->wall_ns;
    result->cpu_ns += other->cpu_ns;
    result->total_blocks += other->total_blocks;
    result->shared_blocks += other->shared_blocks;
    result->num_posted += other->num_posted;
    result->num_beside += other->num_beside;
    perf_histogram_merge(&result->prep, &other->prep);
    perf_histogram_merge(&result->post, &other->post);
    perf_histogram_merge(&result->tx, &other->tx);
}
