/* SPDX-License-Identifier: BSD-3-Clause */

/* What all risks need: a report, the runtime in use, and work that lasts. */

#include "config.h"

#include "perf/risks/risks_base.h"
#include "perf/risks/risks_kernel.h"
#include "base/muct_tuning.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RISKS_BUSY_COPIES 64

/* Most functions of one risks_bind() */
#define RISKS_MAX_SYMBOLS 16

const muct_gpu_t *gpu;
muct_xgmi_map_t *map;
muct_xgmi_wake_t *wake;
muct_xgmi_self_t self;
char *local, *remote;
static unsigned risks_broken;


unsigned risks_num_broken(void)
{
    return risks_broken;
}

void risks_report(const char *risk, const char *how, const char *format, ...)
{
    va_list args;

    printf("risk %-16s %s", risk, how);
    if (*format != '\0') {
        printf(": ");
        va_start(args, format);
        vprintf(format, args);
        va_end(args);
    }
    printf("\n");
    fflush(stdout);
    risks_broken += (strcmp(how, "BROKEN") == 0);
}

void risks_need(int is_good, const char *what)
{
    if (!is_good) {
        fprintf(stderr, "gpu_risks: %s failed\n", what);
        exit(EXIT_FAILURE);
    }
}

double risks_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return ((double)now.tv_sec * 1e3) + ((double)now.tv_nsec / 1e6);
}

bool risks_is_late(double start_ms)
{
    const char *limit = getenv("RISKS_LIMIT");

    return risks_now_ms() - start_ms > 1e3 * ((limit != NULL) ? atof(limit) : 60);
}

const char *risks_bind(const char *const *names, size_t count, void *functions)
{
    static const char *const files[] = {"libamdhip64.so.7", "libamdhip64.so.6",
                                        "libamdhip64.so.5"};
    void *symbols[RISKS_MAX_SYMBOLS], *lib = NULL;
    size_t i;

    risks_need(count <= RISKS_MAX_SYMBOLS, "as many functions");
    for (i = 0; (i < 3) && (lib == NULL); ++i) {
        lib = dlopen(files[i], RTLD_NOW | RTLD_NOLOAD);
    }
    risks_need(lib != NULL, "finding the runtime that is in use");
    for (i = 0; i < count; ++i) {
        symbols[i] = dlsym(lib, names[i]);
        if (symbols[i] == NULL) {
            return names[i];
        }
    }
    memcpy(functions, symbols, count * sizeof(symbols[0]));
    return NULL;
}

static void risks_copy(void *to, const void *from, size_t length)
{
    risks_need(gpu->memcpy_async(to, from, length, MUCT_HIP_MEMCPY_DEFAULT, NULL) == 0,
               "hipMemcpyAsync");
    risks_need(gpu->stream_synchronize(NULL) == 0, "hipStreamSynchronize");
}

static uint32_t *risks_words(size_t length, uint32_t seed)
{
    uint32_t *words = malloc(length);
    size_t i;

    risks_need(words != NULL, "malloc");
    for (i = 0; i < length / sizeof(*words); ++i) {
        words[i] = risks_word(i, seed);
    }
    return words;
}

void risks_fill(char *memory, size_t length, uint32_t seed)
{
    uint32_t *words = risks_words(length, seed);

    risks_copy(memory, words, length);
    free(words);
}

bool risks_is_filled(const char *memory, size_t length, uint32_t seed)
{
    uint32_t *words = risks_words(length, seed);
    char *found = malloc(length);
    bool is_same;

    risks_need(found != NULL, "malloc");
    risks_copy(found, memory, length);
    is_same = (memcmp(found, words, length) == 0);
    free(found);
    free(words);
    return is_same;
}

/* Work that lasts a while, on a stream of its own. */
void *risks_busy_start(void)
{
    void *stream;
    unsigned i;

    risks_need(gpu->stream_create_with_priority(&stream, 1, 0) == 0, "hipStreamCreate");
    for (i = 0; i < RISKS_BUSY_COPIES; ++i) {
        risks_need(gpu->memcpy_async(remote, local, RISKS_LENGTH, 4, stream) == 0,
                   "hipMemcpyAsync");
    }
    return stream;
}

void risks_busy_end(void *stream)
{
    risks_need(gpu->stream_synchronize(stream) == 0, "hipStreamSynchronize");
    risks_need(gpu->stream_destroy(stream) == 0, "hipStreamDestroy");
}

const muct_xgmi_window_t *risks_find(muct_xgmi_queue_t *used,
                                     const muct_xgmi_rkey_t *key)
{
    const muct_xgmi_region_t *region;
    const muct_xgmi_window_t *window;

    risks_need(muct_xgmi_map_get(used->map, key->peer, &key->key, used->device,
                                 MUCT_XGMI_OPEN_LIMIT_MS, &region) == UCS_OK,
               "mapping");
    risks_need(muct_xgmi_queue_find(used, key, &window) == UCS_OK, "window");
    muct_xgmi_map_put(used->map, region);
    return window;
}
