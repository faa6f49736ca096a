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
 * when it is first the end of an asynchronous copy, as UCX's staging buffers are.
 * Memory that an application only maps is not pinned.
 *
 * Where UCX has a rocm_copy of its own and uses it, the domain accesses nothing, so
 * that UCP does not choose it.
 */

#include "base/muct_gpu.h"
#include "base/memory/muct_pin.h"
#include "base/muct_transport.h"

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
} muct_copy_md_t;

/** The component, with room for members that point releases append. */
typedef MUCT_ABI_PADDED(uct_component_t) muct_copy_component_t;

extern muct_copy_component_t muct_copy_component;

#endif
