/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Memory of other processes, by AMD's rules: 64 bytes by value, of which 32 belong
 * to the driver and the rest are size, offset and process. Opening returns the base
 * plus the offset of the pointer that was exported.
 *
 * The driver's part names a file descriptor of the exporter under /proc and the
 * inode behind it, so that a handle outlives neither its memory nor its process,
 * and that nothing is left behind by a process that is killed. /proc/self tells
 * the process number that holds in the mounted /proc, also in a PID namespace.
 */

#include "hipcpu_impl.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HIPCPU_IPC_MAGIC 0x55504368u
#define HIPCPU_DMABUF_FD 1 /* hipMemRangeHandleTypeDmaBufFd */
#define HIPCPU_HSA_INVALID_ARG 0x1001
#define HIPCPU_HSA_INVALID_ALLOC 0x1008

/** The 64 bytes of a handle; size, offset and pid are where AMD has them */
typedef struct hipcpu_handle {
    uint32_t magic;
    int32_t proc;
    int32_t fd;
    int32_t device; /* number on the machine */
    uint64_t ino;
    uint64_t dev;
    uint64_t size;
    uint64_t offset;
    int32_t pid;
    int32_t reserved[3];
} hipcpu_handle_t;

_Static_assert(sizeof(hipcpu_handle_t) == sizeof(hipIpcMemHandle_t), "handle size");
_Static_assert(offsetof(hipcpu_handle_t, size) == 32, "psize of AMD's handle");
_Static_assert(offsetof(hipcpu_handle_t, pid) == 48, "process of AMD's handle");

/* hipIpcMemLazyEnablePeerAccess was 0 up to ROCm 5. */
static unsigned hipcpu_ipc_flags(void)
{
    return hipcpu_config.major >= 6;
}

static int hipcpu_proc_self(void)
{
    char text[32];
    ssize_t length = readlink("/proc/self", text, sizeof(text) - 1);

    if (length <= 0) {
        return (int)getpid();
    }
    text[length] = '\0';
    return atoi(text);
}

static bool hipcpu_range_export(hipcpu_range_t *range, void *arg)
{
    (void)arg;
    range->is_exported = true;
    return false;
}

/* Memory that other processes may have: not managed, not host, not imported. */
static bool hipcpu_find_exportable(const void *ptr, hipcpu_range_t *range)
{
    if (!hipcpu_range_find((uintptr_t)ptr, range) || (range->kind != HIPCPU_DEVICE) ||
        ((uintptr_t)ptr >= range->base + range->size)) {
        return false;
    }

    hipcpu_range_change(range->base, hipcpu_range_export, NULL);
    return true;
}

hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *ptr)
{
    hipcpu_handle_t packed = {.magic = HIPCPU_IPC_MAGIC};
    hipcpu_range_t range;
    struct stat info;

    HIPCPU_ENTER(hipIpcGetMemHandle);
    if (!hipcpu_find_exportable(ptr, &range) || (fstat(range.fd, &info) != 0)) {
        return hipcpu_result(hipErrorInvalidDevicePointer);
    }

    packed.proc = hipcpu_proc_self();
    packed.fd = range.fd;
    packed.device = hipcpu_config.devices[range.device];
    packed.ino = info.st_ino;
    packed.dev = info.st_dev;
    packed.size = range.size;
    packed.offset = (uintptr_t)ptr - range.base;
    packed.pid = (int32_t)getpid();
    memcpy(handle, &packed, sizeof(packed));
    return hipSuccess;
}

/* The memory a handle names, if it still is that memory. */
static int hipcpu_ipc_attach(const hipcpu_handle_t *handle)
{
    char path[64];
    struct stat info;
    int fd;

    if (handle->magic != HIPCPU_IPC_MAGIC) {
        return -1;
    }
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle->proc, handle->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    if ((fstat(fd, &info) != 0) || (info.st_ino != handle->ino) ||
        (info.st_dev != handle->dev) || ((uint64_t)info.st_size < handle->size) ||
        (handle->offset >= handle->size)) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool hipcpu_range_ref(hipcpu_range_t *range, void *arg)
{
    (void)arg;
    ++range->refs;
    return false;
}

static bool hipcpu_ipc_map(const hipcpu_handle_t *handle, hipcpu_range_t *range)
{
    int fd = hipcpu_ipc_attach(handle);
    bool is_mapped;

    if (fd < 0) {
        return false;
    }

    *range = (hipcpu_range_t){.size = handle->size,
                              .kind = HIPCPU_IMPORTED,
                              .device = hipcpu_device_current(),
                              .fd = -1,
                              .refs = 1,
                              .dev = handle->dev,
                              .ino = handle->ino};
    range->mapped = (handle->size + HIPCPU_PAGE_SIZE - 1) & ~(HIPCPU_PAGE_SIZE - 1ull);
    is_mapped = hipcpu_range_map(range, fd);
    close(fd);
    if (is_mapped) {
        hipcpu_range_add(range);
    }
    return is_mapped;
}

hipError_t hipIpcOpenMemHandle(void **ptr, hipIpcMemHandle_t handle, unsigned flags)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    hipcpu_handle_t packed;
    hipcpu_range_t range;
    bool is_open = true;
    int fd;

    HIPCPU_ENTER(hipIpcOpenMemHandle);
    memcpy(&packed, &handle, sizeof(packed));
    if ((ptr == NULL) || (flags != hipcpu_ipc_flags()) || (packed.size == 0)) {
        return hipcpu_result(hipErrorInvalidValue);
    }
    if (packed.pid == (int32_t)getpid()) {
        return hipcpu_result(hipErrorInvalidContext);
    }

    pthread_mutex_lock(&lock);
    /* up to ROCm 6 a second open returned the first one's address */
    if ((hipcpu_config.major < 7) &&
        hipcpu_range_find_import(packed.dev, packed.ino, &range)) {
        fd = hipcpu_ipc_attach(&packed);
        is_open = (fd >= 0);
        if (is_open) {
            close(fd);
            hipcpu_range_change(range.base, hipcpu_range_ref, NULL);
        }
    } else {
        is_open = hipcpu_ipc_map(&packed, &range);
    }
    pthread_mutex_unlock(&lock);
    if (!is_open) {
        return hipcpu_result(hipErrorInvalidDevicePointer);
    }

    ++hipcpu_counts[HIPCPU_MAPPINGS];
    *ptr = (void *)(range.base + packed.offset);
    return hipSuccess;
}

static bool hipcpu_range_unref(hipcpu_range_t *range, void *arg)
{
    --range->refs;
    *(unsigned *)arg = range->refs;
    return false;
}

hipError_t hipIpcCloseMemHandle(void *ptr)
{
    hipcpu_range_t range;
    unsigned refs = 0;

    HIPCPU_ENTER(hipIpcCloseMemHandle);
    if (!hipcpu_range_find((uintptr_t)ptr, &range)) {
        hipcpu_misuse("hipIpcCloseMemHandle(%p): unknown address", ptr);
    }
    if (range.kind != HIPCPU_IMPORTED) {
        hipcpu_misuse("hipIpcCloseMemHandle(%p): %s memory", ptr,
                      hipcpu_kind_name(range.kind));
    }

    if (range.refs == 1) {
        hipcpu_lines_check("hipIpcCloseMemHandle", range.base, range.size);
    }
    hipcpu_range_change(range.base, hipcpu_range_unref, &refs);
    if (refs == 0) {
        hipcpu_range_retire(&range);
    }
    --hipcpu_counts[HIPCPU_MAPPINGS];
    return hipSuccess;
}

/*
 * A dma-buf of this runtime is a memfd of the whole allocation. The newer call has
 * no way to tell an offset, so it takes only what begins where the allocation does.
 */
hipError_t hipMemGetHandleForAddressRange(void *handle, void *ptr, size_t size,
                                          int type, unsigned long long flags)
{
    hipcpu_range_t range;
    int fd;

    HIPCPU_ENTER(hipMemGetHandleForAddressRange);
    if (hipcpu_config.major < 7) {
        return hipcpu_result(hipErrorNotSupported);
    }
    if ((type != HIPCPU_DMABUF_FD) || (flags != 0) || (size == 0) ||
        !hipcpu_find_exportable(ptr, &range) || (range.base != (uintptr_t)ptr) ||
        (size > range.mapped)) {
        return hipcpu_result(hipErrorInvalidValue);
    }

    fd = fcntl(range.fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0) {
        return hipcpu_result(hipErrorUnknown);
    }
    memcpy(handle, &fd, sizeof(fd));
    return hipSuccess;
}

int hsa_amd_portable_export_dmabuf(const void *ptr, size_t size, int *fd,
                                   uint64_t *offset)
{
    hipcpu_range_t range;

    HIPCPU_ENTER(hsa_amd_portable_export_dmabuf);
    if ((size == 0) || (fd == NULL) || (offset == NULL)) {
        return HIPCPU_HSA_INVALID_ARG;
    }
    if (!hipcpu_find_exportable(ptr, &range) ||
        ((uintptr_t)ptr + size > range.base + range.mapped)) {
        return HIPCPU_HSA_INVALID_ALLOC;
    }

    *fd = fcntl(range.fd, F_DUPFD_CLOEXEC, 3);
    *offset = (uintptr_t)ptr - range.base;
    return (*fd < 0) ? HIPCPU_HSA_INVALID_ALLOC : 0;
}

int hsa_amd_portable_close_dmabuf(int fd)
{
    HIPCPU_ENTER(hsa_amd_portable_close_dmabuf);
    return (close(fd) == 0) ? 0 : HIPCPU_HSA_INVALID_ARG;
}
