/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Cost of a post while the peer makes no progress, beside one that goes through before
 * the next one comes: blocks of host memory of two contexts of this process over tcp,
 * whose puts the peer has to read. The kernel buffers some MB for a stalled peer; after
 * that every post waits in libmorikv's queue.
 *
 * Prints time; under callgrind each row is a separate dump, of the calls alone.
 *
 *   live     the peer reads all of it before the next post
 *   stalled  the peer never makes progress again
 */

#include "perf/bench/bench_pair.h"
#include "perf/base/clock.h"
#include "perf/base/error.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { BENCH_BLOCKS = 4, BENCH_BYTES = 65536, BENCH_WARMUP = 8, BENCH_POSTS = 1000 };

typedef struct bench {
    bench_side_t sides[2];
    mkv_xfer_t *xfers[2];
    mkv_plan_t *plan;
    uint64_t ns[BENCH_POSTS];
} bench_t;

static uint32_t bench_blocks[BENCH_BLOCKS]; /* every second one: none merges */

static int bench_prepare(bench_t *bench, uint64_t id)
{
    const mkv_units_t units = {.num_local = BENCH_BLOCKS, .local = bench_blocks};
    const mkv_xfer_params_t params = {
        .id = id, .drain_timeout_ms = 600000}; /* callgrind is slow */

    return bench_xfer_open(bench->sides, &params, &units, bench->xfers);
}

static int bench_post(bench_t *bench, uint64_t *ns_p)
{
    mkv_status_t status;

    *ns_p = perf_clock_ns();
    CALLGRIND_TOGGLE_COLLECT;
    status = mkv_xfer_post(bench->xfers[0], 0, bench->plan, NULL, NULL);
    CALLGRIND_TOGGLE_COLLECT;
    *ns_p = perf_clock_ns() - *ns_p;
    return (status == MKV_OK) ? 0 : bench_fail("a post");
}

/* Progress the caller, and the peer unless it is stalled. */
static void bench_go_on(bench_t *bench, bool is_stalled)
{
    mkv_xfer_attr_t attr;

    bench_progress(&bench->sides[0]);
    do {
        attr = bench_query(bench->xfers[0]);
        if (!is_stalled) {
            bench_settle(bench->sides);
        }
    } while (!is_stalled && (attr.completed < attr.posted));
}

static int bench_posts(bench_t *bench, bool is_stalled, unsigned num)
{
    int ret = 0;
    unsigned i;

    for (i = 0; (ret == 0) && (i < num); ++i) {
        ret = bench_post(bench, &bench->ns[i]);
        bench_go_on(bench, is_stalled);
    }
    return ret;
}

static int bench_compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static int bench_row(bench_t *bench, bool is_stalled, const char *name)
{
    int ret = bench_posts(bench, is_stalled, BENCH_WARMUP);

    CALLGRIND_ZERO_STATS;
    ret = (ret == 0) ? bench_posts(bench, is_stalled, BENCH_POSTS) : ret;
    CALLGRIND_DUMP_STATS_AT(name);
    if (ret == 0) {
        qsort(bench->ns, BENCH_POSTS, sizeof(bench->ns[0]), bench_compare);
        printf("%s %.2f %.2f\n", name, (double)bench->ns[BENCH_POSTS / 2] / 1000,
               (double)bench->ns[BENCH_POSTS * 99 / 100] / 1000);
    }
    return ret;
}

static int bench_all(bench_t *bench)
{
    const mkv_units_t units = {.num_local = BENCH_BLOCKS,
                               .num_remote = BENCH_BLOCKS,
                               .local = bench_blocks,
                               .remote = bench_blocks};
    int ret, is_stalled;

    if (mkv_plan_create(bench->sides[0].map, &units, 1, 0, &bench->plan) != MKV_OK) {
        return bench_fail("a plan");
    }
    for (ret = 0, is_stalled = 0; (ret == 0) && (is_stalled < 2); ++is_stalled) {
        ret = bench_prepare(bench, 1 + (uint64_t)is_stalled);
        ret = (ret == 0) ? bench_row(bench, is_stalled, is_stalled ? "stalled" : "live")
                         : ret;
        ret = (ret == 0) ? bench_xfer_abort(bench->sides, bench->xfers) : ret;
    }
    mkv_plan_destroy(bench->plan);
    return ret;
}

int main(void)
{
    const mkv_region_t region = {.size = sizeof(region),
                                 .unit_bytes = BENCH_BYTES,
                                 .unit_stride = BENCH_BYTES,
                                 .n_units = 2 * BENCH_BLOCKS,
                                 .length = 2 * BENCH_BLOCKS * BENCH_BYTES};
    static bench_t bench;
    int ret, i;

    perf_message_prefix("bench_post");
    for (i = 0; i < BENCH_BLOCKS; ++i) {
        bench_blocks[i] = 2 * (uint32_t)i;
    }
    ret = bench_pair_open(bench.sides, &region);
    ret = (ret == 0) ? bench_all(&bench) : ret;
    bench_pair_close(bench.sides);
    return (ret == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
