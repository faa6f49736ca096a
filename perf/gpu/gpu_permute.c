/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A change of layout between two GPUs in one pass, and in two as vLLM's NIXL connector
 * makes it: whole blocks to a temporary on the destination's device, then a permutation
 * there. Both move the lists of mori_kv_perf's requests by the same kernel. The second
 * pass has all thread blocks of the kernel and is one copy, without the index and the
 * further copies of an engine: a lower bound of the other way.
 */

#include "perf/gpu/gpu_bench.h"
#include "perf/gpu/gpu_models.h"

#include "perf/base/random.h"
#include "perf/memory/pattern.h"

#include <stdlib.h>
#include <string.h>

/* Defaults of mori_xgmi's LISTS and LIST_SIZE */
#define PERMUTE_LISTS 8
#define PERMUTE_LIST_SIZE 16384

#define PERMUTE_TOKENS 16
#define PERMUTE_POISON 0xee

/* A change of layout. Source blocks have 16 tokens, each with its heads. Destination
 * blocks have the same, or with is_hnd their heads, each with 16 tokens. */
typedef struct permute_change {
    const char *name;
    unsigned tp;        /* tensor-parallel ranks of the source */
    unsigned src_heads; /* heads of a source rank: the first ones of dst_heads */
    unsigned dst_heads; /* heads of a destination rank */
    bool is_hnd;        /* the destination has heads outside, tokens inside */
} permute_change_t;

typedef struct permute {
    const permute_change_t *change;
    perf_block_moves_t *moves;
    size_t head_bytes;
    char **src;      /* source memory of each layer: its parts, each with all blocks */
    char **dst;      /* destination memory of each layer, in the same order */
    char *temporary; /* whole blocks of a request, on the destination's device */
    uint32_t *origins;
    muct_xgmi_entry_t *memory[PERMUTE_LISTS];
} permute_t;

/* Lists that are launched one after the other on one device. */
typedef struct permute_pass {
    permute_t *permute;
    int device;
    unsigned blocks;
    muct_xgmi_list_t list;
    uint32_t sequences[PERMUTE_LISTS];
    unsigned num_launches;
} permute_pass_t;

static const permute_change_t changes[] = {{"TP 8 to 4", 8, 1, 2, false},
                                           {"NHD to HND", 4, 2, 2, true}};


/* ---- moving ---- */

static void pass_open(permute_pass_t *pass)
{
    unsigned slot = pass->num_launches % PERMUTE_LISTS;

    if (pass->num_launches >= PERMUTE_LISTS) {
        gpu_wait_for(&gpu_bench.devices[pass->device].lanes[0], pass->sequences[slot]);
    }
    muct_xgmi_list_init(&pass->list, pass->permute->memory[slot], PERMUTE_LIST_SIZE);
}

static void pass_begin(permute_pass_t *pass, permute_t *permute, int device,
                       unsigned blocks)
{
    *pass = (permute_pass_t){.permute = permute, .device = device, .blocks = blocks};
    gpu_check(gpu_bench.gpu.set_device(device), "hipSetDevice");
    pass_open(pass);
}

static void pass_launch(permute_pass_t *pass)
{
    gpu_device_t *device = &gpu_bench.devices[pass->device];

    if (!muct_xgmi_list_is_empty(&pass->list)) {
        gpu_launch(&gpu_bench.gpu, device, &device->lanes[0], &pass->list,
                   pass->blocks);
        pass->sequences[pass->num_launches++ % PERMUTE_LISTS] =
            device->lanes[0].sequence;
        pass_open(pass);
    }
}

static void pass_end(permute_pass_t *pass)
{
    pass_launch(pass);
    gpu_wait(&gpu_bench.devices[pass->device].lanes[0]);
}

static void pass_add(permute_pass_t *pass, uint64_t dst, uint64_t src, size_t size)
{
    while (!muct_xgmi_list_add(&pass->list, dst, src, size)) {
        pass_launch(pass);
    }
}

/* Every head of a block into its place, an entry each. */
static void pass_add_permuted(permute_pass_t *pass, uint64_t dst, uint64_t src)
{
    const permute_change_t *change = pass->permute->change;
    size_t bytes = pass->permute->head_bytes;
    unsigned head;
    muct_xgmi_strided_t run = {.dst_stride =
                                   bytes * (change->is_hnd ? 1 : change->dst_heads),
                               .src_stride = bytes * change->src_heads,
                               .piece = (uint32_t)bytes,
                               .count = PERMUTE_TOKENS};

    for (head = 0; head < change->src_heads; ++head) {
        run.dst = dst + (head * bytes * (change->is_hnd ? PERMUTE_TOKENS : 1));
        run.src = src + (head * bytes);
        while (((pass->list.alike.count == 0) ||
                !muct_xgmi_list_add_alike(&pass->list, run.dst, run.src)) &&
               !muct_xgmi_list_add_run(&pass->list, &run)) {
            pass_launch(pass);
        }
    }
}

static size_t src_block(const permute_t *permute)
{
    return permute->moves->shape.piece_bytes;
}

static size_t dst_block(const permute_t *permute)
{
    return permute->head_bytes * PERMUTE_TOKENS * permute->change->dst_heads;
}

/* Into place from the source, whole to the temporary, and from there into place. */
typedef enum permute_step { STEP_DIRECT, STEP_WHOLE, STEP_PERMUTE } permute_step_t;

/* Returns microseconds until all bytes are there. */
static double step(permute_t *permute, const perf_move_t *move, permute_step_t which)
{
    const perf_pool_shape_t *shape = &permute->moves->shape;
    double start = gpu_now_us();
    uint64_t temporary = (uintptr_t)permute->temporary;
    uint64_t src, dst;
    permute_pass_t pass;
    unsigned layer, part;
    uint32_t i;

    pass_begin(&pass, permute, which == STEP_PERMUTE,
               (which == STEP_PERMUTE) ? MUCT_XGMI_MAX_BLOCKS : gpu_bench.blocks);
    for (layer = 0; layer < shape->num_layers; ++layer) {
        for (part = 0; part < shape->num_parts; ++part) {
            src = (uintptr_t)permute->src[layer] +
                  ((uint64_t)part * shape->num_blocks * src_block(permute));
            dst = (uintptr_t)permute->dst[layer] +
                  ((uint64_t)part * shape->num_blocks * dst_block(permute));
            for (i = 0; i < move->num_blocks; ++i, temporary += src_block(permute)) {
                if (which == STEP_WHOLE) {
                    pass_add(&pass, temporary,
                             src + (move->src[i] * src_block(permute)),
                             src_block(permute));
                } else {
                    pass_add_permuted(&pass, dst + (move->dst[i] * dst_block(permute)),
                                      (which == STEP_PERMUTE)
                                          ? temporary
                                          : src + (move->src[i] * src_block(permute)));
                }
            }
        }
    }
    pass_end(&pass);
    return gpu_now_us() - start;
}


/* ---- memory ---- */

static size_t layer_blocks(const permute_t *permute)
{
    return (size_t)permute->moves->shape.num_parts * permute->moves->shape.num_blocks;
}

static void *device_alloc(int device, size_t size)
{
    void *memory;

    gpu_check(gpu_bench.gpu.set_device(device), "hipSetDevice");
    gpu_check(gpu_bench.gpu.alloc(&memory, size), "hipMalloc");
    return memory;
}

static void init(permute_t *permute)
{
    const perf_pool_shape_t *shape = &permute->moves->shape;
    size_t size = layer_blocks(permute) * src_block(permute);
    char *layer_bytes = gpu_alloc_host(&gpu_bench.gpu, size);
    uint32_t most = 0;
    uint32_t i;

    permute->head_bytes =
        shape->piece_bytes / PERMUTE_TOKENS / permute->change->src_heads;
    permute->src = calloc(shape->num_layers, sizeof(*permute->src));
    permute->dst = calloc(shape->num_layers, sizeof(*permute->dst));
    permute->origins = calloc(shape->num_blocks, sizeof(*permute->origins));
    for (i = 0; i < shape->num_layers; ++i) {
        permute->src[i] = device_alloc(0, size);
        permute->dst[i] = device_alloc(1, layer_blocks(permute) * dst_block(permute));
        perf_pattern_make(layer_bytes, size, perf_mix(i + 1));
        gpu_check(
            gpu_bench.gpu.copy(permute->src[i], layer_bytes, size, GPU_COPY_DEFAULT),
            "hipMemcpy");
    }
    for (i = 0; i < permute->moves->num_moves; ++i) {
        most = (permute->moves->moves[i].num_blocks > most)
                   ? permute->moves->moves[i].num_blocks
                   : most;
    }
    permute->temporary = device_alloc(1, (size_t)shape->num_layers * shape->num_parts *
                                             most * src_block(permute));
    for (i = 0; i < PERMUTE_LISTS; ++i) {
        permute->memory[i] = gpu_alloc_host(
            &gpu_bench.gpu, PERMUTE_LIST_SIZE * sizeof(muct_xgmi_entry_t));
    }
    gpu_free_host(&gpu_bench.gpu, layer_bytes);
}

static void cleanup(permute_t *permute)
{
    uint32_t i;

    for (i = 0; i < PERMUTE_LISTS; ++i) {
        gpu_free_host(&gpu_bench.gpu, permute->memory[i]);
    }
    gpu_check(gpu_bench.gpu.free(permute->temporary), "hipFree");
    for (i = 0; i < permute->moves->shape.num_layers; ++i) {
        gpu_check(gpu_bench.gpu.free(permute->src[i]), "hipFree");
        gpu_check(gpu_bench.gpu.free(permute->dst[i]), "hipFree");
    }
    free(permute->origins);
    free(permute->src);
    free(permute->dst);
}


/* ---- check ---- */

/* A head of a token in a block of the destination, found at @a found. */
static bool is_head_good(const permute_t *permute, unsigned layer, size_t block,
                         unsigned token, unsigned head, const char *found)
{
    const perf_pool_shape_t *shape = &permute->moves->shape;
    uint32_t origin = permute->origins[block % shape->num_blocks];
    size_t src;

    if ((origin != UINT32_MAX) && (head < permute->change->src_heads)) {
        src = (block - (block % shape->num_blocks) + origin) * src_block(permute);
        src += ((token * permute->change->src_heads) + head) * permute->head_bytes;
        return perf_pattern_is_made(
            found, permute->head_bytes,
            perf_pattern_word(perf_mix(layer + 1), src / sizeof(uint64_t)));
    }
    return ((unsigned char)found[0] == PERMUTE_POISON) &&
           (memcmp(found, found + 1, permute->head_bytes - 1) == 0);
}

static bool is_layer_good(const permute_t *permute, unsigned layer, const char *found)
{
    const permute_change_t *change = permute->change;
    unsigned cells = PERMUTE_TOKENS * change->dst_heads;
    unsigned cell, token, head;
    size_t block;

    for (block = 0; block < layer_blocks(permute); ++block) {
        for (cell = 0; cell < cells; ++cell, found += permute->head_bytes) {
            token = change->is_hnd ? cell % PERMUTE_TOKENS : cell / change->dst_heads;
            head = change->is_hnd ? cell / PERMUTE_TOKENS : cell % change->dst_heads;
            if (!is_head_good(permute, layer, block, token, head, found)) {
                fprintf(stderr,
                        "gpu_limits: wrong bytes in layer %u block %zu token %u head "
                        "%u\n",
                        layer, block, token, head);
                return false;
            }
        }
    }
    return true;
}

/* Run all requests into poisoned memory; then compare every byte of it. */
static const char *check(permute_t *permute, bool is_two_steps)
{
    const perf_pool_shape_t *shape = &permute->moves->shape;
    size_t size = layer_blocks(permute) * dst_block(permute);
    char *found = gpu_alloc_host(&gpu_bench.gpu, size);
    const perf_move_t *move = permute->moves->moves;
    bool is_good = true;
    uint32_t i;

    memset(permute->origins, 0xff, shape->num_blocks * sizeof(*permute->origins));
    gpu_check(gpu_bench.gpu.set_device(1), "hipSetDevice");
    for (i = 0; i < shape->num_layers; ++i) {
        gpu_check(gpu_bench.gpu.fill(permute->dst[i], PERMUTE_POISON, size),
                  "hipMemset");
    }
    gpu_check(gpu_bench.gpu.copy(found, permute->dst[0], 1, GPU_COPY_DEFAULT),
              "hipMemcpy"); /* waits for the fills */
    for (; move < permute->moves->moves + permute->moves->num_moves; ++move) {
        step(permute, move, is_two_steps ? STEP_WHOLE : STEP_DIRECT);
        if (is_two_steps) {
            step(permute, move, STEP_PERMUTE);
        }
        for (i = 0; i < move->num_blocks; ++i) {
            permute->origins[move->dst[i]] = move->src[i];
        }
    }
    gpu_check(gpu_bench.gpu.set_device(1), "hipSetDevice");
    for (i = 0; (i < shape->num_layers) && is_good; ++i) {
        gpu_check(gpu_bench.gpu.copy(found, permute->dst[i], size, GPU_COPY_DEFAULT),
                  "hipMemcpy");
        is_good = is_layer_good(permute, i, found);
    }
    gpu_free_host(&gpu_bench.gpu, found);
    gpu_bench.num_bad += !is_good;
    return is_good ? "ok" : "BAD";
}


/* ---- figures ---- */

/* Sums of all measured requests. */
typedef struct permute_sums {
    double us[STEP_PERMUTE + 1];
    unsigned count;
} permute_sums_t;

static void measure(permute_t *permute, permute_sums_t *sums)
{
    unsigned rounds = (gpu_bench.repeats + 9) / 10;
    const perf_block_moves_t *moves = permute->moves;
    unsigned which, round;
    uint32_t i;
    double us;

    for (round = 0; round < rounds; ++round) {
        for (i = 0; i < moves->num_moves; ++i) {
            for (which = 0; which <= STEP_PERMUTE; ++which) {
                us = step(permute, &moves->moves[i], (permute_step_t)which);
                sums->us[which] += (i >= moves->num_warmup) ? us : 0;
            }
            sums->count += (i >= moves->num_warmup);
        }
    }
}

/* Heads of tokens in a measured request, the mean. */
static size_t count_pieces(const permute_t *permute)
{
    const perf_block_moves_t *moves = permute->moves;
    size_t count = 0;
    uint32_t i;

    for (i = moves->num_warmup; i < moves->num_moves; ++i) {
        count += moves->moves[i].num_blocks;
    }
    return count * moves->shape.num_layers * moves->shape.num_parts * PERMUTE_TOKENS *
           permute->change->src_heads / (moves->num_moves - moves->num_warmup);
}

/* Means, with a rate that is all bytes by all time. */
static void print_row(const permute_t *permute, unsigned long length, const char *way,
                      double us, const char *checked, const char *text,
                      json_object *more)
{
    char what[64];

    snprintf(what, sizeof(what), "%s %lu, %s", permute->change->name, length, way);
    json_object_object_add(more, "way", json_object_new_string(way));
    gpu_bench_row_more(what, permute->head_bytes, count_pieces(permute),
                       gpu_bench.blocks, us, 0, checked, text, more);
}

static void print_rows(const permute_t *permute, unsigned long length,
                       const permute_sums_t *sums, const char *const *checked)
{
    double direct = sums->us[STEP_DIRECT] / sums->count;
    double whole = sums->us[STEP_WHOLE] / sums->count;
    double local = sums->us[STEP_PERMUTE] / sums->count;
    double ratio = (whole + local) / direct;
    json_object *more = json_object_new_object();
    char text[160];

    snprintf(text, sizeof(text), "%.3f ms", direct / 1e3);
    print_row(permute, length, "one pass", direct, checked[0], text,
              json_object_new_object());
    snprintf(text, sizeof(text),
             "%.3f ms: transfer %.3f, permutation %.3f by %d thread blocks; %.2f times "
             "one pass",
             (whole + local) / 1e3, whole / 1e3, local / 1e3, MUCT_XGMI_MAX_BLOCKS,
             ratio);
    gpu_bench_real(more, "transfer_us", whole);
    gpu_bench_real(more, "permute_us", local);
    gpu_bench_real(more, "ratio", ratio);
    print_row(permute, length, "two passes", whole + local, checked[1], text, more);
}

static void run_change(const char *name, unsigned long length,
                       const permute_change_t *change)
{
    permute_t permute = {.change = change};
    permute_sums_t sums = {.count = 0};
    char command[GPU_MODELS_COMMAND];
    const char *checked[2];

    permute.moves = gpu_models_moves(name, change->tp, length, command);
    init(&permute);
    checked[0] = check(&permute, false);
    checked[1] = check(&permute, true);
    measure(&permute, &sums);
    print_rows(&permute, length, &sums, checked);
    cleanup(&permute);
    perf_block_moves_destroy(permute.moves);
}

static void run_length(const char *name, unsigned long length)
{
    size_t i;

    for (i = 0; i < sizeof(changes) / sizeof(changes[0]); ++i) {
        run_change(name, length, &changes[i]);
    }
}

void gpu_permute(void)
{
    gpu_models_each_length("Llama-3-70B", run_length);
}
