/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A consumer at its quickest: a kernel on the device that owns the memory spins on the
 * very word that follows the copies, and compares the memory as soon as it comes.
 * Caches that are written back behind that word show as words of the round before.
 * There are two: the flag of the copy kernel behind 32 MiB, and the number of
 * hipStreamWriteValue32() behind one copy of 4 KiB by the runtime.
 */

#include "config.h"

#include "perf/risks/risks_watch.h"
#include "perf/risks/risks_base.h"
#include "perf/risks/risks_kernel.h"
#include "perf/risks/risks_nic.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WATCH_FILE "risks_kernel.bundle"
#define WATCH_PIECE 8192
#define WATCH_SMALL 4096
#define WATCH_BLOCKS 32
#define WATCH_THREADS 256
#define WATCH_PINNED 4096
#define WATCH_FLAG 8
#define WATCH_MS 25e3 /* three risks; mori_prove gives gpu_risks three minutes */

typedef struct risks_watch {
    const char *risk;
    uint64_t piece, num_pieces;
    bool is_mark; /* the kernel watches a mark of a stream, else the flag of a launch */
    bool is_nic;  /* the kernel watches a word that this program sets after a flush */
    int device;   /* ordinal of the device that owns the memory */
    char *local[2], *remote;
    muct_xgmi_queue_config_t config;
    muct_xgmi_queue_t *queue;
    muct_xgmi_rkey_t rkey;
    void *stream, *module, *function;
    /* pinned words: the kernel's start, its count 8 bytes behind, the flag of is_nic */
    volatile uint32_t *pinned;
    unsigned num_done;
    const char *fault; /* error of the NIC's registration or put, or NULL */
} risks_watch_t;


/* The kernel's machine code, which is beside this program, or NULL. */
static void *watch_read_code(void)
{
    char path[PATH_MAX + sizeof(WATCH_FILE)] = "";
    FILE *file;
    char *code = NULL;
    ssize_t end;
    long length;

    end = readlink("/proc/self/exe", path, PATH_MAX);
    while ((end > 0) && (path[end - 1] != '/')) {
        --end;
    }
    strcpy(path + ((end > 0) ? end : 0), WATCH_FILE);
    file = fopen(path, "rbe");
    if (file == NULL) {
        return NULL;
    }
    if ((fseek(file, 0, SEEK_END) == 0) && ((length = ftell(file)) > 0)) {
        rewind(file);
        code = malloc((size_t)length);
        if ((code != NULL) && (fread(code, (size_t)length, 1, file) != 1)) {
            free(code);
            code = NULL;
        }
    }
    fclose(file);
    return code;
}

static size_t watch_length(const risks_watch_t *watch)
{
    return watch->piece * watch->num_pieces;
}

static bool watch_load(risks_watch_t *watch)
{
    void *code = watch_read_code();
    int ret = 0;

    if (code != NULL) {
        ret = gpu->module_load_data(&watch->module, code);
    }
    if ((code != NULL) && (ret == 0)) {
        ret =
            gpu->module_get_function(&watch->function, watch->module, RISKS_WATCH_NAME);
    }
    free(code);
    if ((code == NULL) || (ret != 0)) {
        risks_report(watch->risk, "not looked at", "the kernel that watches: %s",
                     (code == NULL) ? "not built, which needs hipcc"
                                    : muct_gpu_error_name(gpu, ret));
        return false;
    }
    return true;
}

static void watch_open_queue(risks_watch_t *watch)
{
    muct_xgmi_key_t *key = &watch->rkey.key;

    watch->config =
        (muct_xgmi_queue_config_t){.num_lists = 2,
                                   .list_size = RISKS_MAX_PIECES,
                                   .max_started = 2,
                                   .max_calls = watch->is_mark ? 2 : 0,
                                   .max_blocks = 8,
                                   .num_launch_streams = watch->is_mark ? 1 : 2,
                                   .has_kernel = true};
    risks_need(muct_xgmi_queue_create(gpu, map, wake, &watch->config, 0,
                                      &watch->queue) == UCS_OK,
               "queue");
    watch->rkey.uid = 2;
    key->kind = MUCT_XGMI_KEY_REMOTE;
    key->owner = self.owner;
    key->device = (uint16_t)watch->device;
    key->address = key->base = (uintptr_t)watch->remote;
    key->length = key->alloc_length = watch_length(watch);
    risks_need(muct_xgmi_slot_alloc(&key->slot, &key->generation) == UCS_OK, "slot");
    risks_need(muct_xgmi_peer_get(self.owner, &watch->rkey.peer) == UCS_OK, "peer");
}

static void watch_done(muct_xgmi_op_t *op, ucs_status_t status)
{
    risks_watch_t *watch = op->arg;

    risks_need(status == UCS_OK, "a put to the kernel that watches");
    ++watch->num_done;
}

/* The host reports the flush to the kernel, as an engine does. */
static void watch_put_by_nic(risks_watch_t *watch, const char *from, uint32_t sequence)
{
    watch->fault = risks_nic_put(from, watch->remote, watch_length(watch));
    __atomic_store_n(watch->pinned + WATCH_FLAG, sequence, __ATOMIC_RELEASE);
}

static void watch_put(risks_watch_t *watch, const char *from)
{
    muct_xgmi_queue_t *queue = watch->queue;
    const muct_xgmi_window_t *window;
    unsigned before = watch->num_done;
    double start = risks_now_ms();
    size_t i, at;

    risks_need(muct_xgmi_queue_reserve(queue, (unsigned)watch->num_pieces) == UCS_OK,
               "reserve");
    window = risks_find(queue, &watch->rkey);
    for (i = 0; i < watch->num_pieces; ++i) {
        at = ((i * 1229) % watch->num_pieces) * watch->piece; /* no neighbours */
        muct_xgmi_queue_add(queue, (uintptr_t)watch->remote + at + window->delta,
                            (uintptr_t)from + at, watch->piece);
    }
    muct_xgmi_queue_commit(queue, watch_done, NULL, watch);
    muct_xgmi_queue_start(queue);
    while (watch->num_done == before) {
        (void)muct_xgmi_queue_poll(queue);
        risks_need(!risks_is_late(start),
                   "waiting for a put to the kernel that watches");
    }
}

/* The word for which the kernel waits. */
static uintptr_t watch_flag(const risks_watch_t *watch, uint32_t *sequence)
{
    const muct_xgmi_queue_t *queue = watch->queue;

    if (watch->is_nic) {
        *sequence = 1 + watch->pinned[WATCH_FLAG];
        return (uintptr_t)(watch->pinned + WATCH_FLAG);
    }
    if (watch->is_mark) {
        *sequence = 1 + queue->marks[0];
        return (uintptr_t)muct_xgmi_queue_mark_at(queue, 0);
    }
    *sequence = 1 + queue->launch_streams[0].sequence;
    return (uintptr_t)queue->flags;
}

/* The kernel spins before anything is put. @return Words that were old. */
static uint64_t watch_round(risks_watch_t *watch, unsigned round)
{
    risks_watch_args_t args = {.started = (uintptr_t)watch->pinned,
                               .bad = (uintptr_t)(watch->pinned + 2),
                               .memory = (uintptr_t)watch->remote,
                               .num_words = watch_length(watch) / 4,
                               .seed = round % 2};
    void *params[] = {&args};
    double start;
    int prev;

    args.flag = watch_flag(watch, &args.sequence);
    risks_need(muct_gpu_push_device(gpu, watch->device, &prev) == UCS_OK,
               "hipSetDevice");
    risks_need(gpu->module_launch_kernel(watch->function, WATCH_BLOCKS, 1, 1,
                                         WATCH_THREADS, 1, 1, 0, watch->stream, params,
                                         NULL) == 0,
               "launching the kernel that watches");
    muct_gpu_pop_device(gpu, watch->device, prev);
    start = risks_now_ms();
    while (watch->pinned[0] != args.sequence) {
        risks_need(!risks_is_late(start),
                   "waiting for the start of the kernel that watches");
    }
    if (watch->is_nic) {
        watch_put_by_nic(watch, watch->local[round % 2], args.sequence);
    } else {
        watch_put(watch, watch->local[round % 2]);
    }
    risks_need(gpu->stream_synchronize(watch->stream) == 0, "hipStreamSynchronize");
    return *(volatile uint64_t *)(watch->pinned + 2);
}

static bool watch_open(risks_watch_t *watch)
{
    bool is_loaded;
    int i, prev;

    watch->device = (gpu->num_devices > 1) ? 1 : 0;
    risks_need(muct_gpu_push_device(gpu, watch->device, &prev) == UCS_OK,
               "hipSetDevice");
    risks_need(gpu->mem_alloc((void **)&watch->remote, watch_length(watch)) == 0,
               "hipMalloc");
    risks_need(gpu->stream_create_with_priority(&watch->stream, 1, 0) == 0,
               "hipStreamCreate");
    is_loaded = watch_load(watch);
    muct_gpu_pop_device(gpu, watch->device, prev);

    risks_need(gpu->host_malloc((void **)&watch->pinned, WATCH_PINNED,
                                MUCT_HIP_HOST_PORTABLE | MUCT_HIP_HOST_MAPPED |
                                    MUCT_HIP_HOST_COHERENT) == 0,
               "hipHostMalloc");
    memset((void *)watch->pinned, 0, WATCH_PINNED);
    for (i = 0; i < 2; ++i) {
        risks_need(gpu->mem_alloc((void **)&watch->local[i], watch_length(watch)) == 0,
                   "hipMalloc");
        risks_fill(watch->local[i], watch_length(watch), (uint32_t)i);
    }
    watch_open_queue(watch);
    if (is_loaded && !watch->is_mark && !watch->is_nic && !watch->queue->is_flag_last) {
        risks_report(watch->risk, "not looked at",
                     "the copy kernel's end is no flag here");
        is_loaded = false;
    }
    if (is_loaded && watch->is_mark && gpu->may_query_events) {
        risks_report(watch->risk, "not looked at",
                     "an event is behind copies here, no number");
        is_loaded = false;
    }
    return is_loaded;
}

static void watch_close(risks_watch_t *watch)
{
    int i;

    muct_xgmi_queue_destroy(watch->queue, UCS_OK);
    muct_xgmi_slot_free(watch->rkey.key.slot);
    muct_xgmi_peer_put(watch->rkey.peer);
    (void)gpu->stream_destroy(watch->stream);
    if (watch->module != NULL) {
        (void)gpu->module_unload(watch->module);
    }
    for (i = 0; i < 2; ++i) {
        (void)gpu->mem_free(watch->local[i]);
    }
    (void)gpu->mem_free(watch->remote);
    (void)gpu->host_free((void *)watch->pinned);
}

static void watch_report(const risks_watch_t *watch, unsigned rounds, double start,
                         uint64_t bad)
{
    risks_report(
        watch->risk, ((bad == 0) && (watch->fault == NULL)) ? "not seen" : "BROKEN",
        "%u times %zu KiB from device 0 to %d in %.0f s, %lu words old behind "
        "the %s%s%s",
        rounds, watch_length(watch) >> 10, watch->device,
        (risks_now_ms() - start) / 1e3, (unsigned long)bad,
        watch->is_nic    ? "flush"
        : watch->is_mark ? "number"
                         : "flag",
        (watch->fault != NULL) ? "; " : "", (watch->fault != NULL) ? watch->fault : "");
}

static void watch_risk(risks_watch_t *watch, unsigned rounds)
{
    bool is_open = watch_open(watch), is_mapped = false;
    double start = risks_now_ms();
    uint64_t bad = 0;
    unsigned i = 0;

    if (is_open && watch->is_nic) {
        watch->fault = risks_nic_map(watch->remote, watch_length(watch));
        is_mapped = (watch->fault == NULL);
    }
    while (is_open && (i < rounds) && (bad == 0) && (watch->fault == NULL) &&
           (risks_now_ms() - start < WATCH_MS)) {
        bad = watch_round(watch, i++);
    }
    if (is_open) {
        watch_report(watch, i, start, bad);
    }
    if (is_mapped) {
        risks_nic_unmap();
    }
    if (!risks_nic_is_broken()) {
        watch_close(watch);
    }
}

void risk_consumer(unsigned rounds, unsigned num_pieces)
{
    risks_watch_t watch = {
        .risk = "consumer", .piece = WATCH_PIECE, .num_pieces = num_pieces};

    watch_risk(&watch, rounds);
}

void risk_mark(unsigned rounds)
{
    risks_watch_t watch = {
        .risk = "mark", .piece = WATCH_SMALL, .num_pieces = 1, .is_mark = true};

    watch_risk(&watch, rounds);
}

void risk_nic_flush(unsigned rounds)
{
    risks_watch_t watch = {
        .risk = "nic-flush", .piece = WATCH_SMALL, .num_pieces = 1, .is_nic = true};

    watch_risk(&watch, rounds);
}
