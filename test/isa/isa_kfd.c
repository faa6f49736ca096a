/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Kernels of programs that run over test/kfd: KFDCPU_INTERPRETER names this library.
 *
 * Queues dispatch at the same time, and a kernel may wait for one of another queue, so
 * each dispatch takes a GPU of its own from a pool. Its caches are empty at the start
 * and written back at the end.
 */

#include "isa.h"

#include "test/kfd/kfd_dispatch.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


typedef struct kfd_slot {
    struct kfd_slot *next;
    isa_gpu_t *gpu;
    const char *arch;
    const kfd_dispatch_t *dispatch;
    const kfd_dispatch_host_t *host;
    uint64_t fault; /* address that was refused */
} kfd_slot_t;

static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;
static kfd_slot_t *slots;

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

/* Our kernels have to run here; for others the stand-in may have a C function. */
static int slot_run(kfd_slot_t *slot, const isa_launch_t *launch)
{
    const char *name = slot->host->kernel_name(slot->dispatch->kernel_object);
    bool is_ours = (name != NULL) && (strncmp(name, "muct_", 5) == 0);

    name = (name != NULL) ? name : "(no name)";
    if (!is_ours && (isa_gpu_check_launch(slot->gpu, launch) != 0)) {
        slot_log(slot, name, isa_gpu_error(slot->gpu));
        return 1;
    }
    slot->fault = 0;
    if (isa_gpu_launch(slot->gpu, launch) == 0) {
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
