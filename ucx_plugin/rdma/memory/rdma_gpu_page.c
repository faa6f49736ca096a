/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/memory/rdma_gpu_page.h"

#include "base/muct_gpu.h"
#include "base/muct_log.h"
#include "rdma/memory/rdma_md_reg.h"

#include <string.h>

#define MUCT_RDMA_GPU_PAGE_SIZE 4096

void muct_rdma_gpu_pages_init(muct_rdma_gpu_pages_t *pages)
{
    memset(pages, 0, sizeof(*pages));
    pthread_mutex_init(&pages->lock, NULL);
}

static void muct_rdma_gpu_page_free(const muct_gpu_t *gpu, void *address)
{
    int mode = muct_gpu_relax(gpu);
    int ret = gpu->mem_free(address);

    muct_gpu_unrelax(gpu, mode);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_warn("hipFree(%p) failed: %s", address, muct_gpu_error_name(gpu, ret));
    }
}

void muct_rdma_gpu_pages_cleanup(muct_rdma_gpu_pages_t *pages)
{
    const muct_gpu_t *gpu;
    void *address;
    unsigned i;

    for (i = 0; i < MUCT_RDMA_KEY_NUM_GPUS; ++i) {
        if ((pages->mems[i] != NULL) && (muct_gpu_get(&gpu) == UCS_OK)) {
            address = (void *)(uintptr_t)pages->mems[i]->base;
            muct_rdma_mem_destroy(pages->mems[i]);
            muct_rdma_gpu_page_free(gpu, address);
        }
    }

    pthread_mutex_destroy(&pages->lock);
}

static void *muct_rdma_gpu_page_alloc(const muct_gpu_t *gpu, int number,
                                      ucs_log_level_t level)
{
    void *address = NULL;
    int mode, prev, ret;

    if (muct_gpu_push_device(gpu, number, &prev) != UCS_OK) {
        return NULL;
    }

    mode = muct_gpu_relax(gpu);
    ret = gpu->mem_alloc(&address, MUCT_RDMA_GPU_PAGE_SIZE);
    muct_gpu_unrelax(gpu, mode);
    muct_gpu_pop_device(gpu, number, prev);
    if (ret != MUCT_HIP_SUCCESS) {
        ucs_log(level,
                "hipMalloc(%d bytes on GPU %d, for peers to flush their writes) "
                "failed: %s; UCX_MORI_RDMA_GPU_FLUSH=n goes without",
                MUCT_RDMA_GPU_PAGE_SIZE, number, muct_gpu_error_name(gpu, ret));
        return NULL;
    }

    return address;
}

static ucs_status_t muct_rdma_gpu_page_create(muct_rdma_md_t *md, int number,
                                              bool is_quiet)
{
    muct_rdma_gpu_pages_t *pages = &md->gpu_pages;
    muct_rdma_mem_params_t params = {
        .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
        .chunk_shift = MUCT_RDMA_KEY_ONE_CHUNK,
        .is_gpu = true,
        .is_quiet = is_quiet,
        .dmabuf_fd = -1,
    };
    const muct_gpu_t *gpu;
    muct_rdma_mem_t *mem;
    ucs_status_t status;
    void *address;

    status = muct_gpu_get(&gpu);
    if (status != UCS_OK) {
        return status;
    }

    address = muct_rdma_gpu_page_alloc(
        gpu, number, is_quiet ? UCS_LOG_LEVEL_DEBUG : UCS_LOG_LEVEL_ERROR);
    if (address == NULL) {
        return UCS_ERR_NO_MEMORY;
    }

    status = muct_rdma_md_reg(md, address, MUCT_RDMA_GPU_PAGE_SIZE, &params, &mem);
    if (status != UCS_OK) {
        muct_rdma_gpu_page_free(gpu, address);
        return status;
    }

    pages->mems[number] = mem;
    pages->pages[number].address = mem->base;
    pages->pages[number].rkey = mem->mrs[0]->rkey;
    pages->pages[number].gpu = (uint8_t)number;
    return UCS_OK;
}

ucs_status_t muct_rdma_gpu_pages_get(muct_rdma_md_t *md, int gpu, bool is_quiet,
                                     const muct_rdma_gpu_page_t **page_p)
{
    muct_rdma_gpu_pages_t *pages = &md->gpu_pages;
    ucs_status_t status = UCS_OK;

    if ((gpu < 0) || (gpu >= MUCT_RDMA_KEY_NUM_GPUS)) {
        return UCS_ERR_UNSUPPORTED;
    }

    pthread_mutex_lock(&pages->lock);
    if (pages->mems[gpu] == NULL) {
        status = muct_rdma_gpu_page_create(md, gpu, is_quiet);
    }
    pthread_mutex_unlock(&pages->lock);

    if (status == UCS_OK) {
        *page_p = &pages->pages[gpu];
    }
    return status;
}
