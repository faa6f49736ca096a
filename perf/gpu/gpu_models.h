/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef GPU_MODELS_H
#define GPU_MODELS_H

/**
 * @file
 * The requests of mori_kv_perf's models, for the parts of gpu_limits that move them.
 */

#include "perf/memory/block_moves.h"


/** Bytes of a command line of mori_kv_perf. */
#define GPU_MODELS_COMMAND 256


/** Call @a run with each length of --lengths. */
void gpu_models_each_length(const char *name,
                            void (*run)(const char *name, unsigned long length));


/**
 * The requests of a model with prompts of @a length tokens and blocks of 16, to be
 * destroyed by perf_block_moves_destroy().
 *
 * @param [out] command  Options of mori_kv_perf for the same requests.
 */
perf_block_moves_t *gpu_models_moves(const char *name, unsigned tp,
                                     unsigned long length,
                                     char command[GPU_MODELS_COMMAND]);

#endif
