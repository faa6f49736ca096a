/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Allocation, and the runtime's data about addresses.
 *
 * Device memory lies in a memfd of its own, so that other processes can map it. The
 * bytes between the end of an allocation and of its last page carry a pattern that is
 * checked when it is freed.
 */

#include "hipcpu_capture.h"
#include "hipcpu_impl.h"
#include "hipcpu_rules.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HIPCPU_TAIL_PATTERN 0xc5
#define HIPCPU_FREED_PATTERN 0xdb

static atomic_size_t hipcpu_used[HIPCPU_MAX_DEVICES];


static hipError_t hipcpu_alloc_on(void **ptr, size_t size, hipcpu_kind_t kind,
                                  unsigned flags, int device)
{
    hipcpu_range_t range = {
        .size = size, .kind = kind, .flags = flags, .device = device};

    *ptr = NULL;
    if (size == 0) {
        return hipSuccess;
    }
    if (hipcpu_config.num_devices == 0) {
        return hipErrorNoDevice;
    }

    range.mapped = (size + HIPCPU_PAGE_SIZE - 1) & ~(size_t)(HIPCPU_PAGE_SIZE - 1);
    if ((size > hipcpu_config.memory) ||
        (hipcpu_used[range.device] + range.mapped > hipcpu_config.memory)) {
        return hipErrorOutOfMemory;
    }
    range.fd = memfd_create("hipcpu", MFD_CLOEXEC);
    if (range.fd < 0) {
        return hipErrorOutOfMemory;
    }
    if ((ftruncate(range.fd, (off_t)range.mapped) != 0) ||
        !hipcpu_range_map(&range, range.fd)) {
        close(range.fd);
        return hipErrorOutOfMemory;
    }

    memset(range.shadow + size, HIPCPU_TAIL_PATTERN, range.mapped - size);
    hipcpu_used[range.device] += range.mapped;
    hipcpu_range_add(&range);
    ++hipcpu_counts[HIPCPU_ALLOCATIONS];
    *ptr = (void *)range.base;
    return hipSuccess;
}

static hipError_t hipcpu_alloc(void **ptr, size_t size, hipcpu_kind_t kind,
                               unsigned flags)
{
    return hipcpu_alloc_on(ptr, size, kind, flags, hipcpu_device_current());
}

hipError_t hipcpu_memory_alloc(void **ptr, size_t size, int device)
{
    return hipcpu_alloc_on(ptr, size, HIPCPU_DEVICE, 0, device);
}

hipError_t hipMalloc(void **ptr, size_t size)
{
    HIPCPU_ENTER(hipMalloc);
    HIPCPU_CAPTURE(HIPCPU_RULE_CAPTURE_ALLOC, NULL);
    return hipcpu_result(hipcpu_alloc(ptr, size, HIPCPU_DEVICE, 0));
}

hipError_t hipExtMallocWithFlags(void **ptr, size_t size, unsigned flags)
{
    HIPCPU_ENTER(hipExtMallocWithFlags);
    HIPCPU_CAPTURE(HIPCPU_RULE_CAPTURE_ALLOC, NULL);
    return hipcpu_result(hipcpu_alloc(ptr, size, HIPCPU_DEVICE, flags));
}

hipError_t hipMallocManaged(void **ptr, size_t size, unsigned flags)
{
    HIPCPU_ENTER(hipMallocManaged);
    HIPCPU_CAPTURE(HIPCPU_RULE_CAPTURE_ALLOC, NULL);
    return hipcpu_result(hipcpu_alloc(ptr, size, HIPCPU_MANAGED, flags));
}

static void hipcpu_check_tail(const char *function, const hipcpu_range_t *range)
{
    size_t i;

    for (i = range->size; i < range->mapped; ++i) {
        if ((unsigned char)range->shadow[i] != HIPCPU_TAIL_PATTERN) {
            hipcpu_misuse("%s(%p): somebody wrote at offset %zu of %zu bytes", function,
                          (void *)range->base, i, range->size);
        }
    }
}

/* A process that still maps freed memory reads the data that the next owner left there.
 */
static void hipcpu_overwrite(const hipcpu_range_t *range)
{
    off_t data = lseek(range->fd, 0, SEEK_DATA);
    off_t hole;

    while (data >= 0) {
        hole = lseek(range->fd, data, SEEK_HOLE);
        memset(range->shadow + data, HIPCPU_FREED_PATTERN, (size_t)(hole - data));
        data = lseek(range->fd, hole, SEEK_DATA);
    }
}

static void hipcpu_find_base(const char *function, const void *ptr,
                             hipcpu_range_t *range)
{
    if (!hipcpu_range_find((uintptr_t)ptr, range)) {
        hipcpu_misuse("%s(%p): unknown address", function, ptr);
    }
    if ((range->kind == HIPCPU_FREED) || range->is_kept) {
        hipcpu_misuse("%s(%p): freed or closed before", function, ptr);
    }
    if (range->base != (uintptr_t)ptr) {
        hipcpu_misuse("%s(%p): inside the allocation at %p", function, ptr,
                      (void *)range->base);
    }
}

void hipcpu_memory_release(hipcpu_range_t *range)
{
    if (range->is_exported) {
        hipcpu_overwrite(range);
    }
    close(range->fd);
    if (!range->is_exported || !hipcpu_rule(HIPCPU_RULE_EXPORT_LEAKS)) {
        hipcpu_used[range->device] -= range->mapped;
    }
    hipcpu_range_retire(range);
}

hipError_t hipFree(void *ptr)
{
    hipcpu_range_t range;

    HIPCPU_ENTER(hipFree);
    HIPCPU_CAPTURE(HIPCPU_RULE_CAPTURE_ALLOC, NULL);
    if (ptr == NULL) {
        return hipSuccess;
    }
    /* up to ROCm 6 it closes memory that was opened (clr, roc::Device::svmFree) */
    if ((hipcpu_config.major < 7) && hipcpu_range_find((uintptr_t)ptr, &range) &&
        (range.kind == HIPCPU_IMPORTED) && (range.opened == (uintptr_t)ptr)) {
        hipcpu_ipc_close("hipFree", &range);
        return hipSuccess;
    }
    hipcpu_find_base("hipFree", ptr, &range);
    if ((range.kind != HIPCPU_DEVICE) && (range.kind != HIPCPU_MANAGED)) {
        hipcpu_misuse("hipFree(%p): %s memory", ptr, hipcpu_kind_name(range.kind));
    }

    hipcpu_lines_drain(-1);
    hipcpu_check_tail("hipFree", &range);
    --hipcpu_counts[HIPCPU_ALLOCATIONS];
    if (range.pool != NULL) {
        hipcpu_pool_keep(&range);
    } else {
        hipcpu_memory_release(&range);
    }
    return hipSuccess;
}

hipError_t hipHostMalloc(void **ptr, size_t size, unsigned flags)
{
    hipcpu_range_t range = {.size = size, .kind = HIPCPU_PINNED, .fd = -1};
    void *addr;

    HIPCPU_ENTER(hipHostMalloc);
    HIPCPU_CAPTURE(HIPCPU_RULE_CAPTURE_ALLOC, NULL);
    *ptr = NULL;
    if (size == 0) {
        return hipSuccess;
    }

    range.mapped = (size + HIPCPU_PAGE_SIZE - 1) & ~(size_t)(HIPCPU_PAGE_SIZE - 1);
    addr = mmap(NULL, range.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                -1, 0);
    if (addr == MAP_FAILED) {
        return hipcpu_result(hipErrorOutOfMemory);
    }

    range.base = (uintptr_t)addr;
    range.shadow = addr;
    range.flags = flags;
    range.device = hipcpu_device_current();
    memset(range.shadow + size, HIPCPU_TAIL_PATTERN, range.mapped - size);
    hipcpu_range_add(&range);
    ++hipcpu_counts[HIPCPU_HOST_MEMORY];
    *ptr = addr;
    return hipSuccess;
}

hipError_t hipHostAlloc(void **ptr, size_t size, unsigned flags)
{
    HIPCPU_ENTER(hipHostAlloc);
    return hipHostMalloc(ptr, size, flags);
}

hipError_t hipHostFree(void *ptr)
{
    hipcpu_range_t range;

    HIPCPU_ENTER(hipHostFree);
    if (ptr == NULL) {
        return hipSuccess;
    }
    HIPCPU_CAPTURE(HIPCPU_RULE_CAPTURE_ALLOC, NULL);
    hipcpu_find_base("hipHostFree", ptr, &range);
    if (range.kind != HIPCPU_PINNED) {
        hipcpu_misuse("hipHostFree(%p): %s memory", ptr, hipcpu_kind_name(range.kind));
    }
    hipcpu_lines_drain(-1);
    hipcpu_check_tail("hipHostFree", &range);
    hipcpu_range_retire(&range);
    --hipcpu_counts[HIPCPU_HOST_MEMORY];
    return hipSuccess;
}

static bool hipcpu_range_find_live(const void *ptr, hipcpu_range_t *range)
{
    return hipcpu_range_find((uintptr_t)ptr, range) && (range->kind != HIPCPU_FREED) &&
           ((uintptr_t)ptr < range->base + range->size);
}

hipError_t hipHostRegister(void *ptr, size_t size, unsigned flags)
{
    hipcpu_range_t range;

    HIPCPU_ENTER(hipHostRegister);
    if ((ptr == NULL) || (size == 0)) {
        return hipcpu_result(hipErrorInvalidValue);
    }

    HIPCPU_CAPTURE(HIPCPU_RULE_CAPTURE_ALLOC, NULL);
    if (hipcpu_range_find_live(ptr, &range)) {
        /* the runtimes accept a second registration and do not count it */
        return hipcpu_result((range.kind == HIPCPU_REGISTERED) ? hipSuccess
                                                               : hipErrorInvalidValue);
    }
    if (hipcpu_range_overlaps((uintptr_t)ptr, size)) {
        return hipcpu_result(hipErrorInvalidValue);
    }

    range = (hipcpu_range_t){.base = (uintptr_t)ptr,
                             .size = size,
                             .mapped = size,
                             .shadow = ptr,
                             .kind = HIPCPU_REGISTERED,
                             .device = hipcpu_device_current(),
                             .fd = -1,
                             .flags = flags};
    hipcpu_range_add(&range);
    ++hipcpu_counts[HIPCPU_HOST_MEMORY];
    return hipSuccess;
}

static bool hipcpu_range_drop(hipcpu_range_t *range, void *arg)
{
    (void)range;
    (void)arg;
    return true;
}

hipError_t hipHostUnregister(void *ptr)
{
    hipcpu_range_t range;

    HIPCPU_ENTER(hipHostUnregister);
    HIPCPU_CAPTURE(HIPCPU_RULE_CAPTURE_ALLOC, NULL);
    hipcpu_find_base("hipHostUnregister", ptr, &range);
    if (range.kind != HIPCPU_REGISTERED) {
        hipcpu_misuse("hipHostUnregister(%p): %s memory", ptr,
                      hipcpu_kind_name(range.kind));
    }
    hipcpu_lines_check("hipHostUnregister", range.base, range.size);
    hipcpu_late_land_all();
    hipcpu_range_change(range.base, hipcpu_range_drop, NULL);
    --hipcpu_counts[HIPCPU_HOST_MEMORY];
    return hipSuccess;
}

hipError_t hipHostGetDevicePointer(void **device_ptr, void *host_ptr, unsigned flags)
{
    hipcpu_range_t range;

    HIPCPU_ENTER(hipHostGetDevicePointer);
    if ((flags != 0) || !hipcpu_range_find((uintptr_t)host_ptr, &range) ||
        ((range.kind != HIPCPU_PINNED) && (range.kind != HIPCPU_REGISTERED))) {
        return hipcpu_result(hipErrorInvalidValue);
    }
    *device_ptr = host_ptr;
    return hipSuccess;
}

hipError_t hipMemGetInfo(size_t *available, size_t *total)
{
    HIPCPU_ENTER(hipMemGetInfo);
    *total = hipcpu_config.memory;
    *available = hipcpu_config.memory - hipcpu_used[hipcpu_device_current()];
    return hipSuccess;
}

hipError_t hipMemGetAddressRange(void **base, size_t *size, void *ptr)
{
    hipcpu_range_t range;

    HIPCPU_ENTER(hipMemGetAddressRange);
    if (!hipcpu_range_find_live(ptr, &range)) {
        return hipcpu_result(hipErrorNotFound);
    }
    if (base != NULL) {
        *base = (void *)range.base;
    }
    if (size != NULL) {
        *size = range.size;
    }
    return hipSuccess;
}

hipError_t hipMemPtrGetInfo(void *ptr, size_t *size)
{
    HIPCPU_ENTER(hipMemPtrGetInfo);
    return hipMemGetAddressRange(NULL, size, ptr);
}

static int hipcpu_memory_type(hipcpu_kind_t kind)
{
    static const int types[][2] = {
        [HIPCPU_DEVICE] = {HIPCPU_V5_MEMORY_DEVICE, HIPCPU_V6_MEMORY_DEVICE},
        [HIPCPU_MANAGED] = {HIPCPU_V5_MEMORY_MANAGED, HIPCPU_V6_MEMORY_MANAGED},
        [HIPCPU_PINNED] = {HIPCPU_V5_MEMORY_HOST, HIPCPU_V6_MEMORY_HOST},
        [HIPCPU_REGISTERED] = {HIPCPU_V5_MEMORY_HOST, HIPCPU_V6_MEMORY_HOST},
        [HIPCPU_IMPORTED] = {HIPCPU_V5_MEMORY_DEVICE, HIPCPU_V6_MEMORY_DEVICE},
    };

    return types[kind][hipcpu_config.major >= 6];
}

/* hipInvalidDeviceId */
#define HIPCPU_NO_DEVICE (-2)

hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *ptr)
{
    hipcpu_range_t range;

    HIPCPU_ENTER(hipPointerGetAttributes);
    memset(attributes, 0, sizeof(*attributes));
    if (!hipcpu_range_find_live(ptr, &range)) {
        if (hipcpu_config.major < 6) {
            return hipcpu_result(hipErrorInvalidValue);
        }
        attributes->type = HIPCPU_V6_MEMORY_UNREGISTERED;
        attributes->device = HIPCPU_NO_DEVICE;
        /* up to 6.4 the call returns an error for a null pointer */
        return hipcpu_result(((ptr == NULL) && (hipcpu_config.major < 7))
                                 ? hipErrorInvalidValue
                                 : hipSuccess);
    }

    attributes->type = hipcpu_memory_type(range.kind);
    attributes->device = range.device;
    attributes->devicePointer = (void *)(uintptr_t)ptr;
    attributes->isManaged = (range.kind == HIPCPU_MANAGED);
    attributes->allocationFlags = range.flags;
    if ((range.kind != HIPCPU_DEVICE) && (range.kind != HIPCPU_IMPORTED)) {
        attributes->hostPointer = (void *)(uintptr_t)ptr;
    }
    return hipSuccess;
}

/* The attributes of hipPointerGetAttribute() other than the buffer's number. */
static hipError_t hipcpu_range_attribute(void *data, int attribute,
                                         const hipcpu_range_t *range)
{
    int type = hipcpu_memory_type(range->kind);

    switch (attribute) {
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE:
        memcpy(data, &type, sizeof(type));
        return hipSuccess;
    case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        memcpy(data, &range->base, sizeof(range->base));
        return hipSuccess;
    case HIP_POINTER_ATTRIBUTE_RANGE_SIZE:
        memcpy(data, &range->size, sizeof(range->size));
        return hipSuccess;
    case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        memcpy(data, &range->device, sizeof(range->device));
        return hipSuccess;
    }
    return hipcpu_result(hipErrorInvalidValue);
}

/* AMD's runtime writes 32 bits. */
hipError_t hipPointerGetAttribute(void *data, int attribute, hipDeviceptr_t ptr)
{
    hipcpu_range_t range;

    HIPCPU_ENTER(hipPointerGetAttribute);
    if (!hipcpu_range_find_live(ptr, &range)) {
        return hipcpu_result(hipErrorInvalidValue);
    }
    if (attribute != HIP_POINTER_ATTRIBUTE_BUFFER_ID) {
        return hipcpu_range_attribute(data, attribute, &range);
    }
    if (hipcpu_rule(HIPCPU_RULE_BUFFER_ID_AGAIN)) {
        range.id = 1;
    }
    memcpy(data, &range.id, sizeof(range.id));
    return hipSuccess;
}
