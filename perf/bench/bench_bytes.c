/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Cost of a piece when a plan of bytes is made: the pieces of a prompt of a million
 * tokens, in the order of memory, in random order, and as slices. Two contexts of this
 * process and untouched memory; each row is a separate dump under callgrind.
 */

#include "perf/bench/bench_pair.h"
#include "perf/base/clock.h"
#include "perf/base/error.h"
#include "perf/base/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BENCH_PIECES = 120000, BENCH_BYTES = 41984, BENCH_ROUNDS = 20 };

static uint64_t bench_local[BENCH_PIECES], bench_remote[BENCH_PIECES];
static uint64_t bench_length[BENCH_PIECES], bench_count[BENCH_PIECES];
static uint64_t bench_step[BENCH_PIECES];

/* Pieces by block ids in two orders of their own; none adjoins another on both sides */
static void bench_fill(int is_shuffled)
{
    uint64_t seed = 1, swap;
    unsigned i, other;

    for (i = 0; i < BENCH_PIECES; ++i) {
        bench_local[i] = (uint64_t)(BENCH_PIECES - 1 - i) * BENCH_BYTES;
        bench_remote[i] = (uint64_t)i * BENCH_BYTES;
        bench_length[i] = BENCH_BYTES;
        bench_count[i] = 64;
        bench_step[i] = BENCH_BYTES / 64;
    }
    for (i = 0; is_shuffled && (i < BENCH_PIECES); ++i) {
        other = (unsigned)perf_random_below(&seed, i + 1);
        swap = bench_remote[i];
        bench_remote[i] = bench_remote[other];
        bench_remote[other] = swap;
    }
    for (i = 0; is_shuffled && (i < BENCH_PIECES); ++i) {
        other = (unsigned)perf_random_below(&seed, i + 1);
        swap = bench_local[i];
        bench_local[i] = bench_local[other];
        bench_local[other] = swap;
    }
}

static int bench_row(mkv_map_t *map, const char *name, const mkv_bytes_t *bytes)
{
    uint64_t least_ns = UINT64_MAX, start_ns, ns;
    mkv_plan_attr_t attr = {.size = sizeof(attr)};
    mkv_plan_t *plan;
    unsigned i;

    for (i = 0; i < BENCH_ROUNDS; ++i) {
        CALLGRIND_ZERO_STATS;
        start_ns = perf_clock_ns();
        CALLGRIND_TOGGLE_COLLECT;
        if (mkv_plan_create_bytes(map, bytes, 1, 0, &plan) != MKV_OK) {
            return bench_fail("a plan");
        }
        CALLGRIND_TOGGLE_COLLECT;
        ns = perf_clock_ns() - start_ns;
        least_ns = (ns < least_ns) ? ns : least_ns;
        mkv_plan_query(plan, &attr);
        mkv_plan_destroy(plan);
    }
    CALLGRIND_DUMP_STATS_AT(name);
    printf("%s %" PRIu64 " %" PRIu64 " %.1f %.1f\n", name, bytes->num,
           attr.num_elements, (double)least_ns / (double)bytes->num,
           (double)attr.memory / (double)bytes->num);
    return 0;
}

static int bench_rows(mkv_map_t *map)
{
    mkv_bytes_t bytes = {.num = BENCH_PIECES,
                         .local = bench_local,
                         .remote = bench_remote,
                         .length = bench_length};
    int ret;

    bench_fill(0);
    ret = bench_row(map, "sorted", &bytes);
    bench_fill(1);
    ret = (ret == 0) ? bench_row(map, "shuffled", &bytes) : ret;
    for (unsigned i = 0; i < BENCH_PIECES; ++i) {
        bench_length[i] = 128; /* the heads of one token of 64 */
    }
    bytes.count = bench_count;
    bytes.local_stride = bytes.remote_stride = bench_step;
    return (ret == 0) ? bench_row(map, "slices", &bytes) : ret;
}

int main(void)
{
    const mkv_region_t region = {.size = sizeof(region),
                                 .flags = MKV_REGION_BYTES,
                                 .length = (uint64_t)BENCH_PIECES * BENCH_BYTES};
    bench_side_t sides[2] = {{0}};
    int ret = -1;

    perf_message_prefix("bench_bytes");
    if (bench_pair_open(sides, &region) == 0) {
        ret = bench_rows(sides[0].map);
    }
    bench_pair_close(sides);
    return (ret == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
