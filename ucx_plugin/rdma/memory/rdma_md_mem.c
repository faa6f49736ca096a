/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The memory domain's operations on memory: registration, packed keys, flush pages.
 */

#include "rdma/memory/rdma_md.h"

#include "base/muct_gpu.h"
#include "base/muct_lock.h"
#include "base/muct_log.h"
#include "rdma/memory/rdma_md_reg.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MUCT_RDMA_FLUSH_PAGE 4096

/* For GPU memory, find the page that peers read to flush their writes. */
static ucs_status_t muct_rdma_md_find_page(muct_rdma_md_t *md, const void *address,
                                           muct_rdma_mem_params_t *params)
{
    muct_gpu_mem_info_t info = {.device = -1};
    const muct_gpu_t *gpu;
    ucs_status_t status;

    if (muct_gpu_get(&gpu) == UCS_OK) {
        status = muct_gpu_query(gpu, address, &info);
        params->is_gpu |= (status == UCS_OK);
        if ((status != UCS_OK) && (gpu->num_devices == 1)) {
            info.device = 0;
        }
    }

    if (!params->is_gpu || !md->has_gpu_flush) {
        return UCS_OK;
    }

    status = muct_rdma_gpu_pages_get(md, info.device, params->is_quiet, &params->page);
    if (status == UCS_ERR_UNSUPPORTED) {
        ucs_log(params->is_quiet ? UCS_LOG_LEVEL_DEBUG : UCS_LOG_LEVEL_ERROR,
                "GPU memory %p: the runtime reports GPU %d, expected 0 to %d, so "
                "peers could not flush their writes to it; UCX_MORI_RDMA_GPU_FLUSH=n "
                "goes without",
                address, info.device, MUCT_RDMA_KEY_NUM_GPUS - 1);
    }

    return status;
}

/* Whether UCP may use other transports for memory that this device refused: GPU memory
 * without a dma-buf or of several chunks, or memory for which the device has no page
 * table entries or keys left. A mistake of the caller or a limit of the process remains
 * an error. */
static bool muct_rdma_md_may_be_bare(const muct_rdma_mem_params_t *params,
                                     ucs_status_t status, int error)
{
    return (status == UCS_ERR_UNSUPPORTED) ||
           ((status == UCS_ERR_IO_ERROR) && (error != EIO) && (error != ENODEV) &&
            (params->is_gpu || (error == EINVAL) ||
             ((error == ENOMEM) && muct_rdma_mr_may_lock())));
}

static void muct_rdma_md_warn_bare(muct_rdma_md_t *md, const void *address,
                                   size_t length, bool is_gpu)
{
    ucs_log(
        md->has_logged_bare ? UCS_LOG_LEVEL_DEBUG : UCS_LOG_LEVEL_WARN,
        "%s: %s memory %p length %zu has no key with this device, which refused it: "
        "peers reach it by messages or other transports, slower, and puts and gets "
        "from it over this device fail%s",
        md->device.name, is_gpu ? "GPU" : "host", address, length,
        is_gpu ? "; memory of expandable segments: PYTORCH_CUDA_ALLOC_CONF="
                 "expandable_segments:False; of hipMallocAsync(): use hipMalloc()"
               : "");
    md->has_logged_bare = true;
}

/* A caller that hides errors continues without a handle. */
static ucs_status_t muct_rdma_md_reg_bare(muct_rdma_md_t *md, void *address,
                                          size_t length,
                                          const muct_rdma_mem_params_t *params,
                                          ucs_status_t status, muct_rdma_mem_t **mem_p)
{
    if (params->is_gpu || !params->is_quiet) {
        muct_rdma_md_warn_bare(md, address, length, params->is_gpu);
    }

    return params->is_quiet ? status
                            : muct_rdma_mem_create_bare(md->pd, address, mem_p);
}

/* Atomics of peers to this memory will fail. */
static void muct_rdma_md_warn_atomics(muct_rdma_md_t *md, const muct_rdma_mem_t *mem)
{
    if ((mem->num > 0) && (md->access & ~mem->access & IBV_ACCESS_REMOTE_ATOMIC) &&
        !md->has_logged_atomics) {
        md->has_logged_atomics = true;
        muct_warn("%s: memory 0x%" PRIx64 " length %" PRIu64
                  " was refused for atomics and is registered without them; unset "
                  "UCX_MORI_RDMA_ATOMICS unless the program uses atomics",
                  md->device.name, mem->base, mem->length);
    }
}

static void muct_rdma_md_fill_params(const muct_rdma_md_t *md,
                                     muct_rdma_mem_params_t *params)
{
    params->access = md->access;
    params->chunk_shift = md->chunk_shift;
    params->try_shift = md->try_shift;
    params->max_chunks = md->num_rkeys;
    params->dmabuf_fd = -1;
    params->has_canary =
        (md->dmabuf_canary == UCS_YES) ||
        ((md->dmabuf_canary == UCS_TRY) && ucs_log_is_enabled(UCS_LOG_LEVEL_DEBUG));
}

static ucs_status_t muct_rdma_md_renew(muct_rdma_md_t *md, muct_rdma_mem_t *mem)
{
    muct_rdma_mem_params_t params = {.is_gpu = true};
    void *address = (void *)(uintptr_t)mem->base;
    muct_rdma_mem_t *fresh;
    ucs_status_t status;

    muct_rdma_md_fill_params(md, &params);
    status = muct_rdma_md_find_page(md, address, &params);
    if (status == UCS_OK) {
        status = muct_rdma_md_reg(md, address, mem->length, &params, &fresh);
    }
    if (status != UCS_OK) {
        return status;
    }

    muct_rdma_mem_read_chunks(fresh);
    status = muct_rdma_mem_replace(mem, fresh);
    if (status != UCS_OK) {
        muct_error("%s: GPU memory %p length %" PRIu64
                   " was remapped and needs more keys than before: unmap and map it "
                   "with UCP",
                   md->device.name, address, mem->length);
        muct_rdma_mem_destroy(fresh);
    }

    return status;
}

static pthread_mutex_t muct_rdma_md_renew_lock = PTHREAD_MUTEX_INITIALIZER;
MUCT_FREE_IN_CHILD(muct_rdma_md_renew_lock, &muct_rdma_md_renew_lock)

ucs_status_t muct_rdma_md_renew_changed(muct_rdma_md_t *md, muct_rdma_mem_t *mem,
                                        const void *address, size_t length)
{
    ucs_status_t status = UCS_OK;

    /* workers of several threads share a region */
    pthread_mutex_lock(&muct_rdma_md_renew_lock);
    if (muct_rdma_chunks_differ(&mem->chunks, (uintptr_t)address, length)) {
        status = muct_rdma_md_renew(md, mem);
    }
    pthread_mutex_unlock(&muct_rdma_md_renew_lock);
    return status;
}

ucs_status_t muct_rdma_md_mem_reg(uct_md_h uct_md, void *address, size_t length,
                                  const uct_md_mem_reg_params_t *params,
                                  uct_mem_h *memh_p)
{
    muct_rdma_md_t *md = (muct_rdma_md_t *)uct_md;
    uint64_t flags = MUCT_PARAM(UCT_MD_MEM_REG_FIELD, params, flags, FLAGS, 0);
    ucs_memory_type_t type = MUCT_PARAM(UCT_MD_MEM_REG_FIELD, params, mem_type,
                                        MEM_TYPE, UCS_MEMORY_TYPE_UNKNOWN);
    muct_rdma_mem_params_t mem_params = {
        .is_quiet = (flags & UCT_MD_MEM_FLAG_HIDE_ERRORS) != 0,
        .is_gpu =
            (type == UCS_MEMORY_TYPE_ROCM) || (type == UCS_MEMORY_TYPE_ROCM_MANAGED),
    };
    muct_rdma_mem_t *mem = NULL;
    ucs_status_t status = UCS_OK;

    muct_rdma_md_fill_params(md, &mem_params);
    mem_params.dmabuf_fd =
        MUCT_PARAM(UCT_MD_MEM_REG_FIELD, params, dmabuf_fd, DMABUF_FD, -1);
    mem_params.dmabuf_offset =
        MUCT_PARAM(UCT_MD_MEM_REG_FIELD, params, dmabuf_offset, DMABUF_OFFSET, 0);
    if (type != UCS_MEMORY_TYPE_HOST) {
        status = muct_rdma_md_find_page(md, address, &mem_params);
    }
    if (status != UCS_OK) {
        return status;
    }

    errno = 0;
    status = muct_rdma_md_reg(md, address, length, &mem_params, &mem);
    if (muct_rdma_md_may_be_bare(&mem_params, status, errno)) {
        status = muct_rdma_md_reg_bare(md, address, length, &mem_params, status, &mem);
    }
    if (status != UCS_OK) {
        return status;
    }

    muct_rdma_md_warn_atomics(md, mem);
    if (mem_params.is_gpu) {
        muct_rdma_mem_read_chunks(mem);
    }
    *memh_p = mem;
    return UCS_OK;
}

static ucs_status_t muct_rdma_md_create_flush_page(muct_rdma_md_t *md)
{
    const muct_rdma_mem_params_t params = {
        .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                  IBV_ACCESS_REMOTE_WRITE, /* peers read it to flush, and write it
                                            behind a get by messages */
        .chunk_shift = MUCT_RDMA_KEY_ONE_CHUNK,
        .dmabuf_fd = -1,
    };
    ucs_status_t status;

    if (posix_memalign(&md->flush_page, MUCT_RDMA_FLUSH_PAGE, MUCT_RDMA_FLUSH_PAGE) !=
        0) {
        muct_error("failed to allocate a page");
        return UCS_ERR_NO_MEMORY;
    }

    memset(md->flush_page, 0, MUCT_RDMA_FLUSH_PAGE);
    status = muct_rdma_mem_create(md->pd, md->flush_page, MUCT_RDMA_FLUSH_PAGE, &params,
                                  &md->flush_mem);
    if (status != UCS_OK) {
        free(md->flush_page);
    }

    return status;
}

ucs_status_t muct_rdma_md_get_flush_page(muct_rdma_md_t *md, muct_rdma_mem_t **mem_p)
{
    ucs_status_t status = UCS_OK;

    pthread_mutex_lock(&md->gpu_pages.lock);
    if (md->flush_mem == NULL) {
        status = muct_rdma_md_create_flush_page(md);
    }
    *mem_p = md->flush_mem;
    pthread_mutex_unlock(&md->gpu_pages.lock);
    return status;
}

ucs_status_t muct_rdma_md_mem_dereg(uct_md_h uct_md,
                                    const uct_md_mem_dereg_params_t *params)
{
    unsigned flags = MUCT_PARAM(UCT_MD_MEM_DEREG_FIELD, params, flags, FLAGS, 0);
    muct_rdma_mem_t *mem = MUCT_PARAM(UCT_MD_MEM_DEREG_FIELD, params, memh, MEMH, NULL);
    uct_completion_t *comp =
        MUCT_PARAM(UCT_MD_MEM_DEREG_FIELD, params, comp, COMPLETION, NULL);
    bool is_invalidating = !!(flags & UCT_MD_MEM_DEREG_FLAG_INVALIDATE);

    (void)uct_md;
    if ((mem == NULL) ||
        (is_invalidating && ((comp == NULL) || !mem->may_invalidate))) {
        return UCS_ERR_INVALID_PARAM;
    }

    /* each region has its own keys, which the device rejects after this call */
    muct_rdma_mem_destroy(mem);
    if (is_invalidating) {
        muct_completion_invoke(comp, UCS_OK);
    }

    return UCS_OK;
}

ucs_status_t muct_rdma_md_mkey_pack(uct_md_h uct_md, uct_mem_h memh, void *address,
                                    size_t length,
                                    const uct_md_mkey_pack_params_t *params,
                                    void *buffer)
{
    muct_rdma_md_t *md = (muct_rdma_md_t *)uct_md;
    unsigned flags = MUCT_PARAM(UCT_MD_MKEY_PACK_FIELD, params, flags, FLAGS, 0);
    muct_rdma_mem_t *mem = memh;
    ucs_status_t status;
    muct_rdma_key_t key;

    (void)address;
    (void)length;
    if (flags & UCT_MD_MKEY_PACK_FLAG_EXPORT) {
        return UCS_ERR_UNSUPPORTED;
    }

    mem->may_invalidate |= !!(flags & (UCT_MD_MKEY_PACK_FLAG_INVALIDATE_RMA |
                                       UCT_MD_MKEY_PACK_FLAG_INVALIDATE_AMO));

    if (mem->is_gpu) {
        status = muct_rdma_md_renew_changed(md, mem, (void *)(uintptr_t)mem->base,
                                            mem->length);
        if (status != UCS_OK) {
            return status;
        }
    }

    muct_rdma_mem_key(mem, md->incarnation, &key);
    muct_rdma_key_pack(&key, md->num_rkeys, buffer);
    return UCS_OK;
}
