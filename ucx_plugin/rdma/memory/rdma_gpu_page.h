/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_GPU_PAGE_H
#define MUCT_RDMA_GPU_PAGE_H

/**
 * @file
 * Flush pages: on each GPU of this process whose memory is registered, one page that
 * peers may read.
 *
 * A write to a GPU over PCIe is posted: its acknowledgement proves that the network
 * device has it, not that the GPU sees it. A later read of memory of the same GPU
 * pushes the write there. The memory that is read must be registered whenever a peer
 * flushes, so it cannot be the user's. The page is registered from the first
 * registration of memory of its GPU until the memory domain is closed.
 *
 * Threads. Any; each set has a lock.
 */

#include "rdma/memory/rdma_mr.h"

#include <pthread.h>

typedef struct muct_rdma_md muct_rdma_md_t;

typedef struct muct_rdma_gpu_pages {
    pthread_mutex_t lock;
    muct_rdma_mem_t *mems[MUCT_RDMA_KEY_NUM_GPUS]; /**< NULL where there is none yet */
    muct_rdma_gpu_page_t pages[MUCT_RDMA_KEY_NUM_GPUS];
} muct_rdma_gpu_pages_t;

void muct_rdma_gpu_pages_init(muct_rdma_gpu_pages_t *pages);

/** Deregister and free all pages; no registration or flush may be left. */
void muct_rdma_gpu_pages_cleanup(muct_rdma_gpu_pages_t *pages);

/**
 * Get the page of a GPU, or make it.
 *
 * @param [in]  gpu       Number the runtime gives it.
 * @param [in]  is_quiet  Failure is logged at debug level.
 * @param [out] page_p    Owned by the set. Set only on UCS_OK.
 *
 * @return UCS_OK
 * @return UCS_ERR_NO_MEMORY    The GPU has no memory for it.
 * @return UCS_ERR_UNSUPPORTED  The GPU's number is not below MUCT_RDMA_KEY_NUM_GPUS.
 * @return else                 As @ref muct_rdma_md_reg.
 */
ucs_status_t muct_rdma_gpu_pages_get(muct_rdma_md_t *md, int gpu, bool is_quiet,
                                     const muct_rdma_gpu_page_t **page_p);

#endif
