/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The copy kernel's own source, run on the CPU: a thread plays a lane, and where
 * the lanes of a wave or of a block meet, threads meet at a barrier. Slow, but with
 * sanitizers it sees every byte that is read outside an entry and every vector that
 * is not aligned.
 */

#include "test/support/mkv_check.h"

#include "xgmi/copy/xgmi_list.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define __device__
#define __global__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(_threads)
#define min(_a, _b) (((_a) < (_b)) ? (_a) : (_b))

#define PLAY_WAVE 32
#define PLAY_MAX_THREADS 96 /* three waves: enough to meet at every barrier */

typedef struct uint4 {
    _Alignas(16) uint32_t x;
    uint32_t y, z, w;
} uint4;

typedef struct ulonglong2 {
    _Alignas(16) uint64_t x;
    uint64_t y;
} ulonglong2;

typedef struct play_index {
    uint32_t x;
} play_index_t;

static _Thread_local play_index_t threadIdx;
static play_index_t blockIdx, blockDim, gridDim;
static pthread_barrier_t play_block;
static pthread_barrier_t play_waves[PLAY_MAX_THREADS / PLAY_WAVE];
static uint64_t play_values[PLAY_MAX_THREADS];

static void __syncthreads(void)
{
    pthread_barrier_wait(&play_block);
}

static void __threadfence_system(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static uint32_t atomicAdd(uint32_t *value, uint32_t add)
{
    return __atomic_fetch_add(value, add, __ATOMIC_RELAXED);
}

static int __popc(uint32_t value)
{
    return __builtin_popcount(value);
}

/* Values of all lanes of the wave; valid until play_leave(). */
static const uint64_t *play_exchange(uint64_t value)
{
    play_values[threadIdx.x] = value;
    pthread_barrier_wait(&play_waves[threadIdx.x / PLAY_WAVE]);
    return &play_values[threadIdx.x / PLAY_WAVE * PLAY_WAVE];
}

static void play_leave(void)
{
    pthread_barrier_wait(&play_waves[threadIdx.x / PLAY_WAVE]);
}

static uint64_t __shfl_sync(uint32_t mask, uint64_t value, int lane)
{
    uint64_t result = play_exchange(value)[lane];

    ck_assert_uint_eq(mask, UINT32_MAX);
    play_leave();
    return result;
}

static uint32_t __ballot_sync(uint32_t mask, bool condition)
{
    const uint64_t *values = play_exchange(condition);
    uint32_t result = 0;
    int i;

    for (i = 0; i < PLAY_WAVE; ++i) {
        result |= (uint32_t)values[i] << i;
    }
    play_leave();
    return result & mask;
}

static void muct_xgmi_copy(const muct_xgmi_copy_args_t args);

#include "xgmi/copy/xgmi_kernel.hip"

typedef struct play_lane {
    const muct_xgmi_copy_args_t *args;
    uint32_t number;
} play_lane_t;

static void *play_lane_main(void *arg)
{
    const play_lane_t *lane = arg;

    threadIdx.x = lane->number;
    muct_xgmi_copy(*lane->args);
    return NULL;
}

static void play(const muct_xgmi_launch_t *launch)
{
    play_lane_t lanes[PLAY_MAX_THREADS];
    pthread_t threads[PLAY_MAX_THREADS];
    uint32_t i;

    blockDim.x = min(launch->block_size, PLAY_MAX_THREADS);
    gridDim.x = launch->num_blocks;
    pthread_barrier_init(&play_block, NULL, blockDim.x);
    for (i = 0; i < blockDim.x / PLAY_WAVE; ++i) {
        pthread_barrier_init(&play_waves[i], NULL, PLAY_WAVE);
    }
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
        for (i = 0; i < blockDim.x; ++i) {
            lanes[i] = (play_lane_t){.args = &launch->args, .number = i};
            ck_assert_int_eq(
                pthread_create(&threads[i], NULL, play_lane_main, &lanes[i]), 0);
        }
        for (i = 0; i < blockDim.x; ++i) {
            pthread_join(threads[i], NULL);
        }
    }
}

static muct_xgmi_entry_t memory[2000];
static muct_xgmi_list_t list;
static uint32_t arrivals, flag;

static uint32_t entry_of(uint64_t tile)
{
    uint32_t i = 0;

    while ((i + 1 < muct_xgmi_list_count(&list)) &&
           (muct_xgmi_place_tile(memory[i + 1].place) <= tile)) {
        ++i;
    }
    return i;
}

/* A tail where the list is too short to have got one: half of it, several batches. */
static void give_tail(muct_xgmi_launch_t *launch)
{
    muct_xgmi_copy_args_t *args = &launch->args;
    uint64_t shared = args->num_tiles / 2;
    uint32_t block;

    if ((launch->num_blocks == 1) || (shared < launch->num_blocks)) {
        return;
    }
    args->block_tiles = shared / launch->num_blocks;
    args->extra_blocks = (uint32_t)(shared % launch->num_blocks);
    for (block = 0; block <= launch->num_blocks; ++block) {
        args->first_entry[block] = entry_of(muct_xgmi_block_tile(args, block));
    }
    ck_assert_uint_lt(args->first_entry[launch->num_blocks], args->num_entries);
}

static void run(uint32_t max_blocks, bool with_tail)
{
    muct_xgmi_launch_t launch;

    muct_xgmi_list_finish(&list, max_blocks, &launch);
    if (with_tail) {
        give_tail(&launch);
    }
    launch.args.arrivals = (uintptr_t)&arrivals;
    launch.args.flag = (uintptr_t)&flag;
    launch.args.sequence = 77;
    flag = 0;
    play(&launch);
    ck_assert_uint_eq(flag, 77);
    ck_assert_uint_eq(arrivals, 0);
}

static bool is_slow(void)
{
    return getenv("MKV_UNDER_VALGRIND") != NULL;
}

/* Source in memory of its very size, so that a byte too far is seen. */
static void check_one(size_t dst_offset, size_t src_offset, size_t length)
{
    unsigned char *src = malloc(src_offset + length);
    unsigned char *dst = calloc(1, dst_offset + length + 64);
    static const unsigned char zeros[64];
    size_t i;

    for (i = 0; i < length; ++i) {
        src[src_offset + i] = (unsigned char)(1 + (i % 251));
    }
    muct_xgmi_list_init(&list, memory, 1);
    ck_assert(muct_xgmi_list_add(&list, (uintptr_t)dst + dst_offset,
                                 (uintptr_t)src + src_offset, length));
    run(2, dst_offset % 2 == 0);
    ck_assert(memcmp(dst, zeros, dst_offset) == 0);
    ck_assert(memcmp(dst + dst_offset, src + src_offset, length) == 0);
    ck_assert(memcmp(dst + dst_offset + length, zeros, sizeof(zeros)) == 0);
    free(src);
    free(dst);
}

/* Every pair of alignments, and every length with half of them */
START_TEST(one_piece_of_any_alignment)
{
    static const size_t lengths[] = {1, 63, 64, 65, 100, 4096, 4111, 8200};
    static const size_t offsets[] = {0, 1, 4, 8, 9, 15};
    size_t step = is_slow() ? 4 : 1;
    size_t i, j;

    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i += step) {
        for (j = i % 2; j < sizeof(offsets) / sizeof(offsets[0]); j += 2 * step) {
            check_one(offsets[_i], offsets[j], lengths[i]);
        }
    }
}
END_TEST

START_TEST(a_random_list)
{
    const size_t size = is_slow() ? (1 << 18) : (1 << 19);
    unsigned char *src = malloc(size);
    unsigned char *dst = calloc(1, size);
    unsigned char *expected = calloc(1, size);
    size_t from, to, length, i;

    srand((unsigned)_i);
    for (i = 0; i < size; ++i) {
        src[i] = (unsigned char)rand();
    }
    muct_xgmi_list_init(&list, memory, 2000);
    for (to = 0; to + 100000 < size; to += length + ((size_t)rand() % 20)) {
        length = 1 + ((size_t)rand() % ((rand() % 50 == 0) ? 99000 : 300));
        from = (size_t)rand() % (size - length);
        if (!muct_xgmi_list_add(&list, (uintptr_t)dst + to, (uintptr_t)src + from,
                                length)) {
            break;
        }
        memcpy(expected + to, src + from, length);
    }
    run(1 + ((uint32_t)_i * 2), false);
    ck_assert(memcmp(dst, expected, size) == 0);
    memset(dst, 0, size);
    run(1 + ((uint32_t)_i * 2), true);
    ck_assert(memcmp(dst, expected, size) == 0);
    free(src);
    free(dst);
    free(expected);
}
END_TEST

/* Runs of pieces in memory of their very size; nothing between them is written. */
static void check_run(size_t piece, size_t count, size_t unit, bool is_reversed)
{
    const size_t dst_stride = piece + (3 * unit), src_stride = piece + unit;
    const size_t dst_size = (dst_stride * (count - 1)) + piece;
    const size_t src_size = (src_stride * (count - 1)) + piece;
    unsigned char *src = aligned_alloc(16, (src_size + unit + 15) / 16 * 16);
    unsigned char *dst = calloc(1, dst_size + unit);
    unsigned char *expected = calloc(1, dst_size + unit);
    size_t shift = (unit < 16) ? unit : 0; /* no larger unit does */
    muct_xgmi_strided_t run_of_pieces = {
        .dst = (uintptr_t)dst + shift,
        .src = (uintptr_t)src + shift + (is_reversed ? src_stride * (count - 1) : 0),
        .dst_stride = dst_stride,
        .src_stride = is_reversed ? 0 - src_stride : src_stride,
        .piece = (uint32_t)piece,
        .count = (uint32_t)count,
    };
    size_t i;

    for (i = 0; i < src_size; ++i) {
        src[shift + i] = (unsigned char)(1 + (i % 251));
    }
    for (i = 0; i < count; ++i) {
        memcpy(expected + shift + (dst_stride * i),
               src + shift + (src_stride * (is_reversed ? count - 1 - i : i)), piece);
    }
    ck_assert(muct_xgmi_list_add_run(&list, &run_of_pieces));
    ck_assert_uint_eq(list.shapes[list.num_shapes - 1].unit, unit);
    run(2, (count % 2) != 0);
    ck_assert(memcmp(dst, expected, dst_size + shift) == 0);
    free(src);
    free(dst);
    free(expected);
}

/* Pieces that divide a tile and that do not, one to several tiles of them */
START_TEST(a_run_of_any_unit_and_length)
{
    static const size_t units[] = {1, 4, 8, 16};
    static const size_t lengths[] = {1, 2, 3, 16, 37, 127, 128};
    const size_t unit = units[_i];
    size_t i, count, tile;

    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); ++i) {
        tile = MUCT_XGMI_TILE_UNITS / lengths[i];
        for (count = 1; count <= 2 * tile + 1; count += tile) {
            muct_xgmi_list_init(&list, memory, 1);
            check_run(lengths[i] * unit, count, unit, i % 2 == 1);
        }
    }
}
END_TEST

/* The last entry of a batch has a shape: the batch ends where its tiles do. */
START_TEST(runs_between_single_pieces)
{
    const size_t size = 1 << 18;
    unsigned char *src = aligned_alloc(16, size);
    unsigned char *dst = aligned_alloc(16, size);
    unsigned char *expected = calloc(1, size);
    muct_xgmi_strided_t pieces = {.src_stride = 128};
    size_t at, i, k;

    for (i = 0; i < size; ++i) {
        src[i] = (unsigned char)rand();
    }
    memset(dst, 0, size);
    muct_xgmi_list_init(&list, memory, 2000);
    for (at = 0, i = 0; at + 8192 < size; at += 4096 + (16 * i), ++i) {
        pieces.dst = (uintptr_t)dst + at;
        pieces.src = (uintptr_t)src + size - at - 8192;
        pieces.piece = 64 + (64 * (i % 2));
        pieces.dst_stride = (i % 3 == 0) ? 144 : 160;
        pieces.count = 1 + (uint32_t)(i % 27);
        if (i % 5 == 0) {
            ck_assert(muct_xgmi_list_add(&list, pieces.dst, pieces.src, 99));
            memcpy(expected + at, src + size - at - 8192, 99);
            continue;
        }
        ck_assert(muct_xgmi_list_add_run(&list, &pieces));
        for (k = 0; k < pieces.count; ++k) {
            memcpy(expected + at + (k * pieces.dst_stride),
                   src + size - at - 8192 + (k * 128), pieces.piece);
        }
    }
    run(1 + ((uint32_t)_i * 2), _i % 2 == 0);
    ck_assert(memcmp(dst, expected, size) == 0);
    free(src);
    free(dst);
    free(expected);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xgmi_kernel");
    TCase *tcase = tcase_create("kernel");
    SRunner *runner;
    int failed;

    tcase_set_timeout(tcase, 240);
    tcase_add_loop_test(tcase, one_piece_of_any_alignment, 0, is_slow() ? 1 : 6);
    tcase_add_loop_test(tcase, a_random_list, 0, is_slow() ? 1 : 4);
    tcase_add_loop_test(tcase, a_run_of_any_unit_and_length, is_slow() ? 3 : 0, 4);
    tcase_add_loop_test(tcase, runs_between_single_pieces, 0, is_slow() ? 1 : 3);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
