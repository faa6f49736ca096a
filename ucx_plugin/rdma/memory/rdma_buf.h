/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_BUF_H
#define MUCT_RDMA_BUF_H

/**
 * @file
 * Registered buffers of one size, to receive into, and to send from when the caller's
 * memory cannot be used (copied, packed).
 *
 * A pool grows by chunks and gives memory back when it is cleaned up. If memory cannot
 * be registered, the pool continues with the buffers it has, and logs this once. If it
 * has none, requests return UCS_ERR_NO_MEMORY. A buffer is owned by the code that got
 * it, until it is put back. One thread per pool.
 */

#include "base/muct_uct_abi.h"
#include "rdma/device/rdma_verbs.h"

#include <stdbool.h>

#define MUCT_RDMA_BUF_ALIGN 64

typedef struct muct_rdma_buf muct_rdma_buf_t;
typedef struct muct_rdma_buf_chunk muct_rdma_buf_chunk_t;

typedef struct muct_rdma_buf_pool {
    struct ibv_pd *pd;
    muct_rdma_buf_t *free;
    muct_rdma_buf_chunk_t *chunks;
    size_t size;         /**< Bytes of each buffer's data */
    size_t align;        /**< Alignment of the data; a power of two */
    unsigned grow;       /**< Buffers of a chunk */
    unsigned max;        /**< Most buffers, UINT_MAX for no limit */
    unsigned num;        /**< Buffers made */
    unsigned num_in_use; /**< Buffers not in the pool */
    bool has_failed;     /**< Growing failed; logged */
    bool is_open;        /**< Peers may write to the buffers; set it before the first */
    const char *name;
} muct_rdma_buf_pool_t;

/** Header in front of the data, with the state of the operation that uses the buffer.
 */
struct muct_rdma_buf {
    muct_rdma_buf_t *next; /**< Next in the pool, or in a list of its owner */
    muct_rdma_buf_pool_t *pool;
    uct_completion_t *comp;
    uct_unpack_callback_t unpack;
    void *arg;
    uint32_t lkey;
    uint32_t rkey; /**< Set while the pool is_open */
    uint32_t length;
} __attribute__((aligned(MUCT_RDMA_BUF_ALIGN)));

/**
 * Bind a pool to a protection domain; nothing is allocated yet.
 *
 * @param [in] size   Bytes of a buffer's data.
 * @param [in] align  Of the data, a power of two; at least MUCT_RDMA_BUF_ALIGN is used.
 * @param [in] grow   Buffers to make at once.
 * @param [in] max    Most buffers, UINT_MAX for no limit.
 */
void muct_rdma_buf_pool_init(muct_rdma_buf_pool_t *pool, struct ibv_pd *pd, size_t size,
                             size_t align, unsigned grow, unsigned max,
                             const char *name);

/** Free all memory. Buffers in use are reported with a warning. */
void muct_rdma_buf_pool_cleanup(muct_rdma_buf_pool_t *pool);

/**
 * Make more buffers.
 *
 * @return UCS_OK
 * @return UCS_ERR_NO_RESOURCE  There are buffers, all in use, and no more can be made.
 * @return UCS_ERR_NO_MEMORY    There are none; the reason was logged.
 */
ucs_status_t muct_rdma_buf_pool_grow(muct_rdma_buf_pool_t *pool);

/**
 * Make @a num further buffers, or as many as the limit allows.
 *
 * @return UCS_OK             All of them were made.
 * @return UCS_ERR_NO_MEMORY  None was made; errno has the reason, which is not logged.
 */
ucs_status_t muct_rdma_buf_pool_reserve(muct_rdma_buf_pool_t *pool, unsigned num);

/** Buffers in the pool now. */
static inline unsigned muct_rdma_buf_pool_num_free(const muct_rdma_buf_pool_t *pool)
{
    return pool->num - pool->num_in_use;
}

/** Whether every buffer of the pool is in use and no more may be allocated. */
static inline bool muct_rdma_buf_pool_is_dry(const muct_rdma_buf_pool_t *pool)
{
    return (pool->free == NULL) && (pool->num >= pool->max);
}

/** First byte of a buffer's data, with the pool's alignment. */
static inline void *muct_rdma_buf_data(muct_rdma_buf_t *buf)
{
    return buf + 1;
}

/** Take a buffer. @return As @ref muct_rdma_buf_pool_grow. */
static inline ucs_status_t muct_rdma_buf_get(muct_rdma_buf_pool_t *pool,
                                             muct_rdma_buf_t **buf_p)
{
    ucs_status_t status;

    if (__builtin_expect(pool->free == NULL, 0)) {
        status = muct_rdma_buf_pool_grow(pool);
        if (status != UCS_OK) {
            return status;
        }
    }

    *buf_p = pool->free;
    pool->free = pool->free->next;
    ++pool->num_in_use;
    return UCS_OK;
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
