/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Memory that the program maps itself, chunk by chunk, into addresses it has reserved,
 * as PyTorch's expandable segments are. By AMD's rules each chunk is an allocation of
 * its own: hipMemGetAddressRange() reports a single chunk, no IPC handle is made of it,
 * and a copy call does not go over the end of one. Kernels do.
 */

#include "hipcpu_impl.h"
#include "hipcpu_rules.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIPCPU_CHUNK_SIZE ((size_t)2 << 20)
#define HIPCPU_MAX_UNMAPPED 64

struct ihipMemGenericAllocationHandle {
    int fd;
    int device;
    size_t size;
    atomic_uint refs; /* the handle's, each mapping's, and those retained */
};

/* Where chunks were unmapped last. */
static _Atomic uintptr_t hipcpu_unmapped[HIPCPU_MAX_UNMAPPED];
static atomic_uint hipcpu_num_unmapped;


bool hipcpu_is_stale_map(uintptr_t address)
{
    hipcpu_range_t range;
    size_t i;

    if (!hipcpu_rule(HIPCPU_RULE_STALE_MAP) || !hipcpu_range_find(address, &range) ||
        (range.chunk == NULL)) {
        return false;
    }
    for (i = 0; i < HIPCPU_MAX_UNMAPPED; ++i) {
        if (hipcpu_unmapped[i] == range.base) {
            return true;
        }
    }
    return false;
}

static void hipcpu_chunk_put(hipMemGenericAllocationHandle_t chunk)
{
    if (atomic_fetch_sub(&chunk->refs, 1) == 1) {
        close(chunk->fd);
        free(chunk);
    }
}

static bool hipcpu_is_chunked(size_t size)
{
    return (size != 0) && (size % HIPCPU_CHUNK_SIZE == 0);
}

hipError_t hipMemGetAllocationGranularity(size_t *granularity,
                                          const hipMemAllocationProp *prop, int option)
{
    HIPCPU_ENTER(hipMemGetAllocationGranularity);
    (void)prop;
    (void)option;
    *granularity = HIPCPU_CHUNK_SIZE;
    return hipSuccess;
}

hipError_t hipMemAddressReserve(void **ptr, size_t size, size_t alignment, void *addr,
                                unsigned long long flags)
{
    void *place;

    HIPCPU_ENTER(hipMemAddressReserve);
    (void)alignment;
    (void)addr;
    if (!hipcpu_is_chunked(size) || (flags != 0)) {
        return hipcpu_result(hipErrorInvalidValue);
    }
    place =
        mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) {
        return hipcpu_result(hipErrorOutOfMemory);
    }
    *ptr = place;
    return hipSuccess;
}

hipError_t hipMemAddressFree(void *ptr, size_t size)
{
    HIPCPU_ENTER(hipMemAddressFree);
    if (hipcpu_range_overlaps((uintptr_t)ptr, size)) {
        hipcpu_misuse("hipMemAddressFree(%p, %zu): memory is mapped there", ptr, size);
    }
    return hipcpu_result((munmap(ptr, size) == 0) ? hipSuccess : hipErrorInvalidValue);
}

hipError_t hipMemCreate(hipMemGenericAllocationHandle_t *handle, size_t size,
                        const hipMemAllocationProp *prop, unsigned long long flags)
{
    hipMemGenericAllocationHandle_t chunk;

    HIPCPU_ENTER(hipMemCreate);
    if (!hipcpu_is_chunked(size) || (flags != 0) || (prop->location.id < 0) ||
        (prop->location.id >= hipcpu_config.num_devices)) {
        return hipcpu_result(hipErrorInvalidValue);
    }

    chunk = calloc(1, sizeof(*chunk));
    if (chunk == NULL) {
        return hipcpu_result(hipErrorOutOfMemory);
    }
    chunk->device = prop->location.id;
    chunk->size = size;
    atomic_init(&chunk->refs, 1);
    chunk->fd = memfd_create("hipcpu", MFD_CLOEXEC);
    if ((chunk->fd < 0) || (ftruncate(chunk->fd, (off_t)size) != 0)) {
        free(chunk);
        return hipcpu_result(hipErrorOutOfMemory);
    }
    *handle = chunk;
    return hipSuccess;
}

hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle)
{
    HIPCPU_ENTER(hipMemRelease);
    hipcpu_chunk_put(handle);
    return hipSuccess;
}

/* ROCr's VMemoryHandleMap() and VMemoryHandleUnmap() map GPU memory by the driver: they
 * make no call of libc that UCX could hook. The offset has all 64 bits, because
 * syscall() reads its last argument from the stack. */
static int hipcpu_vmm_remap(void *ptr, size_t size, int protection, int flags, int fd)
{
    return (syscall(SYS_mmap, ptr, size, protection, flags | MAP_FIXED, fd, (off_t)0) ==
            (long)(uintptr_t)ptr)
               ? 0
               : -1;
}

hipError_t hipMemMap(void *ptr, size_t size, size_t offset,
                     hipMemGenericAllocationHandle_t handle, unsigned long long flags)
{
    int protection = hipcpu_config.is_guarded ? PROT_NONE : (PROT_READ | PROT_WRITE);
    hipcpu_range_t range = {.base = (uintptr_t)ptr,
                            .size = size,
                            .mapped = size,
                            .shadow = ptr,
                            .kind = HIPCPU_DEVICE,
                            .device = handle->device,
                            .fd = handle->fd,
                            .chunk = handle};

    HIPCPU_ENTER(hipMemMap);
    if ((offset != 0) || (flags != 0) || (size != handle->size) ||
        hipcpu_range_overlaps(range.base, size) ||
        (hipcpu_vmm_remap(ptr, size, protection, MAP_SHARED, handle->fd) != 0)) {
        return hipcpu_result(hipErrorInvalidValue);
    }
    if (hipcpu_config.is_guarded) {
        range.shadow =
            mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, handle->fd, 0);
        if (range.shadow == MAP_FAILED) {
            hipcpu_misuse("mmap(length %zu) of a chunk failed", size);
        }
    }
    atomic_fetch_add(&handle->refs, 1);
    hipcpu_range_add(&range);
    return hipSuccess;
}

hipError_t hipMemSetAccess(void *ptr, size_t size, const hipMemAccessDesc *desc,
                           size_t count)
{
    HIPCPU_ENTER(hipMemSetAccess);
    (void)desc;
    (void)count;
    return hipcpu_result(hipcpu_range_overlaps((uintptr_t)ptr, size)
                             ? hipSuccess
                             : hipErrorInvalidValue);
}

static bool hipcpu_chunk_drop(hipcpu_range_t *range, void *arg)
{
    (void)range;
    (void)arg;
    return true;
}

hipError_t hipMemUnmap(void *ptr, size_t size)
{
    hipcpu_range_t range;

    HIPCPU_ENTER(hipMemUnmap);
    if (!hipcpu_range_find((uintptr_t)ptr, &range) || (range.chunk == NULL) ||
        (range.base != (uintptr_t)ptr) || (range.size != size)) {
        hipcpu_misuse("hipMemUnmap(%p, %zu): no chunk of that size is mapped there",
                      ptr, size);
    }

    hipcpu_lines_check("hipMemUnmap", range.base, range.size);
    hipcpu_late_land_all();
    hipcpu_range_change(range.base, hipcpu_chunk_drop, NULL);
    if (range.shadow != (char *)ptr) {
        munmap(range.shadow, size);
    }
    if (hipcpu_vmm_remap(ptr, size, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1) != 0) {
        hipcpu_misuse("mmap(length %zu) over a chunk failed", size);
    }
    hipcpu_chunk_put(range.chunk);
    hipcpu_unmapped[hipcpu_num_unmapped++ % HIPCPU_MAX_UNMAPPED] = range.base;
    return hipSuccess;
}

hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t *handle,
                                        void *addr)
{
    hipcpu_range_t range;

    HIPCPU_ENTER(hipMemRetainAllocationHandle);
    if (!hipcpu_range_find((uintptr_t)addr, &range) || (range.chunk == NULL)) {
        if (hipcpu_rule(HIPCPU_RULE_RETAIN_CRASH)) {
            hipcpu_misuse("hipMemRetainAllocationHandle(%p): ROCm 6.2 to 7.2 reads "
                          "through NULL unless hipMemMap() mapped the address",
                          addr);
        }
        return hipcpu_result(hipErrorInvalidValue);
    }
    if (!hipcpu_rule(HIPCPU_RULE_RETAIN_NO_REFERENCE)) {
        atomic_fetch_add(&range.chunk->refs, 1);
    }
    *handle = range.chunk;
    return hipSuccess;
}

/* ROCr 6 reports a mapped chunk as RESERVED_ADDR, ROCr 7 as HSA_VMEM, which pools of
 * hipMallocAsync() are there, too. */
static int hipcpu_hsa_type(const hipcpu_range_t *range)
{
    if (range->chunk != NULL) {
        return (hipcpu_config.major < 7) ? HIPCPU_HSA_POINTER_RESERVED
                                         : HIPCPU_HSA_POINTER_VMEM;
    }
    if ((range->pool != NULL) && (hipcpu_config.major >= 7)) {
        return HIPCPU_HSA_POINTER_VMEM;
    }
    if (range->kind == HIPCPU_IMPORTED) {
        return HIPCPU_HSA_POINTER_IPC;
    }
    return (range->kind == HIPCPU_REGISTERED) ? HIPCPU_HSA_POINTER_LOCKED
                                              : HIPCPU_HSA_POINTER_HSA;
}

int hsa_amd_pointer_info(const void *ptr, hsa_amd_pointer_info_t *info,
                         void *(*alloc)(size_t size), uint32_t *num_agents,
                         void **agents)
{
    hsa_amd_pointer_info_t found = {.size = info->size};
    hipcpu_range_t range;

    HIPCPU_ENTER(hsa_amd_pointer_info);
    if ((info->size == 0) || (info->size > sizeof(found)) || (alloc != NULL) ||
        (num_agents != NULL) || (agents != NULL)) {
        return HIPCPU_HSA_INVALID_ARG;
    }
    if (hipcpu_range_find((uintptr_t)ptr, &range) && (range.kind != HIPCPU_FREED)) {
        found.type = hipcpu_hsa_type(&range);
        found.agentBaseAddress = (void *)range.base;
        found.sizeInBytes = range.size;
    }
    memcpy(info, &found, found.size);
    return 0;
}
