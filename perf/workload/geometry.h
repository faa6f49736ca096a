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

#include <stddef.h>


/** What a model stores for each token. */
typedef struct perf_model {
    const char *name;
    unsigned num_layers;
    unsigned num_kv_heads; /**< 0 for MLA */
    unsigned head_dim;     /**< Elements per head; for MLA, of the latent and rope */
} perf_model_t;


/** One rank's share of a block. A piece is what one layer and part keep together. */
typedef struct perf_geometry {
    const char *model;
    unsigned num_layers;
    unsigned num_parts;    /**< 2: keys and values apart; 1: MLA latent */
    unsigned block_tokens; /**< Tokens in a block */
    size_t piece_bytes;    /**< One block in one layer and part, bytes */
    size_t block_bytes;    /**< One block in all layers and parts, bytes */
} perf_geometry_t;


/** Known models, ended by an entry whose name is NULL. */
extern const perf_model_t perf_models[];


/**
 * Work out one rank's geometry.
 *
 * Grouped-query heads are divided over the ranks; with more ranks than heads, each
 * rank has one head and ranks hold copies. An MLA latent is never divided.
 *
 * @param [in]  model         Name of a model, case ignored.
 * @param [in]  tp            Tensor-parallel ranks, at least 1.
 * @param [in]  block_tokens  Tokens in a block: a power of two up to 512, so that
 *                            blocks divide the 512-token pieces prefixes are hashed in.
 * @param [in]  dtype         "bf16", "fp16", "fp8" or "fp32".
 * @param [out] geometry_p    Set only on success; model points into @ref perf_models.
 *
 * @return 0, or -1 after @ref perf_error named the value and what was expected.
 */
int perf_geometry_init(const char *model, unsigned tp, unsigned block_tokens,
                       const char *dtype, perf_geometry_t *geometry_p);


/** Blocks that @a tokens tokens take, the last one perhaps in part. */
static inline unsigned perf_geometry_blocks(const perf_geometry_t *geometry,
                                            unsigned tokens)
{
    return (tokens / geometry->block_tokens) + ((tokens % geometry->block_tokens) != 0);
}

#endif
