/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What a piece costs when a plan of bytes is made: the pieces of a prompt of a million
 * tokens, in the order of memory, in any order, and as slices. Two contexts of this
 * process and memory that nobody touches; each row is a dump of its own under
 * callgrind.
 */

#include "perf/workload/clock.h"
#include "perf/workload/error.h"
#include "perf/workload/random.h"

#include <morikv.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__has_include) && __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_ZERO_STATS (void)0
#define CALLGRIND_TOGGLE_COLLECT (void)0
#define CALLGRIND_DUMP_STATS_AT(_name) (void)(_name)
#endif

enum { BENCH_PIECES = 120000, BENCH_BYTES = 41984, BENCH_ROUNDS = 20 };

typedef struct bench_side {
    mkv_ctx_t *ctx;
    mkv_peer_t *peer;
} bench_side_t;

static uint64_t bench_local[BENCH_PIECES], bench_remote[BENCH_PIECES];
static uint64_t bench_length[BENCH_PIECES], bench_count[BENCH_PIECES];
static uint64_t bench_step[BENCH_PIECES];

static int bench_fail(const char *what)
{
    perf_error("%s: %s", what, mkv_last_error());
    return -1;
}

static int bench_open(bench_side_t *side)
{
    const uint64_t length = (uint64_t)BENCH_PIECES * BENCH_BYTES;
    mkv_region_t region = {
        .size = sizeof(region), .flags = MKV_REGION_BYTES, .length = length};
    mkv_region_id_t id;

    region.base = mmap(NULL, length, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region.base == MAP_FAILED) {
        perf_error("no %" PRIu64 " bytes of address space", length);
        return -1;
    }
    return ((mkv_open(NULL, NULL, &side->ctx) == MKV_OK) &&
            (mkv_region_add(side->ctx, &region, &id) == MKV_OK) &&
            (mkv_regions_commit(side->ctx, NULL) == MKV_OK))
               ? 0
               : bench_fail("a context");
}

static void bench_progress(bench_side_t *side)
{
    mkv_event_t event;
    size_t num;

    do {
        mkv_progress(side->ctx);
        num = 0;
        mkv_poll(side->ctx, &event, sizeof(event), 1, &num);
        if ((num > 0) && (event.type == MKV_EV_PEER_READY)) {
            side->peer = event.peer;
        }
    } while (num > 0);
}

static int bench_connect(bench_side_t *sides, mkv_map_t **map_p)
{
    uint64_t start_ns = perf_clock_ns();
    char blob[65536];
    size_t length = sizeof(blob);
    mkv_peer_t *peer;

    if ((mkv_blob(sides[1].ctx, MKV_BLOB_ADDR, blob, &length) != MKV_OK) ||
        (mkv_peer_add(sides[0].ctx, blob, length, NULL, &peer) != MKV_OK)) {
        return bench_fail("a peer");
    }
    while ((sides[0].peer == NULL) || (sides[1].peer == NULL)) {
        bench_progress(&sides[0]);
        bench_progress(&sides[1]);
        if (perf_clock_ns() - start_ns > 30 * UINT64_C(1000000000)) {
            perf_error("the two contexts did not connect in 30 s");
            return -1;
        }
    }
    return (mkv_map_create(sides[0].peer, NULL, map_p) == MKV_OK) ? 0
                                                                  : bench_fail("a map");
}

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
    bench_side_t sides[2] = {{0}};
    mkv_map_t *map = NULL;
    int ret = -1;

    perf_message_prefix("bench_bytes");
    if ((bench_open(&sides[0]) == 0) && (bench_open(&sides[1]) == 0) &&
        (bench_connect(sides, &map) == 0)) {
        ret = bench_rows(map);
        mkv_map_destroy(map);
    }
    for (int i = 0; i < 2; ++i) {
        if (sides[i].ctx != NULL) {
            mkv_close(sides[i].ctx);
        }
    }
    return (ret == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
