/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/rdma_buf.h"

#include "base/muct_log.h"
#include "rdma/rdma_mr.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct muct_rdma_buf_chunk {
    muct_rdma_buf_chunk_t *next;
    struct ibv_mr *mr;
};

void muct_rdma_buf_pool_init(muct_rdma_buf_pool_t *pool, struct ibv_pd *pd, size_t size,
                             unsigned grow, unsigned max, const char *name)
{
    memset(pool, 0, sizeof(*pool));
    pool->pd = pd;
    pool->size = (size + MUCT_RDMA_BUF_ALIGN - 1) & ~(size_t)(MUCT_RDMA_BUF_ALIGN - 1);
    pool->grow = (grow != 0) ? grow : 1;
    pool->max = max;
    pool->name = name;
}

void muct_rdma_buf_pool_cleanup(muct_rdma_buf_pool_t *pool)
{
    muct_rdma_buf_chunk_t *chunk;

    if (pool->num_in_use != 0) {
        muct_warn("%u of %u %s buffers are still in use", pool->num_in_use, pool->num,
                  pool->name);
    }

    while ((chunk = pool->chunks) != NULL) {
        pool->chunks = chunk->next;
        muct_rdma_mr_dereg(chunk->mr);
        free(chunk);
    }
}

static muct_rdma_buf_chunk_t *muct_rdma_buf_chunk_create(muct_rdma_buf_pool_t *pool,
                                                         unsigned num)
{
    size_t length =
        sizeof(muct_rdma_buf_t) + num * (sizeof(muct_rdma_buf_t) + pool->size);
    muct_rdma_buf_chunk_t *chunk;
    void *memory;

    /* the chunk's own header takes the place of one buffer's */
    if (posix_memalign(&memory, 4096, length) != 0) {
        muct_error("failed to allocate %zu bytes for %s buffers", length, pool->name);
        return NULL;
    }

    memset(memory, 0, length);
    chunk = memory;
    chunk->mr = muct_rdma_mr_reg(pool->pd, memory, length, IBV_ACCESS_LOCAL_WRITE);
    if (chunk->mr == NULL) {
        free(memory);
        return NULL;
    }

    chunk->next = pool->chunks;
    pool->chunks = chunk;
    return chunk;
}

muct_rdma_buf_t *muct_rdma_buf_pool_grow(muct_rdma_buf_pool_t *pool)
{
    size_t stride = sizeof(muct_rdma_buf_t) + pool->size;
    unsigned i, num = pool->max - pool->num;
    muct_rdma_buf_chunk_t *chunk;
    muct_rdma_buf_t *buf;
    char *memory;

    if (num == 0) {
        return NULL;
    }

    num = (num < pool->grow) ? num : pool->grow;
    chunk = muct_rdma_buf_chunk_create(pool, num);
    if (chunk == NULL) {
        return NULL;
    }

    memory = (char *)chunk + sizeof(muct_rdma_buf_t);
    for (i = 0; i < num; ++i) {
        buf = (muct_rdma_buf_t *)(void *)(memory + i * stride);
        buf->pool = pool;
        buf->lkey = chunk->mr->lkey;
        buf->next = pool->free;
        pool->free = buf;
    }

    pool->num += num;
    buf = pool->free;
    pool->free = buf->next;
    ++pool->num_in_use;
    return buf;
}
