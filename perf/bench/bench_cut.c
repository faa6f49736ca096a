/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Cost for the host of a piece of a block that is cut, from the post to its completion:
 * blocks of 16 tokens of one head go from rank 0 of 8 to rank 0 of 4, where they are
 * every second 256 bytes. GPU memory that is not copied (HIPCPU_COPY=0), two contexts
 * of this process. The peer's context only makes progress, and is not counted. One dump
 * under callgrind.
 */

#include "perf/bench/bench_pair.h"
#include "perf/base/clock.h"
#include "perf/base/error.h"
#include "perf/memory/memory.h"
#include "perf/base/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    BENCH_BLOCKS = 1024,
    BENCH_TOKENS = 16,
    BENCH_HEAD_BYTES = 256,
    BENCH_HEADS = 8,
    BENCH_ROUNDS = 20
};

/* Of the side with two heads a rank */
#define BENCH_ROOM ((uint64_t)2 * BENCH_BLOCKS * BENCH_TOKENS * BENCH_HEAD_BYTES)

typedef struct bench {
    bench_side_t sides[2];
    mkv_xfer_t *xfers[2];
    mkv_plan_t *plan;
    uint32_t blocks[2][BENCH_BLOCKS]; /* in an order of its own for each side */
} bench_t;

static void bench_shuffle(bench_t *bench)
{
    uint64_t seed = 1;
    uint32_t i, other;
    int side;

    for (side = 0; side < 2; ++side) {
        for (i = 0; i < BENCH_BLOCKS; ++i) {
            other = (uint32_t)perf_random_below(&seed, i + 1);
            bench->blocks[side][i] = bench->blocks[side][other];
            bench->blocks[side][other] = i;
        }
    }
}

static int bench_prepare(bench_t *bench)
{
    const mkv_units_t exposed = {.num_local = BENCH_BLOCKS, .local = bench->blocks[1]};
    const mkv_units_t units = {.num_local = BENCH_BLOCKS,
                               .num_remote = BENCH_BLOCKS,
                               .local = bench->blocks[0],
                               .remote = bench->blocks[1]};
    const mkv_xfer_params_t params = {
        .id = 1, .drain_timeout_ms = 600000}; /* callgrind is slow */

    if (bench_xfer_open(bench->sides, &params, &exposed, bench->xfers) != 0) {
        return -1;
    }
    return (mkv_plan_create(bench->sides[0].map, &units, 1, 0, &bench->plan) == MKV_OK)
               ? 0
               : bench_fail("a plan");
}

static int bench_round(bench_t *bench, uint64_t *ns_p)
{
    uint64_t start_ns = perf_clock_ns();
    mkv_xfer_attr_t attr;

    CALLGRIND_TOGGLE_COLLECT;
    if (mkv_xfer_post(bench->xfers[0], 0, bench->plan, NULL, NULL) != MKV_OK) {
        return bench_fail("a post");
    }
    do {
        mkv_progress(bench->sides[0].ctx);
        CALLGRIND_TOGGLE_COLLECT;
        attr = bench_query(bench->xfers[0]);
        mkv_progress(bench->sides[1].ctx); /* it answers the flush */
        CALLGRIND_TOGGLE_COLLECT;
    } while (attr.completed < attr.posted);
    CALLGRIND_TOGGLE_COLLECT;
    *ns_p = perf_clock_ns() - start_ns;
    return 0;
}

/* The first round, in which memory is opened, is not counted */
static int bench_row(bench_t *bench)
{
    const unsigned pieces = BENCH_BLOCKS * BENCH_TOKENS;
    uint64_t least_ns = UINT64_MAX, ns = 0;
    int ret, i;

    ret = bench_round(bench, &ns);
    CALLGRIND_ZERO_STATS;
    for (i = 0; (ret == 0) && (i < BENCH_ROUNDS); ++i) {
        ret = bench_round(bench, &ns);
        least_ns = (ns < least_ns) ? ns : least_ns;
    }
    CALLGRIND_DUMP_STATS_AT("WRITE");
    printf("WRITE %u %.1f\n", pieces, (double)least_ns / pieces);
    return ret;
}

static int bench_close(bench_t *bench)
{
    mkv_plan_destroy(bench->plan);
    return bench_xfer_abort(bench->sides, bench->xfers);
}

static mkv_region_t bench_region(perf_memory_t *memory, void *base, uint32_t num_ranks)
{
    const uint64_t bytes =
        (uint64_t)BENCH_TOKENS * (BENCH_HEADS / num_ranks) * BENCH_HEAD_BYTES;

    return (mkv_region_t){.size = sizeof(mkv_region_t),
                          .mem_type = perf_memory_type(memory),
                          .base = base,
                          .length = BENCH_BLOCKS * bytes,
                          .unit_bytes = bytes,
                          .n_units = BENCH_BLOCKS,
                          .tokens_per_unit = BENCH_TOKENS,
                          .inner_bytes = BENCH_HEAD_BYTES,
                          .num_groups = 1,
                          .groups = {BENCH_HEADS},
                          .shard_size = num_ranks};
}

static int bench_run(perf_memory_t *memory, char *base)
{
    const mkv_region_t regions[2] = {bench_region(memory, base, 8),
                                     bench_region(memory, base + BENCH_ROOM, 4)};
    static bench_t bench;
    int ret;

    bench_shuffle(&bench);
    ret = bench_pair_open_each(bench.sides, regions);
    ret = (ret == 0) ? bench_prepare(&bench) : ret;
    ret = (ret == 0) ? bench_row(&bench) : ret;
    ret = (ret == 0) ? bench_close(&bench) : ret;
    bench_pair_close(bench.sides);
    return ret;
}

int main(void)
{
    perf_memory_t *memory;
    void *base;
    int ret = -1;

    perf_message_prefix("bench_cut");
    if (perf_memory_open(PERF_SEGMENT_VRAM, NULL, &memory) != 0) {
        return EXIT_FAILURE;
    }
    base = perf_memory_alloc(memory, 2 * BENCH_ROOM);
    if (base != NULL) {
        ret = bench_run(memory, base);
        perf_memory_free(memory, base, 2 * BENCH_ROOM);
    }
    perf_memory_close(memory);
    return (ret == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
