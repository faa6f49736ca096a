/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * How contexts of one process scale: 1, 2, 4.. pairs of them at once, each context with
 * a thread of its own, so that a pair takes two processors. One of a pair exposes a
 * list of blocks and the other writes them, again and again. The blocks are small, so
 * that calls, messages and locks are timed, and the memory's bandwidth is not the
 * limit.
 *
 *   bench_scale [PAIRS [TRANSFERS]]     (16 pairs at most, 20000 transfers each)
 */

#include "perf/bench/bench_pair.h"
#include "perf/base/clock.h"
#include "perf/base/error.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { BENCH_BLOCKS = 64, BENCH_UNIT = 64, BENCH_MAX_PAIRS = 64 };

static const mkv_region_t bench_region = {.size = sizeof(bench_region),
                                          .unit_bytes = BENCH_UNIT,
                                          .unit_stride = BENCH_UNIT,
                                          .n_units = 2 * BENCH_BLOCKS,
                                          .length =
                                              (uint64_t)2 * BENCH_BLOCKS * BENCH_UNIT};

/** Two contexts: the first one writes. */
typedef struct bench_couple {
    bench_side_t sides[2];
    unsigned num_transfers;
    uint64_t first_id;
    pthread_barrier_t *start;
    pthread_t threads[2];
} bench_couple_t;

static uint32_t bench_blocks[BENCH_BLOCKS]; /* every second one: none merges */

static mkv_units_t bench_units(void)
{
    return (mkv_units_t){.num_local = BENCH_BLOCKS,
                         .num_remote = BENCH_BLOCKS,
                         .local = bench_blocks,
                         .remote = bench_blocks};
}

static int bench_open_xfer(bench_side_t *side, uint64_t id, mkv_role_t role,
                           mkv_xfer_t **xfer_p)
{
    const mkv_xfer_params_t params = {.size = sizeof(params),
                                      .id = id,
                                      .mode = MKV_WRITE,
                                      .role = role,
                                      .legs = &side->map,
                                      .num_legs = 1};

    return (mkv_xfer_open(side->ctx, &params, xfer_p) == MKV_OK)
               ? 0
               : bench_fail("a transfer");
}

/* Progress until it is bound, or (is_over) quiet; then it must not have failed */
static int bench_until(bench_side_t *side, mkv_xfer_t *xfer, int is_over)
{
    mkv_xfer_attr_t attr = {.size = sizeof(attr)};

    do {
        bench_progress(side);
        mkv_xfer_query(xfer, &attr);
    } while (is_over ? !attr.is_quiet : (attr.state == MKV_XFER_INIT));
    return (attr.status == (is_over ? MKV_OK : MKV_INPROGRESS))
               ? 0
               : bench_fail("a transfer");
}

static int bench_write(bench_side_t *side, uint64_t id, mkv_plan_t *plan)
{
    mkv_xfer_t *xfer;

    if ((bench_open_xfer(side, id, MKV_SRC, &xfer) != 0) ||
        (bench_until(side, xfer, 0) != 0)) {
        return -1;
    }
    if ((mkv_xfer_post(xfer, 0, plan, NULL, NULL) != MKV_OK) ||
        (mkv_xfer_seal(xfer, 0) != MKV_OK)) {
        return bench_fail("a post");
    }
    return ((bench_until(side, xfer, 1) == 0) && (mkv_xfer_close(xfer) == MKV_OK)) ? 0
                                                                                   : -1;
}

static int bench_expose(bench_side_t *side, uint64_t id, const mkv_units_t *units)
{
    mkv_xfer_t *xfer;

    if (bench_open_xfer(side, id, MKV_DST, &xfer) != 0) {
        return -1;
    }
    if (mkv_xfer_expose(xfer, 0, units, 1, NULL, 0) != MKV_OK) {
        return bench_fail("a block list");
    }
    return ((bench_until(side, xfer, 1) == 0) && (mkv_xfer_close(xfer) == MKV_OK)) ? 0
                                                                                   : -1;
}

static void *bench_source(void *arg)
{
    bench_couple_t *couple = arg;
    const mkv_units_t units = bench_units();
    bench_side_t *side = &couple->sides[0];
    mkv_plan_t *plan = NULL;
    int ret;
    unsigned i;

    ret = (mkv_plan_create(side->map, &units, 1, 0, &plan) == MKV_OK)
              ? 0
              : bench_fail("a plan");
    pthread_barrier_wait(couple->start);
    for (i = 0; (ret == 0) && (i < couple->num_transfers); ++i) {
        ret = bench_write(side, couple->first_id + i, plan);
    }
    if (plan != NULL) {
        mkv_plan_destroy(plan);
    }
    return (ret == 0) ? couple : NULL;
}

static void *bench_target(void *arg)
{
    bench_couple_t *couple = arg;
    const mkv_units_t units = bench_units();
    int ret = 0;
    unsigned i;

    pthread_barrier_wait(couple->start);
    for (i = 0; (ret == 0) && (i < couple->num_transfers); ++i) {
        ret = bench_expose(&couple->sides[1], couple->first_id + i, &units);
    }
    return (ret == 0) ? couple : NULL;
}

static void bench_start(bench_couple_t *couples, unsigned num, unsigned num_transfers,
                        pthread_barrier_t *start)
{
    static void *(*const run[])(void *) = {bench_source, bench_target};
    unsigned i, k;

    for (i = 0; i < num; ++i) {
        couples[i].num_transfers = num_transfers;
        couples[i].start = start;
        for (k = 0; k < 2; ++k) {
            if (pthread_create(&couples[i].threads[k], NULL, run[k], &couples[i]) !=
                0) {
                perf_error("no thread %u of %u", 2 * i + k + 1, 2 * num);
                exit(EXIT_FAILURE);
            }
        }
    }
}

/* Transfers a second of so many pairs at once, or 0 with a message */
static double bench_row(bench_couple_t *couples, unsigned num, unsigned num_transfers)
{
    pthread_barrier_t start;
    uint64_t start_ns;
    int failed = 0;
    unsigned i, k;
    void *ret;

    pthread_barrier_init(&start, NULL, 2 * num + 1);
    bench_start(couples, num, num_transfers, &start);
    pthread_barrier_wait(&start);
    start_ns = perf_clock_ns();
    for (i = 0; i < num; ++i) {
        for (k = 0; k < 2; ++k) {
            pthread_join(couples[i].threads[k], &ret);
            failed |= (ret == NULL);
        }
        couples[i].first_id += num_transfers;
    }
    start_ns = perf_clock_ns() - start_ns;
    pthread_barrier_destroy(&start);
    return failed ? 0 : (double)num * num_transfers * 1e9 / (double)start_ns;
}

static int bench_rows(bench_couple_t *couples, unsigned max, unsigned num_transfers)
{
    double rate, one = 0;
    unsigned num;

    printf("pairs transfers/s of_one\n");
    for (num = 1; num <= max; num *= 2) {
        bench_row(couples, num, num_transfers / 10 + 1);
        rate = bench_row(couples, num, num_transfers);
        if (rate == 0) {
            return -1;
        }
        one = (num == 1) ? rate : one;
        printf("%5u %11.0f %6.2f\n", num, rate, rate / one);
        fflush(stdout);
    }
    return 0;
}

/* A whole number from 1 on, or 0 */
static unsigned bench_number(const char *text, unsigned max)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    return ((*end == '\0') && (value <= max)) ? (unsigned)value : 0;
}

int main(int argc, char **argv)
{
    static bench_couple_t couples[BENCH_MAX_PAIRS];
    const unsigned max = (argc > 1) ? bench_number(argv[1], BENCH_MAX_PAIRS) : 16;
    const unsigned num = (argc > 2) ? bench_number(argv[2], 100000000) : 20000;
    int ret = 0;
    unsigned i;

    perf_message_prefix("bench_scale");
    if ((max == 0) || (num == 0)) {
        perf_error("expected [PAIRS [TRANSFERS]], of 1 to %d pairs", BENCH_MAX_PAIRS);
        return 2;
    }
    for (i = 0; i < BENCH_BLOCKS; ++i) {
        bench_blocks[i] = 2 * i;
    }
    for (i = 0; (i < max) && (ret == 0); ++i) {
        couples[i].first_id = 1;
        ret = bench_pair_open(couples[i].sides, &bench_region);
    }
    ret = (ret == 0) ? bench_rows(couples, max, num) : ret;
    for (i = 0; i < max; ++i) {
        bench_pair_close(couples[i].sides);
    }
    return (ret == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
