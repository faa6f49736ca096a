/* SPDX-License-Identifier: BSD-3-Clause */

/* Settings by environment, and the log. */

#include "kfd_impl.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define KFD_MAX_VRAM (1ull << 46)
#define KFD_MAX_SLOW_COPY_US 3600000000ull

/* Numbers of the products: LLVM's AMDGPUUsage (targets), the CDNA 3 and CDNA 4 white
 * papers (units, dies, LDS), amdgpu's PCI table (device IDs). */
static const kfd_model_t kfd_models[] = {
    {"MI300X", "AMD Instinct MI300X", 90402, 0x74a1, 8, 38, 4, 10, 64, 16},
    {"MI355X", "AMD Instinct MI355X", 90500, 0x75a3, 8, 32, 4, 9, 160, 16},
};

static kfd_config_t kfd_the_config;
static pthread_once_t kfd_config_once = PTHREAD_ONCE_INIT;

/* Each line is a single write(2), so that lines of several processes stay whole. */
static __attribute__((format(printf, 1, 0))) void kfd_print(const char *format,
                                                            va_list ap)
{
    char line[512];
    int length;

    length = snprintf(line, sizeof(line), "[kfdcpu %d] ", getpid());
    length += vsnprintf(line + length, sizeof(line) - (size_t)length, format, ap);
    if (length > (int)sizeof(line) - 2) {
        length = (int)sizeof(line) - 2;
    }
    line[length] = '\n';
    (void)!write(STDERR_FILENO, line, (size_t)length + 1);
}

void kfd_log(int level, const char *format, ...)
{
    va_list ap;

    if (kfd_the_config.log_level < level) {
        return;
    }
    va_start(ap, format);
    kfd_print(format, ap);
    va_end(ap);
}

void kfd_refuse(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    kfd_print(format, ap);
    va_end(ap);
}

void kfd_die(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    kfd_print(format, ap);
    va_end(ap);
    abort();
}

int kfd_error(int error)
{
    errno = error;
    return -1;
}

/* A variable with a misspelled name would have no effect. */
static void kfd_check_names(void)
{
    static const char *const names[] = {
        "GPUS", "MODEL", "MODE",      "LINKS",   "NUMA",        "VRAM", "VRAM_TAKEN",
        "FAIL", "STALL", "SLOW_COPY", "RELEASE", "INTERPRETER", "DIR",  "LOG",
    };
    static const char prefix[] = "KFDCPU_";
    const size_t count = sizeof(names) / sizeof(*names);
    size_t length, i;
    const char *name;
    char **entry;

    for (entry = environ; *entry != NULL; ++entry) {
        if (strncmp(*entry, prefix, sizeof(prefix) - 1) != 0) {
            continue;
        }
        name = *entry + sizeof(prefix) - 1;
        length = strcspn(name, "=");
        for (i = 0; (i < count) && ((strlen(names[i]) != length) ||
                                    (strncmp(name, names[i], length) != 0));
             ++i) {
        }
        if (i == count) {
            kfd_die("%s: no setting has this name; expected one of test/kfd/README.md",
                    *entry);
        }
    }
}

static unsigned kfd_unit(const char *end)
{
    static const char units[] = "kmg";
    const char *unit = (*end != '\0') ? strchr(units, *end) : NULL;

    return (unit != NULL) ? 10 * (unsigned)(unit - units + 1) : 0;
}

static uint64_t kfd_env_size(const char *name, uint64_t value, uint64_t max)
{
    const char *text = getenv(name);
    unsigned shift;
    char *end;

    if (text == NULL) {
        return value;
    }
    errno = 0;
    value = strtoull(text, &end, 0);
    shift = kfd_unit(end);
    if ((text[0] < '0') || (text[0] > '9') || (end[shift != 0] != '\0')) {
        kfd_die("%s=%s: expected a number, with k, m or g", name, text);
    }
    if ((errno != 0) || (value > (max >> shift))) {
        kfd_die("%s=%s: expected at most %llu", name, text, (unsigned long long)max);
    }
    return value << shift;
}

static unsigned kfd_env_count(const char *name, unsigned value, unsigned max)
{
    uint64_t count = kfd_env_size(name, value, UINT64_MAX);

    if ((count < 1) || (count > max)) {
        kfd_die("%s=%s: expected 1 to %u", name, getenv(name), max);
    }
    return (unsigned)count;
}

/* The place of an environment variable's value in a list; the first without the
 * variable. */
static unsigned kfd_env_choice(const char *name, const char *const *list,
                               unsigned count)
{
    const char *text = getenv(name);
    unsigned i;

    for (i = 0; (text != NULL) && (i < count); ++i) {
        if (strcmp(text, list[i]) == 0) {
            return i;
        }
    }
    if (text != NULL) {
        kfd_die("%s=%s: expected one such as %s or %s", name, text, list[0],
                list[count - 1]);
    }
    return 0;
}

static void kfd_read_model(kfd_config_t *config)
{
    static const char *const models[] = {"MI300X", "MI355X"};
    static const char *const modes[] = {"SPX", "DPX", "QPX", "CPX"};
    static const char *const links[] = {"xgmi", "pcie", "none"};

    config->model = &kfd_models[kfd_env_choice("KFDCPU_MODEL", models, 2)];
    config->partitions = 1u << kfd_env_choice("KFDCPU_MODE", modes, 4);
    config->links = (kfd_links_t)kfd_env_choice("KFDCPU_LINKS", links, 3);
}

/* Processes with the same settings share a folder. */
static void kfd_read_dir(kfd_config_t *config)
{
    const char *base = getenv("KFDCPU_DIR");
    char own[64];

    snprintf(own, sizeof(own), "/tmp/kfdcpu-%u", (unsigned)getuid());
    snprintf(config->dir, sizeof(config->dir), "%s/%s-%ux%u-%llum-%u-%u",
             (base != NULL) ? base : own, config->model->name, config->num_packages,
             config->partitions, (unsigned long long)config->vram >> 20,
             (unsigned)config->links, config->num_numa);
}

static void kfd_config_read(void)
{
    kfd_config_t *config = &kfd_the_config;

    kfd_check_names();
    config->log_level = (int)kfd_env_size("KFDCPU_LOG", 0, 4);
    kfd_read_model(config);
    config->num_packages = kfd_env_count("KFDCPU_GPUS", 2, 8);
    config->num_gpus = config->num_packages * config->partitions;
    config->num_numa = kfd_env_count("KFDCPU_NUMA", 1, 8);
    config->vram =
        kfd_env_size("KFDCPU_VRAM", 16ull << 30, KFD_MAX_VRAM) / config->partitions;
    config->vram_taken = kfd_env_size("KFDCPU_VRAM_TAKEN", 0, KFD_MAX_VRAM);
    config->slow_copy_us =
        (unsigned)kfd_env_size("KFDCPU_SLOW_COPY", 0, KFD_MAX_SLOW_COPY_US);
    kfd_read_dir(config);
    kfd_topology_make(config);
}

const kfd_config_t *kfd_config(void)
{
    pthread_once(&kfd_config_once, kfd_config_read);
    return &kfd_the_config;
}

int kfd_gpu_number(uint32_t gpu_id)
{
    uint32_t gpu = gpu_id - KFD_GPU_ID(0);

    return (gpu < kfd_config()->num_gpus) ? (int)gpu : -1;
}

uint64_t kfd_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ((uint64_t)ts.tv_sec * 1000000000ull) + (uint64_t)ts.tv_nsec;
}

uint64_t kfd_clock(void)
{
    return kfd_now_ns() / 10;
}
