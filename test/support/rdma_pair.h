/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef RDMA_PAIR_H
#define RDMA_PAIR_H

/**
 * @file
 * Two contexts of libmorikv in one process over mori_rdma on the fake libibverbs, each
 * with blocks of libhipcpu's GPU memory. An error here fails the test.
 */

#include <morikv.h>

#include <stdint.h>

#define RDMA_PAIR_BLOCK_BYTES 4096

typedef struct rdma_pair_side {
    mkv_ctx_t *ctx;
    char *memory;
    mkv_peer_t *peer;
    mkv_map_t *map;
    unsigned num_events[64]; /**< By type */
} rdma_pair_side_t;

extern rdma_pair_side_t rdma_pair[2];

void rdma_pair_ok(mkv_status_t status);

/** A context with so many blocks, filled with the byte. */
void rdma_pair_open(rdma_pair_side_t *side, const char *name, uint32_t num_blocks,
                    int byte);

/** Connect two open sides and make maps. */
void rdma_pair_connect(void);

/** Make progress once on each side. */
void rdma_pair_progress(void);

/** Wait until this side has had that many of the event, and no peer has failed. */
void rdma_pair_wait(const rdma_pair_side_t *side, mkv_event_type_t type, unsigned num);

/** A WRITE of one leg. */
mkv_xfer_t *rdma_pair_xfer(rdma_pair_side_t *side, mkv_role_t role, uint64_t id);

/** Close a context and free its memory. */
void rdma_pair_close(rdma_pair_side_t *side);

#endif
