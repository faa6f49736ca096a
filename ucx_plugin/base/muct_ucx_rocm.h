/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_UCX_ROCM_H
#define MUCT_UCX_ROCM_H

/**
 * @file
 * UCX's own support of ROCm memory in this process.
 *
 * A UCX built with ROCm has a component that recognises, allocates and copies GPU
 * memory, and hooks that feed its cache of memory types. Where these work, our own stay
 * out of use. Where they are missing, as in every packaged UCX without ROCm, ours take
 * their place.
 */

#include "base/muct_gpu.h"

#include <stdbool.h>


/**
 * Whether UCX has a ROCm component of its own that finds devices here.
 *
 * Call it from a component's functions, when UCX has loaded all its modules.
 */
bool muct_ucx_rocm_is_there(void);


/**
 * Whether a list of transports in UCX_TLS's format allows UCX's own rocm_copy.
 *
 * @param [in] tls  As "all", "rocm,tcp" or "^rocm_copy".
 */
bool muct_ucx_rocm_is_allowed(const char *tls);


/**
 * Whether this process uses UCX's own rocm_copy: it exists, and UCX_TLS or UCX's
 * configuration file allows it. Settings that an application makes by calls are not
 * visible.
 */
bool muct_ucx_rocm_is_used(void);


/**
 * Whether UCX moves host memory by zero-copy in this process, through a NIC or cma,
 * knem or xpmem. Settings that an application makes by calls are not visible.
 */
bool muct_ucx_moves_host(void);


/**
 * Make UCX query memory domains for the type of memory, by turning its cache of memory
 * types off, where that cache misses this runtime's allocations.
 */
void muct_ucx_rocm_detect_without_cache(const muct_gpu_t *gpu);

#endif
