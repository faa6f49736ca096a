/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * libdrm and libdrm_amdgpu, as far as ROCr and CLR call them: played as functions, not
 * as ioctls of the render node, so that those two libraries are not under test.
 *
 * Signatures: amdgpu.h and xf86drm.h of libdrm 2.4, whose headers the build does not
 * need.
 */

#include "kfd_impl.h"

#include <drm/amdgpu_drm.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* declared by libdrm's headers, which the build does not need */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define KFD_EXPORT __attribute__((visibility("default")))

/* enum amdgpu_bo_handle_type */
#define KFD_HANDLE_KMS 1
#define KFD_HANDLE_DMA_BUF 2

typedef struct amdgpu_device {
    int fd;
    int gpu;
} *amdgpu_device_handle;

typedef struct amdgpu_bo {
    uint64_t handle;
    int gpu;
    void *cpu;
    uint64_t size;
} *amdgpu_bo_handle;

/* struct amdgpu_bo_import_result */
typedef struct kfd_bo_import_result {
    amdgpu_bo_handle bo;
    uint64_t size;
} kfd_bo_import_result_t;

/* struct amdgpu_bo_metadata */
typedef struct kfd_bo_metadata {
    uint64_t flags;
    uint64_t tiling;
    uint32_t size;
    uint32_t words[64];
} kfd_bo_metadata_t;

/* struct amdgpu_bo_info */
typedef struct kfd_bo_info {
    uint64_t alloc_size;
    uint64_t alignment;
    uint32_t heap;
    uint64_t alloc_flags;
    kfd_bo_metadata_t metadata;
} kfd_bo_info_t;

_Static_assert(sizeof(kfd_bo_metadata_t) <= KFD_BO_METADATA, "room for the metadata");

KFD_EXPORT int amdgpu_device_initialize(int fd, uint32_t *major, uint32_t *minor,
                                        amdgpu_device_handle *device_p)
{
    amdgpu_device_handle device;
    char path[32];
    int gpu;

    if (!kfd_is_render(fd, &gpu)) {
        return -EINVAL;
    }
    device = calloc(1, sizeof(*device));
    if (device == NULL) {
        return -ENOMEM;
    }
    /* libdrm duplicates the descriptor; the table of descriptors contains opened ones
     */
    snprintf(path, sizeof(path), "/dev/dri/renderD%d", KFD_FIRST_MINOR + gpu);
    device->gpu = gpu;
    device->fd = open(path, O_RDWR | O_CLOEXEC);
    *major = 3;
    *minor = 59;
    *device_p = device;
    return 0;
}

KFD_EXPORT int amdgpu_device_deinitialize(amdgpu_device_handle device)
{
    close(device->fd);
    free(device);
    return 0;
}

KFD_EXPORT int amdgpu_device_get_fd(amdgpu_device_handle device)
{
    return device->fd;
}

KFD_EXPORT const char *amdgpu_get_marketing_name(amdgpu_device_handle device)
{
    (void)device;
    return kfd_config()->model->marketing;
}

/* The head of struct amdgpu_gpu_info: asic_id, chip_rev, chip_external_rev, family_id.
 */
KFD_EXPORT int amdgpu_query_gpu_info(amdgpu_device_handle device, void *info)
{
    uint32_t head[4] = {kfd_config()->model->device_id, 0, 0, AMDGPU_FAMILY_AI};

    (void)device;
    memcpy(info, head, sizeof(head));
    return 0;
}

KFD_EXPORT int amdgpu_query_info(amdgpu_device_handle device, unsigned id,
                                 unsigned size, void *value)
{
    (void)device;
    if (id != AMDGPU_INFO_DEV_INFO) {
        kfd_refuse("amdgpu_query_info: query %#x is not played", id);
        return -EINVAL;
    }
    memset(value, 0,
           size); /* ROCr reads whether it is an APU, and the marketing name */
    return 0;
}

KFD_EXPORT int amdgpu_bo_import(amdgpu_device_handle device, int type, uint32_t shared,
                                kfd_bo_import_result_t *result)
{
    amdgpu_bo_handle bo;
    uint64_t handle;

    if (type != KFD_HANDLE_DMA_BUF) {
        kfd_refuse("amdgpu_bo_import: handles of type %d are not played", type);
        return -EINVAL;
    }
    if (kfd_bo_import((int)shared, device->gpu, 0, &handle)) {
        return -errno;
    }
    bo = calloc(1, sizeof(*bo));
    if (bo == NULL) {
        kfd_bo_drop(kfd_bo_find(handle));
        return -ENOMEM;
    }
    bo->handle = handle;
    bo->gpu = device->gpu;
    bo->size = kfd_bo_find(handle)->size;
    result->bo = bo;
    result->size = bo->size;
    return 0;
}

KFD_EXPORT int amdgpu_bo_export(amdgpu_bo_handle bo, int type, uint32_t *shared)
{
    int fd;

    switch (type) {
    case KFD_HANDLE_DMA_BUF:
        fd = fcntl(kfd_bo_find(bo->handle)->fd, F_DUPFD_CLOEXEC, 3);
        if (fd < 0) {
            return -errno;
        }
        *shared = (uint32_t)fd;
        return 0;
    case KFD_HANDLE_KMS:
        *shared = (uint32_t)bo->handle;
        return 0;
    }
    kfd_refuse("amdgpu_bo_export: handles of type %d are not played", type);
    return -EINVAL;
}

KFD_EXPORT int amdgpu_bo_cpu_map(amdgpu_bo_handle bo, void **cpu)
{
    bo->cpu = kfd_raw_mmap(NULL, bo->size, PROT_READ | PROT_WRITE, MAP_SHARED,
                           kfd_bo_find(bo->handle)->fd, 0);
    if (bo->cpu == MAP_FAILED) {
        bo->cpu = NULL;
        return -ENOMEM;
    }
    *cpu = bo->cpu;
    return 0;
}

KFD_EXPORT int amdgpu_bo_free(amdgpu_bo_handle bo)
{
    if (bo->cpu != NULL) {
        syscall(SYS_munmap, bo->cpu, bo->size);
    }
    kfd_bo_drop(kfd_bo_find(bo->handle));
    free(bo);
    return 0;
}

/* All importers of the memory see it: it lies behind the bytes of the memfd. */
KFD_EXPORT int amdgpu_bo_set_metadata(amdgpu_bo_handle bo, kfd_bo_metadata_t *metadata)
{
    kfd_bo_t *object = kfd_bo_find(bo->handle);

    return (pwrite(object->fd, metadata, sizeof(*metadata), (off_t)object->size) ==
            (ssize_t)sizeof(*metadata))
               ? 0
               : -EIO;
}

KFD_EXPORT int amdgpu_bo_query_info(amdgpu_bo_handle bo, kfd_bo_info_t *info)
{
    kfd_bo_t *object = kfd_bo_find(bo->handle);

    memset(info, 0, sizeof(*info));
    info->alloc_size = object->size;
    info->alignment = 4096;
    info->heap = (object->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) ? AMDGPU_GEM_DOMAIN_VRAM
                                                                : AMDGPU_GEM_DOMAIN_GTT;
    return (pread(object->fd, &info->metadata, sizeof(info->metadata),
                  (off_t)object->size) < 0)
               ? -EIO
               : 0;
}

/* A GPU's mapping; the process has the same one, as its GPUs are the process. */
static int kfd_va_map(amdgpu_bo_handle bo, uint64_t offset, uint64_t size, uint64_t va)
{
    kfd_bo_t *object = kfd_bo_find(bo->handle);

    if (((bo->cpu == NULL) || (va != (uint64_t)(uintptr_t)bo->cpu)) &&
        (kfd_raw_mmap((void *)(uintptr_t)va, size, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_FIXED, object->fd,
                      (off_t)offset) == MAP_FAILED)) {
        return -EINVAL;
    }
    kfd_map_change(va, size, (kfd_mask_t)1 << bo->gpu, 0);
    return 0;
}

/* The range stays reserved. */
static int kfd_va_unmap(amdgpu_bo_handle bo, uint64_t size, uint64_t va)
{
    kfd_map_change(va, size, 0, (kfd_mask_t)1 << bo->gpu);
    if (kfd_map_any(va, size)) {
        return 0; /* another GPU has it */
    }
    kfd_raw_mmap((void *)(uintptr_t)va, size, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return 0;
}

KFD_EXPORT int amdgpu_bo_va_op(amdgpu_bo_handle bo, uint64_t offset, uint64_t size,
                               uint64_t va, uint64_t flags, uint32_t operation)
{
    (void)flags;
    kfd_log(3, "amdgpu_bo_va_op %u of GPU %d: %#llx + %#llx", operation, bo->gpu,
            (unsigned long long)va, (unsigned long long)size);
    switch (operation) {
    case AMDGPU_VA_OP_MAP:
        return kfd_va_map(bo, offset, size, va);
    case AMDGPU_VA_OP_UNMAP:
        return kfd_va_unmap(bo, size, va);
    }
    kfd_refuse("amdgpu_bo_va_op: operation %u is not played", operation);
    return -EINVAL;
}

KFD_EXPORT int drmOpenRender(int minor)
{
    char path[32];

    snprintf(path, sizeof(path), "/dev/dri/renderD%d", minor);
    return open(path, O_RDWR | O_CLOEXEC);
}

KFD_EXPORT int drmClose(int fd)
{
    return close(fd);
}

KFD_EXPORT int drmCommandWriteRead(int fd, unsigned long index, void *data,
                                   unsigned long size)
{
    union drm_amdgpu_gem_mmap *gem = data;

    if ((index != DRM_AMDGPU_GEM_MMAP) || (size < sizeof(*gem))) {
        kfd_refuse("drmCommandWriteRead(%d): command %lu is not played", fd, index);
        return -ENOTTY;
    }
    gem->out.addr_ptr = kfd_mmap_offset(gem->in.handle);
    return 0;
}
