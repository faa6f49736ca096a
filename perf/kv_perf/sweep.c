/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Rows are block sizes times batch sizes. In each row, one flow or more: a list of
 * blocks of one process that is moved to a list of blocks of another one. Every process
 * divides its buffer among the flows that touch it, so that flows never overlap, and
 * every process can work out all lists from the seed.
 *
 * Bytes are checked after the timed transfers, and after one more with new bytes.
 */

#include "perf/kv_perf/sweep.h"
#include "perf/base/clock.h"
#include "perf/base/error.h"
#include "perf/base/interrupt.h"
#include "perf/kv_perf/pingpong.h"
#include "perf/kv_perf/report/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


enum {
    PERF_LARGE_REQUEST = 1 << 20,
    PERF_TIMED_ROUND = 1 << 20 /* contents of the timed transfers */
};


static bool perf_sweep_is_pingpong(const perf_sweep_t *sweep)
{
    return sweep->options->scheme == PERF_SCHEME_PINGPONG;
}

/* ---- Flows and their lists ------------------------------------------------------- */

/* Between the center and a leaf, started by one of them. */
static void perf_sweep_add_flow(perf_sweep_t *sweep, unsigned leaf, bool is_from_center)
{
    unsigned number = 2 * (leaf - 1) + (unsigned)!is_from_center;
    bool is_center = (sweep->run->rank == 0);
    perf_flow_t *flow;

    if (!is_center && (sweep->run->rank != leaf)) {
        return;
    }

    flow = &sweep->flows[sweep->num_flows++];
    flow->number = number;
    flow->is_mine = (is_center == is_from_center);
    flow->is_source = (flow->is_mine == (sweep->options->op == PERF_OP_WRITE));
    flow->peer = is_center ? leaf - 1 : 0;
    flow->peer_rank = is_center ? leaf : 0;
}

static void perf_sweep_add_flows(perf_sweep_t *sweep)
{
    perf_scheme_t scheme = sweep->options->scheme;
    unsigned leaf;

    for (leaf = 1; leaf <= sweep->options->num_target_dev; ++leaf) {
        if (scheme != PERF_SCHEME_MANYTOONE) {
            perf_sweep_add_flow(sweep, leaf, true);
        }
        if ((scheme == PERF_SCHEME_MANYTOONE) || perf_scheme_is_mutual(scheme)) {
            perf_sweep_add_flow(sweep, leaf, false);
        }
    }
}

static void perf_flow_cleanup(perf_flow_t *flow)
{
    free(flow->local);
    free(flow->remote);
    free(flow->posted_ns);
    flow->local = flow->remote = NULL;
    flow->posted_ns = NULL;
}

static int perf_flow_init(perf_sweep_t *sweep, perf_flow_t *flow, unsigned view,
                          uint32_t batch, uint64_t num_posts)
{
    size_t block_size = sweep->block_sizes[view];

    flow->local =
        perf_sweep_list(sweep, sweep->run->rank, block_size, flow->number, batch);
    flow->remote =
        perf_sweep_list(sweep, flow->peer_rank, block_size, flow->number, batch);
    flow->posted_ns = calloc(sweep->options->pipeline_depth, sizeof(*flow->posted_ns));
    if ((flow->local == NULL) || (flow->remote == NULL) || (flow->posted_ns == NULL)) {
        perf_flow_cleanup(flow);
        return -1;
    }

    flow->num_posted = 0;
    flow->job = (perf_job_t){
        .peer = flow->peer,
        .view = view,
        .id = (sweep->next_job * PERF_MAX_FLOWS + flow->number) << 32,
        .is_recreate = sweep->options->is_recreate_xfer,
        .is_notified = perf_sweep_is_pingpong(sweep),
        .num_blocks = batch,
        .local = flow->local,
        .remote = flow->remote,
        .num_posts = num_posts,
    };
    return 0;
}

/* ---- Moving ---------------------------------------------------------------------- */

/* Posts that have ended since the last call; they end in order. */
static void perf_flow_reap(perf_sweep_t *sweep, perf_flow_t *flow, uint64_t *seen,
                           uint64_t warmup)
{
    uint32_t depth = sweep->options->pipeline_depth;
    uint64_t now_ns;

    if (*seen == flow->job.num_completed) {
        return;
    }
    now_ns = perf_clock_ns();
    for (; *seen < flow->job.num_completed; ++*seen) {
        if (*seen >= warmup) {
            perf_histogram_add(&sweep->result.tx,
                               now_ns - flow->posted_ns[*seen % depth]);
        }
    }
    flow->end_ns = now_ns;
    perf_run_going(sweep->run, now_ns);
}

/* Show the position of this process's first flow in its row. */
static void perf_sweep_show(const perf_sweep_t *sweep)
{
    const perf_flow_t *flow;

    if ((sweep->run->rank != 0) || !perf_progress_is_on()) {
        return;
    }
    for (flow = sweep->flows;
         (flow < sweep->flows + sweep->num_flows - 1) && !flow->is_mine; ++flow) {
    }
    perf_progress_show(&(perf_position_t){
        .what = "rows",
        .done = sweep->rows_done,
        .total = sweep->rows_total,
        .part = flow->job.num_completed,
        .whole = flow->is_mine ? flow->job.num_posts : 0,
        .bytes = sweep->bytes_done + flow->job.num_completed * flow->job.num_blocks *
                                         sweep->block_sizes[flow->job.view]});
}

/* Keep every flow's pipeline full, posts [from, to) of each. */
static int perf_sweep_posts(perf_sweep_t *sweep, uint64_t *seen, uint64_t to,
                            uint64_t warmup)
{
    perf_flow_t *flow;
    unsigned i, num_busy;

    do {
        num_busy = 0;
        for (i = 0; i < sweep->num_flows; ++i) {
            flow = &sweep->flows[i];
            if (!flow->is_mine) {
                continue;
            }
            while ((flow->num_posted < to) &&
                   (flow->num_posted - flow->job.num_completed <
                    sweep->options->pipeline_depth)) {
                if (perf_flow_post(sweep, flow, warmup) != 0) {
                    return -1;
                }
                perf_flow_reap(sweep, flow, &seen[i], warmup);
            }
            num_busy += (flow->job.num_completed < to);
        }
        if (sweep->ops->progress(sweep->engine) != 0) {
            return -1;
        }
        for (i = 0; i < sweep->num_flows; ++i) {
            perf_flow_reap(sweep, &sweep->flows[i], &seen[i], warmup);
        }
        perf_sweep_show(sweep);
        if (perf_is_interrupted) {
            return -1;
        }
    } while (num_busy > 0);
    return 0;
}

/* Time at which this process's flows had moved all their bytes. */
static void perf_sweep_ends(perf_sweep_t *sweep, uint64_t start_ns)
{
    perf_result_t *result = &sweep->result;
    perf_ends_t *ends = (sweep->run->rank == 0) ? &result->there : &result->back;
    const perf_flow_t *flow;
    uint64_t ns;

    for (flow = sweep->flows; flow < sweep->flows + sweep->num_flows; ++flow) {
        if (flow->is_mine) {
            ns = flow->end_ns - start_ns;
            perf_ends_add(
                ends, &(perf_ends_t){.num_flows = 1, .first_ns = ns, .last_ns = ns});
        }
    }
}

static int perf_sweep_measure(perf_sweep_t *sweep, uint32_t batch, uint64_t num_iter,
                              uint64_t warmup)
{
    uint64_t seen[PERF_MAX_FLOWS] = {0};
    uint64_t start_ns, cpu_ns;

    /* no process moves bytes before all have finished the row before */
    if ((perf_sweep_each(sweep, false, sweep->ops->serve) != 0) ||
        (perf_run_start(sweep->run, perf_sweep_idle, sweep) != 0) ||
        (perf_sweep_each(sweep, true, sweep->ops->start) != 0) ||
        (perf_sweep_posts(sweep, seen, warmup, warmup) != 0) ||
        (perf_sweep_barrier(sweep) != 0)) {
        return -1;
    }

    cpu_ns = sweep->ops->cpu_ns(sweep->engine);
    start_ns = perf_clock_ns();
    /* the measured time includes stop, which waits until the bytes have arrived */
    if ((perf_sweep_posts(sweep, seen, warmup + num_iter, warmup) != 0) ||
        (perf_sweep_each(sweep, true, sweep->ops->stop) != 0)) {
        return -1;
    }
    sweep->result.wall_ns = perf_clock_ns() - start_ns;
    perf_sweep_ends(sweep, start_ns);
    sweep->result.cpu_ns += sweep->ops->cpu_ns(sweep->engine) - cpu_ns;
    perf_sweep_account(sweep, batch, num_iter, warmup);
    if (perf_sweep_barrier(sweep) != 0) {
        return -1;
    }
    return perf_sweep_each(sweep, false, sweep->ops->unserve);
}

/* ---- Checking -------------------------------------------------------------------- */

/* Each flow once. */
static int perf_sweep_move_checked(perf_sweep_t *sweep, perf_pool_t *pool,
                                   uint32_t batch)
{
    uint64_t seen[PERF_MAX_FLOWS] = {0};

    return ((perf_sweep_fill(sweep, pool, batch, 0, true) == 0) &&
            (perf_sweep_fill(sweep, pool, batch, 0, false) == 0) &&
            (perf_sweep_barrier(sweep) == 0) &&
            (perf_sweep_each(sweep, false, sweep->ops->serve) == 0) &&
            (perf_sweep_each(sweep, true, sweep->ops->start) == 0) &&
            (perf_sweep_posts(sweep, seen, 1, 1) == 0) &&
            (perf_sweep_each(sweep, true, sweep->ops->stop) == 0) &&
            (perf_sweep_barrier(sweep) == 0) &&
            (perf_sweep_each(sweep, false, sweep->ops->unserve) == 0))
               ? 0
               : -1;
}

static perf_pool_t *perf_sweep_pool(perf_sweep_t *sweep, const perf_row_t *row)
{
    perf_pool_shape_t shape = {
        .num_layers = 1, .num_parts = 1, .piece_bytes = sweep->block_sizes[row->view]};
    perf_pool_t *pool;

    shape.num_blocks = (uint32_t)(sweep->params.size / shape.piece_bytes);
    if (perf_pool_create_at(sweep->run->memory, &shape, sweep->params.buffer, &pool) !=
        0) {
        return NULL;
    }
    if ((perf_sweep_fill(sweep, pool, row->batch, PERF_TIMED_ROUND, true) != 0) ||
        (perf_sweep_fill(sweep, pool, row->batch, PERF_TIMED_ROUND, false) != 0)) {
        perf_pool_destroy(pool);
        return NULL;
    }
    return pool;
}

/* Nothing moves until the next barrier. */
static int perf_sweep_check(perf_sweep_t *sweep, perf_pool_t *pool, unsigned view,
                            uint32_t batch)
{
    unsigned i;
    int ret;

    if (perf_pool_check_all(pool) != 0) {
        return -1;
    }
    ++sweep->next_job;
    for (i = 0; i < sweep->num_flows; ++i) {
        perf_flow_cleanup(&sweep->flows[i]);
        if (perf_flow_init(sweep, &sweep->flows[i], view, batch, 1) != 0) {
            return -1;
        }
    }
    ret = perf_sweep_is_pingpong(sweep) ? perf_pingpong_check(sweep, pool, batch)
                                        : perf_sweep_move_checked(sweep, pool, batch);
    return (ret == 0) ? perf_pool_check_all(pool) : ret;
}

/* ---- Rows ------------------------------------------------------------------------ */

static int perf_sweep_row(perf_sweep_t *sweep, const perf_row_t *row)
{
    const perf_options_t *options = sweep->options;
    const unsigned view = row->view;
    const uint32_t batch = row->batch;
    uint64_t num_iter = options->num_iter, warmup = options->warmup_iter;
    perf_pool_t *pool = NULL;
    int ret = -1;
    unsigned i;

    if (sweep->block_sizes[view] * batch > PERF_LARGE_REQUEST) {
        num_iter =
            (num_iter + options->large_blk_iter_ftr - 1) / options->large_blk_iter_ftr;
        warmup =
            (warmup + options->large_blk_iter_ftr - 1) / options->large_blk_iter_ftr;
    }

    ++sweep->next_job;
    perf_result_init(&sweep->result);
    sweep->result.block_size = sweep->block_sizes[view];
    snprintf(sweep->result.label, sizeof(sweep->result.label), "%s", row->label);
    snprintf(sweep->result.device, sizeof(sweep->result.device), "%s",
             perf_memory_device(sweep->run->memory));
    for (i = 0; i < sweep->num_flows; ++i) {
        if (perf_flow_init(sweep, &sweep->flows[i], view, batch, num_iter + warmup) !=
            0) {
            goto out;
        }
    }
    if (options->is_check && ((pool = perf_sweep_pool(sweep, row)) == NULL)) {
        goto out;
    }
    ret = perf_sweep_is_pingpong(sweep)
              ? perf_pingpong_measure(sweep, batch, num_iter, warmup)
              : perf_sweep_measure(sweep, batch, num_iter, warmup);
    if ((ret != 0) ||
        ((pool != NULL) && (perf_sweep_check(sweep, pool, view, batch) != 0))) {
        ret = -1;
        goto out;
    }

    sweep->bytes_done += sweep->block_sizes[view] * batch * (num_iter + warmup);
    sweep->result.is_checked = (uint32_t)options->is_check;
    sweep->ops->path(sweep->engine, 0, sweep->result.path, sizeof(sweep->result.path));
    ret = perf_run_report(sweep->run, &sweep->result, perf_sweep_idle, sweep);
out:
    if (pool != NULL) {
        perf_pool_destroy(pool);
    }
    for (i = 0; i < sweep->num_flows; ++i) {
        perf_flow_cleanup(&sweep->flows[i]);
    }
    return ret;
}

static int perf_sweep_rows(perf_sweep_t *sweep)
{
    const perf_options_t *options = sweep->options;
    const perf_row_t *row;

    for (row = sweep->rows; row < sweep->rows + sweep->rows_total; ++row) {
        if (perf_sweep_row(sweep, row) != 0) {
            return -1;
        }
        ++sweep->rows_done;
    }

    perf_progress_clear();
    if ((sweep->rows_left_out > 0) && (sweep->run->rank == 0)) {
        perf_warn(
            "%u rows were left out: their blocks do not fit into a flow's share of "
            "--total_buffer_size %" PRIu64,
            sweep->rows_left_out, options->total_buffer_size);
    }
    return 0;
}

static int perf_sweep_check_rows(const perf_sweep_t *sweep)
{
    const perf_options_t *options = sweep->options;

    if (sweep->rows_total > 0) {
        return 0;
    }
    perf_error("no %u blocks of %" PRIu64 " bytes fit into a flow's share of "
               "--total_buffer_size %" PRIu64,
               options->start_batch_size, options->start_block_size,
               options->total_buffer_size);
    return -1;
}

static int perf_sweep_go(perf_sweep_t *sweep)
{
    int ret;

    if (sweep->ops->open(&sweep->params, &sweep->engine) != 0) {
        return -1;
    }

    ret = perf_sweep_barrier(sweep);
    if (ret == 0) {
        ret = perf_sweep_rows(sweep);
    }
    if (ret == 0) { /* no process closes while others still move */
        sweep->ops->end_of_test(sweep->engine);
        ret = perf_sweep_barrier(sweep);
    }
    sweep->ops->close(sweep->engine);
    return ret;
}

/*
 * Frameworks cut caches out of larger allocations, so that the buffer lies inside of
 * one: a runtime or a driver that loses its offset then moves other bytes. A small odd
 * size stays as it is, see perf_memory_alloc().
 */
static size_t perf_sweep_offset(size_t size)
{
    return (size % 16 == 0) ? (size_t)2 << 20 : 0;
}

int perf_sweep_run(perf_run_t *run)
{
    perf_sweep_t *sweep;
    size_t offset, allocated;
    char *allocation = NULL;
    int ret = -1;

    sweep = calloc(1, sizeof(*sweep));
    if (sweep == NULL) {
        perf_error("no memory for a sweep");
        return -1;
    }

    sweep->run = run;
    sweep->options = run->options;
    sweep->ops =
        (run->options->api == PERF_API_MKV) ? &perf_engine_mkv : &perf_engine_ucp;
    sweep->params.run = run;
    sweep->params.size = (size_t)run->options->total_buffer_size;
    perf_sweep_add_flows(sweep);
    perf_sweep_plan(sweep);
    offset = perf_sweep_offset(sweep->params.size);
    allocated = offset + sweep->params.size;
    if (perf_sweep_check_rows(sweep) == 0) {
        allocation = perf_memory_alloc(run->memory, allocated);
    }
    if (allocation != NULL) {
        sweep->params.buffer = allocation + offset;
        ret = perf_sweep_go(sweep);
        perf_memory_free(run->memory, allocation, allocated);
    }
    free(sweep);
    return ret;
}
