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
 * Does a list of transports, as UCX_TLS has it, allow UCX's own rocm_copy?
 *
 * @param [in] tls  As "all", "rocm,tcp" or "^rocm_copy".
 */
bool muct_ucx_rocm_is_allowed(const char *tls);


/**
 * Is UCX's own rocm_copy used in this process: is it there, and do UCX_TLS or UCX's
 * configuration file allow it? What an application sets by itself is not seen.
 */
bool muct_ucx_rocm_is_used(void);


/**
 * Does UCX move host memory by zero-copy in this process, through a NIC or cma, knem or
 * xpmem? What an application sets by itself is not seen.
 */
bool muct_ucx_moves_host(void);


/**
 * Have UCX ask memory domains for the type of memory where its own cache of memory
 * types would not know this runtime's allocations: turns the cache off.
 */
void muct_ucx_rocm_detect_without_cache(const muct_gpu_t *gpu);

#endif
