/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_BUF_H
#define MUCT_RDMA_BUF_H

/**
 * @file
 * Registered buffers of one size: what is sent from when the caller's memory cannot
 * be (copied, packed), and what is received into.
 *
 * A pool grows by chunks and gives memory back when it is cleaned up. A buffer is
 * owned by who got it, until it is put back. One thread per pool.
 */

#include "base/muct_uct_abi.h"
#include "rdma/rdma_verbs.h"

#define MUCT_RDMA_BUF_ALIGN 64

typedef struct muct_rdma_buf muct_rdma_buf_t;
typedef struct muct_rdma_buf_chunk muct_rdma_buf_chunk_t;

typedef struct muct_rdma_buf_pool {
    struct ibv_pd *pd;
    muct_rdma_buf_t *free;
    muct_rdma_buf_chunk_t *chunks;
    size_t size;         /**< Bytes of each buffer's data */
    unsigned grow;       /**< Buffers of a chunk */
    unsigned max;        /**< Most buffers, UINT_MAX for no limit */
    unsigned num;        /**< Buffers made */
    unsigned num_in_use; /**< Of them, not in the pool */
    const char *name;
} muct_rdma_buf_pool_t;

/** In front of the data. What an operation keeps until it ends is here, too. */
struct muct_rdma_buf {
    muct_rdma_buf_t *next; /**< In the pool, or in a list of its owner */
    muct_rdma_buf_pool_t *pool;
    uct_completion_t *comp;
    uct_unpack_callback_t unpack;
    void *arg;
    uint32_t lkey;
    uint32_t length;
} __attribute__((aligned(MUCT_RDMA_BUF_ALIGN)));

/** Bind a pool to a protection domain; nothing is allocated yet. */
void muct_rdma_buf_pool_init(muct_rdma_buf_pool_t *pool, struct ibv_pd *pd, size_t size,
                             unsigned grow, unsigned max, const char *name);

/** Free all memory. Buffers in use are reported with a warning. */
void muct_rdma_buf_pool_cleanup(muct_rdma_buf_pool_t *pool);

/** Make more buffers; NULL at the limit or without memory (the latter is logged). */
muct_rdma_buf_t *muct_rdma_buf_pool_grow(muct_rdma_buf_pool_t *pool);

/** First byte of a buffer's data, aligned to MUCT_RDMA_BUF_ALIGN. */
static inline void *muct_rdma_buf_data(muct_rdma_buf_t *buf)
{
    return buf + 1;
}

/** Take a buffer; NULL when there is none and none can be made. */
static inline muct_rdma_buf_t *muct_rdma_buf_get(muct_rdma_buf_pool_t *pool)
{
    muct_rdma_buf_t *buf = pool->free;

    if (__builtin_expect(buf == NULL, 0)) {
        return muct_rdma_buf_pool_grow(pool);
    }

    pool->free = buf->next;
    ++pool->num_in_use;
    return buf;
}

/** Give a buffer back. */
static inline void muct_rdma_buf_put(muct_rdma_buf_t *buf)
{
    muct_rdma_buf_pool_t *pool = buf->pool;

    buf->next = pool->free;
    pool->free = buf;
    --pool->num_in_use;
}

#endif
