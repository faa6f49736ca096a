/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_GEOMETRY_H
#define PERF_GEOMETRY_H

/**
 * @file
 * KV cache shapes of real models: how many pieces of how many bytes one block of
 * tokens is on one tensor-parallel rank.
 *
 * Pure arithmetic on values; no state, any thread.
 */

#include "perf/workload/model.h"

#include <stddef.h>


/** Part of a component that one rank holds. A piece is the data of one layer and part
 * in a block. */
typedef struct perf_share {
    unsigned block_tokens; /**< Tokens in a block; 1 for a state */
    unsigned entries;      /**< Units in a block: tokens, or compressed entries */
    size_t inner_bytes;    /**< Bytes of an element */
    size_t piece_bytes;    /**< Bytes of a block in one layer and part */
} perf_share_t;


/** Part of a block that one rank holds. */
typedef struct perf_geometry {
    perf_model_t model;
    unsigned tp;           /**< Ranks that share the model */
    unsigned num_layers;   /**< Layers of the model */
    unsigned num_parts;    /**< Parts of component 0; 2: keys and values apart */
    unsigned block_tokens; /**< Tokens in a block */
    unsigned key_tokens;   /**< Tokens of a block that share a key of their contents:
                                all, or as many as the peer's blocks have, if fewer */
    size_t piece_bytes;    /**< Bytes of a piece of the first component */
    size_t block_bytes; /**< Bytes of a block in all components that keep every token */
    perf_share_t shares[PERF_MAX_COMPONENTS];
} perf_geometry_t;


/**
 * Compute one rank's geometry.
 *
 * Elements of a group are divided over the ranks; with more ranks than elements, each
 * rank has one and ranks hold copies. Data without groups, as an MLA latent, is never
 * divided.
 *
 * @param [in]  model         Name of a model, or a path: @ref perf_model_read.
 * @param [in]  tp            Tensor-parallel ranks; 0: the model's.
 * @param [in]  block_tokens  Tokens in a block, up to 8192; 0: the model's.
 * @param [in]  dtype         "bf16", "fp16", "fp8" or "fp32"; NULL: the model's.
 * @param [out] geometry_p    Set only on success.
 *
 * @return 0, or -1 after @ref perf_error named the value and the expectation.
 */
int perf_geometry_init(const char *model, unsigned tp, unsigned block_tokens,
                       const char *dtype, perf_geometry_t *geometry_p);

/** @return The type's name as it is spelt here, or NULL after @ref perf_error. */
const char *perf_dtype_name(const char *dtype);

/**
 * Blocks of a component that go with a prompt.
 *
 * @param [in]  tokens   Of the prompt, at least 1.
 * @param [out] first_p  The first one, counted in blocks of this component from the
 *                       prompt's begin: not 0 for windows.
 *
 * @return How many there are.
 */
unsigned perf_geometry_units(const perf_geometry_t *geometry, unsigned component,
                             unsigned tokens, unsigned *first_p);

/** Most blocks of a window, chunk or state that any prompt has; 0: no limit. */
unsigned perf_geometry_max_units(const perf_geometry_t *geometry, unsigned component);

/** Pieces and bytes that go with a prompt of which the peer has nothing. */
void perf_geometry_prompt(const perf_geometry_t *geometry, unsigned tokens,
                          uint64_t *pieces_p, uint64_t *bytes_p);

/** Keys of a block's contents. */
static inline unsigned perf_geometry_num_keys(const perf_geometry_t *geometry)
{
    return geometry->block_tokens / geometry->key_tokens;
}

/** Blocks that @a tokens tokens take, the last one perhaps in part. */
static inline unsigned perf_geometry_blocks(const perf_geometry_t *geometry,
                                            unsigned tokens)
{
    return (tokens / geometry->block_tokens) + ((tokens % geometry->block_tokens) != 0);
}

#endif
