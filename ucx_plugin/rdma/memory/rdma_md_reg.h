/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_MD_REG_H
#define MUCT_RDMA_MD_REG_H

/**
 * @file
 * Registration of an address range with a device, by dma-buf or by peer memory.
 *
 * Threads: any.
 */

#include "rdma/memory/rdma_md.h"

/**
 * Register memory of the host or of a GPU. GPU memory is registered by dma-buf or by
 * its address, according to the options.
 *
 * @param [in] params  dmabuf_fd is -1 unless the caller has one.
 * @return As @ref muct_rdma_mem_create; UCS_ERR_UNSUPPORTED also when the options
 *         demand a dma-buf and there is none.
 */
ucs_status_t muct_rdma_md_reg(muct_rdma_md_t *md, void *address, size_t length,
                              const muct_rdma_mem_params_t *params,
                              muct_rdma_mem_t **mem_p);

/**
 * Whether the device registers GPU memory: it accepts dma-bufs, or registers some
 * memory of the calling thread's GPU by its address. The result is kept for a kind of
 * device as long as a memory domain is open. Nothing is exported.
 */
bool muct_rdma_md_try_gpu_direct(muct_rdma_md_t *md);

/** Count a memory domain that was opened (1) or closed (-1); closing the last one drops
 * the results of trials. */
void muct_rdma_md_count(int change);

#endif
