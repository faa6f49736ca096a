/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Keys, of blocks or of parts of them that have a key of their own. A full one of a
 * prompt: the hash of its last token and that token's place among the 512 of the hash,
 * so that equal prefixes are equal keys. The last block, when it is not full: the
 * request's number with the top bit. Blocks of private requests: the next bit. Blocks
 * of answers: 0.
 */

#include "perf/memory/block_tables.h"
#include "perf/workload/allocator.h"
#include "perf/workload/generator.h"
#include "perf/base/error.h"
#include "perf/memory/pool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>


enum {
    PERF_TOKENS_PER_S = 40, /* of one sequence */
    PERF_PRIVATE_LENGTH = 1024,
    PERF_PRIVATE_SEQUENCES = 8
};

#define PERF_KEY_PARTIAL (UINT64_C(1) << 63)
#define PERF_KEY_PRIVATE (UINT64_C(1) << 62)

/* A sequence that generates its answer, in the order of arrival. */
typedef struct perf_sequence {
    struct perf_sequence *next;
    perf_block_table_t *table;
    uint32_t *output;
    uint32_t num_output;
} perf_sequence_t;

struct perf_block_tables {
    const perf_geometry_t *geometry;
    perf_allocator_t *allocator;
    uint32_t num_blocks;
    uint64_t now_ms;
    perf_sequence_t *sequences;
};


static void perf_block_table_free(perf_block_table_t *table)
{
    if (table->contents != table->keys) {
        free(table->contents);
    }
    free(table->blocks);
    free(table->keys);
    free(table);
}

/* Key of some tokens of a prompt. Blocks behind the prompt's end keep their
 * contents. */
static uint64_t perf_prompt_key(const perf_request_t *request, uint64_t number,
                                uint32_t first, uint32_t num)
{
    const uint32_t last = first + num - 1;

    if (first >= request->input_length) {
        return PERF_POOL_UNTOUCHED;
    }
    if (last >= request->input_length) {
        return PERF_KEY_PARTIAL | number;
    }
    return request->hashes[last / PERF_HASH_TOKENS] * PERF_HASH_TOKENS +
           last % PERF_HASH_TOKENS + 1;
}

static perf_block_table_t *perf_block_table_create(const perf_geometry_t *geometry,
                                                   const perf_request_t *request,
                                                   uint64_t number)
{
    perf_block_table_t *table;
    const uint32_t num_keys = perf_geometry_num_keys(geometry);
    uint32_t i;

    table = calloc(1, sizeof(*table));
    if (table == NULL) {
        goto err;
    }

    table->num_blocks = perf_geometry_blocks(geometry, request->input_length);
    table->blocks = calloc(table->num_blocks, sizeof(*table->blocks));
    table->keys = calloc(table->num_blocks, sizeof(*table->keys));
    table->contents = (num_keys == 1) ? table->keys
                                      : calloc((size_t)table->num_blocks * num_keys,
                                               sizeof(*table->contents));
    if ((table->blocks == NULL) || (table->keys == NULL) || (table->contents == NULL)) {
        perf_block_table_free(table);
        goto err;
    }

    for (i = 0; i < table->num_blocks * num_keys; ++i) {
        table->contents[i] = perf_prompt_key(request, number, i * geometry->key_tokens,
                                             geometry->key_tokens);
    }
    for (i = 0; i < table->num_blocks; ++i) {
        table->keys[i] = perf_prompt_key(request, number, i * geometry->block_tokens,
                                         geometry->block_tokens);
    }
    table->number = number;
    table->tokens = request->input_length;
    table->output_blocks = perf_geometry_blocks(geometry, request->output_length);
    table->timestamp_ms = request->timestamp_ms;
    return table;

err:
    perf_error("no memory for the block table of request %" PRIu64, number);
    return NULL;
}

static void perf_sequence_finish(perf_block_tables_t *tables, perf_sequence_t **link)
{
    perf_sequence_t *sequence = *link;

    *link = sequence->next;
    perf_allocator_put(tables->allocator, sequence->output, sequence->num_output);
    perf_allocator_put(tables->allocator, sequence->table->blocks,
                       sequence->table->num_blocks);
    perf_block_table_free(sequence->table);
    free(sequence->output);
    free(sequence);
}

/* Blocks of the answer that the sequence has generated so far. */
static uint32_t perf_sequence_due(const perf_block_tables_t *tables,
                                  const perf_sequence_t *sequence)
{
    uint64_t age_ms = tables->now_ms - sequence->table->timestamp_ms;
    uint64_t tokens = age_ms * PERF_TOKENS_PER_S / 1000;
    uint64_t blocks = tokens / tables->geometry->block_tokens;

    return (blocks < sequence->table->output_blocks) ? (uint32_t)blocks
                                                     : sequence->table->output_blocks;
}

/* Grow each request by one block in turn, until all have their length. */
static void perf_block_tables_advance(perf_block_tables_t *tables, uint64_t now_ms)
{
    static const uint64_t no_key = 0;
    perf_sequence_t **link;
    uint32_t shared;
    bool is_grown;

    tables->now_ms = (now_ms > tables->now_ms) ? now_ms : tables->now_ms;
    do {
        is_grown = false;
        link = &tables->sequences;
        while (*link != NULL) {
            if ((*link)->num_output >= (*link)->table->output_blocks) {
                perf_sequence_finish(tables, link);
                continue;
            }
            if (((*link)->num_output < perf_sequence_due(tables, *link)) &&
                (perf_allocator_get(tables->allocator, &no_key, 1,
                                    &(*link)->output[(*link)->num_output],
                                    &shared) == 0)) {
                ++(*link)->num_output;
                is_grown = true;
            }
            link = &(*link)->next;
        }
    } while (is_grown);
}

/* Take blocks; sequences end early if need be, as if time had passed. 0: no room. */
static int perf_block_tables_place(perf_block_tables_t *tables,
                                   perf_block_table_t *table)
{
    while (perf_allocator_get(tables->allocator, table->keys, table->num_blocks,
                              table->blocks, &table->num_shared) != 0) {
        if (tables->sequences == NULL) {
            return 0;
        }
        perf_sequence_finish(tables, &tables->sequences);
    }
    return 1;
}

int perf_block_tables_admit(perf_block_tables_t *tables, const perf_request_t *request,
                            uint64_t number, perf_block_table_t **table_p)
{
    perf_block_table_t *table;

    table = perf_block_table_create(tables->geometry, request, number);
    if (table == NULL) {
        return -1;
    }
    if (table->num_blocks > tables->num_blocks) {
        perf_error("request %" PRIu64 " of %u tokens takes %u blocks; expected at most "
                   "the pool's %u, see --num_blocks and --total_buffer_size",
                   number, request->input_length, table->num_blocks,
                   tables->num_blocks);
        perf_block_table_free(table);
        return -1;
    }

    perf_block_tables_advance(tables, request->timestamp_ms);
    if (!perf_block_tables_place(tables, table)) {
        perf_block_table_free(table);
        return 0;
    }

    *table_p = table;
    return 1;
}

void perf_block_tables_release(perf_block_tables_t *tables, perf_block_table_t *table)
{
    perf_allocator_put(tables->allocator, table->blocks, table->num_blocks);
    perf_block_table_free(table);
}

void perf_block_tables_decode(perf_block_tables_t *tables, perf_block_table_t *table)
{
    perf_sequence_t *sequence, **link;

    sequence = calloc(1, sizeof(*sequence));
    if (sequence != NULL) {
        sequence->table = table;
        sequence->output = calloc(table->output_blocks, sizeof(*sequence->output));
    }
    if ((sequence == NULL) || (sequence->output == NULL)) {
        free(sequence); /* no answer then; the prompt counts */
        perf_block_tables_release(tables, table);
        return;
    }

    for (link = &tables->sequences; *link != NULL; link = &(*link)->next) {
    }
    *link = sequence;
}

/* Admit a request that shares no block. 1: done, 0: does not fit, -1: error. */
static int perf_block_tables_age_once(perf_block_tables_t *tables,
                                      perf_source_t *source, uint64_t number,
                                      uint64_t *used_p)
{
    const perf_request_t *request;
    perf_block_table_t *table;
    uint32_t i;

    if ((perf_source_next(source, &request) < 0) ||
        ((table = perf_block_table_create(tables->geometry, request, number)) ==
         NULL)) {
        return -1;
    }

    for (i = 0; i < table->num_blocks; ++i) {
        table->keys[i] |= PERF_KEY_PRIVATE;
    }
    perf_block_tables_advance(tables, request->timestamp_ms);
    if (!perf_block_tables_place(tables, table)) {
        perf_block_table_free(table);
        return 0;
    }

    *used_p += table->num_blocks - table->num_shared + table->output_blocks;
    perf_block_tables_decode(tables, table);
    return 1;
}

/* Use the pool as earlier requests would have, until each block was taken once. */
static int perf_block_tables_age(perf_block_tables_t *tables, uint64_t seed)
{
    perf_generator_config_t config = {seed, PERF_PRIVATE_LENGTH, PERF_PRIVATE_LENGTH,
                                      0};
    uint64_t used = 0, number = 0, pool_tokens;
    perf_source_t *source;
    int ret = 1;

    /* small pools are shuffled only by requests of which several fit */
    pool_tokens = (uint64_t)tables->num_blocks * tables->geometry->block_tokens;
    if (config.input_length > pool_tokens / PERF_PRIVATE_SEQUENCES) {
        config.input_length = config.output_length = tables->geometry->block_tokens;
    }
    if (perf_generator_create(&config, &source) != 0) {
        return -1;
    }

    while ((ret > 0) && (used < 2 * (uint64_t)tables->num_blocks)) {
        ret = perf_block_tables_age_once(tables, source, number++, &used);
    }

    while (tables->sequences != NULL) {
        perf_sequence_finish(tables, &tables->sequences);
    }
    tables->now_ms = 0;
    perf_source_destroy(source);
    return (ret < 0) ? -1 : 0;
}

int perf_block_tables_create(const perf_geometry_t *geometry, uint32_t num_blocks,
                             uint64_t seed, perf_block_tables_t **tables_p)
{
    perf_block_tables_t *tables;

    tables = calloc(1, sizeof(*tables));
    if (tables == NULL) {
        perf_error("no memory for block tables");
        return -1;
    }

    tables->geometry = geometry;
    tables->num_blocks = num_blocks;
    if (perf_allocator_create(num_blocks, &tables->allocator) != 0) {
        free(tables);
        return -1;
    }
    if (perf_block_tables_age(tables, seed) != 0) {
        perf_block_tables_destroy(tables);
        return -1;
    }

    *tables_p = tables;
    return 0;
}

void perf_block_tables_destroy(perf_block_tables_t *tables)
{
    while (tables->sequences != NULL) {
        perf_sequence_finish(tables, &tables->sequences);
    }
    perf_allocator_destroy(tables->allocator);
    free(tables);
}
