/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_GPU_PAGE_H
#define MUCT_RDMA_GPU_PAGE_H

/**
 * @file
 * Flush pages: on each GPU of this process whose memory is registered, one page that
 * peers may read.
 *
 * A write to a GPU over PCIe is posted: its acknowledgement says that the network
 * device has it, not that the GPU sees it. A read behind it, of memory of the same GPU,
 * pushes it there. What it reads must be registered whenever a peer flushes, so it is
 * none of the user's memory: the page is registered from the first registration of
 * memory of its GPU until the memory domain is closed.
 *
 * Threads. Any; one lock a set.
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

/** Deregister and free all; there must be no registrations or flushes any more. */
void muct_rdma_gpu_pages_cleanup(muct_rdma_gpu_pages_t *pages);

/**
 * The page of a GPU; made when there is none.
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
