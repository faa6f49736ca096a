/* SPDX-License-Identifier: BSD-3-Clause */

/* See risks_kernel.h. */

#include <hip/hip_runtime.h>

#include "risks_kernel.h"

extern "C" __global__ void risks_watch(const risks_watch_args_t args)
{
    const uint32_t *flag = (const uint32_t *)args.flag;
    const volatile uint32_t *memory = (const volatile uint32_t *)args.memory;
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    unsigned long long bad = 0;
    uint64_t i;

    if (threadIdx.x == 0) {
        if (blockIdx.x == 0) {
            __hip_atomic_store((uint32_t *)args.started, args.sequence,
                               __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
        }
        while ((int32_t)(__hip_atomic_load(flag, __ATOMIC_ACQUIRE,
                                           __HIP_MEMORY_SCOPE_SYSTEM) -
                         args.sequence) < 0) {
        }
    }
    __syncthreads();
    __threadfence_system();

    for (i = ((uint64_t)blockIdx.x * blockDim.x) + threadIdx.x; i < args.num_words;
         i += step) {
        bad += (memory[i] != risks_word(i, args.seed));
    }
    if (bad != 0) {
        __hip_atomic_fetch_add((unsigned long long *)args.bad, bad, __ATOMIC_RELAXED,
                               __HIP_MEMORY_SCOPE_SYSTEM);
    }
}
