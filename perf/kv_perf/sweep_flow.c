/* SPDX-License-Identifier: BSD-3-Clause */

/* Flows of a sweep: their lists, posts, sums and contents, common to all schemes. */

#include "perf/kv_perf/sweep.h"
#include "perf/workload/benchmarks.h"
#include "perf/base/clock.h"
#include "perf/base/error.h"
#include "perf/base/random.h"

#include <stdlib.h>


bool perf_scheme_is_mutual(perf_scheme_t scheme)
{
    return (scheme == PERF_SCHEME_BOTH) || (scheme == PERF_SCHEME_PINGPONG);
}

uint32_t perf_sweep_zone(const perf_sweep_t *sweep, unsigned rank, size_t block_size,
                         unsigned flow, uint32_t *first_p)
{
    unsigned per_leaf = perf_scheme_is_mutual(sweep->options->scheme) ? 2 : 1;
    unsigned num_flows = per_leaf * ((rank == 0) ? sweep->options->num_target_dev : 1);
    unsigned index = (per_leaf == 2) ? flow : flow / 2;
    uint64_t blocks = sweep->params.size / block_size / num_flows;

    blocks = (blocks > INT32_MAX) ? INT32_MAX : blocks;
    *first_p = (uint32_t)blocks * ((rank == 0) ? index : index % per_leaf);
    return (uint32_t)blocks;
}

uint32_t *perf_sweep_list(const perf_sweep_t *sweep, unsigned rank, size_t block_size,
                          unsigned flow, uint32_t num)
{
    uint64_t random = sweep->options->seed * 1000003 + block_size * 31 + flow * 2 +
                      (unsigned)(rank == 0);
    uint32_t first, zone, i, other, block, *list;

    zone = perf_sweep_zone(sweep, rank, block_size, flow, &first);
    list = malloc(zone * sizeof(*list));
    if (list == NULL) {
        perf_error("no memory for a list of %u blocks", zone);
        return NULL;
    }

    for (i = 0; i < zone; ++i) {
        list[i] = first + i;
    }
    for (i = 0; (i < num) && (sweep->options->location != PERF_LOCATION_NONE); ++i) {
        other = i + perf_random_below(&random, zone - i);
        block = list[i];
        list[i] = list[other];
        list[other] = block;
    }
    return list;
}

/* ---- Rows ------------------------------------------------------------------------ */

static unsigned perf_sweep_view(perf_sweep_t *sweep, uint64_t size)
{
    unsigned view = 0;

    while ((view < sweep->params.num_views) && (sweep->block_sizes[view] != size)) {
        ++view;
    }
    sweep->block_sizes[view] = (size_t)size;
    return view;
}

/* A row, if its lists fit into every process' share of its buffer. */
static void perf_sweep_add_row(perf_sweep_t *sweep, uint64_t size, uint32_t batch,
                               const char *label)
{
    unsigned view = perf_sweep_view(sweep, size);
    uint32_t first;

    if ((sweep->rows_total == PERF_MAX_ROWS) || (size > sweep->params.size) ||
        (perf_sweep_zone(sweep, 0, (size_t)size, 0, &first) < batch)) {
        ++sweep->rows_left_out;
        return;
    }
    if (view == sweep->params.num_views) {
        ++sweep->params.num_views;
    }
    sweep->rows[sweep->rows_total++] = (perf_row_t){view, batch, label};
}

void perf_sweep_plan(perf_sweep_t *sweep)
{
    const perf_options_t *options = sweep->options;
    const perf_benchmark_t *benchmark;
    uint64_t size, batch;
    unsigned i;

    sweep->params.block_sizes = sweep->block_sizes;
    if (options->benchmark != NULL) {
        benchmark = perf_benchmark_find(options->benchmark);
        for (i = 0; i < benchmark->num_rows; ++i) {
            perf_sweep_add_row(sweep, benchmark->rows[i].block_size,
                               benchmark->rows[i].batch, benchmark->rows[i].label);
        }
        return;
    }
    for (size = options->start_block_size; size <= options->max_block_size; size *= 2) {
        for (batch = options->start_batch_size; batch <= options->max_batch_size;
             batch *= 2) {
            perf_sweep_add_row(sweep, size, (uint32_t)batch, "");
        }
    }
}

/* ---- Moving ---------------------------------------------------------------------- */

int perf_flow_post(perf_sweep_t *sweep, perf_flow_t *flow, uint64_t warmup)
{
    uint64_t start_ns = perf_clock_ns(), prep_ns = flow->job.prep_ns, post_ns;

    flow->posted_ns[flow->num_posted % sweep->options->pipeline_depth] = start_ns;
    if (sweep->ops->post(sweep->engine, &flow->job) != 0) {
        return -1;
    }
    if (flow->num_posted++ >= warmup) {
        post_ns = perf_clock_ns() - start_ns;
        perf_histogram_add(&sweep->result.post, post_ns);
        sweep->result.cpu_ns += post_ns;
        if (flow->job.is_recreate) {
            perf_histogram_add(&sweep->result.prep, flow->job.prep_ns - prep_ns);
        }
    }
    return 0;
}

int perf_sweep_each(perf_sweep_t *sweep, bool is_mine,
                    int (*op)(perf_engine_t *engine, perf_job_t *job))
{
    unsigned i;

    for (i = 0; i < sweep->num_flows; ++i) {
        if ((sweep->flows[i].is_mine == is_mine) &&
            (op(sweep->engine, &sweep->flows[i].job) != 0)) {
            return -1;
        }
    }
    return 0;
}

void perf_sweep_idle(void *arg)
{
    perf_sweep_t *sweep = arg;

    sweep->ops->progress(sweep->engine);
}

int perf_sweep_barrier(perf_sweep_t *sweep)
{
    return perf_run_barrier(sweep->run, perf_sweep_idle, sweep);
}

void perf_sweep_account(perf_sweep_t *sweep, uint32_t batch, uint64_t num_iter,
                        uint64_t warmup)
{
    perf_result_t *result = &sweep->result;
    const perf_flow_t *flow;

    for (flow = sweep->flows; flow < sweep->flows + sweep->num_flows; ++flow) {
        if (!flow->is_mine) {
            continue;
        }
        result->is_active = 1;
        result->num_requests += num_iter;
        result->num_descs += num_iter * batch;
        result->num_merged += num_iter * flow->job.num_merged;
        result->bytes += num_iter * batch * result->block_size;
        /* calls of the warm-up are as many a post */
        result->num_ucp_calls +=
            flow->job.num_ucp_calls * num_iter / (num_iter + warmup);
        if (!flow->job.is_recreate) {
            perf_histogram_add(&result->prep, flow->job.prep_ns);
        }
    }
}

static uint64_t *perf_flow_keys(const perf_flow_t *flow, uint32_t batch, uint64_t round)
{
    uint64_t *keys = malloc(batch * sizeof(*keys));
    uint32_t i;

    for (i = 0; (keys != NULL) && (i < batch); ++i) {
        keys[i] = ((uint64_t)(flow->number + 1) << 56) + (round << 32) + i;
    }
    if (keys == NULL) {
        perf_error("no memory to check %u blocks", batch);
    }
    return keys;
}

int perf_sweep_fill(perf_sweep_t *sweep, perf_pool_t *pool, uint32_t batch,
                    uint64_t round, bool is_source)
{
    const perf_flow_t *flow;
    uint64_t *keys;
    int ret = 0;

    for (flow = sweep->flows; (ret == 0) && (flow < sweep->flows + sweep->num_flows);
         ++flow) {
        if (flow->is_source != is_source) {
            continue;
        }
        keys = perf_flow_keys(flow, batch, round);
        if (keys == NULL) {
            return -1;
        }
        if (is_source) {
            ret = perf_pool_fill(pool, flow->local, keys, batch);
        } else {
            perf_pool_expect(pool, flow->local, keys, batch);
        }
        free(keys);
    }
    return ret;
}
