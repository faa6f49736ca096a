/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Memory that the application maps itself, chunk by chunk. Nobody is asked about chunks
 * as long as what the runtime tells of one is enough.
 */

#include "base/muct_gpu.h"

bool muct_gpu_is_chunk(const muct_gpu_t *gpu, const void *ptr)
{
    void *handle;

    if ((gpu->mem_retain_allocation_handle == NULL) || (gpu->mem_release == NULL) ||
        (muct_gpu_forget(gpu, gpu->mem_retain_allocation_handle(
                                  &handle, (void *)ptr)) != MUCT_HIP_SUCCESS)) {
        return false;
    }

    (void)muct_gpu_forget(gpu, gpu->mem_release(handle));
    return true;
}

ucs_status_t muct_gpu_query_range(const muct_gpu_t *gpu, const void *ptr, size_t length,
                                  muct_gpu_mem_info_t *info)
{
    const uintptr_t end = (uintptr_t)ptr + length;
    muct_gpu_mem_info_t next;
    ucs_status_t status = muct_gpu_query(gpu, ptr, info);

    while ((status == UCS_OK) && (info->base + info->length < end) &&
           muct_gpu_is_chunk(gpu, (const void *)info->base) &&
           muct_gpu_is_chunk(gpu, (const void *)(info->base + info->length)) &&
           (muct_gpu_query(gpu, (const void *)(info->base + info->length), &next) ==
            UCS_OK) &&
           (next.base == info->base + info->length) && (next.device == info->device)) {
        info->length += next.length;
    }

    return status;
}

/* How many bytes from here on one call may copy; all where the runtime does not say. */
static size_t muct_gpu_room(const muct_gpu_t *gpu, const void *ptr, size_t length)
{
    muct_gpu_mem_info_t info;
    size_t room;

    if (!muct_gpu_is_chunk(gpu, ptr) || (muct_gpu_query(gpu, ptr, &info) != UCS_OK)) {
        return length;
    }

    room = info.base + info.length - (uintptr_t)ptr;
    return (room < length) ? room : length;
}

int muct_gpu_copy(const muct_gpu_t *gpu, void *dst, const void *src, size_t length,
                  muct_hip_stream_t stream)
{
    size_t done, part;
    int ret;

    ret = gpu->memcpy_async(dst, src, length, MUCT_HIP_MEMCPY_DEFAULT, stream);
    if (ret != MUCT_HIP_INVALID_VALUE) {
        return ret;
    }

    for (done = 0; done < length; done += part) {
        part = muct_gpu_room(gpu, (char *)dst + done, length - done);
        part = muct_gpu_room(gpu, (const char *)src + done, part);
        if (part == length) {
            return ret; /* it was refused for another reason */
        }
        (void)muct_gpu_forget(gpu, ret);
        ret = gpu->memcpy_async((char *)dst + done, (const char *)src + done, part,
                                MUCT_HIP_MEMCPY_DEFAULT, stream);
        if (ret != MUCT_HIP_SUCCESS) {
            break;
        }
    }

    return ret;
}
