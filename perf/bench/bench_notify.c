/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Cost for the host of a block of GPU memory and its notification, beside the copy
 * (HIPCPU_COPY=0): a transfer that is open and exposed is posted, sealed, and DONE at
 * the destination. Two contexts of this process, one thread; bench_step.h has the
 * steps. bench_notify_ucp is the same by UCP alone.
 */

#include "perf/bench/bench_pair.h"
#include "perf/bench/bench_step.h"
#include "perf/base/error.h"
#include "perf/memory/memory.h"

#include <stdlib.h>

typedef struct bench {
    bench_side_t sides[2];
    mkv_xfer_t *xfers[2];
    mkv_plan_t *plan;
    uint64_t last_id;
    bench_step_t counted;
} bench_t;

static int bench_prepare(bench_t *bench)
{
    static const uint32_t block = 1;
    const mkv_units_t units = {.num_local = 1, .local = &block};
    const mkv_xfer_params_t params = {.id = ++bench->last_id};
    int ret = bench_xfer_open(bench->sides, &params, &units, bench->xfers);

    bench_settle(bench->sides);
    return ret;
}

static int bench_launch(bench_t *bench)
{
    bench_step_toggle(bench->counted, BENCH_BESIDE);
    if ((mkv_xfer_post(bench->xfers[0], 0, bench->plan, NULL, NULL) != MKV_OK) ||
        (mkv_xfer_seal(bench->xfers[0], 0) != MKV_OK)) {
        return bench_fail("a post");
    }
    mkv_progress(bench->sides[0].ctx);
    bench_step_toggle(bench->counted, BENCH_BESIDE);
    return 0;
}

static void bench_send_notice(bench_t *bench)
{
    while (mkv_xfer_status(bench->xfers[0], NULL) == MKV_INPROGRESS) {
        bench_step_toggle(bench->counted, BENCH_SENT);
        mkv_progress(bench->sides[0].ctx);
        bench_step_toggle(bench->counted, BENCH_SENT);
    }
}

static void bench_wait_notice(bench_t *bench)
{
    mkv_event_t event;
    size_t num = 0;

    while (num == 0) {
        bench_step_toggle(bench->counted, BENCH_RECEIVE);
        mkv_progress(bench->sides[1].ctx);
        mkv_poll(bench->sides[1].ctx, &event, sizeof(event), 1, &num);
        bench_step_toggle(bench->counted, BENCH_RECEIVE);
    }
}

static void bench_idle(bench_t *bench)
{
    mkv_event_t event;
    size_t num;

    bench_settle(bench->sides);
    bench_step_toggle(bench->counted, BENCH_IDLE);
    mkv_progress(bench->sides[1].ctx);
    mkv_poll(bench->sides[1].ctx, &event, sizeof(event), 1, &num);
    bench_step_toggle(bench->counted, BENCH_IDLE);
}

static int bench_close(bench_t *bench)
{
    mkv_xfer_attr_t attr;
    int i;

    for (i = 0; i < 2; ++i) {
        do {
            bench_settle(bench->sides);
            attr = bench_query(bench->xfers[i]);
        } while ((attr.state < MKV_XFER_DONE) || !attr.is_quiet);
        if ((mkv_xfer_status(bench->xfers[i], NULL) != MKV_OK) ||
            (mkv_xfer_close(bench->xfers[i]) != MKV_OK)) {
            return bench_fail("a transfer");
        }
    }
    return 0;
}

static int bench_round(void *arg)
{
    bench_t *bench = arg;

    if ((bench_prepare(bench) != 0) || (bench_launch(bench) != 0)) {
        return -1;
    }
    bench_step_dump(bench->counted, BENCH_BESIDE);
    bench_send_notice(bench);
    bench_step_dump(bench->counted, BENCH_SENT);
    bench_wait_notice(bench);
    bench_step_dump(bench->counted, BENCH_RECEIVE);
    bench_idle(bench);
    bench_step_dump(bench->counted, BENCH_IDLE);
    return bench_close(bench);
}

static int bench_all(bench_t *bench)
{
    static const uint32_t from = 0, to = 1;
    const mkv_units_t units = {
        .num_local = 1, .num_remote = 1, .local = &from, .remote = &to};
    int ret;

    if (mkv_plan_create(bench->sides[0].map, &units, 1, 0, &bench->plan) != MKV_OK) {
        return bench_fail("a plan");
    }
    ret = bench_step_rounds(bench, &bench->counted, bench_round);
    mkv_plan_destroy(bench->plan);
    return ret;
}

int main(void)
{
    mkv_region_t region = {.size = sizeof(region),
                           .unit_bytes = BENCH_BYTES,
                           .unit_stride = BENCH_BYTES,
                           .n_units = 2,
                           .length = 2 * BENCH_BYTES};
    bench_t bench = {0};
    perf_memory_t *memory;
    int ret = -1;

    perf_message_prefix("bench_notify");
    if (perf_memory_open(PERF_SEGMENT_VRAM, NULL, &memory) != 0) {
        return EXIT_FAILURE;
    }
    region.base = perf_memory_alloc(memory, region.length);
    region.mem_type = perf_memory_type(memory);
    if (region.base != NULL) {
        ret = bench_pair_open(bench.sides, &region);
        ret = (ret == 0) ? bench_all(&bench) : ret;
        bench_pair_close(bench.sides);
        perf_memory_free(memory, region.base, region.length);
    }
    perf_memory_close(memory);
    return (ret == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
