/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/workload/engine_side.h"
#include "perf/workload/generator.h"
#include "perf/workload/trace.h"

#include <string.h>


static int perf_engine_side_open_source(const perf_options_t *options,
                                        perf_engine_side_t *side)
{
    perf_generator_config_t config = {options->seed, options->input_length,
                                      options->output_length, options->is_exact_length};

    return (options->trace != NULL) ? perf_trace_open(options->trace, &side->source)
                                    : perf_generator_create(&config, &side->source);
}

int perf_engine_side_open(const perf_options_t *options, bool is_prefill,
                          perf_engine_side_t *side)
{
    memset(side, 0, sizeof(*side));
    if (perf_geometry_init(options->model, options->tp, options->block_tokens,
                           options->dtype, &side->geometry) != 0) {
        return -1;
    }

    side->is_prefill = is_prefill;
    side->num_requests = options->num_requests;
    side->shape.num_layers = side->geometry.num_layers;
    side->shape.num_parts = side->geometry.num_parts;
    side->shape.piece_bytes = side->geometry.piece_bytes;
    side->shape.num_blocks =
        (options->num_blocks != 0)
            ? options->num_blocks
            : (uint32_t)(options->total_buffer_size / side->geometry.block_bytes);
    if (perf_engine_side_open_source(options, side) != 0) {
        return -1;
    }
    return perf_block_tables_create(&side->geometry, side->shape.num_blocks,
                                    options->seed + 1 + (uint64_t)is_prefill,
                                    &side->tables);
}

void perf_engine_side_close(perf_engine_side_t *side)
{
    if (side->tables != NULL) {
        perf_block_tables_destroy(side->tables);
    }
    if (side->source != NULL) {
        perf_source_destroy(side->source);
    }
}

int perf_engine_side_admit(perf_engine_side_t *side, perf_block_table_t **table_p)
{
    int ret;

    if (side->num_admitted == side->num_requests) {
        return 0;
    }
    if (side->request == NULL) {
        ret = perf_source_next(side->source, &side->request);
        if (ret == 0) { /* a short trace */
            side->num_requests = side->num_admitted;
        }
        if (ret <= 0) {
            return ret;
        }
    }

    ret = perf_block_tables_admit(side->tables, side->request, side->num_admitted,
                                  table_p);
    if (ret > 0) {
        ++side->num_admitted;
        side->request = NULL;
    }
    return ret;
}

void perf_engine_side_finish(perf_engine_side_t *side, perf_block_table_t *table)
{
    if (side->is_prefill) {
        perf_block_tables_release(side->tables, table);
    } else {
        perf_block_tables_decode(side->tables, table);
    }
}
