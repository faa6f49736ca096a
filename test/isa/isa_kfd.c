/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Kernels of programs that run over test/kfd: KFDCPU_INTERPRETER names this library.
 *
 * Queues dispatch at the same time, and a kernel may wait for one of another queue, so
 * each dispatch takes a GPU of its own from a pool. Its caches are empty at the start
 * and written back at the end.
 *
 * ISA_KFD_RELEASE=late: our kernel stops at its flag until the kernels that run beside
 * it have ended, so that they see only the bytes that the flag releases. "unawaited":
 * and it does not wait for its buffer_wbl2 (llvm-project 178316).
 */

#include "isa.h"

#include "test/kfd/kfd_dispatch.h"
#include "xgmi/copy/xgmi_kernel.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLOT_WAIT 0xbf8cc07fu /* s_waitcnt lgkmcnt(0), of GFX9 */
#define SLOT_ENTRY 16         /* in the kernel descriptor */
#define SLOT_LIMIT_S 60       /* of the wait for other kernels */

typedef struct kfd_slot {
    struct kfd_slot *next; /* of free slots, or of those that run */
    isa_gpu_t *gpu;
    const char *arch;
    const kfd_dispatch_t *dispatch;
    const kfd_dispatch_host_t *host;
    uint64_t fault;  /* address that was refused */
    uint64_t number; /* of the dispatch */
    uint64_t flag;   /* at which it stops, or 0 */
    bool is_stopped;
} kfd_slot_t;

static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;
static kfd_slot_t *slots, *running;
static uint64_t num_dispatches;
static pthread_cond_t one_stopped = PTHREAD_COND_INITIALIZER;

static bool slot_may_access(void *arg, uint64_t address, size_t length)
{
    kfd_slot_t *slot = arg;

    if (slot->host->may_access(slot->dispatch->gpu, address, length)) {
        return true;
    }
    slot->fault = address;
    return false;
}

static bool slot_stopped(void *arg)
{
    kfd_slot_t *slot = arg;

    return slot->host->stopped(slot->dispatch);
}

static bool slot_release_is(const char *which)
{
    const char *release = getenv("ISA_KFD_RELEASE");

    if ((release != NULL) && (strcmp(release, "late") != 0) &&
        (strcmp(release, "unawaited") != 0)) {
        fprintf(stderr, "isa_kfd: ISA_KFD_RELEASE=%s: expected late or unawaited\n",
                release);
        abort();
    }
    return (release != NULL) && (strcmp(release, which) == 0);
}

/* Locked. Whether a kernel runs that began up to a dispatch. */
static bool slot_is_one_running(uint64_t number)
{
    const kfd_slot_t *slot = running;

    while ((slot != NULL) && (slot->is_stopped || (slot->number > number))) {
        slot = slot->next;
    }
    return slot != NULL;
}

static void slot_written(void *arg, uint64_t address, size_t length)
{
    kfd_slot_t *slot = arg;
    struct timespec until;
    uint64_t number;
    int error = 0;

    (void)length;
    if (address != slot->flag) {
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += SLOT_LIMIT_S;
    pthread_mutex_lock(&slots_lock);
    slot->is_stopped = true;
    pthread_cond_broadcast(&one_stopped);
    number = num_dispatches;
    while (slot_is_one_running(number) && (error == 0)) {
        error = pthread_cond_timedwait(&one_stopped, &slots_lock, &until);
    }
    if (error != 0) {
        fprintf(stderr, "isa_kfd: %s: kernels beside it did not end within %d s: %s\n",
                slot->host->kernel_name(slot->dispatch->kernel_object), SLOT_LIMIT_S,
                strerror(error));
        abort();
    }
    slot->is_stopped = false;
    pthread_mutex_unlock(&slots_lock);
}

/* An s_waitcnt behind buffer_wbl2 waits for scalar loads alone. */
static void slot_take_waits_out(const kfd_slot_t *slot, uint64_t kernel_object)
{
    const uint32_t wait = SLOT_WAIT;
    bool is_behind = false;
    uint64_t at, size;
    const char *text;
    int64_t entry;

    memcpy(&entry, (const void *)(uintptr_t)(kernel_object + SLOT_ENTRY),
           sizeof(entry));
    at = kernel_object + (uint64_t)entry;
    for (;; at += size) {
        text = isa_gpu_text(slot->gpu, at, &size);
        if ((text[0] == '\0') || (strcmp(text, "s_endpgm") == 0)) {
            return;
        }
        if (is_behind && (strncmp(text, "s_waitcnt", 9) == 0)) {
            memcpy((void *)(uintptr_t)at, &wait, sizeof(wait));
        }
        is_behind = (strncmp(text, "buffer_wbl2", 11) == 0);
    }
}

static const char *slot_arch(unsigned target)
{
    static const struct {
        unsigned target;
        const char *arch;
    } archs[] = {
        {90010, "gfx90a"}, {90402, "gfx942"}, {90500, "gfx950"}, {110000, "gfx1100"}};
    size_t i;

    for (i = 0; i < sizeof(archs) / sizeof(archs[0]); ++i) {
        if (archs[i].target == target) {
            return archs[i].arch;
        }
    }
    return NULL;
}

static kfd_slot_t *slot_create(const char *arch)
{
    kfd_slot_t *slot = calloc(1, sizeof(*slot));
    isa_memory_t memory = {
        .arg = slot,
        .may_access = slot_may_access,
        .stopped = slot_stopped,
        .written = slot_written,
    };

    if (slot == NULL) {
        return NULL;
    }
    slot->arch = arch;
    slot->gpu = isa_gpu_create(arch, &memory, ISA_LATE, 1);
    if (slot->gpu == NULL) {
        free(slot);
        return NULL;
    }
    return slot;
}

static kfd_slot_t *slot_take(const char *arch)
{
    kfd_slot_t **link, *slot;

    pthread_mutex_lock(&slots_lock);
    for (link = &slots; (slot = *link) != NULL; link = &slot->next) {
        if (slot->arch == arch) {
            *link = slot->next;
            break;
        }
    }
    pthread_mutex_unlock(&slots_lock);
    return (slot != NULL) ? slot : slot_create(arch);
}

static void slot_give(kfd_slot_t *slot)
{
    pthread_mutex_lock(&slots_lock);
    slot->next = slots;
    slots = slot;
    pthread_mutex_unlock(&slots_lock);
}

/* Log a line per dispatch in the file that ISA_KFD_LOG names: kernels that ran here, or
 * not. */
static void slot_log(const kfd_slot_t *slot, const char *name, const char *result)
{
    const char *path = getenv("ISA_KFD_LOG");
    FILE *file = (path != NULL) ? fopen(path, "a") : NULL;

    if (file != NULL) {
        fprintf(file, "%s %s: %s\n", slot->arch, name, result);
        fclose(file);
    }
}

static void slot_begin(kfd_slot_t *slot, const isa_launch_t *launch, const char *name)
{
    const muct_xgmi_copy_args_t *args = (const void *)(uintptr_t)launch->kernarg;
    bool is_unawaited = slot_release_is("unawaited");

    slot->flag = 0;
    pthread_mutex_lock(&slots_lock);
    if ((is_unawaited || slot_release_is("late")) &&
        (strcmp(name, MUCT_XGMI_KERNEL_NAME ".kd") == 0)) {
        slot->flag = args->flag;
    }
    if (is_unawaited && (slot->flag != 0)) {
        slot_take_waits_out(slot, launch->kernel_object);
    }
    slot->is_stopped = false;
    slot->number = ++num_dispatches;
    slot->next = running;
    running = slot;
    pthread_mutex_unlock(&slots_lock);
}

static void slot_end(const kfd_slot_t *slot)
{
    kfd_slot_t **link = &running;

    pthread_mutex_lock(&slots_lock);
    while (*link != slot) {
        link = &(*link)->next;
    }
    *link = slot->next;
    pthread_cond_broadcast(&one_stopped);
    pthread_mutex_unlock(&slots_lock);
}

/* Our kernels have to run here; for others the stand-in may have a C function. */
static int slot_run(kfd_slot_t *slot, const isa_launch_t *launch)
{
    const char *name = slot->host->kernel_name(slot->dispatch->kernel_object);
    bool is_ours = (name != NULL) && (strncmp(name, "muct_", 5) == 0);
    int ret;

    name = (name != NULL) ? name : "(no name)";
    if (!is_ours && (isa_gpu_check_launch(slot->gpu, launch) != 0)) {
        slot_log(slot, name, isa_gpu_error(slot->gpu));
        return 1;
    }
    slot->fault = 0;
    slot_begin(slot, launch, name);
    ret = isa_gpu_launch(slot->gpu, launch);
    slot_end(slot);
    if (ret == 0) {
        slot_log(slot, name, "executed");
    } else if (!slot->host->stopped(slot->dispatch)) {
        slot_log(slot, name, isa_gpu_error(slot->gpu));
        fprintf(stderr, "isa_kfd: %s %s: %s\n", slot->arch, name,
                isa_gpu_error(slot->gpu));
        slot->host->fault(slot->dispatch->gpu, slot->fault);
    }
    return 0;
}

__attribute__((visibility("default"))) int kfd_interpret(
    const kfd_dispatch_t *dispatch, const kfd_dispatch_host_t *host)
{
    const char *arch = slot_arch(dispatch->target);
    isa_launch_t launch = {
        .kernel_object = dispatch->kernel_object,
        .kernarg = dispatch->kernarg,
        .packet = dispatch->packet,
        .group_size = dispatch->group_size,
        .acquire = ISA_SCOPE_SYSTEM,
        .release = ISA_SCOPE_SYSTEM,
    };
    kfd_slot_t *slot = (arch != NULL) ? slot_take(arch) : NULL;
    int ret;

    if (slot == NULL) {
        return 1;
    }
    memcpy(launch.grid, dispatch->grid, sizeof(launch.grid));
    memcpy(launch.workgroup, dispatch->workgroup, sizeof(launch.workgroup));
    slot->dispatch = dispatch;
    slot->host = host;
    ret = slot_run(slot, &launch);
    slot_give(slot);
    return ret;
}
