/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/kv_perf/sweep.h"
#include "perf/workload/benchmarks.h"
#include "perf/workload/error.h"
#include "perf/workload/random.h"

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
