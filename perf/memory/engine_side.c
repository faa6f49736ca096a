/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Components that keep every token share the block list of the table. Each other
 * component has its own slots: one for each request in flight and some spare ones, so
 * that a released list is not reused at once.
 */

#include "perf/memory/engine_side.h"
#include "perf/base/error.h"
#include "perf/workload/generator.h"
#include "perf/workload/trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>


/* Keys of components that do not keep every token; see block_tables.c for the others'
 * bits. */
#define PERF_KEY_SLOT (UINT64_C(1) << 61)

static int perf_engine_side_open_source(const perf_options_t *options,
                                        perf_engine_side_t *side)
{
    perf_generator_config_t config = {options->seed, options->input_length,
                                      options->output_length, options->is_exact_length};

    return (options->trace != NULL) ? perf_trace_open(options->trace, &side->source)
                                    : perf_generator_create(&config, &side->source);
}

/* Which elements of each group a rank has. */
static void perf_cells_init(const perf_component_t *component,
                            const perf_share_t *share, unsigned tp, unsigned rank,
                            perf_layout_t layout, perf_cells_t *cells)
{
    unsigned i, num;

    cells->num_groups = component->num_groups;
    cells->outer = component->outer;
    cells->entries = share->entries;
    cells->has_heads_first = (layout == PERF_LAYOUT_HND) && (share->entries > 1);
    cells->inner_bytes = share->inner_bytes;
    for (i = 0; i < component->num_groups; ++i) {
        num = component->groups[i];
        cells->num[i] = (num > tp) ? num / tp : 1;
        cells->first[i] = (num > tp) ? rank * (num / tp) : rank / (tp / num);
    }
}

static size_t perf_shape_block_bytes(const perf_pool_shape_t *shape)
{
    return shape->piece_bytes * shape->num_layers * shape->num_parts;
}

static int perf_engine_side_open_slots(const perf_options_t *options, unsigned i,
                                       perf_engine_side_t *side)
{
    const unsigned per_request = perf_geometry_max_units(&side->geometry, i);
    const uint32_t num_requests = 2 * options->pipeline_depth + 2;

    side->shapes[i].num_blocks = num_requests * per_request;
    return perf_slots_create(
        num_requests, per_request, side->geometry.model.components[i].is_ring,
        options->seed * 31 + i * 2 + side->is_prefill, &side->slots[i]);
}

/* The memory that slots leave free is for blocks. */
static int perf_engine_side_num_blocks(const perf_options_t *options,
                                       perf_engine_side_t *side, uint32_t *num_p)
{
    uint64_t slots = 0;
    unsigned i;

    for (i = 0; i < side->geometry.model.num_components; ++i) {
        if (side->slots[i] != NULL) {
            slots +=
                side->shapes[i].num_blocks * perf_shape_block_bytes(&side->shapes[i]);
        }
    }
    if (options->num_blocks != 0) {
        *num_p = options->num_blocks;
        return 0;
    }
    if (options->total_buffer_size < slots + side->geometry.block_bytes) {
        perf_error("windows and states of %u requests take %" PRIu64
                   " bytes, and one block %zu; see --total_buffer_size, now %" PRIu64,
                   2 * options->pipeline_depth + 2, slots, side->geometry.block_bytes,
                   options->total_buffer_size);
        return -1;
    }
    *num_p =
        (uint32_t)((options->total_buffer_size - slots) / side->geometry.block_bytes);
    return 0;
}

static int perf_engine_side_open_shapes(const perf_options_t *options, unsigned rank,
                                        perf_engine_side_t *side)
{
    const perf_component_t *component;
    perf_pool_shape_t *shape;
    uint32_t num_blocks;
    unsigned i;

    for (i = 0; i < side->geometry.model.num_components; ++i) {
        component = &side->geometry.model.components[i];
        shape = &side->shapes[i];
        shape->num_layers = component->num_layers;
        shape->num_parts = component->parts;
        shape->piece_bytes = side->geometry.shares[i].piece_bytes;
        shape->is_slab = component->is_slab;
        shape->num_keys = (component->keep == PERF_KEEP_ALL)
                              ? perf_geometry_num_keys(&side->geometry)
                              : 1;
        if (perf_options_is_cut(options)) {
            perf_cells_init(component, &side->geometry.shares[i], side->geometry.tp,
                            rank,
                            side->is_prefill ? options->layout : options->decode_layout,
                            &shape->cells);
        }
        if ((component->keep == PERF_KEEP_ALL) && (component->num_groups == 0) &&
            (side->peer_block_tokens != side->geometry.block_tokens)) {
            shape->cells.num_groups = shape->cells.num[0] = 1; /* of a token */
        }
        if ((component->keep != PERF_KEEP_ALL) &&
            (perf_engine_side_open_slots(options, i, side) != 0)) {
            return -1;
        }
    }
    if (perf_engine_side_num_blocks(options, side, &num_blocks) != 0) {
        return -1;
    }
    for (i = 0; i < side->geometry.model.num_components; ++i) {
        if (side->slots[i] == NULL) {
            side->shapes[i].num_blocks = num_blocks;
        }
    }
    return 0;
}

int perf_engine_side_open(const perf_options_t *options, bool is_prefill, unsigned rank,
                          perf_engine_side_t *side)
{
    unsigned tokens = is_prefill ? options->block_tokens : options->decode_block_tokens;

    memset(side, 0, sizeof(*side));
    side->is_prefill = is_prefill;
    side->peer_block_tokens =
        is_prefill ? options->decode_block_tokens : options->block_tokens;
    side->num_requests = options->num_requests;
    if (perf_geometry_init(options->model,
                           is_prefill ? options->tp : options->decode_tp, tokens,
                           options->dtype, &side->geometry) != 0) {
        return -1;
    }
    side->geometry.key_tokens =
        (side->peer_block_tokens < tokens) ? side->peer_block_tokens : tokens;
    if ((perf_engine_side_open_shapes(options, rank, side) != 0) ||
        (perf_engine_side_open_source(options, side) != 0)) {
        return -1;
    }
    return perf_block_tables_create(&side->geometry, side->shapes[0].num_blocks,
                                    options->seed + 1 + (uint64_t)is_prefill,
                                    &side->tables);
}

void perf_engine_side_close(perf_engine_side_t *side)
{
    unsigned i;

    if (side->tables != NULL) {
        perf_block_tables_destroy(side->tables);
    }
    if (side->source != NULL) {
        perf_source_destroy(side->source);
    }
    for (i = 0; i < PERF_MAX_COMPONENTS; ++i) {
        perf_slots_destroy(side->slots[i]);
    }
}

/* Blocks of a component beside the table's. 0: no room. */
static int perf_engine_side_take(perf_engine_side_t *side, unsigned component,
                                 const perf_block_table_t *table, perf_list_t *list)
{
    unsigned num, first, i;

    num = perf_geometry_units(&side->geometry, component, table->tokens, &first);
    list->blocks = calloc(num, sizeof(*list->blocks));
    list->keys = calloc(num, sizeof(*list->keys));
    if ((list->blocks == NULL) || (list->keys == NULL)) {
        perf_error("no memory for the %u blocks of a window", num);
        return -1;
    }
    if (perf_slots_get(side->slots[component], num, first, list->blocks) != 0) {
        return 0;
    }
    list->num = num;
    for (i = 0; i < num; ++i) {
        list->keys[i] = PERF_KEY_SLOT | (table->number << 24) | i;
    }
    return 1;
}

static void perf_engine_side_give_back(perf_engine_side_t *side,
                                       perf_admitted_t *admitted)
{
    perf_list_t *list;
    unsigned i;

    for (i = 0; i < side->geometry.model.num_components; ++i) {
        list = &admitted->lists[i];
        if (side->slots[i] != NULL) {
            if (list->num > 0) {
                perf_slots_put(side->slots[i], list->num, list->blocks);
            }
            free(list->blocks);
            free(list->keys);
        }
        *list = (perf_list_t){0};
    }
}

static int perf_engine_side_lists(perf_engine_side_t *side, perf_admitted_t *admitted)
{
    const perf_block_table_t *table = admitted->table;
    unsigned i;
    int ret = 1;

    memset(admitted->lists, 0, sizeof(admitted->lists));
    for (i = 0; (i < side->geometry.model.num_components) && (ret > 0); ++i) {
        if (side->slots[i] != NULL) {
            ret = perf_engine_side_take(side, i, table, &admitted->lists[i]);
        } else {
            admitted->lists[i] = (perf_list_t){table->num_blocks, table->num_shared,
                                               table->blocks, table->contents};
        }
    }
    if (ret <= 0) {
        perf_engine_side_drop(side, admitted);
    }
    return ret;
}

int perf_engine_side_admit(perf_engine_side_t *side, perf_admitted_t *admitted)
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
                                  &admitted->table);
    if (ret > 0) {
        ret = perf_engine_side_lists(side, admitted);
    }
    if (ret > 0) {
        ++side->num_admitted;
        side->request = NULL;
    }
    return ret;
}

void perf_engine_side_finish(perf_engine_side_t *side, perf_admitted_t *admitted)
{
    perf_engine_side_give_back(side, admitted);
    if (side->is_prefill) {
        perf_block_tables_release(side->tables, admitted->table);
    } else {
        perf_block_tables_decode(side->tables, admitted->table);
    }
}

void perf_engine_side_drop(perf_engine_side_t *side, perf_admitted_t *admitted)
{
    perf_engine_side_give_back(side, admitted);
    perf_block_tables_release(side->tables, admitted->table);
}
