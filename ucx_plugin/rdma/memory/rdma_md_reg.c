/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Registration of an address range by dma-buf or peer memory, and a trial that tests
 * whether a device registers GPU memory.
 */

#include "rdma/memory/rdma_md_reg.h"

#include "base/muct_gpu.h"
#include "base/muct_lock.h"
#include "base/muct_log.h"
#include "rdma/memory/rdma_canary.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <unistd.h>

/* Bytes that any GPU can export. */
#define MUCT_RDMA_TRIED_LENGTH 65536

/* Number of kinds of devices whose results of trials are kept; other kinds are tried
 * again. */
#define MUCT_RDMA_MD_MAX_TRIALS 8

/* Warn that the kernel may keep the memory in the host. */
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

/* Reject a wrong dma-buf here: otherwise the device would silently write to other
 * memory. */
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
    errno = EIO; /* this is not a refusal for which the other way is tried */
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
        close(with.dmabuf_fd); /* the registration keeps the memory */
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
MUCT_FREE_IN_CHILD(muct_rdma_md_trials, &muct_rdma_md_trials.lock)

void muct_rdma_md_count(int change)
{
    pthread_mutex_lock(&muct_rdma_md_trials.lock);
    muct_rdma_md_trials.num_mds += change;
    if (muct_rdma_md_trials.num_mds == 0) {
        muct_rdma_md_trials.num = 0; /* the next memory domain may have another
                                      * runtime */
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
