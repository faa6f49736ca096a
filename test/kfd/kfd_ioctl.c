/* SPDX-License-Identifier: BSD-3-Clause */

/* The ioctls of /dev/kfd: a table by number, as kfd_chardev.c of amdkfd has it. */

#include "kfd_impl.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static int kfd_get_version(void *arg)
{
    struct kfd_ioctl_get_version_args *a = arg;

    /* 1.12 dma-buf export, 1.14 ages of events, 1.17 SDMA queues by engine; later ones
     * add nothing that the runtimes of docs/versions.md call */
    a->major_version = 1;
    a->minor_version = 17;
    return 0;
}

static int kfd_get_clocks(void *arg)
{
    struct kfd_ioctl_get_clock_counters_args *a = arg;
    struct timespec ts;

    if (kfd_gpu_number(a->gpu_id) < 0) {
        return kfd_error(EINVAL);
    }
    clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
    a->gpu_clock_counter = kfd_clock();
    a->cpu_clock_counter = ((uint64_t)ts.tv_sec * 1000000000ull) + (uint64_t)ts.tv_nsec;
    a->system_clock_counter = kfd_now_ns();
    a->system_clock_freq = 1000000000;
    return 0;
}

static int kfd_get_tile_config(void *arg)
{
    struct kfd_ioctl_get_tile_config_args *a = arg;

    a->num_tile_configs = 0;
    a->num_macro_tile_configs = 0;
    a->gb_addr_config = 0x2a114042;
    a->num_banks = 0;
    a->num_ranks = 0;
    return 0;
}

/* Apertures of gfx9 (kfd_flat_memory.c); GPU addresses are those that mmap(2) returns.
 */
static int kfd_get_apertures(void *arg)
{
    struct kfd_ioctl_get_process_apertures_new_args *a = arg;
    struct kfd_process_device_apertures *list =
        (void *)(uintptr_t)a->kfd_process_device_apertures_ptr;
    unsigned count = kfd_config()->num_gpus, i;

    if (a->num_of_nodes == 0) {
        a->num_of_nodes = count;
        return 0;
    }
    for (i = 0; (i < count) && (i < a->num_of_nodes); ++i) {
        list[i] = (struct kfd_process_device_apertures){
            .gpu_id = KFD_GPU_ID(i),
            .lds_base = 0x1000000000000ull,
            .lds_limit = 0x10000ffffffffull,
            .scratch_base = 0x2000000000000ull,
            .scratch_limit = 0x20000ffffffffull,
            .gpuvm_base = 0x4000,
            .gpuvm_limit = 0x7fffffffffffull,
        };
    }
    a->num_of_nodes = i;
    return 0;
}

static int kfd_acquire_vm(void *arg)
{
    struct kfd_ioctl_acquire_vm_args *a = arg;
    int gpu = kfd_gpu_number(a->gpu_id), of_render;

    if ((gpu < 0) || !kfd_is_render((int)a->drm_fd, &of_render) || (of_render != gpu)) {
        return kfd_error(EINVAL);
    }
    return 0;
}

static int kfd_alloc_gws(void *arg)
{
    ((struct kfd_ioctl_alloc_queue_gws_args *)arg)->first_gws = 0;
    return 0;
}

/* A descriptor that has no events. */
static int kfd_smi_events(void *arg)
{
    struct kfd_ioctl_smi_events_args *a = arg;
    int fd = eventfd(0, EFD_CLOEXEC);

    if (fd < 0) {
        return -1;
    }
    a->anon_fd = (uint32_t)fd;
    return 0;
}

/* Page faults of GPUs are not retried: XNACK is off, and a negative value queries it.
 */
static int kfd_set_xnack(void *arg)
{
    struct kfd_ioctl_set_xnack_mode_args *a = arg;

    if (a->xnack_enabled > 0) {
        return kfd_error(EPERM);
    }
    a->xnack_enabled = 0;
    return 0;
}

static int kfd_accept(void *arg)
{
    (void)arg;
    return 0;
}

static const struct {
    unsigned nr;
    const char *name;
    int (*play)(void *arg);
} kfd_ioctls[] = {
    {0x01, "GET_VERSION", kfd_get_version},
    {0x02, "CREATE_QUEUE", kfd_queue_create},
    {0x03, "DESTROY_QUEUE", kfd_queue_destroy},
    {0x04, "SET_MEMORY_POLICY", kfd_accept}, /* caches, which there are none of */
    {0x05, "GET_CLOCK_COUNTERS", kfd_get_clocks},
    {0x07, "UPDATE_QUEUE", kfd_queue_update},
    {0x08, "CREATE_EVENT", kfd_event_create},
    {0x09, "DESTROY_EVENT", kfd_event_destroy},
    {0x0a, "SET_EVENT", kfd_event_set},
    {0x0b, "RESET_EVENT", kfd_event_reset},
    {0x0c, "WAIT_EVENTS", kfd_event_wait},
    {0x11, "SET_SCRATCH_BACKING_VA", kfd_accept},
    {0x12, "GET_TILE_CONFIG", kfd_get_tile_config},
    {0x13, "SET_TRAP_HANDLER", kfd_accept}, /* no wave traps */
    {0x14, "GET_PROCESS_APERTURES_NEW", kfd_get_apertures},
    {0x15, "ACQUIRE_VM", kfd_acquire_vm},
    {0x16, "ALLOC_MEMORY_OF_GPU", kfd_memory_alloc},
    {0x17, "FREE_MEMORY_OF_GPU", kfd_memory_free},
    {0x18, "MAP_MEMORY_TO_GPU", kfd_memory_map},
    {0x19, "UNMAP_MEMORY_FROM_GPU", kfd_memory_unmap},
    {0x1a, "SET_CU_MASK", kfd_accept}, /* kernels do not share units */
    {0x1c, "GET_DMABUF_INFO", kfd_share_dmabuf_info},
    {0x1d, "IMPORT_DMABUF", kfd_share_import},
    {0x1e, "ALLOC_QUEUE_GWS", kfd_alloc_gws},
    {0x1f, "SMI_EVENTS", kfd_smi_events},
    {0x20, "SVM", kfd_memory_svm},
    {0x21, "SET_XNACK_MODE", kfd_set_xnack},
    {0x23, "AVAILABLE_MEMORY", kfd_memory_available},
    {0x24, "EXPORT_DMABUF", kfd_share_export},
    {0x25, "RUNTIME_ENABLE", kfd_accept}, /* for debuggers */
    {0x80, "IPC_IMPORT_HANDLE", kfd_share_ipc_import},
    {0x81, "IPC_EXPORT_HANDLE", kfd_share_ipc_export},
};

bool kfd_ioctl_exists(const char *name)
{
    unsigned i;

    for (i = 0; i < sizeof(kfd_ioctls) / sizeof(*kfd_ioctls); ++i) {
        if (strcmp(kfd_ioctls[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

int kfd_ioctl(unsigned long request, void *arg)
{
    unsigned nr = _IOC_NR(request), i;
    int error, rc;

    for (i = 0; i < sizeof(kfd_ioctls) / sizeof(*kfd_ioctls); ++i) {
        if ((kfd_ioctls[i].nr != nr) || (_IOC_TYPE(request) != AMDKFD_IOCTL_BASE)) {
            continue;
        }
        error = kfd_fault_take(kfd_ioctls[i].name);
        if (error != 0) {
            return kfd_error(error);
        }
        rc = kfd_ioctls[i].play(arg);
        kfd_log(3, "%s: %s", kfd_ioctls[i].name, (rc == 0) ? "done" : strerror(errno));
        return rc;
    }
    kfd_refuse("ioctl %#x of type %#x of /dev/kfd (%u bytes) is not played", nr,
               (unsigned)_IOC_TYPE(request), (unsigned)_IOC_SIZE(request));
    return kfd_error(ENOTTY);
}
