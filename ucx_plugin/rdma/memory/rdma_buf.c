/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/memory/rdma_buf.h"

#include "base/muct_log.h"
#include "rdma/memory/rdma_mr.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Some devices have few entries in their page tables (ionic). */
#define MUCT_RDMA_BUF_HUGE_PAGE ((size_t)2 << 20)

struct muct_rdma_buf_chunk {
    muct_rdma_buf_chunk_t *next;
    muct_rdma_mem_t *mem;
};

void muct_rdma_buf_pool_init(muct_rdma_buf_pool_t *pool, struct ibv_pd *pd, size_t size,
                             size_t align, unsigned grow, unsigned max,
                             const char *name)
{
    memset(pool, 0, sizeof(*pool));
    pool->pd = pd;
    pool->align = (align > MUCT_RDMA_BUF_ALIGN) ? align : MUCT_RDMA_BUF_ALIGN;
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
        muct_rdma_mem_destroy(chunk->mem);
        free(chunk);
    }
}

/* Distance between the data of two buffers; a header lies between them. */
static size_t muct_rdma_buf_stride(const muct_rdma_buf_pool_t *pool)
{
    return (sizeof(muct_rdma_buf_t) + pool->size + pool->align - 1) &
           ~(pool->align - 1);
}

/* NULL with errno set. The first buffer's data is two alignments behind the start: that
 * has room for the chunk and for the buffer's header. */
static muct_rdma_buf_chunk_t *muct_rdma_buf_chunk_create(muct_rdma_buf_pool_t *pool,
                                                         unsigned num)
{
    size_t length = 2 * pool->align + num * muct_rdma_buf_stride(pool);
    size_t page = (pool->align > 4096) ? pool->align : 4096;
    const muct_rdma_mem_params_t params = {
        .access =
            IBV_ACCESS_LOCAL_WRITE | (pool->is_open ? IBV_ACCESS_REMOTE_WRITE : 0),
        .chunk_shift = MUCT_RDMA_KEY_ONE_CHUNK,
        .is_quiet = true,
        .dmabuf_fd = -1};
    muct_rdma_buf_chunk_t *chunk;
    void *memory;

    if (length >= MUCT_RDMA_BUF_HUGE_PAGE) { /* whole pages */
        page = (page > MUCT_RDMA_BUF_HUGE_PAGE) ? page : MUCT_RDMA_BUF_HUGE_PAGE;
        length = (length + page - 1) & ~(page - 1);
    }
    errno = posix_memalign(&memory, page, length);
    if (errno != 0) {
        return NULL;
    }

    if (length >= MUCT_RDMA_BUF_HUGE_PAGE) {
        (void)madvise(memory, length, MADV_HUGEPAGE); /* small pages work as well */
    }

    memset(memory, 0, length);
    chunk = memory;
    if (muct_rdma_mem_create(pool->pd, memory, length, &params, &chunk->mem) !=
        UCS_OK) {
        free(memory);
        return NULL;
    }

    chunk->next = pool->chunks;
    pool->chunks = chunk;
    return chunk;
}

static void muct_rdma_buf_chunk_fill(muct_rdma_buf_pool_t *pool,
                                     muct_rdma_buf_chunk_t *chunk, unsigned num)
{
    char *data = (char *)chunk + 2 * pool->align;
    muct_rdma_buf_t *buf;
    unsigned i;

    for (i = 0; i < num; ++i, data += muct_rdma_buf_stride(pool)) {
        buf = (muct_rdma_buf_t *)(void *)data - 1;
        buf->pool = pool;
        buf->lkey = chunk->mem->mrs[0]->lkey;
        buf->rkey = chunk->mem->mrs[0]->rkey;
        buf->next = pool->free;
        pool->free = buf;
    }

    pool->num += num;
}

/* Continue with the buffers there are. A pool without any buffer tries again each time.
 */
static ucs_status_t muct_rdma_buf_pool_fail(muct_rdma_buf_pool_t *pool, int error)
{
    ucs_log(pool->has_failed ? UCS_LOG_LEVEL_DEBUG : UCS_LOG_LEVEL_ERROR,
            "no memory for another %s buffer of %zu bytes beside %u: ibv_reg_mr() "
            "failed: %s%s",
            pool->name, pool->size, pool->num, strerror(error),
            muct_rdma_mr_remedy(error));
    pool->has_failed = true;
    if (pool->num == 0) {
        return UCS_ERR_NO_MEMORY;
    }

    pool->max = pool->num;
    return UCS_ERR_NO_RESOURCE;
}

ucs_status_t muct_rdma_buf_pool_reserve(muct_rdma_buf_pool_t *pool, unsigned num)
{
    const unsigned left = pool->max - pool->num;
    muct_rdma_buf_chunk_t *chunk;

    num = (num < left) ? num : left;
    chunk = muct_rdma_buf_chunk_create(pool, num);
    if (chunk == NULL) {
        return UCS_ERR_NO_MEMORY;
    }

    muct_rdma_buf_chunk_fill(pool, chunk, num);
    return UCS_OK;
}

ucs_status_t muct_rdma_buf_pool_grow(muct_rdma_buf_pool_t *pool)
{
    unsigned num = pool->max - pool->num;
    muct_rdma_buf_chunk_t *chunk = NULL;

    if (num == 0) {
        return (pool->num > 0) ? UCS_ERR_NO_RESOURCE : UCS_ERR_NO_MEMORY;
    }

    num = (num < pool->grow) ? num : pool->grow;
    while ((num > 0) && (chunk == NULL)) {
        chunk = muct_rdma_buf_chunk_create(pool, num);
        num = (chunk == NULL) ? num / 2 : num;
    }

    if (chunk == NULL) {
        return muct_rdma_buf_pool_fail(pool, errno);
    }

    muct_rdma_buf_chunk_fill(pool, chunk, num);
    return UCS_OK;
}
