/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A consumer at its quickest: a kernel on the device that owns the memory spins on the
 * very word that the copy kernel writes, and compares 32 MiB as soon as it comes.
 * Caches that are written back behind the flag show as words of the round before.
 */

#include "config.h"

#include "test/gpu/gpu_risks.h"
#include "test/gpu/risks_kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WATCH_PIECE 8192
#define WATCH_PIECES 4096
#define WATCH_LENGTH ((size_t)WATCH_PIECE * WATCH_PIECES)
#define WATCH_BLOCKS 32
#define WATCH_THREADS 256
#define WATCH_PINNED 4096

typedef struct risks_watch {
    int device; /* that owns the memory */
    char *local[2], *remote;
    muct_xgmi_queue_config_t config;
    muct_xgmi_queue_t *queue;
    muct_xgmi_rkey_t rkey;
    void *stream, *module, *function;
    volatile uint32_t *pinned; /* start, and the count 8 bytes behind it */
    unsigned num_done;
} risks_watch_t;


/* The kernel's machine code, or NULL. */
static void *watch_read_code(void)
{
    const char *path = getenv("RISKS_KERNEL");
    FILE *file = fopen((path != NULL) ? path : RISKS_KERNEL_FILE, "rbe");
    char *code = NULL;
    long length;

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
        tell("consumer", "not looked at", "the kernel that watches: %s",
             (code == NULL) ? "not built, which needs hipcc"
                            : muct_gpu_error_name(gpu, ret));
        return false;
    }
    return true;
}

static void watch_fill(char *memory, uint32_t seed)
{
    uint32_t *words = malloc(WATCH_LENGTH);
    uint64_t i;

    need(words != NULL, "malloc");
    for (i = 0; i < WATCH_LENGTH / sizeof(*words); ++i) {
        words[i] = risks_word(i, seed);
    }
    need(gpu->memcpy_async(memory, words, WATCH_LENGTH, MUCT_HIP_MEMCPY_DEFAULT,
                           NULL) == 0,
         "hipMemcpyAsync");
    need(gpu->stream_synchronize(NULL) == 0, "hipStreamSynchronize");
    free(words);
}

static void watch_open_queue(risks_watch_t *watch)
{
    muct_xgmi_key_t *key = &watch->rkey.key;

    watch->config = (muct_xgmi_queue_config_t){.num_lists = 2,
                                               .list_size = WATCH_PIECES,
                                               .max_started = 2,
                                               .max_blocks = 8,
                                               .num_launch_streams = 2,
                                               .has_kernel = true};
    need(muct_xgmi_queue_create(gpu, map, wake, &watch->config, 0, &watch->queue) ==
             UCS_OK,
         "queue");
    watch->rkey.uid = 2;
    key->kind = MUCT_XGMI_KEY_REMOTE;
    key->owner = self.owner;
    key->device = (uint16_t)watch->device;
    key->address = key->base = (uintptr_t)watch->remote;
    key->length = key->alloc_length = WATCH_LENGTH;
    need(muct_xgmi_slot_alloc(&key->slot, &key->generation) == UCS_OK, "slot");
    need(muct_xgmi_peer_get(self.owner, &watch->rkey.peer) == UCS_OK, "peer");
}

static void watch_done(muct_xgmi_op_t *op, ucs_status_t status)
{
    risks_watch_t *watch = op->arg;

    need(status == UCS_OK, "a put of 32 MiB");
    ++watch->num_done;
}

static void watch_put(risks_watch_t *watch, const char *from)
{
    muct_xgmi_queue_t *queue = watch->queue;
    const muct_xgmi_window_t *window;
    unsigned before = watch->num_done;
    size_t i, at;

    need(muct_xgmi_queue_reserve(queue, WATCH_PIECES) == UCS_OK, "reserve");
    window = risks_find(queue, &watch->rkey);
    for (i = 0; i < WATCH_PIECES; ++i) {
        at = ((i * 1229) % WATCH_PIECES) * WATCH_PIECE; /* scattered: no neighbours */
        muct_xgmi_queue_add(queue, (uintptr_t)watch->remote + at + window->delta,
                            (uintptr_t)from + at, WATCH_PIECE);
    }
    muct_xgmi_queue_commit(queue, watch_done, NULL, watch);
    muct_xgmi_queue_start(queue);
    while (watch->num_done == before) {
        (void)muct_xgmi_queue_poll(queue);
    }
}

/* The kernel spins before anything is put. @return Words that were old. */
static uint64_t watch_round(risks_watch_t *watch, unsigned round)
{
    risks_watch_args_t args = {.flag = (uintptr_t)watch->queue->flags,
                               .started = (uintptr_t)watch->pinned,
                               .bad = (uintptr_t)(watch->pinned + 2),
                               .memory = (uintptr_t)watch->remote,
                               .num_words = WATCH_LENGTH / 4,
                               .sequence = watch->queue->launch_streams[0].sequence + 1,
                               .seed = round % 2};
    void *params[] = {&args};
    int prev;

    need(muct_gpu_push_device(gpu, watch->device, &prev) == UCS_OK, "hipSetDevice");
    need(gpu->module_launch_kernel(watch->function, WATCH_BLOCKS, 1, 1, WATCH_THREADS,
                                   1, 1, 0, watch->stream, params, NULL) == 0,
         "launching the kernel that watches");
    muct_gpu_pop_device(gpu, watch->device, prev);
    while (watch->pinned[0] != args.sequence) {
    }
    watch_put(watch, watch->local[round % 2]);
    need(gpu->stream_synchronize(watch->stream) == 0, "hipStreamSynchronize");
    return *(volatile uint64_t *)(watch->pinned + 2);
}

static bool watch_open(risks_watch_t *watch)
{
    bool is_loaded;
    int i, prev;

    watch->device = (gpu->num_devices > 1) ? 1 : 0;
    need(muct_gpu_push_device(gpu, watch->device, &prev) == UCS_OK, "hipSetDevice");
    need(gpu->mem_alloc((void **)&watch->remote, WATCH_LENGTH) == 0, "hipMalloc");
    need(gpu->stream_create_with_priority(&watch->stream, 1, 0) == 0,
         "hipStreamCreate");
    is_loaded = watch_load(watch);
    muct_gpu_pop_device(gpu, watch->device, prev);

    need(gpu->host_malloc((void **)&watch->pinned, WATCH_PINNED,
                          MUCT_HIP_HOST_PORTABLE | MUCT_HIP_HOST_MAPPED |
                              MUCT_HIP_HOST_COHERENT) == 0,
         "hipHostMalloc");
    memset((void *)watch->pinned, 0, WATCH_PINNED);
    for (i = 0; i < 2; ++i) {
        need(gpu->mem_alloc((void **)&watch->local[i], WATCH_LENGTH) == 0, "hipMalloc");
        watch_fill(watch->local[i], (uint32_t)i);
    }
    watch_open_queue(watch);
    if (is_loaded && !watch->queue->is_flag_last) {
        tell("consumer", "not looked at", "the copy kernel's end is no flag here");
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

void risk_consumer(unsigned rounds)
{
    risks_watch_t watch = {.device = 0};
    double start = now_ms();
    uint64_t bad = 0;
    unsigned i = 0;

    if (watch_open(&watch)) {
        while ((i < rounds) && (bad == 0)) {
            bad = watch_round(&watch, i++);
        }
        tell("consumer", (bad == 0) ? "not seen" : "BROKEN",
             "%u lists of 32 MiB from device 0 to %d in %.0f s, %lu words old behind "
             "the flag",
             i, watch.device, (now_ms() - start) / 1e3, (unsigned long)bad);
    }
    watch_close(&watch);
}
