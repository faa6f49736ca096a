/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * How long a keyed buffer takes to be fetched (mkv_fetch() until MKV_EV_FETCHED) beside
 * UCP's own get, and put and flush, of as many bytes of the same memory, over whatever
 * UCX_TLS names: 3.3 KB, which come with the answer, and 1.6 MB, which are read where
 * they lie. One thread asks and another one makes progress for the owner; the three are
 * tried in turn, round by round, so that what disturbs one disturbs all.
 *
 *   bench_fetch [DRAM | VRAM]
 *
 * Under callgrind it is one thread and nothing is timed: each step of a fetch is a dump
 * of its own, from rounds in which it alone is counted.
 *
 *   ask     mkv_fetch()
 *   serve   progress of the owner until the asker has the answer, or nothing is left
 *   hear    progress and poll of the asker until its event is there
 */

#include "perf/bench/bench_pair.h"
#include "perf/bench/bench_raw.h"
#include "perf/workload/clock.h"
#include "perf/workload/error.h"
#include "perf/workload/memory.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BENCH_SMALL = 3300,
    BENCH_LARGE = 1600000,
    BENCH_ROUNDS = 1000,
    BENCH_WARMUP = 50,
    BENCH_COUNTED = 20
};

typedef enum bench_way {
    BENCH_FETCH,
    BENCH_GET,
    BENCH_PUT,
    BENCH_NUM_WAYS
} bench_way_t;

typedef enum bench_step {
    BENCH_ASK,
    BENCH_SERVE,
    BENCH_HEAR,
    BENCH_NUM_STEPS
} bench_step_t;

typedef struct bench {
    bench_side_t sides[2]; /* asks, owns */
    bench_raw_t raw;
    perf_memory_t *memory;
    char *base;               /* what is owned, and behind it where to */
    size_t length;            /* of what moves now */
    _Atomic(bench_way_t) way; /* whom the owner's thread makes progress for */
    atomic_bool is_over;
    bench_step_t counted;
    uint64_t ns[BENCH_NUM_WAYS][BENCH_ROUNDS];
} bench_t;

static const char *const bench_ways[BENCH_NUM_WAYS] = {"fetch", "get", "put+flush"};
static const char *const bench_steps[BENCH_NUM_STEPS] = {"ask", "serve", "hear"};

static char *bench_target(const bench_t *bench)
{
    return bench->base + BENCH_LARGE;
}

/* ---- A fetch --------------------------------------------------------------------- */

static int bench_ask(bench_t *bench)
{
    const mkv_fetch_params_t params = {.size = sizeof(params),
                                       .key = &bench->length,
                                       .key_length = sizeof(bench->length),
                                       .region = bench->sides[0].region,
                                       .offset = BENCH_LARGE,
                                       .length = bench->length};

    return (mkv_fetch(bench->sides[0].peer, &params) == MKV_OK) ? 0
                                                                : bench_fail("a fetch");
}

/* @return 1: it has ended, 0: not yet, -1 with a message */
static int bench_hear(bench_t *bench)
{
    mkv_event_t event;
    size_t num = 0;

    mkv_progress(bench->sides[0].ctx);
    mkv_poll(bench->sides[0].ctx, &event, sizeof(event), 1, &num);
    if ((num == 0) || (event.type != MKV_EV_FETCHED)) {
        return 0;
    }
    if (event.status != MKV_OK) {
        perf_error("%s", event.text);
    }
    return (event.status == MKV_OK) ? 1 : -1;
}

static int bench_publish(bench_t *bench, size_t length)
{
    const mkv_publish_params_t params = {.size = sizeof(params),
                                         .key = &length,
                                         .key_length = sizeof(length),
                                         .region = bench->sides[1].region,
                                         .length = length};
    uint64_t publication;

    return (mkv_publish(bench->sides[1].ctx, &params, &publication) == MKV_OK)
               ? 0
               : bench_fail("a publication");
}

/* ---- What was moved -------------------------------------------------------------- */

static void bench_fill(const bench_t *bench, char *to, unsigned seed)
{
    char *bytes = malloc(BENCH_LARGE);
    size_t i;

    for (i = 0; (bytes != NULL) && (i < BENCH_LARGE); ++i) {
        bytes[i] = (char)((i * 31 + i / 251) * seed);
    }
    if (bytes != NULL) {
        perf_memory_write(bench->memory, to, bytes, BENCH_LARGE);
        (void)perf_memory_sync(bench->memory);
    }
    free(bytes);
}

static int bench_verify(const bench_t *bench)
{
    char *from = malloc(bench->length), *to = malloc(bench->length);
    int ret = -1;

    if ((from != NULL) && (to != NULL)) {
        perf_memory_read(bench->memory, from, bench->base, bench->length);
        perf_memory_read(bench->memory, to, bench_target(bench), bench->length);
        ret = (perf_memory_sync(bench->memory) == 0) ? memcmp(from, to, bench->length)
                                                     : -1;
    }
    free(from);
    free(to);
    if (ret != 0) {
        perf_error("%zu bytes did not arrive as they were", bench->length);
    }
    return (ret == 0) ? 0 : -1;
}

/* ---- Time ------------------------------------------------------------------------ */

static void *bench_owner(void *arg)
{
    bench_t *bench = arg;

    while (!atomic_load(&bench->is_over)) {
        if (atomic_load(&bench->way) == BENCH_FETCH) {
            mkv_progress(bench->sides[1].ctx);
        } else {
            ucp_worker_progress(bench->raw.workers[1]);
        }
    }
    return NULL;
}

static int bench_move(bench_t *bench, bench_way_t way)
{
    ucs_status_ptr_t request;
    int ret;

    if (way == BENCH_FETCH) {
        if (bench_ask(bench) != 0) {
            return -1;
        }
        while ((ret = bench_hear(bench)) == 0) {
        }
        return (ret < 0) ? -1 : 0;
    }
    request = (way == BENCH_GET) ? bench_raw_get(&bench->raw, bench_target(bench),
                                                 bench->base, bench->length)
                                 : bench_raw_put(&bench->raw, bench_target(bench),
                                                 bench->base, bench->length);
    while ((ret = bench_raw_test(&bench->raw, request)) == 0) {
    }
    return (ret < 0) ? -1 : 0;
}

static int bench_round(bench_t *bench, int round)
{
    uint64_t start_ns;
    bench_way_t way;

    for (way = BENCH_FETCH; way < BENCH_NUM_WAYS; ++way) {
        atomic_store(&bench->way, way);
        start_ns = perf_clock_ns();
        if (bench_move(bench, way) != 0) {
            return -1;
        }
        if (round >= 0) {
            bench->ns[way][round] = perf_clock_ns() - start_ns;
        }
    }
    return 0;
}

static int bench_compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static void bench_print(bench_t *bench)
{
    double median, p99, of_median = 1, of_p99 = 1;
    bench_way_t way;

    for (way = BENCH_NUM_WAYS; way-- > BENCH_FETCH;) {
        qsort(bench->ns[way], BENCH_ROUNDS, sizeof(bench->ns[way][0]), bench_compare);
    }
    of_median = (double)bench->ns[BENCH_GET][BENCH_ROUNDS / 2];
    of_p99 = (double)bench->ns[BENCH_GET][BENCH_ROUNDS * 99 / 100];
    for (way = BENCH_FETCH; way < BENCH_NUM_WAYS; ++way) {
        median = (double)bench->ns[way][BENCH_ROUNDS / 2];
        p99 = (double)bench->ns[way][BENCH_ROUNDS * 99 / 100];
        printf("%s %zu %.1f %.1f %.2f %.2f\n", bench_ways[way], bench->length,
               median / 1000, p99 / 1000, median / of_median, p99 / of_p99);
    }
}

static int bench_timed(bench_t *bench)
{
    pthread_t thread;
    int ret = 0, i;

    atomic_store(&bench->is_over, false);
    atomic_store(&bench->way, BENCH_FETCH);
    if (pthread_create(&thread, NULL, bench_owner, bench) != 0) {
        perf_error("no thread");
        return -1;
    }
    for (i = -BENCH_WARMUP; (ret == 0) && (i < BENCH_ROUNDS); ++i) {
        ret = bench_round(bench, i);
    }
    atomic_store(&bench->is_over, true);
    pthread_join(thread, NULL);
    if (ret == 0) {
        bench_print(bench);
    }
    return ret;
}

/* ---- Instructions ---------------------------------------------------------------- */

/* Around each step, before and behind it. */
static void bench_toggle(const bench_t *bench, bench_step_t step)
{
    if (bench->counted == step) {
        CALLGRIND_TOGGLE_COLLECT;
    }
}

static int bench_count_round(bench_t *bench)
{
    int ret;

    bench_progress(&bench->sides[1]);
    bench_progress(&bench->sides[0]);
    bench_toggle(bench, BENCH_ASK);
    ret = bench_ask(bench);
    bench_toggle(bench, BENCH_ASK);
    while (ret == 0) {
        bench_toggle(bench, BENCH_SERVE);
        mkv_progress(bench->sides[1].ctx);
        bench_toggle(bench, BENCH_SERVE);
        bench_toggle(bench, BENCH_HEAR);
        ret = bench_hear(bench);
        bench_toggle(bench, BENCH_HEAR);
    }
    return (ret < 0) ? -1 : 0;
}

static int bench_counted(bench_t *bench)
{
    char name[32];
    bench_step_t step;
    int ret = 0, i;

    for (step = BENCH_ASK; (ret == 0) && (step < BENCH_NUM_STEPS); ++step) {
        bench->counted = BENCH_NUM_STEPS;
        ret = bench_count_round(bench);
        CALLGRIND_ZERO_STATS;
        bench->counted = step;
        for (i = 0; (ret == 0) && (i < BENCH_COUNTED); ++i) {
            ret = bench_count_round(bench);
        }
        snprintf(name, sizeof(name), "%s.%zu", bench_steps[step], bench->length);
        CALLGRIND_DUMP_STATS_AT(name);
    }
    return ret;
}

/* ---- Both ------------------------------------------------------------------------ */

static int bench_row(bench_t *bench, size_t length)
{
    int ret;

    bench->length = length;
    bench_fill(bench, bench->base, 1);
    bench_fill(bench, bench_target(bench), 3);
    ret = bench_publish(bench, length);
    if (ret == 0) {
        ret = RUNNING_ON_VALGRIND ? bench_counted(bench) : bench_timed(bench);
    }
    return (ret == 0) ? bench_verify(bench) : -1;
}

static int bench_run(bench_t *bench)
{
    const mkv_region_t region = {.size = sizeof(region),
                                 .base = bench->base,
                                 .mem_type = perf_memory_type(bench->memory),
                                 .unit_bytes = BENCH_LARGE,
                                 .unit_stride = BENCH_LARGE,
                                 .n_units = 2,
                                 .length = 2 * BENCH_LARGE};
    int ret = bench_pair_open(bench->sides, &region);

    ret = (ret == 0)
              ? bench_raw_open(&bench->raw, region.base, region.length, region.mem_type)
              : ret;
    ret = (ret == 0) ? bench_row(bench, BENCH_SMALL) : ret;
    ret = (ret == 0) ? bench_row(bench, BENCH_LARGE) : ret;
    bench_raw_close(&bench->raw);
    bench_pair_close(bench->sides);
    return ret;
}

int main(int argc, char **argv)
{
    const bool is_gpu = (argc > 1) && (strcmp(argv[1], "VRAM") == 0);
    static bench_t bench;
    int ret = -1;

    perf_message_prefix("bench_fetch");
    if (perf_memory_open(is_gpu ? PERF_SEGMENT_VRAM : PERF_SEGMENT_DRAM, NULL,
                         &bench.memory) != 0) {
        return EXIT_FAILURE;
    }
    bench.base = perf_memory_alloc(bench.memory, 2 * BENCH_LARGE);
    if (bench.base != NULL) {
        ret = bench_run(&bench);
        perf_memory_free(bench.memory, bench.base, 2 * BENCH_LARGE);
    }
    perf_memory_close(bench.memory);
    return (ret == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
