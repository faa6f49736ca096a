/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_MD_H
#define MUCT_RDMA_MD_H

/**
 * @file
 * Memory domain of mori_rdma: one verbs device, its protection domain, and the memory
 * registered in it.
 *
 * Threads. Registration may be called from several threads, as verbs allow it.
 */

#include "base/muct_transport.h"
#include "base/muct_uct_abi.h"
#include "rdma/device/rdma_async.h"
#include "rdma/device/rdma_device.h"
#include "rdma/memory/rdma_gpu_page.h"
#include "rdma/memory/rdma_gpu_way.h"
#include "rdma/memory/rdma_mr.h"

typedef struct muct_rdma_md_config {
    uct_md_config_t super;
    ucs_config_allow_list_t devices;
    int atomics;          /**< ucs_ternary_auto_value_t */
    int dmabuf;           /**< ucs_ternary_auto_value_t */
    int peermem;          /**< ucs_ternary_auto_value_t */
    int dmabuf_canary;    /**< ucs_ternary_auto_value_t */
    int gpu_direct;       /**< ucs_ternary_auto_value_t */
    int gpu_flush;        /**< Boolean */
    int fork;             /**< ucs_ternary_auto_value_t */
    int relaxed_ordering; /**< ucs_ternary_auto_value_t */
    size_t max_mr_size;
} muct_rdma_md_config_t;

struct muct_rdma_md {
    uct_md_t super;
    muct_rdma_device_t device;
    struct ibv_pd *pd;
    uint64_t incarnation; /**< Random; in every address and key */
    int access;           /**< IBV_ACCESS_* of the user's memory */
    uint8_t chunk_shift;  /**< log2 of the most bytes of one key */
    uint8_t try_shift;    /**< Shift tried first; see muct_rdma_mem_params_t */
    uint8_t rail;         /**< Index among the used devices of this process */
    uint8_t num_rkeys;    /**< Most keys of a packed key */
    muct_rdma_gpu_ways_t gpu_ways;
    ucs_ternary_auto_value_t
        dmabuf_canary;       /**< Check that dma-bufs reach the right memory */
    bool has_logged_canary;  /**< Logged that a dma-buf was wrong */
    bool has_logged_atomics; /**< Logged memory registered without atomics */
    bool has_logged_bare;    /**< The warning about memory without keys was logged */
    bool has_logged_crash;   /**< Logged that an export may end the process */
    bool has_logged_reads;   /**< Logged that reads are answered by messages */
    bool has_logged_lack;    /**< Logged that the kernel lacks dma-buf support */
    char kernel_lack[128];
    ucs_config_allow_list_t devices;
    bool has_gpu_direct; /**< The device registers GPU memory */
    bool has_gpu_flush;  /**< Peers may flush their writes to our GPUs */
    muct_rdma_gpu_pages_t gpu_pages;
    muct_rdma_mem_t *flush_mem; /**< Page that peers read from to flush their writes;
                                     NULL before the first interface */
    void *flush_page;
    muct_rdma_async_t async;
};

/* ---- rdma_md_mem.c ---- */

/**
 * Register GPU memory again if [address, address + length) of the region holds other
 * allocations; see rdma_chunks.h. The keys that the region had are refused from then
 * on. Threads that find the change at the same time renew the region once.
 *
 * @return As @ref muct_rdma_md_reg; then @a mem is as before.
 */
ucs_status_t muct_rdma_md_renew_changed(muct_rdma_md_t *md, muct_rdma_mem_t *mem,
                                        const void *address, size_t length);

/**
 * Renew a region where that is needed, before its bytes are used. Work requests of the
 * region in flight, of any endpoint, then fail: an application maps memory again after
 * its transfers have ended.
 */
static inline ucs_status_t muct_rdma_md_keep_up(muct_rdma_md_t *md,
                                                muct_rdma_mem_t *mem,
                                                const void *address, size_t length)
{
    return ucs_likely(!mem->chunks.may_move)
               ? UCS_OK
               : muct_rdma_md_renew_changed(md, mem, address, length);
}

/**
 * The page that peers read from to flush their writes to memory of the host; registered
 * by the first call, until the memory domain is closed.
 *
 * @return UCS_OK, or as @ref muct_rdma_mem_create.
 */
ucs_status_t muct_rdma_md_get_flush_page(muct_rdma_md_t *md, muct_rdma_mem_t **mem_p);

ucs_status_t muct_rdma_md_mem_reg(uct_md_h md, void *address, size_t length,
                                  const uct_md_mem_reg_params_t *params,
                                  uct_mem_h *memh_p);
ucs_status_t muct_rdma_md_mem_dereg(uct_md_h md,
                                    const uct_md_mem_dereg_params_t *params);
ucs_status_t muct_rdma_md_mkey_pack(uct_md_h md, uct_mem_h memh, void *address,
                                    size_t length,
                                    const uct_md_mkey_pack_params_t *params,
                                    void *buffer);

/** The component, with room for members that point releases append. */
typedef MUCT_ABI_PADDED(uct_component_t) muct_rdma_component_t;
extern muct_rdma_component_t muct_rdma_component;

typedef MUCT_ABI_PADDED(struct uct_md_ops) muct_rdma_md_ops_t;
extern muct_rdma_md_ops_t muct_rdma_md_ops;

#endif
