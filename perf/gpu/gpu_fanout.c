/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A GPU and several others: the rate that the kernel reaches on all links at once, as
 * the reference for mori_kv_perf --scheme onetomany, manytoone and both.
 *
 * The lower half of each pool is read, the upper half is written. A receiver's half is
 * shared out evenly to those that may send to it, so that every byte has one writer. A
 * sender has one list for all its receivers, as a batch of mori_xgmi has.
 */

#include "perf/gpu/gpu_bench.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define FANOUT_MAX_DEVICES 8
#define FANOUT_LISTS 2
#define FANOUT_DEPTH 16
#define FANOUT_SHIFT 4160 /* sources of two devices differ */
#define FANOUT_POISON 0xee

typedef enum scheme { ONE_TO_MANY, MANY_TO_ONE, BOTH, NUM_SCHEMES } scheme_t;

/* A device that sends, and the thread that posts its lists. */
typedef struct sender {
    unsigned number;      /* index of the device in fanout.devices */
    unsigned first, last; /* indices of the first and last device it sends to */
    unsigned blocks;
    unsigned depth;
    muct_xgmi_entry_t *memory[FANOUT_LISTS];
    pthread_barrier_t *start;
    double begin_us, end_us;
} sender_t;

typedef struct fanout {
    gpu_device_t devices[FANOUT_MAX_DEVICES];
    sender_t senders[FANOUT_MAX_DEVICES];
    unsigned num_devices;
    size_t half;     /* bytes of the part of a pool that is read, and of that written */
    size_t share;    /* bytes of a receiver's half that one sender writes */
    size_t size;     /* bytes of a piece */
    size_t count;    /* pieces from a sender to a receiver */
    uint32_t *slots; /* place of each piece in a share, in pieces, in random order */
} fanout_t;

static const char *const scheme_names[NUM_SCHEMES] = {"one to many", "many to one",
                                                      "both at once"};

static fanout_t fanout;


/* Part of a receiver's memory that a sender writes. */
static size_t share_begin(unsigned sender)
{
    return fanout.half + (sender * fanout.share);
}

/* Sources are read in another order than destinations are written. */
static size_t source_offset(size_t i, unsigned receiver)
{
    size_t slot = fanout.slots[(i + (receiver * 7)) % fanout.count];

    return (slot * fanout.size * 2) % (fanout.half - fanout.size);
}

static void make_slots(size_t size)
{
    size_t num = fanout.share / size;
    uint32_t *all = malloc(num * sizeof(*all));
    size_t i, j;

    fanout.size = size;
    fanout.count = (gpu_bench.count < num) ? gpu_bench.count : num;
    for (i = 0; i < num; ++i) {
        all[i] = (uint32_t)i;
    }
    for (i = 0; i < fanout.count; ++i) {
        j = i + ((size_t)random() % (num - i));
        fanout.slots[i] = all[j];
        all[j] = all[i];
    }
    free(all);
}

static void fill_list(const sender_t *sender, muct_xgmi_list_t *list, unsigned turn)
{
    const char *src = fanout.devices[sender->number].pool;
    unsigned receiver;
    char *dst;
    size_t i;

    muct_xgmi_list_init(list, sender->memory[turn % FANOUT_LISTS],
                        fanout.count * fanout.num_devices);
    for (receiver = sender->first; receiver <= sender->last; ++receiver) {
        dst = fanout.devices[receiver].pool + share_begin(sender->number);
        for (i = 0; i < fanout.count; ++i) {
            muct_xgmi_list_add(
                list, (uintptr_t)dst + ((size_t)fanout.slots[i] * fanout.size),
                (uintptr_t)src + source_offset(i, receiver), fanout.size);
        }
    }
}

static void send_list(const sender_t *sender, unsigned turn)
{
    gpu_device_t *device = &fanout.devices[sender->number];
    muct_xgmi_list_t list;

    fill_list(sender, &list, turn);
    gpu_launch(&gpu_bench.gpu, device, &device->lanes[0], &list, sender->blocks);
}

/* List after list, one ahead, as in the product. */
static void *sender_main(void *arg)
{
    sender_t *sender = arg;
    gpu_lane_t *lane = &fanout.devices[sender->number].lanes[0];
    unsigned turn;

    gpu_check(gpu_bench.gpu.set_device((int)sender->number), "hipSetDevice");
    pthread_barrier_wait(sender->start);
    sender->begin_us = gpu_now_us();
    for (turn = 0; turn < sender->depth; ++turn) {
        if (turn >= FANOUT_LISTS) {
            gpu_wait_for(lane, lane->sequence + 1 - FANOUT_LISTS);
        }
        send_list(sender, turn);
    }
    gpu_wait(lane);
    sender->end_us = gpu_now_us();
    return NULL;
}

/* Senders of a scheme: from first to last. */
static void scheme_senders(scheme_t scheme, unsigned *first, unsigned *last)
{
    *first = (scheme == MANY_TO_ONE) ? 1 : 0;
    *last = (scheme == ONE_TO_MANY) ? 0 : fanout.num_devices - 1;
}

static size_t scheme_flows(scheme_t scheme)
{
    return (size_t)(fanout.num_devices - 1) * ((scheme == BOTH) ? 2 : 1);
}

/* Microseconds from the first sender's start to the last one's end. */
static double run_scheme(scheme_t scheme, unsigned blocks, unsigned depth)
{
    pthread_t threads[FANOUT_MAX_DEVICES];
    pthread_barrier_t start;
    double begin = 0, end = 0;
    unsigned first, last, i;
    sender_t *sender;

    scheme_senders(scheme, &first, &last);
    pthread_barrier_init(&start, NULL, last - first + 1);
    for (i = first; i <= last; ++i) {
        sender = &fanout.senders[i];
        sender->start = &start;
        sender->blocks = blocks;
        sender->depth = depth;
        gpu_check(pthread_create(&threads[i], NULL, sender_main, sender),
                  "pthread_create");
    }
    for (i = first; i <= last; ++i) {
        sender = &fanout.senders[i];
        pthread_join(threads[i], NULL);
        begin = ((i == first) || (sender->begin_us < begin)) ? sender->begin_us : begin;
        end = ((i == first) || (sender->end_us > end)) ? sender->end_us : end;
    }
    pthread_barrier_destroy(&start);
    return end - begin;
}

static void poison(unsigned number)
{
    char *pool = fanout.devices[number].pool;
    char byte;

    gpu_check(gpu_bench.gpu.set_device((int)number), "hipSetDevice");
    gpu_check(gpu_bench.gpu.fill(pool + fanout.half, FANOUT_POISON, fanout.half),
              "hipMemset");
    /* waits for the fill */
    gpu_check(gpu_bench.gpu.copy(&byte, pool + fanout.half, 1, GPU_COPY_DEFAULT),
              "hipMemcpy");
}

/* Contents of the source of device @a number, in host memory of its size. */
static const char *source_bytes(unsigned number, size_t offset)
{
    return gpu_bench.host_src + offset + ((size_t)number * FANOUT_SHIFT);
}

/* Check and poison again the bytes of one sender, in the host's copy. */
static bool check_share(unsigned sender, unsigned receiver, char *written)
{
    char *share = written + (share_begin(sender) - fanout.half);
    size_t i;
    char *piece;

    for (i = 0; i < fanout.count; ++i) {
        piece = share + ((size_t)fanout.slots[i] * fanout.size);
        if (memcmp(piece, source_bytes(sender, source_offset(i, receiver)),
                   fanout.size) != 0) {
            return false;
        }
        memset(piece, FANOUT_POISON, fanout.size);
    }
    return true;
}

static bool check_receiver(unsigned receiver)
{
    char *written = gpu_bench.host_dst;
    bool is_good = true;
    unsigned i;

    gpu_check(gpu_bench.gpu.set_device((int)receiver), "hipSetDevice");
    gpu_check(gpu_bench.gpu.copy(written, fanout.devices[receiver].pool + fanout.half,
                                 fanout.half, GPU_COPY_DEFAULT),
              "hipMemcpy");
    for (i = 0; i < fanout.num_devices; ++i) {
        if ((i != receiver) && ((i == 0) || (receiver == 0))) {
            is_good = is_good && check_share(i, receiver, written);
        }
    }
    /* the rest must still be the poison pattern */
    return is_good && ((unsigned char)written[0] == FANOUT_POISON) &&
           (memcmp(written, written + 1, fanout.half - 1) == 0);
}

/* Every byte of all receivers after both directions at once. */
static const char *check_all(unsigned blocks)
{
    bool is_good = true;
    unsigned i;

    for (i = 0; i < fanout.num_devices; ++i) {
        poison(i);
    }
    run_scheme(BOTH, blocks, 1);
    for (i = 0; i < fanout.num_devices; ++i) {
        is_good = check_receiver(i) && is_good;
    }
    gpu_bench.num_bad += !is_good;
    return is_good ? "ok" : "BAD";
}

static void measure_scheme(scheme_t scheme, unsigned blocks, const char *checked)
{
    unsigned runs = (gpu_bench.repeats + 2) / 3;
    double total[GPU_MAX_REPEATS];
    char what[64];
    unsigned i;

    for (i = 0; i < runs; ++i) {
        total[i] = run_scheme(scheme, blocks, FANOUT_DEPTH) / FANOUT_DEPTH;
    }
    snprintf(what, sizeof(what), "%s, %u other%s", scheme_names[scheme],
             fanout.num_devices - 1, (fanout.num_devices == 2) ? "" : "s");
    gpu_bench_row(what, fanout.size, fanout.count * scheme_flows(scheme), blocks,
                  gpu_bench_median(total, runs), 0, checked);
}

/* Memory-bound work on the sender's device, alone (no blocks) and beside a fan-out. */
static void measure_beside(unsigned blocks)
{
    enum { ROUNDS = 8 };
    gpu_device_t *device = &fanout.devices[0];
    gpu_lane_t *background = &device->background;
    gpu_lane_t *lane = &device->lanes[0];
    sender_t *sender = &fanout.senders[0];
    muct_xgmi_entry_t *memory = gpu_bench.memory[0];
    muct_xgmi_list_t local;
    double start, us, sent;
    char what[64], text[64];
    json_object *more = NULL;
    unsigned turn = 0;
    int i;

    sender->blocks = blocks;
    gpu_check(gpu_bench.gpu.set_device(0), "hipSetDevice");
    muct_xgmi_list_init(&local, memory, 1);
    muct_xgmi_list_add(&local, (uintptr_t)device->pool + fanout.half,
                       (uintptr_t)device->pool, fanout.half);
    start = gpu_now_us();
    for (i = 0; i < ROUNDS; ++i) {
        gpu_launch(&gpu_bench.gpu, device, background, &local, MUCT_XGMI_MAX_BLOCKS);
    }
    while (!muct_xgmi_flag_reached(*background->flag, background->sequence)) {
        if (blocks > 0) {
            send_list(sender, turn++);
            gpu_wait(lane);
        }
    }
    us = gpu_now_us() - start;
    sent = (double)turn * (double)(fanout.count * scheme_flows(ONE_TO_MANY)) *
           (double)fanout.size / us / 1e3;
    snprintf(text, sizeof(text), "sent meanwhile %.1f GB/s", sent);
    if (blocks > 0) {
        more = json_object_new_object();
        gpu_bench_real(more, "sent_gbps", sent);
    }
    snprintf(what, sizeof(what), "local copy beside one to %u", fanout.num_devices - 1);
    gpu_bench_row_more((blocks > 0) ? what : "local copy alone", fanout.half, 1, blocks,
                       us / ROUNDS, 0, "timed only", (blocks > 0) ? text : "", more);
}

/* The first devices take part, as many as the others and one. */
static void set_others(unsigned num_others)
{
    sender_t *sender;

    fanout.num_devices = num_others + 1;
    fanout.share = fanout.half / fanout.num_devices;
    fanout.share -= fanout.share % MUCT_XGMI_TILE_SIZE;
    for (sender = fanout.senders; sender <= &fanout.senders[num_others]; ++sender) {
        sender->number = (unsigned)(sender - fanout.senders);
        sender->first = (sender->number == 0) ? 1 : 0;
        sender->last = (sender->number == 0) ? num_others : 0;
    }
}

static void prepare_device(unsigned number, unsigned num_devices)
{
    gpu_device_t *device = &fanout.devices[number];
    sender_t *sender = &fanout.senders[number];
    unsigned i;

    gpu_device_init(&gpu_bench.gpu, device, (int)number, -1, gpu_bench.pool_size);
    for (i = 0; i < num_devices; ++i) {
        if (i != number) {
            gpu_enable_peer(&gpu_bench.gpu, (int)i);
        }
    }
    gpu_check(gpu_bench.gpu.copy(device->pool, source_bytes(number, 0), fanout.half,
                                 GPU_COPY_DEFAULT),
              "hipMemcpy");
    for (i = 0; i < FANOUT_LISTS; ++i) {
        sender->memory[i] = gpu_alloc_host(
            &gpu_bench.gpu, gpu_bench.count * num_devices * sizeof(muct_xgmi_entry_t));
    }
}

static void cleanup_device(unsigned number)
{
    unsigned i;

    gpu_device_cleanup(&gpu_bench.gpu, &fanout.devices[number]);
    for (i = 0; i < FANOUT_LISTS; ++i) {
        gpu_free_host(&gpu_bench.gpu, fanout.senders[number].memory[i]);
    }
}

/* Measure with one other device, two, and so on up to all. */
static void measure_others(unsigned num_others)
{
    static const size_t sizes[] = {4096, 16384, 65536, 262144};
    static const unsigned blocks[] = {8, 16, 32};
    const char *checked;
    unsigned i, scheme;
    size_t s;

    set_others(num_others);
    for (s = 0; s < sizeof(sizes) / sizeof(sizes[0]); ++s) {
        make_slots(sizes[s]);
        for (i = 0; i < sizeof(blocks) / sizeof(blocks[0]); ++i) {
            checked = check_all(blocks[i]);
            for (scheme = 0; scheme < NUM_SCHEMES; ++scheme) {
                measure_scheme((scheme_t)scheme, blocks[i], checked);
            }
        }
    }
    make_slots(16384);
    measure_beside(0);
    for (i = 0; i < sizeof(blocks) / sizeof(blocks[0]); ++i) {
        measure_beside(blocks[i]);
    }
}

void gpu_fanout(void)
{
    unsigned all = (unsigned)gpu_bench.gpu.num_devices, i;

    all = (all > FANOUT_MAX_DEVICES) ? FANOUT_MAX_DEVICES : all;
    if (all < 3) {
        printf("three devices are needed, there are %u\n", all);
        return;
    }
    fanout.half = (gpu_bench.pool_size / 2) - (FANOUT_MAX_DEVICES * FANOUT_SHIFT);
    fanout.half -= fanout.half % MUCT_XGMI_TILE_SIZE;
    fanout.slots = calloc(gpu_bench.count, sizeof(*fanout.slots));
    for (i = 0; i < all; ++i) {
        prepare_device(i, all);
    }
    for (i = 1; i < all; ++i) {
        measure_others(i);
    }
    for (i = 0; i < all; ++i) {
        cleanup_device(i);
    }
    free(fanout.slots);
}
