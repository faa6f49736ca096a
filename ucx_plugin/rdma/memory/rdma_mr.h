/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_MR_H
#define MUCT_RDMA_MR_H

/**
 * @file
 * Registered memory: one region of the caller, one or more keys of the device.
 *
 * A region larger than the device registers at once is cut at multiples of a chunk from
 * its start. The caller keeps the memory for as long as the region lives.
 *
 * GPU memory is registered by a dma-buf file descriptor, from any exporter, with the
 * offset of the first byte in it. If there is none, it is registered by its address,
 * which works where the GPU's driver offers peer memory.
 */

#include "base/muct_uct_abi.h"
#include "rdma/memory/rdma_chunks.h"
#include "rdma/memory/rdma_key.h"
#include "rdma/device/rdma_verbs.h"

#include <ucs/datastruct/list.h>

#include <stdbool.h>

/** Page of a GPU that peers read from to flush their writes; see rdma_gpu_page.h. */
typedef struct muct_rdma_gpu_page {
    uint64_t address;
    uint32_t rkey;
    uint8_t gpu; /**< Device number in the owner's runtime */
} muct_rdma_gpu_page_t;

typedef struct muct_rdma_mem muct_rdma_mem_t;

struct muct_rdma_mem {
    uint64_t base;
    uint64_t length;                  /**< Registered; 0 for a region without keys */
    uint8_t chunk_shift;              /**< log2 of the bytes of a chunk */
    unsigned num;                     /**< Chunks */
    const muct_rdma_gpu_page_t *page; /**< GPU's flush page; NULL: host memory */
    struct ibv_pd *pd;
    int access; /**< IBV_ACCESS_* flags of the registration */
    bool is_gpu;
    bool is_plain;             /**< The region is one chunk, with one key */
    bool may_invalidate;       /**< A key was packed with a flag for invalidation */
    muct_rdma_chunks_t chunks; /**< Allocations of GPU memory at the registration */
    ucs_list_link_t list;      /**< Link in the list of all regions of the process */
    muct_rdma_mem_t
        *twins; /**< Registrations of the same memory with other devices, for endpoints
                   that moved there (rdma_move.h); freed with this one */
    muct_rdma_mem_t *next_twin;
    struct ibv_mr *mrs[];
};

/** Parameters of a registration. */
typedef struct muct_rdma_mem_params {
    int access; /**< IBV_ACCESS_*; without REMOTE_ATOMIC where that is refused */
    uint8_t chunk_shift; /**< log2 of the most bytes of one key */
    uint8_t try_shift;   /**< Larger shift, beyond what the device reports, tried first.
                            0: none */
    unsigned max_chunks; /**< Number of keys for which a packed key has room, 0 for 1 */
    bool is_gpu;         /**< The memory is a GPU's */
    const muct_rdma_gpu_page_t *page; /**< Flush page in packed keys; NULL: peers flush
                                       *   nothing */
    bool has_canary; /**< Check a dma-buf; the memory must not be in use yet */
    bool is_quiet;   /**< Log failures at level debug: the caller has a fallback */
    int dmabuf_fd;   /**< -1 to register by address */
    uint64_t dmabuf_offset;
} muct_rdma_mem_params_t;

/**
 * Register memory.
 *
 * @param [out] mem_p  To be given to @ref muct_rdma_mem_destroy. Set only on UCS_OK.
 *
 * @return UCS_OK
 * @return UCS_ERR_IO_ERROR     The device or the kernel refused; the reason and, where
 *                              there is one, the remedy are in the log.
 * @return UCS_ERR_UNSUPPORTED  The library cannot register a dma-buf, or the region
 *                              needs more keys than a packed key can hold.
 * @return UCS_ERR_NO_MEMORY
 */
ucs_status_t muct_rdma_mem_create(struct ibv_pd *pd, void *address, size_t length,
                                  const muct_rdma_mem_params_t *params,
                                  muct_rdma_mem_t **mem_p);

/**
 * Make a region for memory that the device cannot register: operations reject it, and
 * its packed key informs peers that it has no keys.
 *
 * @return UCS_OK or UCS_ERR_NO_MEMORY.
 */
ucs_status_t muct_rdma_mem_create_bare(struct ibv_pd *pd, void *address,
                                       muct_rdma_mem_t **mem_p);

/**
 * Mark the device of @a pd as removed. New regions get no keys of it, only keys of its
 * twins, since UCP still registers what it sends over endpoints that moved. A
 * registration that meets the removal before its event is read does the same.
 *
 * @return UCS_OK or UCS_ERR_NO_MEMORY; a repeated call changes nothing.
 */
ucs_status_t muct_rdma_mem_set_gone(const struct ibv_pd *pd);

/**
 * Whether @a error means that the device of @a pd was removed, before its event has
 * arrived. Marks the device as removed.
 */
bool muct_rdma_mem_finds_gone(const struct ibv_pd *pd, int error);

/** The protection domain is being closed and a new one may get its address:
 * deregister twins in it of regions that live on. */
void muct_rdma_mem_forget(const struct ibv_pd *pd);

/** Range of a region, and the access it is registered for. */
typedef struct muct_rdma_mem_extent {
    uint64_t base;
    uint64_t length;
    int access;
    bool is_gpu;
} muct_rdma_mem_extent_t;

/**
 * Find the local key of a region of the process that holds all of [address, address +
 * length) under one key. The key is valid as long as the owner of the region keeps it
 * registered.
 *
 * @param [in]  pd      Protection domain of the region.
 * @param [out] lkey_p  Set only when there is one.
 * @return Whether there is one.
 */
bool muct_rdma_mem_find_lkey(const struct ibv_pd *pd, uint64_t address, uint64_t length,
                             uint32_t *lkey_p);

/** Same as @ref muct_rdma_mem_find_lkey, for a region with the remote key @a rkey that
 * peers may read. */
bool muct_rdma_mem_find_open(const struct ibv_pd *pd, uint32_t rkey, uint64_t address,
                             uint64_t length, uint32_t *lkey_p);

/** Same as @ref muct_rdma_mem_find_lkey, but return the remote key of a region that
 * peers may write. */
bool muct_rdma_mem_find_rkey(const struct ibv_pd *pd, uint64_t address, uint64_t length,
                             uint32_t *rkey_p);

/** Same as @ref muct_rdma_mem_find_lkey, but return what is needed to register the
 * region elsewhere. */
bool muct_rdma_mem_find_extent(const struct ibv_pd *pd, uint64_t address,
                               uint64_t length, muct_rdma_mem_extent_t *extent);

/** Same search as @ref muct_rdma_mem_find_lkey: destroy @a twin together with the
 * region found. If there is none, the caller keeps @a twin. */
bool muct_rdma_mem_add_twin(const struct ibv_pd *pd, uint64_t address, uint64_t length,
                            muct_rdma_mem_t *twin);

/**
 * Give @a mem the registration and the allocations of @a fresh, which is of the same
 * addresses, and destroy @a fresh with the earlier one.
 *
 * @return UCS_OK, or UCS_ERR_UNSUPPORTED when @a fresh has more keys: both stay.
 */
ucs_status_t muct_rdma_mem_replace(muct_rdma_mem_t *mem, muct_rdma_mem_t *fresh);

/** Deregister; keys of it are refused by the device from now on. */
void muct_rdma_mem_destroy(muct_rdma_mem_t *mem);

/** Whether [address, address + length) is inside the region; false for no region. */
static inline bool muct_rdma_mem_has(const muct_rdma_mem_t *mem, const void *address,
                                     size_t length)
{
    return (mem != NULL) && ((uint64_t)(uintptr_t)address - mem->base <= mem->length) &&
           (length <= mem->length - ((uint64_t)(uintptr_t)address - mem->base));
}

/** Record the allocations of GPU memory that has just been registered. */
void muct_rdma_mem_read_chunks(muct_rdma_mem_t *mem);

/** Log that local memory is outside its handle's region. @return
 * UCS_ERR_INVALID_PARAM. */
ucs_status_t muct_rdma_mem_refuse(const muct_rdma_mem_t *mem, const void *address,
                                  size_t length);

/** Local key for an address inside the region. */
static inline uint32_t muct_rdma_mem_lkey(const muct_rdma_mem_t *mem, uint64_t address)
{
    return mem->mrs[(address - mem->base) >> mem->chunk_shift]->lkey;
}

/** Remote key for an address inside the region. */
static inline uint32_t muct_rdma_mem_rkey(const muct_rdma_mem_t *mem, uint64_t address)
{
    return mem->mrs[(address - mem->base) >> mem->chunk_shift]->rkey;
}

/** Bytes from an address of the region to the end of its chunk. */
static inline uint64_t muct_rdma_mem_chunk_left(const muct_rdma_mem_t *mem,
                                                uint64_t address)
{
    uint64_t chunk = 1ull << mem->chunk_shift;

    return chunk - ((address - mem->base) & (chunk - 1));
}

/** The region's remote key. */
void muct_rdma_mem_key(const muct_rdma_mem_t *mem, uint64_t incarnation,
                       muct_rdma_key_t *key);

/** Remedy for a registration that failed, as text to end a message with. */
const char *muct_rdma_mr_remedy(int error);

/** Whether this process has no limit on locked memory. */
bool muct_rdma_mr_may_lock(void);

/** ibv_dereg_mr() that warns. */
void muct_rdma_mr_dereg(struct ibv_mr *mr);

#endif
