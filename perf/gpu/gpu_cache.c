/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/gpu/gpu_cache.h"

#include "perf/gpu/gpu_bench.h"

#include "perf/memory/pattern.h"
#include "perf/base/random.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_WORKERS 8
#define CACHE_BUFFER (8ul << 20)
#define CACHE_POISON 0xee
#define CACHE_POISON_WORD UINT64_C(0xeeeeeeeeeeeeeeee)
#define CACHE_UNTOUCHED UINT32_MAX

typedef struct cache_worker {
    gpu_cache_t *cache;
    unsigned number; /* worker n handles the layers n, n + CACHE_WORKERS, ... */
    bool is_check;
    char *buffer;
    char wrong[160];
} cache_worker_t;


static size_t layer_pieces(const gpu_cache_t *cache)
{
    return (size_t)cache->shape.num_parts * cache->shape.num_blocks;
}

static size_t layer_size(const gpu_cache_t *cache)
{
    return layer_pieces(cache) * cache->shape.piece_bytes;
}

/* Contents of the first cache from a piece of a layer on. */
static uint64_t piece_seed(const gpu_cache_t *cache, unsigned layer, size_t piece)
{
    return perf_pattern_word(perf_mix(layer + 1),
                             piece * (cache->shape.piece_bytes / sizeof(uint64_t)));
}

static bool is_poison(const void *buffer, size_t length)
{
    const uint64_t *words = buffer;
    uint64_t wrong = 0;
    size_t i;

    for (i = 0; i < length / sizeof(*words); ++i) {
        wrong |= words[i] ^ CACHE_POISON_WORD;
    }
    return wrong == 0;
}

static bool is_piece_good(const gpu_cache_t *cache, unsigned layer, size_t piece,
                          const char *found)
{
    uint32_t block = (uint32_t)(piece % cache->shape.num_blocks);
    uint32_t origin = cache->origins[block];

    if (origin == CACHE_UNTOUCHED) {
        return is_poison(found, cache->shape.piece_bytes);
    }
    return perf_pattern_is_made(found, cache->shape.piece_bytes,
                                piece_seed(cache, layer, piece - block + origin));
}

static void look_at(cache_worker_t *worker, unsigned layer, size_t piece, size_t count)
{
    const gpu_cache_t *cache = worker->cache;
    size_t size = cache->shape.piece_bytes;
    size_t i;

    gpu_check(gpu_bench.gpu.copy(worker->buffer,
                                 cache->layers[GPU_CACHE_DST][layer] + (piece * size),
                                 count * size, GPU_COPY_DEFAULT),
              "hipMemcpy");
    for (i = 0; (i < count) && (worker->wrong[0] == '\0'); ++i) {
        if (!is_piece_good(cache, layer, piece + i, worker->buffer + (i * size))) {
            snprintf(worker->wrong, sizeof(worker->wrong),
                     "layer %u part %zu block %zu, which %s", layer,
                     (piece + i) / cache->shape.num_blocks,
                     (piece + i) % cache->shape.num_blocks,
                     (cache->origins[(piece + i) % cache->shape.num_blocks] ==
                      CACHE_UNTOUCHED)
                         ? "no transfer may write"
                         : "does not hold what was moved there");
        }
    }
}

static void make(const cache_worker_t *worker, unsigned layer, size_t piece,
                 size_t count)
{
    const gpu_cache_t *cache = worker->cache;
    size_t size = cache->shape.piece_bytes;

    perf_pattern_make(worker->buffer, count * size, piece_seed(cache, layer, piece));
    gpu_check(gpu_bench.gpu.copy(cache->layers[GPU_CACHE_SRC][layer] + (piece * size),
                                 worker->buffer, count * size, GPU_COPY_DEFAULT),
              "hipMemcpy");
}

static void *worker_main(void *arg)
{
    cache_worker_t *worker = arg;
    size_t num_pieces = layer_pieces(worker->cache);
    size_t most = CACHE_BUFFER / worker->cache->shape.piece_bytes;
    size_t piece, count;
    unsigned layer;

    gpu_check(
        gpu_bench.gpu.set_device(worker->is_check ? GPU_CACHE_DST : GPU_CACHE_SRC),
        "hipSetDevice");
    for (layer = worker->number; layer < worker->cache->shape.num_layers;
         layer += CACHE_WORKERS) {
        for (piece = 0; piece < num_pieces; piece += count) {
            count = (num_pieces - piece < most) ? num_pieces - piece : most;
            if (worker->is_check) {
                look_at(worker, layer, piece, count);
            } else {
                make(worker, layer, piece, count);
            }
        }
    }
    return NULL;
}

/* All layers, shared out. */
static bool visit(gpu_cache_t *cache, bool is_check)
{
    cache_worker_t workers[CACHE_WORKERS];
    pthread_t threads[CACHE_WORKERS];
    const char *wrong = NULL;
    unsigned i;

    for (i = 0; i < CACHE_WORKERS; ++i) {
        workers[i] =
            (cache_worker_t){.cache = cache, .number = i, .is_check = is_check};
        workers[i].buffer = gpu_alloc_host(&gpu_bench.gpu, CACHE_BUFFER);
    }
    for (i = 0; i < CACHE_WORKERS; ++i) {
        gpu_check(pthread_create(&threads[i], NULL, worker_main, &workers[i]),
                  "pthread_create");
    }
    for (i = 0; i < CACHE_WORKERS; ++i) {
        pthread_join(threads[i], NULL);
        gpu_free_host(&gpu_bench.gpu, workers[i].buffer);
        if ((wrong == NULL) && (workers[i].wrong[0] != '\0')) {
            wrong = workers[i].wrong;
        }
    }

    if (wrong != NULL) {
        fprintf(stderr, "gpu_limits: wrong bytes in %s\n", wrong);
    }
    return wrong == NULL;
}

void gpu_cache_init(gpu_cache_t *cache, const perf_pool_shape_t *shape)
{
    unsigned i, layer;

    cache->shape = *shape;
    cache->origins = calloc(shape->num_blocks, sizeof(*cache->origins));
    for (i = 0; i < GPU_CACHE_NUM; ++i) {
        gpu_check(gpu_bench.gpu.set_device((int)i), "hipSetDevice");
        cache->layers[i] = calloc(shape->num_layers, sizeof(*cache->layers[i]));
        for (layer = 0; layer < shape->num_layers; ++layer) {
            gpu_check(gpu_bench.gpu.alloc((void **)&cache->layers[i][layer],
                                          layer_size(cache)),
                      "hipMalloc of a layer");
        }
    }
    visit(cache, false);
}

void gpu_cache_cleanup(gpu_cache_t *cache)
{
    unsigned i, layer;

    for (i = 0; i < GPU_CACHE_NUM; ++i) {
        for (layer = 0; layer < cache->shape.num_layers; ++layer) {
            gpu_check(gpu_bench.gpu.free(cache->layers[i][layer]),
                      "hipFree of a layer");
        }
        free(cache->layers[i]);
    }
    free(cache->origins);
}

void gpu_cache_poison(gpu_cache_t *cache)
{
    unsigned layer;
    char byte;

    memset(cache->origins, 0xff, cache->shape.num_blocks * sizeof(*cache->origins));
    gpu_check(gpu_bench.gpu.set_device(GPU_CACHE_DST), "hipSetDevice");
    for (layer = 0; layer < cache->shape.num_layers; ++layer) {
        gpu_check(gpu_bench.gpu.fill(cache->layers[GPU_CACHE_DST][layer], CACHE_POISON,
                                     layer_size(cache)),
                  "hipMemset");
    }
    gpu_check(
        gpu_bench.gpu.copy(&byte, cache->layers[GPU_CACHE_DST][0], 1, GPU_COPY_DEFAULT),
        "hipMemcpy"); /* waits for the fills */
}

void gpu_cache_expect(gpu_cache_t *cache, const uint32_t *src, const uint32_t *dst,
                      uint32_t num_blocks)
{
    uint32_t i;

    for (i = 0; i < num_blocks; ++i) {
        cache->origins[dst[i]] = src[i];
    }
}

bool gpu_cache_is_good(gpu_cache_t *cache)
{
    return visit(cache, true);
}
