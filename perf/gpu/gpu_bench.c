/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/gpu/gpu_bench.h"

#include <stdlib.h>
#include <string.h>

#define POISON 0xee

gpu_bench_t gpu_bench;

const char *const gpu_bench_names[GPU_NUM_METHODS] = {"kernel push", "kernel pull",
                                                      "copy loop", "copy batch"};

static const perf_column_t columns[] = {
    {"", "", -33, 0, false},          {"Size", "B", 10, 0, false},
    {"Count", "pieces", 7, 0, false}, {"Blocks", "", 6, 0, false},
    {"Time", "us", 10, 1, false},     {"B/W", "GB/s", 7, 1, false},
    {"Host", "ns/piece", 8, 1, false}};

const perf_table_t gpu_bench_table = {columns, sizeof(columns) / sizeof(columns[0]),
                                      false};


static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

double gpu_bench_median(double *values, unsigned count)
{
    qsort(values, count, sizeof(*values), compare_doubles);
    return values[count / 2];
}

static size_t random_below(size_t limit)
{
    return (((size_t)random() << 31) ^ (size_t)random()) % limit;
}

void gpu_bench_real(json_object *row, const char *name, double value)
{
    char text[32];

    snprintf(text, sizeof(text), "%.3f", value);
    json_object_object_add(row, name, json_object_new_double_s(value, text));
}

void gpu_bench_number(json_object *row, const char *name, size_t value)
{
    json_object_object_add(row, name, json_object_new_int64((int64_t)value));
}

/* Each row is a line, for grep */
static void write_row(json_object *row)
{
    fprintf(gpu_bench.json, "%s\n  %s", (gpu_bench.num_rows == 0) ? "" : ",",
            json_object_to_json_string_ext(row, JSON_C_TO_STRING_SPACED |
                                                    JSON_C_TO_STRING_NOSLASHESCAPE));
}

void gpu_bench_row_more(const char *what, size_t size, size_t count, unsigned blocks,
                        double us, double host_us, const char *checked,
                        const char *text, json_object *more)
{
    json_object *row = (more != NULL) ? more : json_object_new_object();
    double gbps = (double)size * (double)count / us / 1e3;
    double host_ns = host_us * 1e3 / (double)count;

    const perf_cell_t cells[] = {
        {.text = what},     {.number = (double)size}, {.number = (double)count},
        {.number = blocks}, {.number = us},           {.number = gbps},
        {.number = host_ns}};

    perf_table_row(&gpu_bench_table, cells, checked);
    if (text[0] != '\0') {
        printf("  %s\n", text);
    }
    if (gpu_bench.json != NULL) {
        json_object_object_add(row, "what", json_object_new_string(what));
        gpu_bench_number(row, "size", size);
        gpu_bench_number(row, "count", count);
        gpu_bench_number(row, "blocks", blocks);
        gpu_bench_real(row, "us", us);
        gpu_bench_real(row, "gbps", gbps);
        gpu_bench_real(row, "host_ns_per_piece", host_ns);
        json_object_object_add(row, "checked", json_object_new_string(checked));
        write_row(row);
    }
    json_object_put(row);
    ++gpu_bench.num_rows;
}

void gpu_bench_row(const char *what, size_t size, size_t count, unsigned blocks,
                   double us, double host_us, const char *checked)
{
    gpu_bench_row_more(what, size, count, blocks, us, host_us, checked, "", NULL);
}

void gpu_bench_make_sets(size_t size, size_t slot, size_t dst_shift, size_t src_shift)
{
    size_t num_slots = gpu_bench.pool_size / slot;
    size_t *order = malloc(num_slots * sizeof(*order));
    size_t i, j, swap;
    int set, side;

    if (num_slots < gpu_bench.count) {
        fprintf(stderr, "gpu_limits: a pool of %zu bytes has no room for %zu x %zu\n",
                gpu_bench.pool_size, gpu_bench.count, slot);
        exit(EXIT_FAILURE);
    }
    for (set = 0; set < GPU_NUM_SETS; ++set) {
        for (side = 0; side < 2; ++side) {
            for (i = 0; i < num_slots; ++i) {
                order[i] = i;
            }
            for (i = 0; i < gpu_bench.count; ++i) {
                j = i + random_below(num_slots - i);
                swap = order[i];
                order[i] = order[j];
                order[j] = swap;
                if (side == 0) {
                    gpu_bench.sets[set][i].dst = (order[i] * slot) + dst_shift;
                } else {
                    gpu_bench.sets[set][i].src = (order[i] * slot) + src_shift;
                }
                gpu_bench.sets[set][i].length = size;
            }
        }
    }
    free(order);
}

void gpu_bench_fill_list(muct_xgmi_list_t *list, int set, bool is_reverse)
{
    const char *dst = gpu_bench.devices[!is_reverse].pool;
    const char *src = gpu_bench.devices[is_reverse].pool;
    const gpu_piece_t *piece = gpu_bench.sets[set];
    size_t i;

    muct_xgmi_list_init(list, gpu_bench.memory[set], GPU_MAX_PIECES);
    for (i = 0; i < gpu_bench.count; ++i, ++piece) {
        muct_xgmi_list_add(list, (uintptr_t)dst + piece->dst,
                           (uintptr_t)src + piece->src, piece->length);
    }
}

/* Start and wait; returns the host's time in calls. */
static double run_kernel(int set, gpu_method_t method)
{
    gpu_device_t *device = &gpu_bench.devices[method == GPU_PULL];
    gpu_lane_t *lane = &device->lanes[0];
    muct_xgmi_list_t list;
    double start = gpu_now_us();
    double submitted;

    gpu_bench_fill_list(&list, set, false);
    gpu_launch(&gpu_bench.gpu, device, lane, &list, gpu_bench.blocks);
    submitted = gpu_now_us();
    gpu_wait(lane);
    return submitted - start;
}

static double run_loop(int set)
{
    void *stream = gpu_bench.devices[0].lanes[0].stream;
    const gpu_piece_t *piece = gpu_bench.sets[set];
    double start = gpu_now_us();
    double submitted;
    size_t i;

    for (i = 0; i < gpu_bench.count; ++i, ++piece) {
        gpu_check(gpu_bench.gpu.copy_async(gpu_bench.devices[1].pool + piece->dst,
                                           gpu_bench.devices[0].pool + piece->src,
                                           piece->length, GPU_COPY_DEFAULT, stream),
                  "hipMemcpyAsync");
    }
    submitted = gpu_now_us();
    gpu_check(gpu_bench.gpu.stream_synchronize(stream), "hipStreamSynchronize");
    return submitted - start;
}

static double run_batch(int set)
{
    void *stream = gpu_bench.devices[0].lanes[0].stream;
    const gpu_piece_t *piece = gpu_bench.sets[set];
    double start = gpu_now_us();
    double submitted;
    size_t i, failed;

    for (i = 0; i < gpu_bench.count; ++i, ++piece) {
        gpu_bench.dsts[i] = gpu_bench.devices[1].pool + piece->dst;
        gpu_bench.srcs[i] = gpu_bench.devices[0].pool + piece->src;
        gpu_bench.sizes[i] = piece->length;
    }
    gpu_check(gpu_bench.gpu.copy_batch(gpu_bench.dsts, gpu_bench.srcs, gpu_bench.sizes,
                                       gpu_bench.count, NULL, NULL, 0, &failed, stream),
              "hipMemcpyBatchAsync");
    submitted = gpu_now_us();
    gpu_check(gpu_bench.gpu.stream_synchronize(stream), "hipStreamSynchronize");
    return submitted - start;
}

double gpu_bench_run(gpu_method_t method, int set)
{
    int device = (method == GPU_PULL);

    gpu_check(gpu_bench.gpu.set_device(device), "hipSetDevice");
    if (method == GPU_LOOP) {
        return run_loop(set);
    }
    return (method == GPU_BATCH) ? run_batch(set) : run_kernel(set, method);
}

bool gpu_bench_can(gpu_method_t method)
{
    switch (method) {
    case GPU_PUSH:
        return gpu_bench.devices[0].kernel != NULL;
    case GPU_PULL:
        return gpu_bench.devices[1].kernel != NULL;
    case GPU_BATCH:
        return gpu_bench.gpu.copy_batch != NULL;
    default:
        return true;
    }
}

static bool is_poison(size_t begin, size_t end)
{
    for (; begin < end; ++begin) {
        if ((unsigned char)gpu_bench.host_dst[begin] != POISON) {
            return false;
        }
    }
    return true;
}

static int compare_pieces(const void *a, const void *b)
{
    const gpu_piece_t *x = a;
    const gpu_piece_t *y = b;

    return (x->dst > y->dst) - (x->dst < y->dst);
}

const char *gpu_bench_check(gpu_method_t method, int set)
{
    gpu_piece_t *sorted = malloc(gpu_bench.count * sizeof(*sorted));
    size_t end = 0;
    bool is_good = true;
    size_t i;

    gpu_check(gpu_bench.gpu.set_device(1), "hipSetDevice");
    gpu_check(
        gpu_bench.gpu.fill(gpu_bench.devices[1].pool, POISON, gpu_bench.pool_size),
        "hipMemset");
    gpu_check(gpu_bench.gpu.copy(gpu_bench.host_dst, gpu_bench.devices[1].pool, 1,
                                 GPU_COPY_DEFAULT),
              "hipMemcpy"); /* waits for the fill */
    gpu_bench_run(method, set);
    gpu_check(gpu_bench.gpu.set_device(1), "hipSetDevice");
    gpu_check(gpu_bench.gpu.copy(gpu_bench.host_dst, gpu_bench.devices[1].pool,
                                 gpu_bench.pool_size, GPU_COPY_DEFAULT),
              "hipMemcpy");

    memcpy(sorted, gpu_bench.sets[set], gpu_bench.count * sizeof(*sorted));
    qsort(sorted, gpu_bench.count, sizeof(*sorted), compare_pieces);
    for (i = 0; (i < gpu_bench.count) && is_good; ++i) {
        is_good = is_poison(end, sorted[i].dst) &&
                  (memcmp(gpu_bench.host_dst + sorted[i].dst,
                          gpu_bench.host_src + sorted[i].src, sorted[i].length) == 0);
        end = sorted[i].dst + sorted[i].length;
    }
    is_good = is_good && is_poison(end, gpu_bench.pool_size);
    free(sorted);
    gpu_bench.num_bad += !is_good;
    return is_good ? "ok" : "BAD";
}

void gpu_bench_measure(const char *what, gpu_method_t method, size_t size)
{
    double total[GPU_MAX_REPEATS], host[GPU_MAX_REPEATS];
    unsigned repeats =
        (method == GPU_LOOP) ? (gpu_bench.repeats + 2) / 3 : gpu_bench.repeats;
    const char *checked;
    double start;
    unsigned i;

    if (!gpu_bench_can(method)) {
        printf("%-33s not available\n", what);
        return;
    }
    checked = gpu_bench_check(method, 0);
    gpu_bench_run(method, 1);
    for (i = 0; i < repeats; ++i) {
        start = gpu_now_us();
        host[i] = gpu_bench_run(method, (int)(i % GPU_NUM_SETS));
        total[i] = gpu_now_us() - start;
    }
    gpu_bench_row(what, size, gpu_bench.count, gpu_bench.blocks,
                  gpu_bench_median(total, repeats), gpu_bench_median(host, repeats),
                  checked);
}

void gpu_bench_restore_source(void)
{
    gpu_check(gpu_bench.gpu.copy(gpu_bench.devices[0].pool, gpu_bench.host_src,
                                 gpu_bench.pool_size, GPU_COPY_DEFAULT),
              "hipMemcpy");
}
