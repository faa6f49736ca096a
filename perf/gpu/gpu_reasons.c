/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Parts of gpu_limits that say why a figure is what it is: what reading the list over
 * PCIe costs, and what both directions reach when the host is no limit, each with a
 * thread of its own that does nothing but write lists and launch.
 */

#include "perf/gpu/gpu_bench.h"

#include <pthread.h>

#define REASONS_DEPTH 64
#define REASONS_LISTS 4 /* in flight, each in memory of its own */


/* The same launch with its list in pinned memory and in the device's own. */
void gpu_reasons_list(void)
{
    gpu_device_t *device = &bench.devices[0];
    double pinned[MAX_REPEATS], local[MAX_REPEATS];
    muct_xgmi_list_t list;
    double start;
    void *memory;
    unsigned i;

    gpu_check(bench.gpu.set_device(0), "hipSetDevice");
    gpu_check(bench.gpu.alloc(&memory, bench.count * sizeof(muct_xgmi_entry_t)),
              "hipMalloc");
    gpu_bench_make_sets(4096, 4096, 0, 0);
    for (i = 0; i < bench.repeats; ++i) {
        gpu_bench_fill_list(&list, (int)(i % NUM_SETS), false);
        gpu_check(bench.gpu.copy(memory, list.begin,
                                 muct_xgmi_list_count(&list) * sizeof(*list.begin),
                                 GPU_COPY_DEFAULT),
                  "hipMemcpy");
        start = gpu_now_us();
        gpu_launch(&bench.gpu, device, &device->lanes[0], &list, bench.blocks);
        gpu_wait(&device->lanes[0]);
        pinned[i] = gpu_now_us() - start;
        start = gpu_now_us();
        gpu_launch_at(&bench.gpu, device, &device->lanes[0], &list, bench.blocks,
                      (uintptr_t)memory);
        gpu_wait(&device->lanes[0]);
        local[i] = gpu_now_us() - start;
    }
    gpu_bench_row("list in pinned memory", 4096, bench.count, bench.blocks,
                  gpu_bench_median(pinned, bench.repeats), 0, "timed only");
    gpu_bench_row("list in device memory", 4096, bench.count, bench.blocks,
                  gpu_bench_median(local, bench.repeats), 0, "timed only");
    gpu_check(bench.gpu.free(memory), "hipFree");
}


/* ---- both directions ---- */

typedef struct way {
    pthread_barrier_t *start;
    int number; /* 0: there, 1: back */
    double us;
} way_t;

/* List after list on one stream, a few ahead: what the product does. */
static void way_run(const way_t *way)
{
    gpu_device_t *device = &bench.devices[way->number];
    gpu_lane_t *lane = &device->lanes[0];
    uint32_t sequences[REASONS_DEPTH];
    muct_xgmi_list_t list;
    unsigned i;

    for (i = 0; i < REASONS_DEPTH; ++i) {
        while ((i >= REASONS_LISTS) &&
               !muct_xgmi_flag_reached(*lane->flag, sequences[i - REASONS_LISTS])) {
        }
        gpu_bench_fill_list(&list,
                            (way->number * REASONS_LISTS) + (int)(i % REASONS_LISTS),
                            way->number != 0);
        gpu_launch(&bench.gpu, device, lane, &list, bench.blocks);
        sequences[i] = lane->sequence;
    }
    gpu_wait(lane);
}

static void *way_main(void *arg)
{
    way_t *way = arg;
    double start;

    gpu_check(bench.gpu.set_device(way->number), "hipSetDevice");
    way_run(way);
    pthread_barrier_wait(way->start);
    start = gpu_now_us();
    way_run(way);
    way->us = gpu_now_us() - start;
    return NULL;
}

static double ways_us(unsigned num)
{
    pthread_barrier_t start;
    way_t ways[2] = {{&start, 0, 0}, {&start, 1, 0}};
    pthread_t threads[2];
    unsigned i;

    pthread_barrier_init(&start, NULL, num);
    for (i = 0; i < num; ++i) {
        gpu_check(pthread_create(&threads[i], NULL, way_main, &ways[i]),
                  "pthread_create");
    }
    for (i = 0; i < num; ++i) {
        pthread_join(threads[i], NULL);
    }
    pthread_barrier_destroy(&start);
    return ((num == 1) || (ways[0].us > ways[1].us)) ? ways[0].us : ways[1].us;
}

void gpu_reasons_duplex(void)
{
    static const size_t sizes[] = {4096, 8192, 16384, 65536};
    double total[MAX_REPEATS];
    unsigned num, i;
    size_t s;

    for (s = 0; s < sizeof(sizes) / sizeof(sizes[0]); ++s) {
        if ((sizes[s] * bench.count) > bench.pool_size) {
            continue;
        }
        gpu_bench_make_sets(sizes[s], sizes[s], 0, 0);
        for (num = 1; num <= 2; ++num) {
            for (i = 0; i < (bench.repeats + 5) / 6; ++i) {
                total[i] = ways_us(num) / REASONS_DEPTH;
            }
            gpu_bench_row((num == 1) ? "back to back, one way"
                                     : "back to back, both ways",
                          sizes[s], num * bench.count, bench.blocks,
                          gpu_bench_median(total, i), 0, "timed only");
        }
    }
    gpu_bench_restore_source();
}
