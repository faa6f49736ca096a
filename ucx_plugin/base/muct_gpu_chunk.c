/* SPDX-License-Identifier: BSD-3-Clause */

/* Ranges that are more than one allocation of the runtime. */

#include "base/muct_gpu.h"

/* HSA_EXT_POINTER_TYPE_RESERVED_ADDR, which ROCr 6 reports for chunks as well */
#define MUCT_HSA_POINTER_RESERVED 5
/* HSA_EXT_POINTER_TYPE_HSA_VMEM, from ROCr 7 on */
#define MUCT_HSA_POINTER_VMEM 6


bool muct_gpu_is_vmm(const muct_gpu_t *gpu, const void *ptr)
{
    muct_hsa_pointer_info_t info = {.size = sizeof(info)};

    return (gpu->hsa_pointer_info != NULL) &&
           (gpu->hsa_pointer_info(ptr, &info, NULL, NULL, NULL) == 0) &&
           ((info.type == MUCT_HSA_POINTER_RESERVED) ||
            (info.type == MUCT_HSA_POINTER_VMEM));
}

/* A joined range is for local copies alone: hipIpcGetMemHandle() covers one allocation.
 */
ucs_status_t muct_gpu_query_range(const muct_gpu_t *gpu, const void *ptr, size_t length,
                                  muct_gpu_mem_info_t *info)
{
    const uintptr_t end = (uintptr_t)ptr + length;
    muct_gpu_mem_info_t next;
    ucs_status_t status = muct_gpu_query(gpu, ptr, info);
    uintptr_t bound;

    while (status == UCS_OK) {
        bound = info->base + info->length;
        if ((bound >= end) ||
            (muct_gpu_query(gpu, (const void *)bound, &next) != UCS_OK) ||
            (next.base != bound) || (next.device != info->device) ||
            (next.type != info->type)) {
            break;
        }
        info->length += next.length;
    }

    return status;
}

/* Bytes up to the end of the allocation; all of them when it is unknown. */
static size_t muct_gpu_room(const muct_gpu_t *gpu, const void *ptr, size_t length)
{
    muct_gpu_mem_info_t info;
    size_t room;

    if (muct_gpu_query(gpu, ptr, &info) != UCS_OK) {
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
            return ret; /* one allocation at each end: another reason */
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
