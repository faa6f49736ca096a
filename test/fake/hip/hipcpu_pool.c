/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Pools of stream-ordered memory. A freed block keeps its address and its bytes in its
 * pool, and the next allocation of its size takes it. A stream or device that is
 * synchronized gives blocks above the release threshold back (test/kfd/hip_calls,
 * probes pool and pool_own). Frees wait for the stream's work here.
 */

#include "hipcpu_capture.h"
#include "hipcpu_impl.h"

#include <stdlib.h>
#include <string.h>

#define HIPCPU_POOL_THRESHOLD 4 /* hipMemPoolAttrReleaseThreshold */

typedef struct hipcpu_block {
    hipcpu_range_t range;
    struct hipcpu_block *next;
} hipcpu_block_t;

struct hipcpu_pool {
    int device;
    uint64_t threshold; /* bytes that a synchronization leaves in the pool */
    size_t kept;
    size_t num_used;
    hipcpu_block_t *blocks; /* the last freed first */
    struct hipcpu_pool *next;
};

static pthread_mutex_t hipcpu_pools_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hipcpu_pool hipcpu_default_pools[HIPCPU_MAX_DEVICES];
static struct hipcpu_pool *hipcpu_own_pools;

/* What hipcpu_pool_mark() writes into a range */
typedef struct hipcpu_mark {
    hipMemPool_t pool;
    bool is_kept;
} hipcpu_mark_t;

static bool hipcpu_pool_mark_cb(hipcpu_range_t *range, void *arg)
{
    const hipcpu_mark_t *mark = arg;

    range->pool = mark->pool;
    range->is_kept = mark->is_kept;
    return false;
}

static void hipcpu_pool_mark(uintptr_t base, hipMemPool_t pool, bool is_kept)
{
    hipcpu_mark_t mark = {pool, is_kept};

    hipcpu_range_change(base, hipcpu_pool_mark_cb, &mark);
}

/* A kept block of this size; the lock is held. */
static bool hipcpu_pool_take(hipMemPool_t pool, size_t size, hipcpu_range_t *range)
{
    hipcpu_block_t **link, *block;

    for (link = &pool->blocks; *link != NULL; link = &(*link)->next) {
        block = *link;
        if (block->range.size == size) {
            *range = block->range;
            *link = block->next;
            pool->kept -= range->mapped;
            free(block);
            return true;
        }
    }

    return false;
}

/* Give blocks back until a pool keeps at most this much; the lock is held. */
static void hipcpu_pool_trim(hipMemPool_t pool, uint64_t kept)
{
    hipcpu_block_t *block;

    while ((pool->blocks != NULL) && (pool->kept > kept)) {
        block = pool->blocks;
        pool->blocks = block->next;
        pool->kept -= block->range.mapped;
        hipcpu_memory_release(&block->range);
        free(block);
    }
}

void hipcpu_pools_settle(void)
{
    hipMemPool_t pool;
    int i;

    pthread_mutex_lock(&hipcpu_pools_lock);
    for (i = 0; i < HIPCPU_MAX_DEVICES; ++i) {
        hipcpu_pool_trim(&hipcpu_default_pools[i], hipcpu_default_pools[i].threshold);
    }
    for (pool = hipcpu_own_pools; pool != NULL; pool = pool->next) {
        hipcpu_pool_trim(pool, pool->threshold);
    }
    pthread_mutex_unlock(&hipcpu_pools_lock);
}

void hipcpu_pool_keep(const hipcpu_range_t *range)
{
    hipcpu_block_t *block = malloc(sizeof(*block));

    if (block == NULL) {
        hipcpu_misuse("no memory for a block of a pool");
    }

    pthread_mutex_lock(&hipcpu_pools_lock);
    hipcpu_pool_mark(range->base, range->pool, true);
    block->range = *range;
    block->next = range->pool->blocks;
    range->pool->blocks = block;
    range->pool->kept += range->mapped;
    --range->pool->num_used;
    pthread_mutex_unlock(&hipcpu_pools_lock);
}

static bool hipcpu_pool_drop_cb(hipcpu_range_t *range, void *arg)
{
    (void)range;
    (void)arg;
    return true;
}

/* ROCm 7 gives kept memory a new number (7.2.4). */
static void hipcpu_pool_renumber(const hipcpu_range_t *range)
{
    if (hipcpu_config.major >= 7) {
        hipcpu_range_change(range->base, hipcpu_pool_drop_cb, NULL);
        hipcpu_range_add(range);
    }
}

static hipError_t hipcpu_pool_alloc(void **ptr, size_t size, hipMemPool_t pool)
{
    hipcpu_range_t range;
    hipError_t error;

    pthread_mutex_lock(&hipcpu_pools_lock);
    if (hipcpu_pool_take(pool, size, &range)) {
        hipcpu_pool_renumber(&range);
        *ptr = (void *)range.base;
        ++hipcpu_counts[HIPCPU_ALLOCATIONS];
        error = hipSuccess;
    } else {
        error = hipcpu_memory_alloc(ptr, size, pool->device);
    }
    if ((error == hipSuccess) && (*ptr != NULL)) {
        hipcpu_pool_mark((uintptr_t)*ptr, pool, false);
        ++pool->num_used;
    }
    pthread_mutex_unlock(&hipcpu_pools_lock);
    return error;
}

/* In a child of fork(2): another thread of the parent may hold the lock. */
static void hipcpu_pools_in_child(void)
{
    pthread_mutex_init(&hipcpu_pools_lock, NULL);
}

static void __attribute__((constructor)) hipcpu_pools_init(void)
{
    int device;

    for (device = 0; device < HIPCPU_MAX_DEVICES; ++device) {
        hipcpu_default_pools[device].device = device;
    }
    pthread_atfork(NULL, NULL, hipcpu_pools_in_child);
}

static hipMemPool_t hipcpu_pool_of(int device)
{
    return &hipcpu_default_pools[device];
}

hipError_t hipMallocAsync(void **ptr, size_t size, hipStream_t stream)
{
    HIPCPU_ENTER(hipMallocAsync);
    (void)hipcpu_stream_line(stream, "hipMallocAsync");
    return hipcpu_result(
        hipcpu_pool_alloc(ptr, size, hipcpu_pool_of(hipcpu_device_current())));
}

hipError_t hipMallocFromPoolAsync(void **ptr, size_t size, hipMemPool_t pool,
                                  hipStream_t stream)
{
    HIPCPU_ENTER(hipMallocFromPoolAsync);
    (void)hipcpu_stream_line(stream, "hipMallocFromPoolAsync");
    if (pool == NULL) {
        return hipcpu_result(hipErrorInvalidValue);
    }
    return hipcpu_result(hipcpu_pool_alloc(ptr, size, pool));
}

hipError_t hipFreeAsync(void *ptr, hipStream_t stream)
{
    HIPCPU_ENTER(hipFreeAsync);
    (void)hipcpu_stream_line(stream, "hipFreeAsync");
    return hipFree(ptr); /* waits for all streams */
}

static hipError_t hipcpu_pool_get(hipMemPool_t *pool, int device)
{
    if ((pool == NULL) || (device < 0) || (device >= hipcpu_config.num_devices)) {
        return hipcpu_result(hipErrorInvalidValue);
    }

    *pool = hipcpu_pool_of(device);
    return hipSuccess;
}

hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t *pool, int device)
{
    HIPCPU_ENTER(hipDeviceGetDefaultMemPool);
    return hipcpu_pool_get(pool, device);
}

/* No program here has set another one. */
hipError_t hipDeviceGetMemPool(hipMemPool_t *pool, int device)
{
    HIPCPU_ENTER(hipDeviceGetMemPool);
    return hipcpu_pool_get(pool, device);
}

hipError_t hipMemPoolCreate(hipMemPool_t *pool, const hipMemPoolProps *props)
{
    struct hipcpu_pool *created;

    HIPCPU_ENTER(hipMemPoolCreate);
    if ((pool == NULL) || (props == NULL) || (props->location.id < 0) ||
        (props->location.id >= hipcpu_config.num_devices)) {
        return hipcpu_result(hipErrorInvalidValue);
    }

    created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return hipcpu_result(hipErrorOutOfMemory);
    }

    created->device = props->location.id;
    pthread_mutex_lock(&hipcpu_pools_lock);
    created->next = hipcpu_own_pools;
    hipcpu_own_pools = created;
    pthread_mutex_unlock(&hipcpu_pools_lock);
    *pool = created;
    return hipSuccess;
}

hipError_t hipMemPoolDestroy(hipMemPool_t pool)
{
    struct hipcpu_pool **link;

    HIPCPU_ENTER(hipMemPoolDestroy);
    pthread_mutex_lock(&hipcpu_pools_lock);
    for (link = &hipcpu_own_pools; (*link != NULL) && (*link != pool);
         link = &(*link)->next) {
    }
    if (*link == NULL) {
        pthread_mutex_unlock(&hipcpu_pools_lock);
        return hipcpu_result(hipErrorInvalidValue);
    }
    if (pool->num_used != 0) {
        hipcpu_misuse("hipMemPoolDestroy(%p): %zu blocks of it are in use",
                      (void *)pool, pool->num_used);
    }
    *link = pool->next;
    hipcpu_pool_trim(pool, 0);
    pthread_mutex_unlock(&hipcpu_pools_lock);
    free(pool);
    return hipSuccess;
}

hipError_t hipMemPoolTrimTo(hipMemPool_t pool, size_t kept)
{
    HIPCPU_ENTER(hipMemPoolTrimTo);
    if (pool == NULL) {
        return hipcpu_result(hipErrorInvalidValue);
    }

    pthread_mutex_lock(&hipcpu_pools_lock);
    hipcpu_pool_trim(pool, kept);
    pthread_mutex_unlock(&hipcpu_pools_lock);
    return hipSuccess;
}

hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, int attribute, void *value)
{
    HIPCPU_ENTER(hipMemPoolSetAttribute);
    if ((pool == NULL) || (value == NULL) || (attribute != HIPCPU_POOL_THRESHOLD)) {
        return hipcpu_result(hipErrorInvalidValue);
    }

    pthread_mutex_lock(&hipcpu_pools_lock);
    memcpy(&pool->threshold, value, sizeof(pool->threshold));
    pthread_mutex_unlock(&hipcpu_pools_lock);
    return hipSuccess;
}

hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, int attribute, void *value)
{
    HIPCPU_ENTER(hipMemPoolGetAttribute);
    if ((pool == NULL) || (value == NULL) || (attribute != HIPCPU_POOL_THRESHOLD)) {
        return hipcpu_result(hipErrorInvalidValue);
    }

    pthread_mutex_lock(&hipcpu_pools_lock);
    memcpy(value, &pool->threshold, sizeof(pool->threshold));
    pthread_mutex_unlock(&hipcpu_pools_lock);
    return hipSuccess;
}
