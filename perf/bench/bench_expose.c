/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Cost of a block for the side that exposes it to be written to, from the call to
 * quiet: its check against the regions and against other transfers (OVERLAP), and its
 * place in the message; no byte moves. Rounds with and without the check alternate, to
 * measure the check alone. The check at the end is measured where all blocks
 * are one run. Each row is a separate dump under callgrind.
 */

#include "perf/bench/bench_pair.h"
#include "perf/base/clock.h"
#include "perf/base/error.h"
#include "perf/base/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { BENCH_BLOCKS = 65536, BENCH_UNIT = 16, BENCH_ROUNDS = 8, BENCH_CHECKS = 1024 };

static const mkv_region_t bench_region = {.size = sizeof(bench_region),
                                          .unit_bytes = BENCH_UNIT,
                                          .unit_stride = BENCH_UNIT,
                                          .n_units = BENCH_BLOCKS,
                                          .length =
                                              (uint64_t)BENCH_BLOCKS * BENCH_UNIT};

static uint32_t bench_blocks[BENCH_BLOCKS];

static void bench_fill(void)
{
    uint64_t seed = 1;
    uint32_t i, other;

    for (i = 0; i < BENCH_BLOCKS; ++i) {
        other = (uint32_t)perf_random_below(&seed, i + 1);
        bench_blocks[i] = bench_blocks[other];
        bench_blocks[other] = i;
    }
}

static void bench_sort(void)
{
    uint32_t i;

    for (i = 0; i < BENCH_BLOCKS; ++i) {
        bench_blocks[i] = i;
    }
}

/* Exposed, given up, and quiet again */
static int bench_round(bench_side_t sides[2], uint64_t id, uint64_t *ns_p)
{
    const mkv_units_t units = {.num_local = BENCH_BLOCKS, .local = bench_blocks};
    mkv_xfer_params_t params = {.size = sizeof(params),
                                .id = id,
                                .mode = MKV_WRITE,
                                .role = MKV_DST,
                                .legs = &sides[1].map,
                                .num_legs = 1};
    mkv_xfer_attr_t attr = {.size = sizeof(attr)};
    uint64_t start_ns, progress_ns;
    mkv_xfer_t *xfer;

    if (mkv_xfer_open(sides[1].ctx, &params, &xfer) != MKV_OK) {
        return bench_fail("a transfer");
    }
    start_ns = perf_clock_ns();
    CALLGRIND_TOGGLE_COLLECT;
    if (mkv_xfer_expose(xfer, 0, &units, 1, NULL, 0) != MKV_OK) {
        return bench_fail("a block list");
    }
    CALLGRIND_TOGGLE_COLLECT;
    *ns_p = perf_clock_ns() - start_ns;
    mkv_xfer_abort(xfer, MKV_ERR_ABORTED, "of the benchmark");
    do {
        bench_progress(&sides[0]);
        start_ns = perf_clock_ns();
        CALLGRIND_TOGGLE_COLLECT;
        mkv_progress(sides[1].ctx);
        CALLGRIND_TOGGLE_COLLECT;
        progress_ns =
            perf_clock_ns() - start_ns; /* the last call releases the blocks */
        mkv_xfer_query(xfer, &attr);
    } while (!attr.is_quiet);
    *ns_p += progress_ns;
    return (mkv_xfer_close(xfer) == MKV_OK) ? 0 : bench_fail("a transfer");
}

static int bench_open_both(bench_side_t sides[2], uint64_t id, mkv_xfer_t *xfers[2])
{
    mkv_xfer_params_t params = {
        .size = sizeof(params), .id = id, .mode = MKV_WRITE, .num_legs = 1};
    int i;

    for (i = 0; i < 2; ++i) {
        params.role = (i == 0) ? MKV_SRC : MKV_DST;
        params.legs = &sides[i].map;
        if (mkv_xfer_open(sides[i].ctx, &params, &xfers[i]) != MKV_OK) {
            return bench_fail("a transfer");
        }
    }
    return 0;
}

/* Progress until the source has the blocks, or (is_over) until both sides are quiet */
static void bench_wait(bench_side_t sides[2], mkv_xfer_t *const xfers[2], int is_over)
{
    mkv_xfer_attr_t attr[2] = {{.size = sizeof(attr[0])}, {.size = sizeof(attr[1])}};

    do {
        bench_progress(&sides[0]);
        CALLGRIND_TOGGLE_COLLECT;
        mkv_progress(sides[1].ctx);
        CALLGRIND_TOGGLE_COLLECT;
        mkv_xfer_query(xfers[0], &attr[0]);
        mkv_xfer_query(xfers[1], &attr[1]);
    } while (is_over ? !(attr[0].is_quiet && attr[1].is_quiet)
                     : (attr[0].state != MKV_XFER_BOUND));
}

/* All blocks are exposed, written as one run, and compared at the end */
static int bench_move(bench_side_t sides[2], uint64_t id)
{
    const mkv_units_t units = {.num_local = BENCH_BLOCKS,
                               .num_remote = BENCH_BLOCKS,
                               .local = bench_blocks,
                               .remote = bench_blocks};
    mkv_xfer_t *xfers[2];
    mkv_plan_t *plan;

    if (bench_open_both(sides, id, xfers) != 0) {
        return -1;
    }
    if (mkv_xfer_expose(xfers[1], 0, &units, 1, NULL, 0) != MKV_OK) {
        return bench_fail("a block list");
    }
    bench_wait(sides, xfers, 0);
    if ((mkv_plan_create(sides[0].map, &units, 1, 0, &plan) != MKV_OK) ||
        (mkv_xfer_post(xfers[0], 0, plan, NULL, NULL) != MKV_OK) ||
        (mkv_xfer_seal(xfers[0], 0) != MKV_OK)) {
        return bench_fail("a post");
    }
    bench_wait(sides, xfers, 1);
    return ((mkv_xfer_status(xfers[1], NULL) == MKV_OK) &&
            (mkv_xfer_close(xfers[0]) == MKV_OK) &&
            (mkv_xfer_close(xfers[1]) == MKV_OK) && (mkv_plan_destroy(plan) == MKV_OK))
               ? 0
               : bench_fail("a transfer");
}

static int bench_verify(void)
{
    bench_side_t sides[2] = {{0}};
    uint64_t start_ns;
    int ret, i;

    ret = bench_pair_open(sides, &bench_region);
    CALLGRIND_ZERO_STATS;
    start_ns = perf_clock_ns();
    for (i = 0; (ret == 0) && (i < BENCH_ROUNDS); ++i) {
        ret = bench_move(sides, (uint64_t)i + 1);
    }
    start_ns = perf_clock_ns() - start_ns;
    CALLGRIND_DUMP_STATS_AT("verify");
    bench_pair_close(sides);
    printf("verify %d %.2f\n", BENCH_BLOCKS,
           (double)start_ns / BENCH_ROUNDS / BENCH_BLOCKS);
    return ret;
}

static int bench_row(const char *overlap)
{
    uint64_t least_ns = UINT64_MAX, ns = 0;
    bench_side_t sides[2] = {{0}};
    int ret, i;

    setenv("MORIKV_OVERLAP", overlap, 1);
    ret = bench_pair_open(sides, &bench_region);
    CALLGRIND_ZERO_STATS;
    for (i = 0; (ret == 0) && (i < BENCH_ROUNDS); ++i) {
        ret = bench_round(sides, (uint64_t)i + 1, &ns);
        least_ns = (ns < least_ns) ? ns : least_ns;
    }
    CALLGRIND_DUMP_STATS_AT(overlap);
    bench_pair_close(sides);
    printf("%s %d %.2f\n", overlap, BENCH_BLOCKS, (double)least_ns / BENCH_BLOCKS);
    return ret;
}

/* Two pairs of contexts, whose rounds alternate: the machine's other work changes more
 * between two rows than a check takes */
static int bench_check(void)
{
    static const char *const overlap[] = {"allow", "refuse"};
    uint64_t least_ns[2] = {UINT64_MAX, UINT64_MAX}, ns = 0;
    bench_side_t sides[2][2] = {{{0}}};
    int ret = 0, i;

    for (i = 0; (ret == 0) && (i < 2); ++i) {
        setenv("MORIKV_OVERLAP", overlap[i], 1);
        ret = bench_pair_open(sides[i], &bench_region);
    }
    for (i = 0; (ret == 0) && (i < BENCH_CHECKS); ++i) {
        ret = bench_round(sides[i % 2], (uint64_t)i + 1, &ns);
        least_ns[i % 2] = (ns < least_ns[i % 2]) ? ns : least_ns[i % 2];
    }
    for (i = 0; i < 2; ++i) {
        bench_pair_close(sides[i]);
    }
    printf("check %d %.2f\n", BENCH_BLOCKS,
           ((double)least_ns[1] - (double)least_ns[0]) / BENCH_BLOCKS);
    return ret;
}

int main(void)
{
    perf_message_prefix("bench_expose");
    bench_fill();
    if ((bench_row("allow") != 0) || (bench_row("refuse") != 0)) {
        return EXIT_FAILURE;
    }
    if (!RUNNING_ON_VALGRIND && (bench_check() != 0)) {
        return EXIT_FAILURE;
    }
    bench_sort();
    return (bench_verify() == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
