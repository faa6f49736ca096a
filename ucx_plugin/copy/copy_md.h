/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_COPY_MD_H
#define MUCT_COPY_MD_H

/**
 * @file
 * Memory domain of mori_copy: GPU memory that this process can copy from and to.
 *
 * Memory types. Host, ROCM and ROCM_MANAGED memory is accessed without registration and
 * without keys. The domain recognises ROCM and ROCM_MANAGED memory, and allocates ROCM
 * memory, where no other component does.
 *
 * Registration is of host memory alone, and costs nothing by itself: memory is pinned
 * when it is first the end of an asynchronous copy, as UCX's staging buffers are. An
 * application's memory that is only mapped stays as it is.
 *
 * Where UCX has a rocm_copy of its own and uses it, the domain accesses nothing, so
 * that UCP does not choose it.
 */

#include "base/muct_gpu.h"
#include "base/muct_transport.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/** Name of the component and of its transport */
#define MUCT_COPY_NAME "mori_copy"


/** A memory domain. */
typedef struct muct_copy_md {
    uct_md_t super;
    const muct_gpu_t *gpu;
    bool is_active; /**< UCX's own ROCm support is not in use */
    bool is_detecting;
    bool is_pinning;
    pthread_mutex_t pin_lock; /**< Guards all memory that is being pinned */
} muct_copy_md_t;

/** Registered host memory. */
typedef struct muct_copy_mem {
    void *address;
    size_t length;
    atomic_int is_tried; /**< Pinning was: nothing is to be done */
    bool is_pinned;      /**< By us */
} muct_copy_mem_t;

/** The component, with room for what point releases append. */
typedef MUCT_ABI_PADDED(uct_component_t) muct_copy_component_t;

extern muct_copy_component_t muct_copy_component;


/** Slow half of @ref muct_copy_mem_pin. */
void muct_copy_mem_try_to_pin(muct_copy_md_t *md, muct_copy_mem_t *mem);


/** Pin registered memory, once; it stays as it is where that cannot be done. */
static inline void muct_copy_mem_pin(muct_copy_md_t *md, muct_copy_mem_t *mem)
{
    if (!atomic_load_explicit(&mem->is_tried, memory_order_acquire)) {
        muct_copy_mem_try_to_pin(md, mem);
    }
}

#endif
