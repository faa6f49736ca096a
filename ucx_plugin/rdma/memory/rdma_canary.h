/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_CANARY_H
#define MUCT_RDMA_CANARY_H

/**
 * @file
 * Check that the device reaches the bytes that the GPU sees. A dma-buf with a wrong
 * offset registers without an error, and all writes then go to other memory.
 *
 * Some bytes at both ends of the region are read by the device, over a queue pair that
 * is connected to itself, and by the GPU's copy. Equal bytes prove nothing: during the
 * check the GPU's copy replaces them by others.
 */

#include "rdma/memory/rdma_md.h"

/**
 * Check a registered region of GPU memory; nothing else may use it meanwhile.
 *
 * @return UCS_OK               The device reaches it.
 * @return UCS_ERR_IO_ERROR     It reaches other bytes, or none.
 * @return UCS_ERR_UNSUPPORTED  Unknown: no port is up, the memory is unknown to the
 *                              runtime, or a call failed; logged at level debug.
 */
ucs_status_t muct_rdma_canary_look(muct_rdma_md_t *md, const muct_rdma_mem_t *mem);

#endif
