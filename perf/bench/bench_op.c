/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Cost for the host of a piece of a one-sided operation, from the post to quiet: 4096
 * scattered pieces of GPU memory that is not copied (HIPCPU_COPY=0), as mori.io's
 * batches are. Two contexts of this process. The peer's context only makes progress,
 * and is not counted. Each row is a separate dump under callgrind.
 */

#include "perf/bench/bench_pair.h"
#include "perf/base/clock.h"
#include "perf/base/error.h"
#include "perf/memory/memory.h"
#include "perf/base/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { BENCH_PIECES = 4096, BENCH_BYTES = 4096, BENCH_ROUNDS = 20 };

/* Twice the room: no piece adjoins another */
#define BENCH_ROOM ((uint64_t)4 * BENCH_PIECES * BENCH_BYTES)

static mkv_op_piece_t bench_pieces[BENCH_PIECES];

static void bench_fill(mkv_region_id_t region)
{
    uint64_t seed = 1, swap;
    unsigned i, other;

    for (i = 0; i < BENCH_PIECES; ++i) {
        bench_pieces[i] = (mkv_op_piece_t){
            .local = region,
            .remote = region,
            .local_offset = (uint64_t)2 * i * BENCH_BYTES,
            .remote_offset = BENCH_ROOM / 2 + (uint64_t)2 * i * BENCH_BYTES,
            .length = BENCH_BYTES};
        other = (unsigned)perf_random_below(&seed, i + 1);
        swap = bench_pieces[i].remote_offset;
        bench_pieces[i].remote_offset = bench_pieces[other].remote_offset;
        bench_pieces[other].remote_offset = swap;
    }
}

/* Posted, done, and quiet */
static int bench_round(bench_side_t sides[2], mkv_mode_t mode, uint64_t *ns_p)
{
    mkv_op_params_t params = {.size = sizeof(params),
                              .mode = mode,
                              .pieces = bench_pieces,
                              .num_pieces = BENCH_PIECES};
    mkv_op_attr_t attr = {.size = sizeof(attr)};
    uint64_t start_ns = perf_clock_ns();
    mkv_op_t *op;

    CALLGRIND_TOGGLE_COLLECT;
    if (mkv_op_post(sides[0].peer, &params, &op) != MKV_OK) {
        return bench_fail("an operation");
    }
    do {
        mkv_progress(sides[0].ctx);
        CALLGRIND_TOGGLE_COLLECT;
        mkv_op_query(op, &attr);
        mkv_progress(sides[1].ctx); /* it answers the flush of a WRITE */
        CALLGRIND_TOGGLE_COLLECT;
    } while (!attr.is_quiet);
    CALLGRIND_TOGGLE_COLLECT;
    *ns_p = perf_clock_ns() - start_ns;
    bench_progress(&sides[0]);
    return ((mkv_op_status(op) == MKV_OK) && (mkv_op_close(op) == MKV_OK))
               ? 0
               : bench_fail("an operation");
}

/* The first round, in which paths are queried, is not counted */
static int bench_row(bench_side_t sides[2], const char *name, mkv_mode_t mode)
{
    uint64_t least_ns = UINT64_MAX, ns = 0;
    int ret, i;

    ret = bench_round(sides, mode, &ns);
    CALLGRIND_ZERO_STATS;
    for (i = 0; (ret == 0) && (i < BENCH_ROUNDS); ++i) {
        ret = bench_round(sides, mode, &ns);
        least_ns = (ns < least_ns) ? ns : least_ns;
    }
    CALLGRIND_DUMP_STATS_AT(name);
    printf("%s %d %.1f\n", name, BENCH_PIECES, (double)least_ns / BENCH_PIECES);
    return ret;
}

static int bench_rows(perf_memory_t *memory, void *base)
{
    const mkv_region_t region = {.size = sizeof(region),
                                 .flags = MKV_REGION_BYTES | MKV_REGION_ONE_SIDED,
                                 .mem_type = perf_memory_type(memory),
                                 .base = base,
                                 .length = BENCH_ROOM};
    bench_side_t sides[2] = {{0}};
    int ret = -1;

    if (bench_pair_open(sides, &region) == 0) {
        bench_fill(sides[0].region);
        ret = bench_row(sides, "READ", MKV_READ);
        ret = (ret == 0) ? bench_row(sides, "WRITE", MKV_WRITE) : ret;
    }
    bench_pair_close(sides);
    return ret;
}

int main(void)
{
    perf_memory_t *memory;
    void *base;
    int ret = -1;

    perf_message_prefix("bench_op");
    if (perf_memory_open(PERF_SEGMENT_VRAM, NULL, &memory) != 0) {
        return EXIT_FAILURE;
    }
    base = perf_memory_alloc(memory, BENCH_ROOM);
    if (base != NULL) {
        ret = bench_rows(memory, base);
        perf_memory_free(memory, base, BENCH_ROOM);
    }
    perf_memory_close(memory);
    return (ret == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
