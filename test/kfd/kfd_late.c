/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * KFDCPU_RELEASE: copies that stay in the L2 of their GPU.
 *
 * On gfx942 a kernel's stores reach other devices by a release to the system (LLVM,
 * User Guide for AMDGPU Backend, "Memory Model GFX942"). An AQL packet has the scope of
 * the release at its end in its header (HSA Runtime 1.2, 2.9.1). Since rocm-systems PR
 * 2304 CLR sends no barrier in front of the number of hipStreamWriteValue32(), and
 * later releases copy to peers by kernels that release to their own device. With
 * "event" copy kernels of CLR do so, and the barrier in front of the number is ignored;
 * the packet of an event releases. With "late" that does not either: a control.
 *
 * Bytes stay until a packet releases, until another kernel of the GPU starts, which
 * reads by the same L2, or until the GPU's queue ends. A number in front of them gives
 * its readers some time.
 */

#include "kfd_impl.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KFD_LATE_NS 50000000l /* of a number in front of its bytes */

enum { KFD_AQL_VENDOR = 0, KFD_AQL_BARRIER_AND = 3, KFD_SCOPE_SYSTEM = 2 };

typedef struct kfd_late {
    struct kfd_late *next;
    int gpu;
    void *dst;
    uint64_t length;
    char bytes[];
} kfd_late_t;

static pthread_mutex_t kfd_late_lock = PTHREAD_MUTEX_INITIALIZER;
static kfd_late_t *kfd_late_list;
static bool kfd_is_late, kfd_is_event_late;
static pthread_once_t kfd_late_once = PTHREAD_ONCE_INIT;

static void kfd_late_read(void)
{
    const char *value = getenv("KFDCPU_RELEASE");

    if (value == NULL) {
        return;
    }
    kfd_is_event_late = strcmp(value, "late") == 0;
    if (!kfd_is_event_late && (strcmp(value, "event") != 0)) {
        kfd_die("KFDCPU_RELEASE=%s: expected event or late", value);
    }
    kfd_is_late = true;
}

bool kfd_late_has(const char *kernel)
{
    static const char copies[] = "__amd_rocclr_copyBuffer";

    pthread_once(&kfd_late_once, kfd_late_read);
    return kfd_is_late && (kernel != NULL) &&
           (strncmp(kernel, copies, sizeof(copies) - 1) == 0);
}

static bool kfd_late_is_number(const char *kernel)
{
    return (kernel != NULL) && (strcmp(kernel, "__amd_rocclr_streamOpsWrite.kd") == 0);
}

void kfd_late_keep(int gpu, uint64_t dst, uint64_t src, uint64_t length)
{
    kfd_late_t *late = malloc(sizeof(*late) + length);
    kfd_late_t **link;

    if (late == NULL) {
        kfd_die("no memory for %llu bytes of a GPU's L2", (unsigned long long)length);
    }
    *late = (kfd_late_t){.gpu = gpu, .dst = (void *)(uintptr_t)dst, .length = length};
    memcpy(late->bytes, (const void *)(uintptr_t)src, length);
    pthread_mutex_lock(&kfd_late_lock);
    for (link = &kfd_late_list; *link != NULL; link = &(*link)->next) {
    }
    *link = late;
    pthread_mutex_unlock(&kfd_late_lock);
}

void kfd_late_land(int gpu)
{
    kfd_late_t **link = &kfd_late_list, *late;

    pthread_mutex_lock(&kfd_late_lock);
    while ((late = *link) != NULL) {
        if (late->gpu != gpu) {
            link = &late->next;
            continue;
        }
        *link = late->next;
        memcpy(late->dst, late->bytes, late->length);
        free(late);
    }
    pthread_mutex_unlock(&kfd_late_lock);
}

void kfd_late_begin(int gpu, const char *kernel)
{
    if (!kfd_late_is_number(kernel)) {
        kfd_late_land(gpu);
    }
}

void kfd_late_end(int gpu, const char *kernel)
{
    const struct timespec ts = {0, KFD_LATE_NS};
    const kfd_late_t *late;

    if (!kfd_late_is_number(kernel)) {
        return;
    }
    pthread_mutex_lock(&kfd_late_lock);
    for (late = kfd_late_list; (late != NULL) && (late->gpu != gpu);
         late = late->next) {
    }
    pthread_mutex_unlock(&kfd_late_lock);
    if (late != NULL) {
        nanosleep(&ts, NULL);
    }
}

bool kfd_late_releases(uint16_t header)
{
    unsigned type = header & 0xff, acquire = (header >> 9) & 3;

    if (((header >> 11) & 3) != KFD_SCOPE_SYSTEM) {
        return false;
    }
    switch (type) {
    case KFD_AQL_BARRIER_AND: /* in front of the number: no acquire */
        return acquire != 0;
    case KFD_AQL_VENDOR: /* of an event */
        return !kfd_is_event_late;
    default:
        return false;
    }
}
