/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Registration: what memory it is, and by which way the device gets to it.
 */

#include "rdma/memory/rdma_md.h"

#include "base/muct_gpu.h"
#include "base/muct_log.h"
#include "rdma/memory/rdma_canary.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A piece that any GPU exports, in bytes. */
#define MUCT_RDMA_TRIED_LENGTH 65536

#define MUCT_RDMA_FLUSH_PAGE 4096

/* Kinds of devices whose trial is kept; others are tried each time. */
#define MUCT_RDMA_MD_MAX_TRIALS 8

/* Is it a GPU's? Then find the page that peers read to flush their writes to it. */
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
                "GPU memory %p: the runtime says it is of GPU %d, expected 0 to %d, so "
                "peers could not flush their writes to it; UCX_MORI_RDMA_GPU_FLUSH=n "
                "goes without",
                address, info.device, MUCT_RDMA_KEY_NUM_GPUS - 1);
    }

    return status;
}

/* The kernel may then keep the memory where its processor is. */
static void muct_rdma_md_warn_lack(muct_rdma_md_t *md)
{
    if ((md->kernel_lack[0] != '\0') && !md->has_logged_lack) {
        md->has_logged_lack = true;
        muct_warn("%s: GPU memory is registered by dma-buf, but %s: it may be moved to "
                  "the host and be slow; load the GPU driver's peer memory module",
                  md->device.name, md->kernel_lack);
    }
}

static void muct_rdma_md_warn_crash(muct_rdma_md_t *md)
{
    if (md->gpu_ways.may_crash && !md->has_logged_crash) {
        md->has_logged_crash = true;
        muct_warn(
            "%s: GPU memory is exported as a dma-buf, and this release of ROCm (7.x) "
            "may end the process in a later allocation (rocm-systems issue 8517, "
            "MI355X): update ROCm, load the GPU driver's peer memory module, or set "
            "UCX_MORI_RDMA_GPU_DIRECT=n",
            md->device.name);
    }
}

/* Refuse a wrong dma-buf: no other error would show that the device writes to another
 * place. */
static ucs_status_t muct_rdma_md_refuse_dmabuf(muct_rdma_md_t *md,
                                               const muct_rdma_mem_params_t *params,
                                               muct_rdma_mem_t *mem)
{
    ucs_log(md->has_logged_canary ? UCS_LOG_LEVEL_DEBUG : UCS_LOG_LEVEL_WARN,
            "%s: GPU memory 0x%" PRIx64 " length %" PRIu64
            " registered by dma-buf (offset %" PRIu64
            ") is not what the device reads there: refused; set UCX_MORI_RDMA_DMABUF=n "
            "with the GPU driver's peer memory, or have the application register whole "
            "allocations (PyTorch: no expandable segments)",
            md->device.name, mem->base, mem->length, params->dmabuf_offset);
    md->has_logged_canary = true;
    muct_rdma_mem_destroy(mem);
    errno = EIO; /* not a refusal that others may make up for */
    return UCS_ERR_IO_ERROR;
}

static ucs_status_t muct_rdma_md_check_dmabuf(muct_rdma_md_t *md,
                                              const muct_rdma_mem_params_t *params,
                                              muct_rdma_mem_t *mem)
{
    return (params->is_gpu && params->has_canary &&
            (muct_rdma_canary_look(md, mem) == UCS_ERR_IO_ERROR))
               ? muct_rdma_md_refuse_dmabuf(md, params, mem)
               : UCS_OK;
}

/* Register with the caller's dma-buf, or with one we export. */
static ucs_status_t muct_rdma_md_reg_dmabuf(muct_rdma_md_t *md, void *address,
                                            size_t length,
                                            const muct_rdma_mem_params_t *params,
                                            muct_rdma_mem_t **mem_p)
{
    muct_rdma_mem_params_t with = *params;
    muct_rdma_mem_t *mem = NULL;
    const muct_gpu_t *gpu;
    ucs_status_t status;
    int error;

    if (params->dmabuf_fd < 0) {
        muct_rdma_md_warn_crash(md);
    }
    if ((params->dmabuf_fd < 0) &&
        ((muct_gpu_get(&gpu) != UCS_OK) ||
         (muct_gpu_export_dmabuf(gpu, address, length, &with.dmabuf_fd,
                                 &with.dmabuf_offset) != UCS_OK))) {
        ucs_log(
            params->is_quiet ? UCS_LOG_LEVEL_DEBUG : UCS_LOG_LEVEL_ERROR,
            "GPU memory %p length %zu has no dma-buf: the kernel or the GPU's driver "
            "does not export it",
            address, length);
        return UCS_ERR_UNSUPPORTED;
    }

    status = muct_rdma_mem_create(md->pd, address, length, &with, &mem);
    if (params->dmabuf_fd < 0) {
        error = errno;
        close(with.dmabuf_fd); /* the registration holds the memory */
        errno = error;
    }
    if (status == UCS_OK) {
        status = muct_rdma_md_check_dmabuf(md, &with, mem);
    }
    if (status != UCS_OK) {
        return status;
    }

    if (params->is_gpu) {
        muct_rdma_md_warn_lack(md);
    }
    *mem_p = mem;
    return UCS_OK;
}

static ucs_status_t muct_rdma_md_reg_by(muct_rdma_md_t *md, muct_rdma_gpu_way_t way,
                                        void *address, size_t length,
                                        const muct_rdma_mem_params_t *params,
                                        muct_rdma_mem_t **mem_p)
{
    muct_rdma_mem_params_t without = *params;

    if (way == MUCT_RDMA_GPU_WAY_DMABUF) {
        return muct_rdma_md_reg_dmabuf(md, address, length, params, mem_p);
    }

    without.dmabuf_fd = -1;
    return muct_rdma_mem_create(md->pd, address, length, &without, mem_p);
}

ucs_status_t muct_rdma_md_reg(muct_rdma_md_t *md, void *address, size_t length,
                              const muct_rdma_mem_params_t *params,
                              muct_rdma_mem_t **mem_p)
{
    const muct_rdma_gpu_ways_t *ways = &md->gpu_ways;
    muct_rdma_mem_params_t quiet = *params;
    ucs_status_t status;

    if (!params->is_gpu && (params->dmabuf_fd < 0)) {
        return muct_rdma_mem_create(md->pd, address, length, params, mem_p);
    }

    quiet.is_quiet = params->is_quiet || (ways->num > 1);
    status = muct_rdma_md_reg_by(md, ways->list[0], address, length, &quiet, mem_p);
    if ((status == UCS_OK) || (ways->num == 1)) {
        return status;
    }

    muct_debug(
        "%s: GPU memory %p length %zu was refused by %s (first as %s), trying the "
        "other way",
        md->device.name, address, length,
        (ways->list[0] == MUCT_RDMA_GPU_WAY_DMABUF) ? "dma-buf" : "peer memory",
        ways->why);
    return muct_rdma_md_reg_by(md, ways->list[1], address, length, params, mem_p);
}

/* Whether the device's driver registers dma-bufs: it then refuses this descriptor with
 * EBADF, and otherwise the call with another error (as uct_ib_check_dmabuf() of UCX).
 * A real dma-buf is exported only for memory of the application. */
static bool muct_rdma_md_takes_dmabufs(const muct_rdma_md_t *md)
{
    struct ibv_mr *mr;

    mr = muct_rdma_verbs.reg_dmabuf_mr(
        md->pd, 0, MUCT_RDMA_TRIED_LENGTH, 0, -1,
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    if (mr != NULL) {
        (void)muct_rdma_verbs.dereg_mr(mr);
        return true;
    }

    return errno == EBADF;
}

static bool muct_rdma_md_try_dmabuf(const muct_rdma_md_t *md, const muct_gpu_t *gpu)
{
    return muct_rdma_gpu_ways_has(&md->gpu_ways, MUCT_RDMA_GPU_WAY_DMABUF) &&
           muct_gpu_may_export_dmabuf(gpu) && muct_rdma_md_takes_dmabufs(md);
}

static bool muct_rdma_md_try_address(muct_rdma_md_t *md, void *address)
{
    muct_rdma_mem_params_t params = {.access = md->access,
                                     .chunk_shift = md->chunk_shift,
                                     .max_chunks = md->num_rkeys,
                                     .is_quiet = true,
                                     .is_gpu = true,
                                     .dmabuf_fd = -1};
    muct_rdma_mem_t *mem;

    if (muct_rdma_md_reg_by(md, MUCT_RDMA_GPU_WAY_PEERMEM, address,
                            MUCT_RDMA_TRIED_LENGTH, &params, &mem) != UCS_OK) {
        return false;
    }

    muct_rdma_mem_destroy(mem);
    return true;
}

static bool muct_rdma_md_try_peermem(muct_rdma_md_t *md, const muct_gpu_t *gpu)
{
    bool is_direct = false;
    void *address;
    int mode;

    if (!muct_rdma_gpu_ways_has(&md->gpu_ways, MUCT_RDMA_GPU_WAY_PEERMEM)) {
        return false;
    }

    mode = muct_gpu_relax(gpu);
    if (muct_gpu_forget(gpu, gpu->mem_alloc(&address, MUCT_RDMA_TRIED_LENGTH)) ==
        MUCT_HIP_SUCCESS) {
        is_direct = muct_rdma_md_try_address(md, address);
        (void)muct_gpu_forget(gpu, gpu->mem_free(address));
    }
    muct_gpu_unrelax(gpu, mode);
    return is_direct;
}

static bool muct_rdma_md_try_once(muct_rdma_md_t *md)
{
    const muct_gpu_t *gpu;
    bool is_direct;

    if (muct_gpu_get(&gpu) != UCS_OK) {
        return false;
    }

    is_direct = muct_rdma_md_try_dmabuf(md, gpu) || muct_rdma_md_try_peermem(md, gpu);
    muct_debug("%s %s GPU memory, by %s first: %s", md->device.name,
               is_direct ? "registers" : "does not register",
               (md->gpu_ways.list[0] == MUCT_RDMA_GPU_WAY_DMABUF) ? "dma-buf"
                                                                  : "peer memory",
               md->gpu_ways.why);
    return is_direct;
}

/* Whether UCP's other transports may go on with memory that this device refused: memory
 * of a GPU without a dma-buf or of several chunks, or what the device has no more page
 * table entries or keys for. What is the caller's mistake, or what a limit of the
 * process says, stays an error. */
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

/* A caller that hides errors goes on without a handle. */
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

/* Result of a trial registration for a kind of device, and the way tried first. */
typedef struct muct_rdma_md_trial {
    uint32_t vendor_id;
    uint32_t part_id;
    muct_rdma_gpu_ways_t ways;
    bool is_direct;
} muct_rdma_md_trial_t;

static struct {
    pthread_mutex_t lock;
    int num_mds;
    unsigned num;
    muct_rdma_md_trial_t trials[MUCT_RDMA_MD_MAX_TRIALS];
} muct_rdma_md_trials = {.lock = PTHREAD_MUTEX_INITIALIZER};

void muct_rdma_md_count(int change)
{
    pthread_mutex_lock(&muct_rdma_md_trials.lock);
    muct_rdma_md_trials.num_mds += change;
    if (muct_rdma_md_trials.num_mds == 0) {
        muct_rdma_md_trials.num = 0; /* another runtime may come */
    }
    pthread_mutex_unlock(&muct_rdma_md_trials.lock);
}

static const muct_rdma_md_trial_t *muct_rdma_md_find_trial(const muct_rdma_md_t *md)
{
    const muct_rdma_md_trial_t *trial;
    unsigned i;

    for (i = 0; i < muct_rdma_md_trials.num; ++i) {
        trial = &muct_rdma_md_trials.trials[i];
        if ((trial->vendor_id == md->device.attr.vendor_id) &&
            (trial->part_id == md->device.attr.vendor_part_id) &&
            (trial->ways.num == md->gpu_ways.num) &&
            (trial->ways.list[0] == md->gpu_ways.list[0])) {
            return trial;
        }
    }

    return NULL;
}

bool muct_rdma_md_try_gpu_direct(muct_rdma_md_t *md)
{
    const muct_rdma_md_trial_t *trial;
    bool is_direct;

    pthread_mutex_lock(&muct_rdma_md_trials.lock);
    trial = muct_rdma_md_find_trial(md);
    is_direct = (trial != NULL) ? trial->is_direct : muct_rdma_md_try_once(md);
    if ((trial == NULL) && (muct_rdma_md_trials.num < MUCT_RDMA_MD_MAX_TRIALS)) {
        muct_rdma_md_trials.trials[muct_rdma_md_trials.num++] =
            (muct_rdma_md_trial_t){.vendor_id = md->device.attr.vendor_id,
                                   .part_id = md->device.attr.vendor_part_id,
                                   .ways = md->gpu_ways,
                                   .is_direct = is_direct};
    }
    pthread_mutex_unlock(&muct_rdma_md_trials.lock);
    return is_direct;
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

ucs_status_t muct_rdma_md_renew_changed(muct_rdma_md_t *md, muct_rdma_mem_t *mem,
                                        const void *address, size_t length)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    ucs_status_t status = UCS_OK;

    /* workers of several threads share a region */
    pthread_mutex_lock(&lock);
    if (muct_rdma_chunks_differ(&mem->chunks, (uintptr_t)address, length)) {
        status = muct_rdma_md_renew(md, mem);
    }
    pthread_mutex_unlock(&lock);
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
        .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
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

    /* every region has keys of its own, and the device refuses them from here on */
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
