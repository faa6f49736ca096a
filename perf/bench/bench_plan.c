/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Cost of a scattered block for the host when a plan is reused: instructions, time,
 * allocations, memory - without the copy, which libhipcpu leaves out with
 * HIPCPU_COPY=0.
 *
 * --pipeline_depth transfers share a row's blocks and are posted together. BENCH_ORDER
 * sets the order of the blocks:
 *
 *   scattered  each process has its own random order (default)
 *   adjoin     the same, but the target's are in the order of memory
 *   pairs      in random order, but two by two they adjoin in both processes
 *   crossed    the same pairs, the other way round at the target: none merges
 *
 * This process starts a second one that only exposes its blocks. Under callgrind only
 * this one is counted, and only between the marks below; each row and phase is a
 * separate dump, whose description is the same as the first columns printed here.
 *
 * malloc() and its kin are defined here, seen by all libraries, to count calls; the C
 * library does the work.
 */


#include "perf/bench/bench_callgrind.h"
#include "perf/base/clock.h"
#include "perf/kv_perf/engine/engine.h"
#include "perf/base/error.h"
#include "perf/base/random.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>


enum { BENCH_STEP = 8 }; /* from row to row; the last row is max_batch_size */

static uint64_t bench_num_allocs;

/* Allocations of the transport during the measurement: lists for all posts to come. */
static uint64_t bench_transport_bytes;
static bool bench_is_watching;

#ifndef __SANITIZE_ADDRESS__
static void bench_count_alloc(const void *caller, size_t size)
{
    Dl_info info;

    __atomic_add_fetch(&bench_num_allocs, 1, __ATOMIC_RELAXED);
    if (bench_is_watching && (dladdr(caller, &info) != 0) &&
        ((strstr(info.dli_fname, "mori-core") != NULL) ||
         (strstr(info.dli_fname, "libhipcpu") != NULL))) {
        __atomic_add_fetch(&bench_transport_bytes, size, __ATOMIC_RELAXED);
    }
}

#pragma GCC visibility push(default)

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t num, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size)
{
    bench_count_alloc(__builtin_return_address(0), size);
    return __libc_malloc(size);
}

void *calloc(size_t num, size_t size)
{
    bench_count_alloc(__builtin_return_address(0), num * size);
    return __libc_calloc(num, size);
}

void *realloc(void *memory, size_t size)
{
    bench_count_alloc(__builtin_return_address(0), size);
    return __libc_realloc(memory, size);
}

int posix_memalign(void **memory_p, size_t alignment, size_t size)
{
    bench_count_alloc(__builtin_return_address(0), size);
    *memory_p = __libc_memalign(alignment, size);
    return (*memory_p == NULL) ? 12 /* ENOMEM */ : 0;
}

#pragma GCC visibility pop
#endif

static uint64_t bench_heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

typedef struct bench_order {
    const char *name;
    bool is_target_sorted;
    uint32_t run; /* number of blocks of a group that stay together */
    bool is_crossed;
} bench_order_t;

static const bench_order_t bench_orders[] = {{"scattered", false, 1, false},
                                             {"adjoin", true, 1, false},
                                             {"pairs", false, 2, false},
                                             {"crossed", false, 2, true}};

static const bench_order_t *bench_order(void)
{
    const char *name = getenv("BENCH_ORDER");
    size_t i;

    for (i = 0; i < sizeof(bench_orders) / sizeof(bench_orders[0]); ++i) {
        if ((name == NULL) || (strcmp(name, bench_orders[i].name) == 0)) {
            return &bench_orders[i];
        }
    }
    perf_error("BENCH_ORDER=%s; expected a name of an order of blocks", name);
    return NULL;
}

/* Every block of the buffer once, in an order of its own for each process. */
static uint32_t *bench_list(const bench_order_t *order, uint32_t num, bool is_target)
{
    uint32_t *list = malloc(num * sizeof(*list)), i, k, other, block;
    uint64_t seed = is_target ? 2 : 1;

    if (list == NULL) {
        perf_error("no memory for a list of %u blocks", num);
        return NULL;
    }
    for (i = 0; i < num / order->run; ++i) {
        other = (is_target && order->is_target_sorted)
                    ? i
                    : (uint32_t)perf_random_below(&seed, i + 1);
        for (k = 0; k < order->run; ++k) {
            block = i * order->run + k;
            list[block] = list[other * order->run + k];
            list[other * order->run + k] =
                (is_target && order->is_crossed) ? block ^ 1 : block;
        }
    }
    return list;
}

/** The transfers of a row. */
typedef struct bench_row {
    uint32_t num_blocks; /* blocks of all transfers together */
    uint32_t num_jobs;
    perf_job_t *jobs;
} bench_row_t;

static int bench_each(const bench_row_t *row, perf_engine_t *engine,
                      int (*call)(perf_engine_t *engine, perf_job_t *job))
{
    uint32_t i;

    for (i = 0; i < row->num_jobs; ++i) {
        if (call(engine, &row->jobs[i]) != 0) {
            return -1;
        }
    }
    return 0;
}

static int bench_wait(const perf_engine_ops_t *ops, perf_engine_t *engine,
                      const bench_row_t *row, uint64_t num_posts)
{
    uint32_t i;

    for (i = 0; i < row->num_jobs; ++i) {
        while (row->jobs[i].num_completed < num_posts) {
            if (ops->progress(engine) != 0) {
                return -1;
            }
        }
    }
    return 0;
}

/* Noinline: a name to look for in a profile. */
static int __attribute__((noinline)) bench_posts(const perf_engine_ops_t *ops,
                                                 perf_engine_t *engine,
                                                 const bench_row_t *row,
                                                 uint64_t num_posts)
{
    uint64_t target = row->jobs[0].num_completed + num_posts, i;

    for (i = target - num_posts; i < target; ++i) {
        if ((bench_each(row, engine, ops->post) != 0) ||
            (bench_wait(ops, engine, row, i + 1) != 0)) {
            return -1;
        }
    }
    return 0;
}

static void bench_print(const perf_options_t *options, const bench_row_t *row,
                        uint64_t post_ns, uint64_t plan_heap, uint64_t heap)
{
    uint64_t prep_ns = 0, num_merged = 0;
    double num = row->num_blocks;
    uint32_t i;

    for (i = 0; i < row->num_jobs; ++i) {
        prep_ns += row->jobs[i].prep_ns;
        num_merged += row->jobs[i].num_merged;
    }
    printf("%u %.1f %.2f %.3f %.1f %.1f %.1f %" PRIu64 "\n", row->num_blocks,
           (double)prep_ns / num, (double)post_ns / (options->num_iter * num),
           (double)bench_num_allocs / options->num_iter, (double)plan_heap / num,
           (double)heap / num, (double)bench_transport_bytes / num, num_merged);
    fflush(stdout);
}

static int bench_run_row(const perf_options_t *options, const perf_engine_ops_t *ops,
                         perf_engine_t *engine, const bench_row_t *row)
{
    uint64_t heap = bench_heap_bytes(), plan_heap, start_ns;
    char name[64];

    CALLGRIND_ZERO_STATS;
    CALLGRIND_TOGGLE_COLLECT;
    if (bench_each(row, engine, ops->start) != 0) {
        return -1;
    }
    CALLGRIND_TOGGLE_COLLECT;
    snprintf(name, sizeof(name), "plan %u", row->num_blocks);
    CALLGRIND_DUMP_STATS_AT(name);
    plan_heap = bench_heap_bytes() - heap;

    /* the first posts make resources that later ones reuse */
    bench_transport_bytes = 0;
    bench_is_watching = true;
    if (bench_posts(ops, engine, row, options->warmup_iter) != 0) {
        return -1;
    }
    bench_is_watching = false;
    heap = bench_heap_bytes() - heap;

    CALLGRIND_ZERO_STATS;
    bench_num_allocs = 0;
    start_ns = perf_clock_ns();
    CALLGRIND_TOGGLE_COLLECT;
    if (bench_posts(ops, engine, row, options->num_iter) != 0) {
        return -1;
    }
    CALLGRIND_TOGGLE_COLLECT;
    start_ns = perf_clock_ns() - start_ns;
    snprintf(name, sizeof(name), "post %u", row->num_blocks);
    CALLGRIND_DUMP_STATS_AT(name);
    bench_print(options, row, start_ns, plan_heap, heap);
    return bench_each(row, engine, ops->stop);
}

/* The row's blocks, shared out */
static void bench_share(bench_row_t *row, const perf_options_t *options,
                        const uint32_t *local, const uint32_t *remote)
{
    uint32_t num = row->num_blocks / row->num_jobs, i;

    for (i = 0; i < row->num_jobs; ++i) {
        row->jobs[i] = (perf_job_t){.id = (uint64_t)row->num_blocks + i,
                                    .num_blocks = num,
                                    .local = local + (size_t)i * num,
                                    .remote = remote + (size_t)i * num,
                                    .num_posts = (uint64_t)options->num_iter +
                                                 options->warmup_iter};
    }
}

static int bench_row(perf_run_t *run, const perf_engine_ops_t *ops,
                     perf_engine_t *engine, uint32_t num)
{
    const bench_order_t *order = bench_order();
    uint32_t *local = NULL, *remote = NULL;
    bench_row_t row = {num, run->options->pipeline_depth, NULL};
    int ret = -1;

    row.jobs = calloc(row.num_jobs, sizeof(*row.jobs));
    if ((order == NULL) || (row.jobs == NULL)) {
        goto out;
    }
    local = bench_list(order, num, run->rank != 0);
    remote = bench_list(order, num, run->rank == 0);
    if ((local == NULL) || (remote == NULL)) {
        goto out;
    }

    bench_share(&row, run->options, local, remote);
    if (run->rank == 0) {
        ret = bench_run_row(run->options, ops, engine, &row);
    } else {
        ret = (bench_each(&row, engine, ops->serve) == 0)
                  ? bench_each(&row, engine, ops->unserve)
                  : -1;
    }
out:
    free(remote);
    free(local);
    free(row.jobs);
    return ret;
}

/* Work during the barrier. */
typedef struct bench_idle {
    const perf_engine_ops_t *ops;
    perf_engine_t *engine;
} bench_idle_t;

static void bench_idle(void *arg)
{
    bench_idle_t *idle = arg;

    idle->ops->progress(idle->engine);
}

static int bench_rows(perf_run_t *run, const perf_engine_ops_t *ops)
{
    size_t block_size = (size_t)run->options->start_block_size;
    perf_engine_params_t params = {.run = run, .num_views = 1};
    perf_engine_t *engine;
    uint64_t num, max = run->options->max_batch_size;
    int ret = 0;

    params.block_sizes = &block_size;
    params.size = max * block_size;
    params.buffer = perf_memory_alloc(run->memory, params.size);
    if (params.buffer == NULL) {
        return -1;
    }

    ret = ops->open(&params, &engine);
    if (ret == 0) {
        for (num = run->options->start_batch_size; (num < max) && (ret == 0);
             num *= BENCH_STEP) {
            ret = bench_row(run, ops, engine, (uint32_t)num);
        }
        if (ret == 0) {
            ret = bench_row(run, ops, engine, (uint32_t)max);
        }
        if (ret == 0) {
            ops->end_of_test(engine);
            ret = perf_run_barrier(run, bench_idle, &(bench_idle_t){ops, engine});
        }
        ops->close(engine);
    }
    perf_memory_free(run->memory, params.buffer, params.size);
    return ret;
}

static int bench_main(const perf_options_t *options, int fd, unsigned rank)
{
    perf_run_t run = {.options = options, .rank = rank, .num_channels = 1};
    int ret;

    run.channels[0] =
        (perf_channel_t){fd, options->timeout_s, rank ? "active" : "passive"};
    if (perf_memory_open(options->initiator_segment, options->hip_library,
                         &run.memory) != 0) {
        return EXIT_FAILURE;
    }
    ret = bench_rows(&run, (options->api == PERF_API_MKV) ? &perf_engine_mkv
                                                          : &perf_engine_ucp);
    perf_memory_close(run.memory);
    return (ret == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int bench_start_other(int argc, char **argv, int fd)
{
    char **other = calloc((size_t)argc + 5, sizeof(*other)), number[16];
    pid_t pid;

    snprintf(number, sizeof(number), "%d", fd);
    pid = (other == NULL) ? -1 : fork();
    if (pid == 0) {
        memcpy(other, argv, (size_t)argc * sizeof(*other));
        other[argc] = (char[]){"--_fds"};
        other[argc + 1] = number;
        other[argc + 2] = (char[]){"--_rank"};
        other[argc + 3] = (char[]){"1"};
        setenv("HIP_VISIBLE_DEVICES", "1", 1);
        execvp(argv[0], other); /* /proc/self/exe would be valgrind */
        _exit(EXIT_FAILURE);
    }
    free(other);
    if (pid < 0) {
        perf_error("the second process could not be started: %m");
    }
    return (pid < 0) ? -1 : 0;
}

int main(int argc, char **argv)
{
    perf_options_t options;
    int fds[2], ret, status;

    perf_message_prefix("bench_plan");
    ret = perf_options_parse(argc, argv, &options);
    if (ret <= 0) {
        return (ret == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    if (options.fds != NULL) {
        return bench_main(&options, atoi(options.fds), options.rank);
    }

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) {
        perf_error("socketpair failed: %m");
        return EXIT_FAILURE;
    }
    if (bench_start_other(argc, argv, fds[1]) != 0) {
        return EXIT_FAILURE;
    }
    close(fds[1]);
    setenv("HIP_VISIBLE_DEVICES", "0", 1);
    ret = bench_main(&options, fds[0], 0);
    close(fds[0]);
    wait(&status);
    return ret;
}
