/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Rates of two GPUs of one host without UCX: the reference for ucx_perftest and
 * mori_kv_perf. One process, two devices, the product's own kernel and list; every byte
 * is checked in a separate pass.
 */

#include "perf/gpu/gpu_bench.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define MIB (1ul << 20)
#define MIXED_LENGTH (64 * MIB)


static void part(const char *title)
{
    printf("\n%s\n", title);
    perf_table_head(&gpu_bench_table);
}

static void part_scattered(void)
{
    static const size_t sizes[] = {4096, 16384, 65536, 262144};
    size_t i;
    int method;

    part("scattered pieces, one after the other, list written each time");
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
        if ((sizes[i] * gpu_bench.count) > gpu_bench.pool_size) {
            continue;
        }
        gpu_bench_make_sets(sizes[i], sizes[i], 0, 0);
        for (method = 0; method < GPU_NUM_METHODS; ++method) {
            gpu_bench_measure(gpu_bench_names[method], (gpu_method_t)method, sizes[i]);
        }
    }
}

static void part_blocks(void)
{
    static const unsigned blocks[] = {1, 2, 4, 6, 8, 10, 12, 16, 24, 32, 64, 128};
    static const size_t sizes[] = {16384, 65536};
    unsigned usual = gpu_bench.blocks;
    size_t i, s;

    part("thread blocks of the kernel");
    for (s = 0; s < sizeof(sizes) / sizeof(sizes[0]); ++s) {
        gpu_bench_make_sets(sizes[s], sizes[s], 0, 0);
        for (i = 0; i < sizeof(blocks) / sizeof(blocks[0]); ++i) {
            gpu_bench.blocks = blocks[i];
            gpu_bench_measure("kernel push", GPU_PUSH, sizes[s]);
        }
    }
    gpu_bench.blocks = usual;
}

static void part_unaligned(void)
{
    static const struct {
        const char *name;
        size_t dst, src;
    } shifts[] = {{"source off by 4", 0, 4},
                  {"source off by 1", 0, 1},
                  {"destination off by 1", 1, 0},
                  {"both off by 7", 7, 7}};
    size_t i, size;

    part("any alignment");
    for (size = 4096; size <= 65536; size *= 16) {
        for (i = 0; i < sizeof(shifts) / sizeof(shifts[0]); ++i) {
            gpu_bench_make_sets(size, size + 64, shifts[i].dst, shifts[i].src);
            gpu_bench_measure(shifts[i].name, GPU_PUSH, size);
        }
    }
}

static void part_mixed(void)
{
    size_t bytes = MIXED_LENGTH + ((gpu_bench.count - 1) * 4096);
    size_t offset = gpu_bench.pool_size - MIXED_LENGTH;
    double total[GPU_MAX_REPEATS];
    size_t usual = gpu_bench.pool_size;
    const char *checked;
    double start;
    unsigned i;

    if (!gpu_bench_can(GPU_PUSH) || (gpu_bench.pool_size < 2 * MIXED_LENGTH)) {
        return;
    }
    part("one piece of 64 MiB among pieces of 4 KiB");
    gpu_bench.pool_size = offset;
    gpu_bench_make_sets(4096, 4096, 0, 0);
    gpu_bench.pool_size = usual;
    for (i = 0; i < GPU_NUM_SETS; ++i) {
        gpu_bench.sets[i][i % gpu_bench.count] =
            (gpu_piece_t){.dst = offset, .src = offset, .length = MIXED_LENGTH};
    }
    checked = gpu_bench_check(GPU_PUSH, 0);
    for (i = 0; i < gpu_bench.repeats; ++i) {
        start = gpu_now_us();
        gpu_bench_run(GPU_PUSH, (int)(i % GPU_NUM_SETS));
        total[i] = gpu_now_us() - start;
    }
    gpu_bench_row("kernel push, mixed", bytes, 1, gpu_bench.blocks,
                  gpu_bench_median(total, gpu_bench.repeats), 0, checked);
}

/* Several lists under way, on both lanes in turn. */
static void part_pipelined(void)
{
    enum { DEPTH = 16 };
    static const size_t sizes[] = {4096, 16384, 65536};
    gpu_device_t *device = &gpu_bench.devices[0];
    double total[GPU_MAX_REPEATS];
    muct_xgmi_list_t list;
    double start;
    unsigned i, set;
    size_t s;

    if (!gpu_bench_can(GPU_PUSH)) {
        return;
    }
    part("16 lists in flight on two streams, time of one");
    gpu_check(gpu_bench.gpu.set_device(0), "hipSetDevice");
    for (s = 0; s < sizeof(sizes) / sizeof(sizes[0]); ++s) {
        if ((sizes[s] * gpu_bench.count) > gpu_bench.pool_size) {
            continue;
        }
        gpu_bench_make_sets(sizes[s], sizes[s], 0, 0);
        for (i = 0; i < gpu_bench.repeats; ++i) {
            start = gpu_now_us();
            for (set = 0; set < DEPTH; ++set) {
                if (set >= GPU_NUM_SETS) {
                    /* the list's memory is free again when its launch is over */
                    gpu_wait(&device->lanes[set % 2]);
                }
                gpu_bench_fill_list(&list, (int)(set % GPU_NUM_SETS), false);
                gpu_launch(&gpu_bench.gpu, device, &device->lanes[set % 2], &list,
                           gpu_bench.blocks);
            }
            gpu_wait(&device->lanes[0]);
            gpu_wait(&device->lanes[1]);
            total[i] = (gpu_now_us() - start) / DEPTH;
        }
        gpu_bench_row("kernel push, pipelined", sizes[s], gpu_bench.count,
                      gpu_bench.blocks, gpu_bench_median(total, gpu_bench.repeats), 0,
                      "timed only");
    }
}

/* Split a transfer into several launches, so that the rest is written while they copy.
 */
static void part_split(void)
{
    static const size_t sizes[] = {4096, 16384};
    gpu_device_t *device = &gpu_bench.devices[0];
    double total[GPU_MAX_REPEATS];
    muct_xgmi_list_t list;
    const gpu_piece_t *piece;
    size_t s, parts, i, j;
    char what[64];
    double start;
    unsigned r;

    if (!gpu_bench_can(GPU_PUSH)) {
        return;
    }
    part("one list in several launches, on two streams in turn");
    gpu_check(gpu_bench.gpu.set_device(0), "hipSetDevice");
    for (s = 0; s < sizeof(sizes) / sizeof(sizes[0]); ++s) {
        gpu_bench_make_sets(sizes[s], sizes[s], 0, 0);
        for (parts = 1; (parts <= GPU_NUM_SETS) && (parts <= gpu_bench.count);
             parts *= 2) {
            for (r = 0; r < gpu_bench.repeats; ++r) {
                start = gpu_now_us();
                piece = gpu_bench.sets[r % GPU_NUM_SETS];
                for (i = 0; i < parts; ++i) {
                    muct_xgmi_list_init(&list, gpu_bench.memory[i], GPU_MAX_PIECES);
                    for (j = 0; j < gpu_bench.count / parts; ++j, ++piece) {
                        muct_xgmi_list_add(
                            &list, (uintptr_t)gpu_bench.devices[1].pool + piece->dst,
                            (uintptr_t)device->pool + piece->src, piece->length);
                    }
                    gpu_launch(&gpu_bench.gpu, device, &device->lanes[i % 2], &list,
                               gpu_bench.blocks);
                }
                gpu_wait(&device->lanes[0]);
                gpu_wait(&device->lanes[1]);
                total[r] = gpu_now_us() - start;
            }
            snprintf(what, sizeof(what), "kernel push, %zu launches", parts);
            gpu_bench_row(what, sizes[s], gpu_bench.count, gpu_bench.blocks,
                          gpu_bench_median(total, gpu_bench.repeats), 0, "timed only");
        }
    }
}

static void part_both_ways(void)
{
    static const size_t sizes[] = {4096, 16384, 65536, 262144};
    double total[GPU_MAX_REPEATS];
    muct_xgmi_list_t there, back;
    double start;
    unsigned i;
    size_t s;

    if (!gpu_bench_can(GPU_PUSH)) {
        return;
    }
    part("both directions at once, sum");
    for (s = 0; s < sizeof(sizes) / sizeof(sizes[0]); ++s) {
        if ((sizes[s] * gpu_bench.count) > gpu_bench.pool_size) {
            continue;
        }
        gpu_bench_make_sets(sizes[s], sizes[s], 0, 0);
        for (i = 0; i < gpu_bench.repeats; ++i) {
            start = gpu_now_us();
            gpu_bench_fill_list(&there, 0, false);
            gpu_check(gpu_bench.gpu.set_device(0), "hipSetDevice");
            gpu_launch(&gpu_bench.gpu, &gpu_bench.devices[0],
                       &gpu_bench.devices[0].lanes[0], &there, gpu_bench.blocks);
            gpu_bench_fill_list(&back, 1, true);
            gpu_check(gpu_bench.gpu.set_device(1), "hipSetDevice");
            gpu_launch(&gpu_bench.gpu, &gpu_bench.devices[1],
                       &gpu_bench.devices[1].lanes[0], &back, gpu_bench.blocks);
            gpu_wait(&gpu_bench.devices[0].lanes[0]);
            gpu_wait(&gpu_bench.devices[1].lanes[0]);
            total[i] = gpu_now_us() - start;
        }
        gpu_bench_row("kernel push, both ways", sizes[s], 2 * gpu_bench.count,
                      gpu_bench.blocks, gpu_bench_median(total, gpu_bench.repeats), 0,
                      "timed only");
    }
    /* the way back has overwritten the source */
    gpu_bench_restore_source();
}

static void part_models(void)
{
    if (gpu_bench_can(GPU_PUSH) && gpu_bench_can(GPU_PULL)) {
        part("models: the lists of mori_kv_perf, median of the requests");
        gpu_models();
    }
}

static void part_permute(void)
{
    if (gpu_bench_can(GPU_PUSH) && gpu_bench_can(GPU_PULL)) {
        part("change of layout: in place by one pass, or permuted behind the transfer");
        gpu_permute();
    }
}

static void part_fanout(void)
{
    if (gpu_bench_can(GPU_PUSH) && gpu_bench_can(GPU_PULL)) {
        part("one GPU and all others, list after list, sum of all links");
        gpu_fanout();
    }
}

static void part_contiguous(void)
{
    size_t usual = gpu_bench.count;
    size_t size =
        (gpu_bench.pool_size / 2 < 1024 * MIB) ? gpu_bench.pool_size / 2 : 1024 * MIB;
    unsigned blocks = gpu_bench.blocks;

    part("one run");
    gpu_bench.count = 1;
    gpu_bench_make_sets(size, size, 0, 0);
    gpu_bench_measure("copy call", GPU_LOOP, size);
    gpu_bench_measure("kernel push", GPU_PUSH, size);
    gpu_bench.blocks = 64;
    gpu_bench_measure("kernel push", GPU_PUSH, size);
    gpu_bench.blocks = blocks;
    gpu_bench.count = usual;
}

static void part_latency(void)
{
    part("one small piece, waited for");
    gpu_latency();
}

/* Launches on the background stream that keep the device's memory busy. */
static double background_us(bool with_copy, unsigned blocks)
{
    enum { ROUNDS = 8 };
    gpu_device_t *device = &gpu_bench.devices[0];
    gpu_lane_t *lane = &device->background;
    size_t half = gpu_bench.pool_size / 2;
    muct_xgmi_list_t local, remote;
    double start = gpu_now_us();
    int i;

    muct_xgmi_list_init(&local, gpu_bench.memory[1], 1);
    muct_xgmi_list_add(&local, (uintptr_t)device->pool + half, (uintptr_t)device->pool,
                       half);
    for (i = 0; i < ROUNDS; ++i) {
        gpu_launch(&gpu_bench.gpu, device, lane, &local, MUCT_XGMI_MAX_BLOCKS);
    }
    gpu_bench_fill_list(&remote, 0, false);
    while (!muct_xgmi_flag_reached(*lane->flag, lane->sequence)) {
        if (with_copy) {
            gpu_launch(&gpu_bench.gpu, device, &device->lanes[0], &remote, blocks);
            gpu_wait(&device->lanes[0]);
        }
    }
    start = (gpu_now_us() - start) / ROUNDS;
    gpu_wait(lane);
    return start;
}

static void part_background(void)
{
    static const unsigned blocks[] = {4, 8, 16, 32};
    double total[9];
    unsigned i, j;

    if (!gpu_bench_can(GPU_PUSH)) {
        return;
    }
    part("memory-bound work on the source's device beside pushes: its own rate");
    gpu_check(gpu_bench.gpu.set_device(0), "hipSetDevice");
    gpu_bench_make_sets(16384, 16384, 0, 0);
    for (i = 0; i <= sizeof(blocks) / sizeof(blocks[0]); ++i) {
        for (j = 0; j < 9; ++j) {
            total[j] = background_us(i > 0, (i > 0) ? blocks[i - 1] : 0);
        }
        gpu_bench_row((i > 0) ? "local copy beside pushes" : "local copy alone",
                      gpu_bench.pool_size / 2, 1, (i > 0) ? blocks[i - 1] : 0,
                      gpu_bench_median(total, 9), 0, "timed only");
    }
    gpu_bench_restore_source();
}

static double host_copy_us(void *dst, const void *src)
{
    double start = gpu_now_us();

    gpu_check(gpu_bench.gpu.copy(dst, src, gpu_bench.pool_size, GPU_COPY_DEFAULT),
              "hipMemcpy");
    return gpu_now_us() - start;
}

/* The limit of transfers between GPU memory and host memory of two processes */
static void part_host(void)
{
    char *pool = gpu_bench.devices[0].pool;
    double to[9], from[9];
    unsigned i;

    part("hipMemcpy of pinned host memory, and memcpy");
    gpu_check(gpu_bench.gpu.set_device(0), "hipSetDevice");
    for (i = 0; i < 9; ++i) {
        to[i] = host_copy_us(pool, gpu_bench.host_src);
        from[i] = host_copy_us(gpu_bench.host_dst, pool);
    }
    gpu_bench_row("hipMemcpy, host to device", gpu_bench.pool_size, 1, 0,
                  gpu_bench_median(to, 9), 0, "timed only");
    gpu_bench_row("hipMemcpy, device to host", gpu_bench.pool_size, 1, 0,
                  gpu_bench_median(from, 9), 0, "timed only");
    for (i = 0; i < 9; ++i) {
        to[i] = gpu_now_us();
        memcpy(gpu_bench.host_dst, gpu_bench.host_src, gpu_bench.pool_size);
        to[i] = gpu_now_us() - to[i];
    }
    gpu_bench_row("memcpy, one processor", gpu_bench.pool_size, 1, 0,
                  gpu_bench_median(to, 9), 0, "timed only");
}

/* Parts in the order in which they run. */
static const struct {
    const char *name;
    void (*run)(void);
    bool is_extra; /* runs only if named */
} parts[] = {{"scattered", part_scattered},   {"blocks", part_blocks},
             {"contiguous", part_contiguous}, {"unaligned", part_unaligned},
             {"mixed", part_mixed},           {"pipelined", part_pipelined},
             {"split", part_split},           {"both", part_both_ways},
             {"latency", part_latency},       {"background", part_background},
             {"host", part_host, true},       {"models", part_models, true},
             {"permute", part_permute, true}, {"fanout", part_fanout, true}};

static void prepare(const char *path)
{
    uint64_t state = 0x9e3779b97f4a7c15u;
    uint64_t *words;
    size_t i;

    gpu_runtime_load(&gpu_bench.gpu, path);
    if (gpu_bench.gpu.num_devices < 2) {
        printf("gpu_limits: two devices are needed, there is %d\n",
               gpu_bench.gpu.num_devices);
        exit(77);
    }
    gpu_device_init(&gpu_bench.gpu, &gpu_bench.devices[0], 0, 1, gpu_bench.pool_size);
    gpu_device_init(&gpu_bench.gpu, &gpu_bench.devices[1], 1, 0, gpu_bench.pool_size);
    gpu_bench.host_src = gpu_alloc_host(&gpu_bench.gpu, gpu_bench.pool_size);
    gpu_bench.host_dst = gpu_alloc_host(&gpu_bench.gpu, gpu_bench.pool_size);
    for (i = 0; i < GPU_NUM_SETS; ++i) {
        gpu_bench.sets[i] = calloc(gpu_bench.count, sizeof(gpu_piece_t));
        gpu_bench.memory[i] =
            gpu_alloc_host(&gpu_bench.gpu, GPU_MAX_PIECES * sizeof(muct_xgmi_entry_t));
    }

    words = (uint64_t *)(void *)gpu_bench.host_src;
    for (i = 0; i < gpu_bench.pool_size / sizeof(*words); ++i) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        words[i] = state;
    }
    gpu_bench_restore_source();
}

static void release(void)
{
    size_t i;

    for (i = 0; i < GPU_NUM_SETS; ++i) {
        gpu_free_host(&gpu_bench.gpu, gpu_bench.memory[i]);
        free(gpu_bench.sets[i]);
    }
    gpu_free_host(&gpu_bench.gpu, gpu_bench.host_dst);
    gpu_free_host(&gpu_bench.gpu, gpu_bench.host_src);
    gpu_device_cleanup(&gpu_bench.gpu, &gpu_bench.devices[1]);
    gpu_device_cleanup(&gpu_bench.gpu, &gpu_bench.devices[0]);
}

static size_t read_number(const char *text, const char *option, size_t low, size_t high)
{
    char *end;
    size_t value = strtoull(text, &end, 0);

    if ((*end != '\0') || (end == text) || (value < low) || (value > high)) {
        fprintf(stderr, "gpu_limits: --%s %s: expected %zu to %zu\n", option, text, low,
                high);
        exit(EXIT_FAILURE);
    }
    return value;
}

static void usage(void)
{
    puts("gpu_limits: what two GPUs of one host can do, without UCX\n"
         "  --hip FILE     HIP runtime to load (as the product finds it)\n"
         "  --count N      pieces of a transfer; 1 to 65536 (4096)\n"
         "  --pool MIB     memory of each device that is used; 1 to 65536 MiB (2048)\n"
         "  --repeats N    runs a figure, of which the median counts; 1 to 200 (30)\n"
         "  --blocks N     thread blocks of the kernel (8)\n"
         "  --parts LIST   only these: scattered blocks contiguous unaligned mixed\n"
         "                 pipelined split both latency background; and, when named,\n"
         "                 host (pinned memory of the host),\n"
         "                 models (the lists of mori_kv_perf's models),\n"
         "                 permute (Llama-3-70B, TP 8 to 4 and NHD to HND: one\n"
         "                 strided pass beside whole blocks permuted after them),\n"
         "                 fanout (one GPU and all others, three or more)\n"
         "  --cache MIB    models, permute: KV cache of each device; 1 to 65536 MiB\n"
         "                 (16384)\n"
         "  --lengths LIST models, permute: tokens of a prompt (8192,131072)\n"
         "  --json FILE    write the rows there too");
}

typedef struct arguments {
    const char *hip, *only, *json; /* NULL: not given */
} arguments_t;

static const struct option long_options[] = {{"hip", required_argument, NULL, 'h'},
                                             {"count", required_argument, NULL, 'c'},
                                             {"pool", required_argument, NULL, 'p'},
                                             {"repeats", required_argument, NULL, 'r'},
                                             {"blocks", required_argument, NULL, 'b'},
                                             {"json", required_argument, NULL, 'j'},
                                             {"parts", required_argument, NULL, 'o'},
                                             {"cache", required_argument, NULL, 'k'},
                                             {"lengths", required_argument, NULL, 'l'},
                                             {"help", no_argument, NULL, '?'},
                                             {NULL, 0, NULL, 0}};

/* @return false: the option takes no number. */
static bool parse_number(int option, const char *text)
{
    switch (option) {
    case 'c':
        gpu_bench.count = read_number(text, "count", 1, GPU_MAX_PIECES);
        return true;
    case 'p':
        gpu_bench.pool_size = MIB * read_number(text, "pool", 1, 65536);
        return true;
    case 'r':
        gpu_bench.repeats = (unsigned)read_number(text, "repeats", 1, GPU_MAX_REPEATS);
        return true;
    case 'b':
        gpu_bench.blocks =
            (unsigned)read_number(text, "blocks", 1, MUCT_XGMI_MAX_BLOCKS);
        return true;
    case 'k':
        gpu_bench.cache_size = MIB * read_number(text, "cache", 1, 65536);
        return true;
    default:
        return false;
    }
}

static void parse(int argc, char **argv, arguments_t *arguments)
{
    int option;

    while ((option = getopt_long(argc, argv, "", long_options, NULL)) >= 0) {
        if (option == 'h') {
            arguments->hip = optarg;
        } else if (option == 'o') {
            arguments->only = optarg;
        } else if (option == 'l') {
            gpu_bench.lengths = optarg;
        } else if (option == 'j') {
            arguments->json = optarg;
        } else if (!parse_number(option, optarg)) {
            usage();
            exit((optopt == 0) ? EXIT_SUCCESS : EXIT_FAILURE);
        }
    }
}

/*
 * @return 0, or -1 after printing the reason.
 */
static int open_json(const char *path)
{
    if (path == NULL) {
        return 0;
    }
    gpu_bench.json = fopen(path, "w");
    if (gpu_bench.json == NULL) {
        perror(path);
        return -1;
    }
    fputc('[', gpu_bench.json);
    return 0;
}

static void close_json(void)
{
    if (gpu_bench.json != NULL) {
        fputs("\n]\n", gpu_bench.json);
        fclose(gpu_bench.json);
    }
}

static void print_place(void)
{
    struct utsname system;
    time_t now = time(NULL);
    struct tm utc;
    char text[512], date[32] = "?";

    if (gmtime_r(&now, &utc) != NULL) {
        strftime(date, sizeof(date), "%FT%TZ", &utc);
    }
    snprintf(text, sizeof(text),
             "gpu_limits | host %s | GPU %s | runtime version %d | %s | %zu pieces | "
             "pools of %zu MiB",
             (uname(&system) == 0) ? system.nodename : "?", gpu_bench.gpu.name,
             gpu_bench.gpu.version, date, gpu_bench.count, gpu_bench.pool_size / MIB);
    perf_table_text(&gpu_bench_table, text);
}

static void run_parts(const char *only)
{
    size_t i;

    for (i = 0; i < sizeof(parts) / sizeof(parts[0]); ++i) {
        if ((only == NULL) ? !parts[i].is_extra
                           : (strstr(only, parts[i].name) != NULL)) {
            parts[i].run();
        }
    }
}

int main(int argc, char **argv)
{
    arguments_t arguments = {NULL, NULL, NULL};

    gpu_bench.count = 4096;
    gpu_bench.pool_size = 2048 * MIB;
    gpu_bench.repeats = 30;
    gpu_bench.cache_size = 16384 * MIB;
    gpu_bench.lengths = "8192,131072";
    gpu_bench.blocks = MUCT_XGMI_DEFAULT_BLOCKS;
    parse(argc, argv, &arguments);
    if (open_json(arguments.json) != 0) {
        return EXIT_FAILURE;
    }

    prepare(arguments.hip);
    print_place();
    run_parts(arguments.only);
    close_json();
    release();
    printf("\n%u rows, %u with wrong bytes\n", gpu_bench.num_rows, gpu_bench.num_bad);
    return (gpu_bench.num_bad == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
