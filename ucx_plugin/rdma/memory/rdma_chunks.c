/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/memory/rdma_chunks.h"

#include "base/muct_gpu.h"

#include <stdlib.h>

/* Append the allocation at @a address. @return Whether there is one, and memory for it.
 */
static bool muct_rdma_chunks_add(const muct_gpu_t *gpu, uint64_t address,
                                 muct_rdma_chunks_t *chunks)
{
    const void *ptr = (const void *)(uintptr_t)address;
    muct_rdma_chunk_t *list;
    muct_gpu_mem_info_t info;

    if (muct_gpu_query(gpu, ptr, &info) != UCS_OK) {
        return false;
    }

    list = realloc(chunks->list, (chunks->num + 1) * sizeof(*list));
    if (list == NULL) {
        return false;
    }

    chunks->list = list;
    list[chunks->num].end = info.base + info.length;
    list[chunks->num].id = muct_gpu_buffer_id(gpu, ptr);
    ++chunks->num;
    return list[chunks->num - 1].end > address;
}

void muct_rdma_chunks_read(uint64_t address, uint64_t length,
                           muct_rdma_chunks_t *chunks)
{
    const uint64_t end = address + length;
    const muct_gpu_t *gpu;

    *chunks = (muct_rdma_chunks_t){0};
    if (muct_gpu_get(&gpu) != UCS_OK) {
        return;
    }

    chunks->may_move = (gpu->hsa_pointer_info == NULL) ||
                       muct_gpu_is_vmm(gpu, (const void *)(uintptr_t)address);
    while ((address < end) && muct_rdma_chunks_add(gpu, address, chunks)) {
        address = chunks->list[chunks->num - 1].end;
    }
}

bool muct_rdma_chunks_differ(const muct_rdma_chunks_t *chunks, uint64_t address,
                             uint64_t length)
{
    const uint64_t end = address + length;
    const muct_gpu_t *gpu;
    uint64_t id;
    unsigned i;

    if ((chunks->num == 0) || (muct_gpu_get(&gpu) != UCS_OK)) {
        return false;
    }

    for (i = 0; (i < chunks->num) && (address < end); ++i) {
        if (chunks->list[i].end <= address) {
            continue;
        }
        id = muct_gpu_buffer_id(gpu, (const void *)(uintptr_t)address);
        if ((id != 0) && (chunks->list[i].id != 0) && (id != chunks->list[i].id)) {
            return true;
        }
        address = chunks->list[i].end;
    }

    return false;
}

void muct_rdma_chunks_cleanup(muct_rdma_chunks_t *chunks)
{
    free(chunks->list);
}
