/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef GPU_CACHE_H
#define GPU_CACHE_H

/**
 * @file
 * The KV caches of two devices, with the layout of mori_kv_perf, and the check of every
 * byte of the second one. They may be larger than the host's memory: bytes follow from
 * their place in the first cache. They are compared piece by piece in a few bounded
 * buffers, each with a thread of its own.
 */

#include "perf/memory/pool.h"

#include <stdbool.h>
#include <stdint.h>


/** Indices of the devices, in the order of gpu_bench_t::devices. */
enum { GPU_CACHE_SRC, GPU_CACHE_DST, GPU_CACHE_NUM };

typedef struct gpu_cache {
    perf_pool_shape_t shape;
    char **layers[GPU_CACHE_NUM];
    uint32_t *origins; /**< Source of each block of the second cache */
} gpu_cache_t;


/** Allocate both and fill the first one. Pieces must be multiples of 8 bytes. */
void gpu_cache_init(gpu_cache_t *cache, const perf_pool_shape_t *shape);


void gpu_cache_cleanup(gpu_cache_t *cache);


/** Overwrite the second cache, so that later checks find only bytes copied after
 * this. */
void gpu_cache_poison(gpu_cache_t *cache);


/** Expect block dst[i] of the second cache to hold block src[i] of the first. */
void gpu_cache_expect(gpu_cache_t *cache, const uint32_t *src, const uint32_t *dst,
                      uint32_t num_blocks);


/** Compare every byte of the second one; prints a piece that is wrong. */
bool gpu_cache_is_good(gpu_cache_t *cache);

#endif
