/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_CANARY_H
#define MUCT_RDMA_CANARY_H

/**
 * @file
 * Does the device reach the bytes that the GPU sees? A dma-buf with a wrong offset
 * registers without an error, and then everything is written to a wrong place.
 *
 * Some bytes at both ends of the region are read by the device, over a queue pair that
 * is connected to itself, and by the GPU's copy. Bytes that are all alike say nothing:
 * others are put there by the GPU's copy for the moment of the look.
 */

#include "rdma/memory/rdma_md.h"

/**
 * Check a registered region of GPU memory; nothing else may use it meanwhile.
 *
 * @return UCS_OK               The device reaches it.
 * @return UCS_ERR_IO_ERROR     It reaches other bytes, or none.
 * @return UCS_ERR_UNSUPPORTED Unknown: no port is up, the memory is unknown to the
 *                              runtime, or a call failed; logged at level debug.
 */
ucs_status_t muct_rdma_canary_look(muct_rdma_md_t *md, const muct_rdma_mem_t *mem);

#endif
