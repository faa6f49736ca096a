/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_CHUNKS_H
#define MUCT_RDMA_CHUNKS_H

/**
 * @file
 * Allocations that a region of GPU memory covers, by the runtime's numbers.
 *
 * UCX does not see that GPU memory is unmapped, and other memory mapped at its address
 * (sleep modes, expandable segments). Its cache then returns the handle of the earlier
 * memory, but the runtime's numbers differ.
 *
 * Threads. Callers lock the chunks of a region against other threads.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct muct_rdma_chunk {
    uint64_t end; /**< Address behind the allocation */
    uint64_t id;  /**< Number of the allocation in the runtime; 0: unknown */
} muct_rdma_chunk_t;

typedef struct muct_rdma_chunks {
    muct_rdma_chunk_t *list; /**< Adjacent allocations, by address */
    unsigned num;            /**< Entries of list; 0: the allocations are unknown */
    bool may_move; /**< Memory of hipMemMap(): UCX hooks no call that changes it */
} muct_rdma_chunks_t;

/**
 * Read the allocations of [address, address + length). The list is empty where the
 * runtime has no numbers; changes are not detected then.
 *
 * @param [out] chunks  To be given to @ref muct_rdma_chunks_cleanup.
 */
void muct_rdma_chunks_read(uint64_t address, uint64_t length,
                           muct_rdma_chunks_t *chunks);

/** Whether the allocations differ from the runtime's present ones. Only those that
 * overlap with [address, address + length) are compared. */
bool muct_rdma_chunks_differ(const muct_rdma_chunks_t *chunks, uint64_t address,
                             uint64_t length);

void muct_rdma_chunks_cleanup(muct_rdma_chunks_t *chunks);

#endif
