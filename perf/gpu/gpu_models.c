/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Rates of kernel and link for the lists that mori_kv_perf moves for its models: the
 * same requests and blocks, merged as libmorikv merges them and in its order, posted as
 * libmorikv posts them, without UCX and without a second process. The plan is made
 * beforehand; the lists are written for each request, as in the product.
 */

#include "perf/gpu/gpu_bench.h"
#include "perf/gpu/gpu_cache.h"
#include "perf/gpu/gpu_models.h"

#include "perf/base/error.h"
#include "src/morikv.h"

#include <stdlib.h>
#include <string.h>

/* Defaults of mori_xgmi's LISTS and LIST_SIZE */
#define MODELS_LISTS 8
#define MODELS_LIST_SIZE 16384

#define MODELS_OPTIONS 32

typedef struct model_way {
    const char *name;
    bool is_pull;
    bool is_by_layer;
    unsigned num_lanes; /* streams that launches use in turn */
} model_way_t;

/* Blocks of a request, merged into runs. */
typedef struct model_plan {
    mkv_run_t *runs;
    size_t num_runs;
} model_plan_t;

/* Requests of one model and one length of prompts. */
typedef struct models {
    const char *name;
    unsigned long length;
    char command[GPU_MODELS_COMMAND];
    perf_block_moves_t *moves;
    gpu_cache_t cache;
    muct_xgmi_entry_t *memory[MODELS_LISTS];
    const model_way_t *way;
    model_plan_t *plans; /* plan of each request, for the present way */
} models_t;

/* State of a request that is being moved. */
typedef struct model_mover {
    models_t *models;
    gpu_device_t *device;
    muct_xgmi_list_t list;
    uint32_t sequences[MODELS_LISTS];
    unsigned num_launches;
    double wait_us; /* time waited for a list to become free */
} model_mover_t;

/* Sums of all measured requests. */
typedef struct model_figures {
    double *us;
    double *host_us;
    unsigned count;
    double sum_us;
    unsigned num_launches; /* launches of the last request */
} model_figures_t;

static const model_way_t ways[] = {{"push by layer", false, true, 1},
                                   {"pull at once", true, false, 1},
                                   {"push at once", false, false, 1},
                                   {"push by layer, two streams", false, true, 2},
                                   {"push at once, two streams", false, false, 2}};


/* ---- moving ---- */

static gpu_lane_t *mover_lane(const model_mover_t *mover, unsigned launch)
{
    return &mover->device->lanes[launch % mover->models->way->num_lanes];
}

/* The next list; its memory is free when the launch that had it before is over. */
static void mover_open(model_mover_t *mover)
{
    unsigned slot = mover->num_launches % MODELS_LISTS;
    double start;

    if (mover->num_launches >= MODELS_LISTS) {
        start = gpu_now_us();
        gpu_wait_for(mover_lane(mover, mover->num_launches), mover->sequences[slot]);
        mover->wait_us += gpu_now_us() - start;
    }
    muct_xgmi_list_init(&mover->list, mover->models->memory[slot], MODELS_LIST_SIZE);
}

static void mover_launch(model_mover_t *mover)
{
    gpu_lane_t *lane = mover_lane(mover, mover->num_launches);

    if (muct_xgmi_list_is_empty(&mover->list)) {
        return;
    }
    gpu_launch(&gpu_bench.gpu, mover->device, lane, &mover->list, gpu_bench.blocks);
    mover->sequences[mover->num_launches % MODELS_LISTS] = lane->sequence;
    ++mover->num_launches;
    mover_open(mover);
}

/* All runs of one layer and part. */
static void mover_add(model_mover_t *mover, const model_plan_t *plan, unsigned layer,
                      unsigned part)
{
    const gpu_cache_t *cache = &mover->models->cache;
    const uint64_t size = cache->shape.piece_bytes;
    const uint64_t offset = part * size * cache->shape.num_blocks;
    const uint64_t src = (uintptr_t)cache->layers[GPU_CACHE_SRC][layer] + offset;
    const uint64_t dst = (uintptr_t)cache->layers[GPU_CACHE_DST][layer] + offset;
    const bool is_pull = mover->models->way->is_pull;
    const mkv_run_t *run;
    uint32_t from, to;

    for (run = plan->runs; run < plan->runs + plan->num_runs; ++run) {
        from = is_pull ? run->remote : run->local;
        to = is_pull ? run->local : run->remote;
        while (!muct_xgmi_list_add(&mover->list, dst + (to * size), src + (from * size),
                                   run->count * size)) {
            mover_launch(mover);
        }
    }
}

/* Returns microseconds until all bytes are there. */
static double move(models_t *models, const model_plan_t *plan, model_mover_t *mover,
                   double *host_us)
{
    const perf_pool_shape_t *shape = &models->cache.shape;
    double start = gpu_now_us();
    unsigned layer, part;

    *mover = (model_mover_t){.models = models,
                             .device = &gpu_bench.devices[models->way->is_pull]};
    mover_open(mover);
    for (layer = 0; layer < shape->num_layers; ++layer) {
        for (part = 0; part < shape->num_parts; ++part) {
            mover_add(mover, plan, layer, part);
        }
        if (models->way->is_by_layer) {
            mover_launch(mover);
        }
    }
    mover_launch(mover);
    *host_us = gpu_now_us() - start - mover->wait_us;
    gpu_wait(&mover->device->lanes[0]);
    gpu_wait(&mover->device->lanes[1]);
    return gpu_now_us() - start;
}

static void make_plans(models_t *models)
{
    const perf_move_t *moves = models->moves->moves;
    bool is_pull = models->way->is_pull;
    model_plan_t *plan;
    uint32_t i;

    models->plans = calloc(models->moves->num_moves, sizeof(*models->plans));
    for (i = 0; i < models->moves->num_moves; ++i) {
        plan = &models->plans[i];
        plan->runs = calloc(moves[i].num_blocks + 1ul, sizeof(*plan->runs));
        gpu_check(mkv_runs_merge(is_pull ? moves[i].dst : moves[i].src,
                                 is_pull ? moves[i].src : moves[i].dst,
                                 moves[i].num_blocks, 0, plan->runs, &plan->num_runs),
                  "mkv_runs_merge");
    }
}

static void free_plans(models_t *models)
{
    uint32_t i;

    for (i = 0; i < models->moves->num_moves; ++i) {
        free(models->plans[i].runs);
    }
    free(models->plans);
}


/* ---- figures ---- */

/* Run all requests into a poisoned cache; then check the last one's bytes in each
 * block. */
static const char *check(models_t *models)
{
    const perf_move_t *moves = models->moves->moves;
    model_mover_t mover;
    double host_us;
    bool is_good;
    uint32_t i;

    gpu_cache_poison(&models->cache);
    gpu_check(gpu_bench.gpu.set_device(models->way->is_pull), "hipSetDevice");
    for (i = 0; i < models->moves->num_moves; ++i) {
        move(models, &models->plans[i], &mover, &host_us);
        gpu_cache_expect(&models->cache, moves[i].src, moves[i].dst,
                         moves[i].num_blocks);
    }
    is_good = gpu_cache_is_good(&models->cache);
    gpu_bench.num_bad += !is_good;
    return is_good ? "ok" : "BAD";
}

static void measure(models_t *models, unsigned rounds, model_figures_t *figures)
{
    model_mover_t mover;
    double us, host_us;
    unsigned round;
    uint32_t i;

    gpu_check(gpu_bench.gpu.set_device(models->way->is_pull), "hipSetDevice");
    for (round = 0; round < rounds; ++round) {
        for (i = 0; i < models->moves->num_moves; ++i) {
            us = move(models, &models->plans[i], &mover, &host_us);
            if (i >= models->moves->num_warmup) {
                figures->us[figures->count] = us;
                figures->host_us[figures->count++] = host_us;
                figures->sum_us += us;
                figures->num_launches = mover.num_launches;
            }
        }
    }
}

/* Pieces of the measured requests, as mori_kv_perf counts them. */
static void count_pieces(const models_t *models, size_t *before_p, size_t *after_p)
{
    const perf_pool_shape_t *shape = &models->moves->shape;
    size_t regions = (size_t)shape->num_layers * shape->num_parts;
    uint32_t i;

    *before_p = *after_p = 0;
    for (i = models->moves->num_warmup; i < models->moves->num_moves; ++i) {
        *before_p += regions * models->moves->moves[i].num_blocks;
        *after_p += regions * models->plans[i].num_runs;
    }
}

static void print_row(const models_t *models, model_figures_t *figures, unsigned rounds,
                      const char *checked)
{
    size_t num = models->moves->num_moves - models->moves->num_warmup;
    size_t size = models->moves->shape.piece_bytes;
    char what[64], text[160], command[512];
    json_object *more = json_object_new_object();
    size_t before, after;
    double gbps;

    count_pieces(models, &before, &after);
    gbps = (double)(rounds * size * before) / figures->sum_us / 1e3;
    snprintf(what, sizeof(what), "%s %lu, %s", models->name, models->length,
             models->way->name);
    snprintf(text, sizeof(text), "all %.1f GB/s, pieces %zu merged to %zu, lists %u",
             gbps, before / num, after / num, figures->num_launches);
    snprintf(command, sizeof(command), "mori_kv_perf %s", models->command);
    json_object_object_add(more, "model", json_object_new_string(models->name));
    gpu_bench_number(more, "length", models->length);
    json_object_object_add(more, "way", json_object_new_string(models->way->name));
    gpu_bench_real(more, "gbps_all", gbps);
    gpu_bench_number(more, "requests", num);
    gpu_bench_number(more, "rounds", rounds);
    gpu_bench_number(more, "descs_before", before);
    gpu_bench_number(more, "descs_after", after);
    gpu_bench_number(more, "launches", figures->num_launches);
    json_object_object_add(more, "as", json_object_new_string(command));
    gpu_bench_row_more(what, size, before / num, gpu_bench.blocks,
                       gpu_bench_median(figures->us, figures->count),
                       gpu_bench_median(figures->host_us, figures->count), checked,
                       text, more);
}

static void run_way(models_t *models, const model_way_t *way)
{
    unsigned rounds = (gpu_bench.repeats + 9) / 10;
    size_t num = (size_t)rounds * models->moves->num_moves;
    model_figures_t figures = {0};
    const char *checked;

    models->way = way;
    make_plans(models);
    checked = check(models);
    figures.us = calloc(num, sizeof(*figures.us));
    figures.host_us = calloc(num, sizeof(*figures.host_us));
    measure(models, rounds, &figures);
    print_row(models, &figures, rounds, checked);
    free(figures.us);
    free(figures.host_us);
    free_plans(models);
}


/* ---- models ---- */

/* The requests of this command line of mori_kv_perf. */
static perf_block_moves_t *make_moves(const char *command)
{
    char program[] = "mori_kv_perf";
    char *argv[MODELS_OPTIONS] = {program};
    char *text = strdup(command);
    perf_block_moves_t *moves = NULL;
    perf_options_t options;
    char *word, *rest = text;
    int argc = 1;

    while ((word = strtok_r(rest, " ", &rest)) != NULL) {
        argv[argc++] = word;
    }
    if ((perf_options_parse(argc, argv, &options) != 1) ||
        (perf_block_moves_create(&options, &moves) != 0)) {
        exit(EXIT_FAILURE);
    }
    free(text);
    return moves;
}

perf_block_moves_t *gpu_models_moves(const char *name, unsigned tp,
                                     unsigned long length,
                                     char command[GPU_MODELS_COMMAND])
{
    snprintf(command, GPU_MODELS_COMMAND,
             "--model %s --tp %u --block_size 16 --requests 10 --warmup_requests 2 "
             "--total_buffer_size %zu --exact_length --input_length %lu "
             "--output_length 16",
             name, tp, gpu_bench.cache_size, length);
    return make_moves(command);
}

static void run_model(const char *name, unsigned long length)
{
    models_t models = {.name = name, .length = length};
    size_t i;

    models.moves = gpu_models_moves(name, 8, length, models.command);
    gpu_cache_init(&models.cache, &models.moves->shape);
    for (i = 0; i < MODELS_LISTS; ++i) {
        models.memory[i] = gpu_alloc_host(&gpu_bench.gpu,
                                          MODELS_LIST_SIZE * sizeof(muct_xgmi_entry_t));
    }
    for (i = 0; i < sizeof(ways) / sizeof(ways[0]); ++i) {
        run_way(&models, &ways[i]);
    }
    for (i = 0; i < MODELS_LISTS; ++i) {
        gpu_free_host(&gpu_bench.gpu, models.memory[i]);
    }
    gpu_cache_cleanup(&models.cache);
    perf_block_moves_destroy(models.moves);
}

void gpu_models_each_length(const char *name,
                            void (*run)(const char *name, unsigned long length))
{
    unsigned long length;
    const char *text;
    char *end;

    perf_message_prefix("gpu_limits");
    for (text = gpu_bench.lengths; text != NULL;
         text = (*end == ',') ? end + 1 : NULL) {
        length = strtoul(text, &end, 10);
        if ((end == text) || ((*end != ',') && (*end != '\0'))) {
            fprintf(stderr,
                    "gpu_limits: --lengths %s: expected numbers of tokens with "
                    "commas between them\n",
                    gpu_bench.lengths);
            exit(EXIT_FAILURE);
        }
        run(name, length);
    }
}

void gpu_models(void)
{
    gpu_models_each_length("Llama-3-70B", run_model);
    gpu_models_each_length("DeepSeek-R1", run_model);
}
