/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Buffer objects: a table of handles of this process. Their bytes are memfds, so that
 * another process can import them; a memfd's name contains its kind.
 *
 * The table's lock guards which entries are used. An entry belongs to the calls that
 * have its handle, which libhsakmt serializes.
 */

#include "kfd_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KFD_MAX_BOS 65536

/* Offsets for mmap(2): a handle, or a page that is not memory. */
#define KFD_HANDLE_SHIFT 40
#define KFD_DOORBELL_TAG (1ull << 61)
#define KFD_MMIO_TAG (1ull << 60)

static pthread_mutex_t kfd_bo_lock = PTHREAD_MUTEX_INITIALIZER;
static kfd_bo_t kfd_bos[KFD_MAX_BOS];
static unsigned kfd_bo_last;

void *kfd_raw_mmap(void *address, size_t length, int prot, int flags, int fd,
                   off_t offset)
{
    return (void *)syscall(SYS_mmap, address, length, prot, flags, fd, offset);
}

uint64_t kfd_mmap_offset(uint64_t handle)
{
    return handle << KFD_HANDLE_SHIFT;
}

uint64_t kfd_doorbell_offset(int gpu, unsigned queue)
{
    return KFD_DOORBELL_TAG | ((uint64_t)gpu << 20) | ((queue * 8ull) & 4095);
}

kfd_bo_t *kfd_bo_find(uint64_t handle)
{
    if ((handle == 0) || (handle >= KFD_MAX_BOS) || !kfd_bos[handle].used) {
        return NULL;
    }
    return &kfd_bos[handle];
}

/* Handles are reused late, so that the use of a freed one is detected. */
static kfd_bo_t *kfd_bo_new(uint64_t *handle)
{
    kfd_bo_t *bo = NULL;
    unsigned i;

    pthread_mutex_lock(&kfd_bo_lock);
    for (i = 0; (i < KFD_MAX_BOS) && (bo == NULL); ++i) {
        kfd_bo_last = (kfd_bo_last + 1) % KFD_MAX_BOS;
        if ((kfd_bo_last != 0) && !kfd_bos[kfd_bo_last].used) {
            bo = &kfd_bos[kfd_bo_last];
            *bo = (kfd_bo_t){.used = true, .fd = -1};
            *handle = kfd_bo_last;
        }
    }
    pthread_mutex_unlock(&kfd_bo_lock);
    return bo;
}

void kfd_bo_drop(kfd_bo_t *bo)
{
    if (bo->fd >= 0) {
        syscall(SYS_close, bo->fd);
        if ((bo->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) && !bo->is_import) {
            kfd_usage_give(bo->gpu, bo->size);
        }
    }
    bo->used = false;
}

/* VMM allocations come without an address, as a number that no user has. */
static bool kfd_is_user_va(uint64_t va)
{
    return (va >= 4096) && (va < (1ull << 47));
}

static int kfd_bo_memfd(uint64_t size, uint32_t gpu_id, uint32_t flags)
{
    char name[64];
    int fd;

    snprintf(name, sizeof(name), "kfdbo-%x-%x", gpu_id, flags);
    fd = memfd_create(name, MFD_CLOEXEC);
    if ((fd >= 0) && ftruncate(fd, (off_t)(size + KFD_BO_METADATA))) {
        syscall(SYS_close, fd);
        return -1;
    }
    return fd;
}

bool kfd_bo_identify(int fd, uint32_t *gpu_id, uint32_t *flags, uint64_t *size)
{
    char path[64], name[128];
    struct stat st;
    ssize_t length;

    /* /proc/self is empty once the first thread of the process has ended */
    snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", fd);
    length = syscall(SYS_readlink, path, name, sizeof(name) - 1);
    if (length <= 0) {
        return false;
    }
    name[length] = '\0';
    if ((sscanf(name, "/memfd:kfdbo-%x-%x", gpu_id, flags) != 2) || fstat(fd, &st)) {
        return false;
    }
    *size = (uint64_t)st.st_size - KFD_BO_METADATA;
    return true;
}

/* The process plays its own GPUs, so their memory is at the process's addresses. */
static bool kfd_bo_place(kfd_bo_t *bo, uint64_t va)
{
    if (!kfd_is_user_va(va)) {
        return true;
    }
    bo->va = va;
    kfd_map_change(va, bo->size, 0, ~(kfd_mask_t)0);
    return kfd_raw_mmap((void *)(uintptr_t)va, bo->size, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED, bo->fd, 0) != MAP_FAILED;
}

int kfd_bo_import(int fd, int gpu, uint64_t va, uint64_t *handle)
{
    uint32_t gpu_id, flags;
    uint64_t size;
    kfd_bo_t *bo;

    if (!kfd_bo_identify(fd, &gpu_id, &flags, &size)) {
        kfd_log(1, "fd %d is no buffer object of amdgpu", fd);
        return kfd_error(EINVAL);
    }
    bo = kfd_bo_new(handle);
    if (bo == NULL) {
        return kfd_error(ENOMEM);
    }
    bo->is_import = true;
    bo->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    bo->size = size;
    bo->gpu = gpu;
    bo->flags = flags;
    if ((bo->fd < 0) || !kfd_bo_place(bo, va)) {
        kfd_bo_drop(bo);
        return kfd_error(ENOMEM);
    }
    return 0;
}

static int kfd_alloc_bytes(kfd_bo_t *bo, struct kfd_ioctl_alloc_memory_of_gpu_args *a)
{
    bool is_vram = (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) != 0;

    /* amdgpu_amdkfd_reserve_mem_limit() */
    if (is_vram && !kfd_usage_take(bo->gpu, a->size)) {
        kfd_log(1, "GPU %d has %llu bytes of VRAM left, and %llu are needed", bo->gpu,
                (unsigned long long)kfd_usage_free(bo->gpu),
                (unsigned long long)a->size);
        bo->used = false;
        return kfd_error(ENOMEM);
    }
    bo->fd = kfd_bo_memfd(a->size, a->gpu_id, a->flags);
    if (bo->fd < 0) {
        if (is_vram) {
            kfd_usage_give(bo->gpu, a->size);
        }
        bo->used = false;
        return kfd_error(ENOMEM);
    }
    if (!kfd_bo_place(bo, a->va_addr)) {
        kfd_bo_drop(bo);
        return kfd_error(EINVAL);
    }
    a->mmap_offset = kfd_mmap_offset(a->handle);
    return 0;
}

int kfd_memory_alloc(void *arg)
{
    struct kfd_ioctl_alloc_memory_of_gpu_args *a = arg;
    int gpu = kfd_gpu_number(a->gpu_id);
    uint64_t handle;
    kfd_bo_t *bo;

    if ((gpu < 0) || (a->size == 0)) {
        return kfd_error(EINVAL);
    }
    if (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM) { /* gfx7 and gfx8 alone */
        kfd_refuse("ALLOC_MEMORY_OF_GPU: AQL_QUEUE_MEM is not played");
        return kfd_error(EINVAL);
    }
    bo = kfd_bo_new(&handle);
    if (bo == NULL) {
        return kfd_error(ENOMEM);
    }
    bo->size = a->size;
    bo->gpu = gpu;
    bo->flags = a->flags;
    a->handle = handle;
    if (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) {
        if (a->mmap_offset != a->va_addr) {
            kfd_refuse("ALLOC_MEMORY_OF_GPU: user pointer %#llx at GPU address %#llx "
                       "is not played: without the SVM API only",
                       (unsigned long long)a->mmap_offset,
                       (unsigned long long)a->va_addr);
            bo->used = false;
            return kfd_error(EINVAL);
        }
        bo->va = a->va_addr;
        return 0;
    }
    if (a->flags &
        (KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP)) {
        a->mmap_offset = KFD_MMIO_TAG;
        return 0;
    }
    return kfd_alloc_bytes(bo, a);
}

int kfd_memory_free(void *arg)
{
    kfd_bo_t *bo =
        kfd_bo_find(((struct kfd_ioctl_free_memory_of_gpu_args *)arg)->handle);

    if (bo == NULL) {
        return kfd_error(EINVAL);
    }
    if (bo->mapped != 0) { /* amdgpu_amdkfd_gpuvm_free_memory_of_gpu() */
        kfd_log(1, "FREE_MEMORY_OF_GPU: %#llx is still mapped to GPUs %#llx",
                (unsigned long long)bo->va, (unsigned long long)bo->mapped);
        return kfd_error(EBUSY);
    }
    kfd_bo_drop(bo);
    return 0;
}

static int kfd_gpus_of(uint64_t array, uint32_t count, kfd_mask_t *mask)
{
    const uint32_t *ids = (const uint32_t *)(uintptr_t)array;
    uint32_t i;
    int gpu;

    *mask = 0;
    for (i = 0; i < count; ++i) {
        gpu = kfd_gpu_number(ids[i]);
        if (gpu < 0) {
            return kfd_error(EINVAL);
        }
        *mask |= (kfd_mask_t)1 << gpu;
    }
    return (count == 0) ? kfd_error(EINVAL) : 0;
}

int kfd_memory_map(void *arg)
{
    struct kfd_ioctl_map_memory_to_gpu_args *a = arg;
    kfd_bo_t *bo = kfd_bo_find(a->handle);
    kfd_mask_t mask;

    if ((bo == NULL) || kfd_gpus_of(a->device_ids_array_ptr, a->n_devices, &mask) < 0) {
        return kfd_error(EINVAL);
    }
    bo->mapped |= mask;
    if (bo->va != 0) {
        kfd_map_change(bo->va, bo->size, mask, 0);
    }
    a->n_success = a->n_devices;
    return 0;
}

int kfd_memory_unmap(void *arg)
{
    struct kfd_ioctl_unmap_memory_from_gpu_args *a = arg;
    kfd_bo_t *bo = kfd_bo_find(a->handle);
    kfd_mask_t mask;

    if ((bo == NULL) || kfd_gpus_of(a->device_ids_array_ptr, a->n_devices, &mask) < 0) {
        return kfd_error(EINVAL);
    }
    bo->mapped &= ~mask;
    if (bo->va != 0) {
        kfd_map_change(bo->va, bo->size, 0, mask);
    }
    a->n_success = a->n_devices;
    return 0;
}

int kfd_memory_available(void *arg)
{
    struct kfd_ioctl_get_available_memory_args *a = arg;
    int gpu = kfd_gpu_number(a->gpu_id);

    if (gpu < 0) {
        return kfd_error(EINVAL);
    }
    a->available = kfd_usage_free(gpu);
    return 0;
}

/* A GPU without XNACK reaches the ranges that name it (svm_range_apply_attrs()). */
int kfd_memory_svm(void *arg)
{
    struct kfd_ioctl_svm_args *a = arg;
    kfd_mask_t set = 0, clear = 0;
    uint32_t i;
    int gpu;

    if (a->op != KFD_IOCTL_SVM_OP_SET_ATTR) {
        kfd_refuse("SVM: operation %u is not played", a->op);
        return kfd_error(EINVAL);
    }
    for (i = 0; i < a->nattr; ++i) {
        switch (a->attrs[i].type) {
        case KFD_IOCTL_SVM_ATTR_ACCESS:
        case KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE:
        case KFD_IOCTL_SVM_ATTR_NO_ACCESS:
            gpu = kfd_gpu_number(a->attrs[i].value);
            if (gpu < 0) {
                return kfd_error(EINVAL);
            }
            if (a->attrs[i].type == KFD_IOCTL_SVM_ATTR_NO_ACCESS) {
                clear |= (kfd_mask_t)1 << gpu;
            } else {
                set |= (kfd_mask_t)1 << gpu;
            }
            break;
        default: /* places, flags, granularity: the host's memory is the GPUs' */
            break;
        }
    }
    kfd_map_change(a->start_addr, a->size, set, clear);
    return 0;
}

void *kfd_memory_mmap(void *address, size_t length, int flags, off_t offset)
{
    uint64_t place = (uint64_t)offset;
    kfd_bo_t *bo;

    if (place & (KFD_DOORBELL_TAG | KFD_MMIO_TAG)) {
        /* doorbells are not read: the queues look at their write pointers */
        return kfd_next_mmap(address, length, PROT_READ | PROT_WRITE,
                             flags | MAP_ANONYMOUS, -1, 0);
    }
    bo = kfd_bo_find(place >> KFD_HANDLE_SHIFT);
    if ((bo == NULL) || (bo->fd < 0)) {
        kfd_refuse("mmap: offset %#llx is no buffer object", (unsigned long long)place);
        errno = EINVAL;
        return MAP_FAILED;
    }
    /* the GPUs look where the process may not */
    return kfd_next_mmap(address, length, PROT_READ | PROT_WRITE, flags, bo->fd,
                         (off_t)(place & ((1ull << KFD_HANDLE_SHIFT) - 1)));
}
