/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/memory/rdma_mr.h"

#include "base/muct_lock.h"
#include "base/muct_log.h"

#include <inttypes.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* All regions, of all devices; devices may be used by several threads. */
static pthread_mutex_t muct_rdma_mem_lock = PTHREAD_MUTEX_INITIALIZER;
MUCT_FREE_IN_CHILD(muct_rdma_mem_lock, &muct_rdma_mem_lock)
static UCS_LIST_HEAD(muct_rdma_mem_list);
/* protection domains of removed devices */
static UCS_LIST_HEAD(muct_rdma_mem_gone);

typedef struct muct_rdma_mem_gone {
    const struct ibv_pd *pd;
    ucs_list_link_t list;
} muct_rdma_mem_gone_t;

/* Log2 of the ratio of chunk sizes that are tried. Few are tried, because a refused
 * trial pins the whole region first. */
#define MUCT_RDMA_MEM_STEP 2

/* Placeholder for a key with such a device */
static struct ibv_mr muct_rdma_mem_no_mr;

/* ionic: 2^20 entries of all its regions, of pages of 4 KiB unless all of a region is
 * in larger ones (InferenceX PR 3330) */
#define MUCT_RDMA_MR_HUGE_PAGES                                                        \
    "; the device may be out of page table entries: back the memory by huge pages "    \
    "(HugeTLB, or transparent ones by madvise(MADV_HUGEPAGE) before it is written to)"

bool muct_rdma_mr_may_lock(void)
{
    struct rlimit limit;

    return (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) &&
           (limit.rlim_cur == RLIM_INFINITY);
}

const char *muct_rdma_mr_remedy(int error)
{
    switch (error) {
    case ENOMEM:
        return muct_rdma_mr_may_lock()
                   ? MUCT_RDMA_MR_HUGE_PAGES
                   : "; raise the limit of locked memory (ulimit -l unlimited, or "
                     "LimitMEMLOCK= of the service)";
    case EINVAL:
        return MUCT_RDMA_MR_HUGE_PAGES;
    case EFAULT:
        return "; it is not mapped, or it is GPU memory and neither dma-buf nor peer "
               "memory works with this driver";
    case EPERM:
        return "; the memory is read-only, or the limit of locked memory is 0";
    default:
        return "";
    }
}

/* Optional access flags (relaxed ordering) need the newer call; old libraries reject
 * the unknown bit and have no ordering hints anyway. */
static struct ibv_mr *muct_rdma_mr_reg_iova(struct ibv_pd *pd, void *address,
                                            size_t length, int access)
{
    if ((access & IBV_ACCESS_OPTIONAL_RANGE) != 0) {
        if (muct_rdma_verbs.reg_mr_iova2 != NULL) {
            return muct_rdma_verbs.reg_mr_iova2(
                pd, address, length, (uint64_t)(uintptr_t)address, (unsigned)access);
        }
        access &= ~IBV_ACCESS_OPTIONAL_RANGE;
    }

    return muct_rdma_verbs.reg_mr(pd, address, length, access);
}

void muct_rdma_mr_dereg(struct ibv_mr *mr)
{
    int error = muct_rdma_verbs.dereg_mr(mr);

    if (error != 0) {
        muct_warn("ibv_dereg_mr(lkey 0x%x) failed: %s", mr->lkey, strerror(error));
    }
}

static struct ibv_mr *muct_rdma_mem_reg_chunk(struct ibv_pd *pd, uint64_t address,
                                              size_t length, uint64_t offset,
                                              const muct_rdma_mem_params_t *params,
                                              int access)
{
    void *pointer = (void *)(uintptr_t)address;

    if (params->dmabuf_fd < 0) {
        return muct_rdma_mr_reg_iova(pd, pointer, length, access);
    }

    return muct_rdma_verbs.reg_dmabuf_mr(pd, params->dmabuf_offset + offset, length,
                                         address, params->dmabuf_fd, access);
}

static void muct_rdma_mem_log(const muct_rdma_mem_params_t *params, void *address,
                              size_t length, int error)
{
    ucs_log_level_t level =
        params->is_quiet ? UCS_LOG_LEVEL_DEBUG : UCS_LOG_LEVEL_ERROR;

    if (params->dmabuf_fd < 0) {
        ucs_log(level, "ibv_reg_mr(address %p length %zu access 0x%x) failed: %s%s",
                address, length, (unsigned)params->access, strerror(error),
                muct_rdma_mr_remedy(error));
    } else {
        ucs_log(level,
                "ibv_reg_dmabuf_mr(fd %d offset %" PRIu64
                " address %p length %zu access 0x%x) failed: %s%s",
                params->dmabuf_fd, params->dmabuf_offset, address, length,
                (unsigned)params->access, strerror(error), muct_rdma_mr_remedy(error));
    }
}

static void muct_rdma_mem_dereg(muct_rdma_mem_t *mem)
{
    unsigned i;

    for (i = 0; i < mem->num; ++i) {
        if (mem->mrs[i] != &muct_rdma_mem_no_mr) {
            muct_rdma_mr_dereg(mem->mrs[i]);
        }
    }
    mem->num = 0;
}

static void muct_rdma_mem_free(muct_rdma_mem_t *mem)
{
    muct_rdma_mem_dereg(mem);
    muct_rdma_chunks_cleanup(&mem->chunks);
    free(mem);
}

static muct_rdma_mem_gone_t *muct_rdma_mem_find_gone(const struct ibv_pd *pd)
{
    muct_rdma_mem_gone_t *gone;

    ucs_list_for_each(gone, &muct_rdma_mem_gone, list)
    {
        if (gone->pd == pd) {
            return gone;
        }
    }

    return NULL;
}

static bool muct_rdma_mem_is_gone(const struct ibv_pd *pd)
{
    bool is_gone;

    pthread_mutex_lock(&muct_rdma_mem_lock);
    is_gone = muct_rdma_mem_find_gone(pd) != NULL;
    pthread_mutex_unlock(&muct_rdma_mem_lock);
    return is_gone;
}

ucs_status_t muct_rdma_mem_set_gone(const struct ibv_pd *pd)
{
    muct_rdma_mem_gone_t *gone;

    if (muct_rdma_mem_is_gone(pd)) {
        return UCS_OK;
    }

    gone = malloc(sizeof(*gone));
    if (gone == NULL) {
        muct_error("failed to allocate a marker for a removed device");
        return UCS_ERR_NO_MEMORY;
    }

    gone->pd = pd;
    pthread_mutex_lock(&muct_rdma_mem_lock);
    ucs_list_add_tail(&muct_rdma_mem_gone, &gone->list);
    pthread_mutex_unlock(&muct_rdma_mem_lock);
    return UCS_OK;
}

/* Unlink the twin in the given protection domain from its region's list. */
static muct_rdma_mem_t *muct_rdma_mem_cut_twin(muct_rdma_mem_t *mem,
                                               const struct ibv_pd *pd)
{
    muct_rdma_mem_t **at, *twin;

    for (at = &mem->twins; (twin = *at) != NULL; at = &twin->next_twin) {
        if (twin->pd == pd) {
            *at = twin->next_twin;
            return twin;
        }
    }

    return NULL;
}

static muct_rdma_mem_t *muct_rdma_mem_take_twin(const struct ibv_pd *pd)
{
    muct_rdma_mem_t *mem, *twin = NULL;

    pthread_mutex_lock(&muct_rdma_mem_lock);
    ucs_list_for_each(mem, &muct_rdma_mem_list, list)
    {
        twin = muct_rdma_mem_cut_twin(mem, pd);
        if (twin != NULL) {
            break;
        }
    }
    pthread_mutex_unlock(&muct_rdma_mem_lock);
    return twin;
}

void muct_rdma_mem_forget(const struct ibv_pd *pd)
{
    muct_rdma_mem_gone_t *gone;
    muct_rdma_mem_t *twin;

    while ((twin = muct_rdma_mem_take_twin(pd)) != NULL) {
        muct_rdma_mem_destroy(twin);
    }

    pthread_mutex_lock(&muct_rdma_mem_lock);
    while ((gone = muct_rdma_mem_find_gone(pd)) != NULL) {
        ucs_list_del(&gone->list);
        free(gone);
    }
    pthread_mutex_unlock(&muct_rdma_mem_lock);
}

bool muct_rdma_mem_finds_gone(const struct ibv_pd *pd, int error)
{
    struct ibv_device_attr attr;

    return ((error == EIO) || (error == ENODEV)) &&
           (muct_rdma_verbs.query_device(pd->context, &attr) != 0) &&
           (muct_rdma_mem_set_gone(pd) == UCS_OK);
}

/* Register all chunks. @return 0, or the errno of the chunk that was refused. */
static int muct_rdma_mem_reg(muct_rdma_mem_t *mem, const muct_rdma_mem_params_t *params)
{
    const uint64_t chunk = 1ull << mem->chunk_shift;
    bool is_gone = muct_rdma_mem_is_gone(mem->pd);
    uint64_t offset, part;
    int error;

    for (offset = 0; offset < mem->length; offset += part) {
        part = (mem->length - offset < chunk) ? mem->length - offset : chunk;
        mem->mrs[mem->num] =
            is_gone ? &muct_rdma_mem_no_mr
                    : muct_rdma_mem_reg_chunk(mem->pd, mem->base + offset, (size_t)part,
                                              offset, params, mem->access);
        if (mem->mrs[mem->num] == NULL) {
            error = errno;
            is_gone = muct_rdma_mem_finds_gone(mem->pd, error);
            if (!is_gone) {
                return error;
            }
            mem->mrs[mem->num] = &muct_rdma_mem_no_mr;
        }
        ++mem->num;
    }

    return 0;
}

/* Some devices refuse memory of GPUs for atomics (ionic, bnxt_re). */
static int muct_rdma_mem_reg_any(muct_rdma_mem_t *mem,
                                 const muct_rdma_mem_params_t *params)
{
    int error = muct_rdma_mem_reg(mem, params);

    if (((error != EINVAL) && (error != EOPNOTSUPP)) ||
        !(mem->access & IBV_ACCESS_REMOTE_ATOMIC)) {
        return error;
    }

    muct_rdma_mem_dereg(mem);
    mem->access &= ~IBV_ACCESS_REMOTE_ATOMIC;
    return muct_rdma_mem_reg(mem, params);
}

static void muct_rdma_mem_add(muct_rdma_mem_t *mem)
{
    pthread_mutex_lock(&muct_rdma_mem_lock);
    ucs_list_add_head(&muct_rdma_mem_list, &mem->list);
    pthread_mutex_unlock(&muct_rdma_mem_lock);
}

/* Register with chunks of the given size. Sets errno when the device refused. */
static ucs_status_t muct_rdma_mem_create_with(struct ibv_pd *pd, void *address,
                                              size_t length, uint8_t shift,
                                              const muct_rdma_mem_params_t *params,
                                              muct_rdma_mem_t **mem_p)
{
    uint64_t num = (length + (1ull << shift) - 1) >> shift;
    unsigned max_chunks = (params->max_chunks > 0) ? params->max_chunks : 1;
    muct_rdma_mem_t *mem;
    int error;

    errno = 0;
    if (num > max_chunks) {
        ucs_log(params->is_quiet ? UCS_LOG_LEVEL_DEBUG : UCS_LOG_LEVEL_ERROR,
                "region of %zu bytes needs %" PRIu64 " keys of at most %" PRIu64
                " bytes, and %u is the limit: register it in parts",
                length, num, (uint64_t)1 << shift, max_chunks);
        return UCS_ERR_UNSUPPORTED;
    }

    mem = calloc(1, sizeof(*mem) + num * sizeof(mem->mrs[0]));
    if (mem == NULL) {
        muct_error("failed to allocate a memory region");
        return UCS_ERR_NO_MEMORY;
    }

    mem->base = (uint64_t)(uintptr_t)address;
    mem->length = length;
    mem->chunk_shift = shift;
    mem->page = params->page;
    mem->pd = pd;
    mem->access = params->access;
    mem->is_gpu = params->is_gpu;
    error = muct_rdma_mem_reg_any(mem, params);
    if (error != 0) {
        muct_rdma_mem_log(params, address, length, error);
        muct_rdma_mem_free(mem);
        errno = error;
        return UCS_ERR_IO_ERROR;
    }

    mem->is_plain = (mem->num == 1);
    muct_rdma_mem_add(mem);
    *mem_p = mem;
    return UCS_OK;
}

/* A device may register more under one key than it reports (ionic: reports 2 GiB,
 * registers 32 GiB in huge pages). */
static ucs_status_t muct_rdma_mem_create_large(struct ibv_pd *pd, void *address,
                                               size_t length,
                                               const muct_rdma_mem_params_t *params,
                                               muct_rdma_mem_t **mem_p)
{
    muct_rdma_mem_params_t quiet = *params;
    ucs_status_t status = UCS_ERR_UNSUPPORTED;
    unsigned shift;

    quiet.is_quiet = true;
    for (shift = params->try_shift;
         (shift > params->chunk_shift) && (length > (1ull << params->chunk_shift));
         shift -= MUCT_RDMA_MEM_STEP) {
        status = muct_rdma_mem_create_with(pd, address, length, (uint8_t)shift, &quiet,
                                           mem_p);
        if ((status != UCS_ERR_IO_ERROR) || ((errno != EINVAL) && (errno != ENOMEM))) {
            return status;
        }
    }

    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_rdma_mem_create(struct ibv_pd *pd, void *address, size_t length,
                                  const muct_rdma_mem_params_t *params,
                                  muct_rdma_mem_t **mem_p)
{
    if ((params->dmabuf_fd >= 0) && (muct_rdma_verbs.reg_dmabuf_mr == NULL)) {
        return UCS_ERR_UNSUPPORTED;
    }

    if (muct_rdma_mem_create_large(pd, address, length, params, mem_p) == UCS_OK) {
        return UCS_OK;
    }

    return muct_rdma_mem_create_with(pd, address, length, params->chunk_shift, params,
                                     mem_p);
}

ucs_status_t muct_rdma_mem_create_bare(struct ibv_pd *pd, void *address,
                                       muct_rdma_mem_t **mem_p)
{
    muct_rdma_mem_t *mem = calloc(1, sizeof(*mem));

    if (mem == NULL) {
        muct_error("failed to allocate a memory region");
        return UCS_ERR_NO_MEMORY;
    }

    mem->base = (uint64_t)(uintptr_t)address;
    mem->pd = pd;
    muct_rdma_mem_add(mem);
    *mem_p = mem;
    return UCS_OK;
}

ucs_status_t muct_rdma_mem_refuse(const muct_rdma_mem_t *mem, const void *address,
                                  size_t length)
{
    if (mem == NULL) {
        muct_error("local memory %p length %zu has no memory handle", address, length);
    } else if (mem->num == 0) {
        muct_error("local memory %p length %zu is not registered with the network "
                   "device, which refused it (a warning gave the reason)",
                   address, length);
    } else {
        muct_error(
            "local memory %p length %zu is outside its handle's region 0x%" PRIx64
            " length %" PRIu64,
            address, length, mem->base, mem->length);
    }

    return UCS_ERR_INVALID_PARAM;
}

/* Whether one key of a region covers the whole range. */
static bool muct_rdma_mem_holds(const muct_rdma_mem_t *mem, uint64_t address,
                                uint64_t length)
{
    return (address >= mem->base) && (address - mem->base < mem->length) &&
           (length <= mem->length - (address - mem->base)) &&
           (length <= muct_rdma_mem_chunk_left(mem, address));
}

/* The caller holds the lock: another thread's region may be freed after its release. */
static muct_rdma_mem_t *muct_rdma_mem_find(const struct ibv_pd *pd, uint64_t address,
                                           uint64_t length, int access)
{
    muct_rdma_mem_t *mem;

    ucs_list_for_each(mem, &muct_rdma_mem_list, list)
    {
        if ((mem->pd == pd) && ((mem->access & access) == access) &&
            muct_rdma_mem_holds(mem, address, length)) {
            return mem;
        }
    }

    return NULL;
}

bool muct_rdma_mem_find_lkey(const struct ibv_pd *pd, uint64_t address, uint64_t length,
                             uint32_t *lkey_p)
{
    const muct_rdma_mem_t *mem;

    pthread_mutex_lock(&muct_rdma_mem_lock);
    mem = muct_rdma_mem_find(pd, address, length, 0);
    if (mem != NULL) {
        *lkey_p = muct_rdma_mem_lkey(mem, address);
    }
    pthread_mutex_unlock(&muct_rdma_mem_lock);
    return mem != NULL;
}

bool muct_rdma_mem_find_open(const struct ibv_pd *pd, uint32_t rkey, uint64_t address,
                             uint64_t length, uint32_t *lkey_p)
{
    const muct_rdma_mem_t *mem;
    bool found = false;

    pthread_mutex_lock(&muct_rdma_mem_lock);
    ucs_list_for_each(mem, &muct_rdma_mem_list, list)
    {
        if ((mem->pd == pd) && (mem->access & IBV_ACCESS_REMOTE_READ) &&
            muct_rdma_mem_holds(mem, address, length) &&
            (muct_rdma_mem_rkey(mem, address) == rkey)) {
            *lkey_p = muct_rdma_mem_lkey(mem, address);
            found = true;
            break;
        }
    }
    pthread_mutex_unlock(&muct_rdma_mem_lock);
    return found;
}

bool muct_rdma_mem_find_rkey(const struct ibv_pd *pd, uint64_t address, uint64_t length,
                             uint32_t *rkey_p)
{
    const muct_rdma_mem_t *mem;

    pthread_mutex_lock(&muct_rdma_mem_lock);
    mem = muct_rdma_mem_find(pd, address, length, IBV_ACCESS_REMOTE_WRITE);
    if (mem != NULL) {
        *rkey_p = muct_rdma_mem_rkey(mem, address);
    }
    pthread_mutex_unlock(&muct_rdma_mem_lock);
    return mem != NULL;
}

bool muct_rdma_mem_find_extent(const struct ibv_pd *pd, uint64_t address,
                               uint64_t length, muct_rdma_mem_extent_t *extent)
{
    const muct_rdma_mem_t *mem;

    pthread_mutex_lock(&muct_rdma_mem_lock);
    mem = muct_rdma_mem_find(pd, address, length, 0);
    if (mem != NULL) {
        *extent = (muct_rdma_mem_extent_t){.base = mem->base,
                                           .length = mem->length,
                                           .access = mem->access,
                                           .is_gpu = mem->is_gpu};
    }
    pthread_mutex_unlock(&muct_rdma_mem_lock);
    return mem != NULL;
}

bool muct_rdma_mem_add_twin(const struct ibv_pd *pd, uint64_t address, uint64_t length,
                            muct_rdma_mem_t *twin)
{
    muct_rdma_mem_t *mem;

    pthread_mutex_lock(&muct_rdma_mem_lock);
    mem = muct_rdma_mem_find(pd, address, length, 0);
    if (mem != NULL) {
        twin->next_twin = mem->twins;
        mem->twins = twin;
    }
    pthread_mutex_unlock(&muct_rdma_mem_lock);
    return mem != NULL;
}

void muct_rdma_mem_destroy(muct_rdma_mem_t *mem)
{
    muct_rdma_mem_t *twin;

    pthread_mutex_lock(&muct_rdma_mem_lock);
    ucs_list_del(&mem->list);
    pthread_mutex_unlock(&muct_rdma_mem_lock);
    while ((twin = mem->twins) != NULL) {
        mem->twins = twin->next_twin;
        muct_rdma_mem_destroy(twin);
    }
    muct_rdma_mem_free(mem);
}

ucs_status_t muct_rdma_mem_replace(muct_rdma_mem_t *mem, muct_rdma_mem_t *fresh)
{
    muct_rdma_chunks_t chunks;
    muct_rdma_mem_t *twins;
    struct ibv_mr *mr;
    unsigned i;

    if (fresh->num != mem->num) {
        return UCS_ERR_UNSUPPORTED;
    }

    pthread_mutex_lock(&muct_rdma_mem_lock);
    chunks = mem->chunks;
    twins = mem->twins;
    for (i = 0; i < mem->num; ++i) {
        mr = mem->mrs[i];
        mem->mrs[i] = fresh->mrs[i];
        fresh->mrs[i] = mr;
    }
    mem->chunk_shift = fresh->chunk_shift;
    mem->access = fresh->access;
    mem->is_plain = fresh->is_plain;
    mem->page = fresh->page;
    mem->twins = fresh->twins;
    fresh->twins = twins;
    mem->chunks = fresh->chunks;
    fresh->chunks = chunks;
    pthread_mutex_unlock(&muct_rdma_mem_lock);
    muct_rdma_mem_destroy(fresh);
    return UCS_OK;
}

void muct_rdma_mem_read_chunks(muct_rdma_mem_t *mem)
{
    muct_rdma_chunks_read(mem->base, mem->length, &mem->chunks);
    mem->is_plain = mem->is_plain && !mem->chunks.may_move;
}

void muct_rdma_mem_key(const muct_rdma_mem_t *mem, uint64_t incarnation,
                       muct_rdma_key_t *key)
{
    const muct_rdma_gpu_page_t *page = mem->page;
    unsigned i;

    key->incarnation = incarnation;
    key->base = mem->base;
    key->length = mem->length;
    key->flags = (page != NULL) ? MUCT_RDMA_KEY_FLAG_GPU : 0;
    key->flags |= (mem->num == 0) ? MUCT_RDMA_KEY_FLAG_NONE : 0;
    key->gpu = (page != NULL) ? page->gpu : 0;
    key->page_address = (page != NULL) ? page->address : 0;
    key->page_rkey = (page != NULL) ? page->rkey : 0;
    key->chunk_shift = (mem->num <= 1) ? MUCT_RDMA_KEY_ONE_CHUNK : mem->chunk_shift;
    key->num_rkeys = (mem->num > 0) ? (uint8_t)mem->num : 1;
    key->rkeys[0] = 0;
    for (i = 0; i < mem->num; ++i) {
        key->rkeys[i] = mem->mrs[i]->rkey;
    }
}
