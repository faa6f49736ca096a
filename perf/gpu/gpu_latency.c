/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Least cost of one small piece, and of the ways to notice its arrival: the reference
 * for mori_xgmi's latency. If the sender waits for an answer between two pieces, the
 * GPU is idle and takes longer to start.
 */

#include "perf/gpu/gpu_bench.h"

#define LATENCY_COUNT 200


/* How one small piece is moved and waited for. */
typedef struct latency_way {
    const char *name;
    enum { BY_SYNCHRONIZE, BY_EVENT, BY_QUERY, BY_VALUE, BY_KERNEL } kind;
    double rest_us; /* between two pieces */
} latency_way_t;

static void latency_spin(int (*query)(void *), void *object, const char *what)
{
    int ret;

    while ((ret = query(object)) == GPU_NOT_READY) {
    }
    gpu_check(ret, what);
}

static void latency_copy(const latency_way_t *way, gpu_lane_t *lane, void *event,
                         size_t size)
{
    gpu_check(gpu_bench.gpu.copy_async(gpu_bench.devices[1].pool,
                                       gpu_bench.devices[0].pool, size,
                                       GPU_COPY_DEFAULT, lane->stream),
              "hipMemcpyAsync");
    switch (way->kind) {
    case BY_EVENT:
        gpu_check(gpu_bench.gpu.event_record(event, lane->stream), "hipEventRecord");
        latency_spin(gpu_bench.gpu.event_query, event, "hipEventQuery");
        break;
    case BY_QUERY:
        latency_spin(gpu_bench.gpu.stream_query, lane->stream, "hipStreamQuery");
        break;
    case BY_VALUE:
        gpu_check(gpu_bench.gpu.write_value(lane->stream, (void *)(uintptr_t)lane->flag,
                                            ++lane->sequence, 0),
                  "hipStreamWriteValue32");
        gpu_wait(lane);
        break;
    default:
        gpu_check(gpu_bench.gpu.stream_synchronize(lane->stream),
                  "hipStreamSynchronize");
    }
}

static void latency_kernel(gpu_lane_t *lane, size_t size)
{
    muct_xgmi_list_t list;

    muct_xgmi_list_init(&list, gpu_bench.memory[0], 1);
    muct_xgmi_list_add(&list, (uintptr_t)gpu_bench.devices[1].pool,
                       (uintptr_t)gpu_bench.devices[0].pool, size);
    gpu_launch(&gpu_bench.gpu, &gpu_bench.devices[0], lane, &list, gpu_bench.blocks);
    gpu_wait(lane);
}

static double latency_of(const latency_way_t *way, void *event, size_t size)
{
    gpu_lane_t *lane = &gpu_bench.devices[0].lanes[0];
    double total[LATENCY_COUNT];
    double start = 0;
    unsigned i;

    for (i = 0; i < LATENCY_COUNT; ++i) {
        while (gpu_now_us() < start + total[(i > 0) ? i - 1 : 0] + way->rest_us) {
        }
        start = gpu_now_us();
        if (way->kind == BY_KERNEL) {
            latency_kernel(lane, size);
        } else {
            latency_copy(way, lane, event, size);
        }
        total[i] = gpu_now_us() - start;
    }
    return gpu_bench_median(total, LATENCY_COUNT);
}

void gpu_latency(void)
{
    static const latency_way_t ways[] = {
        {"copy + synchronize", BY_SYNCHRONIZE, 0},
        {"copy + synchronize, 10 us of rest", BY_SYNCHRONIZE, 10},
        {"copy + event", BY_EVENT, 0},
        {"copy + query of the stream", BY_QUERY, 0},
        {"copy + query, 10 us of rest", BY_QUERY, 10},
        {"copy + value", BY_VALUE, 0},
        {"kernel", BY_KERNEL, 0}};
    static const size_t sizes[] = {8, 4096, 65536, 262144};
    const latency_way_t *way;
    void *event;
    size_t i;

    gpu_check(gpu_bench.gpu.set_device(0), "hipSetDevice");
    gpu_check(gpu_bench.gpu.event_create(&event, GPU_EVENT_NO_TIMING),
              "hipEventCreateWithFlags");
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
        for (way = ways; way < ways + sizeof(ways) / sizeof(ways[0]); ++way) {
            if (((way->kind == BY_VALUE) && (gpu_bench.gpu.write_value == NULL)) ||
                ((way->kind == BY_KERNEL) && !gpu_bench_can(GPU_PUSH))) {
                continue;
            }
            gpu_bench_row(way->name, sizes[i], 1, gpu_bench.blocks,
                          latency_of(way, event, sizes[i]), 0, "timed only");
        }
    }
    gpu_check(gpu_bench.gpu.event_destroy(event), "hipEventDestroy");
}
