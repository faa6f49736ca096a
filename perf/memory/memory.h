/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_MEMORY_H
#define PERF_MEMORY_H

/**
 * @file
 * Memory that is moved: of the host, or of a GPU through a HIP runtime that is opened
 * on demand, so that the program starts without one.
 *
 * Threads. Each memory is used by one thread.
 */

#include "perf/workload/options.h"

#include <ucs/memory/memory_type.h>

#include <stddef.h>


typedef struct perf_memory perf_memory_t;


/**
 * Open host memory, or the first GPU this process sees.
 *
 * @param [in]  segment      DRAM or VRAM.
 * @param [in]  hip_library  Path of the HIP runtime; NULL: libamdhip64 of the search
 *                           path.
 * @param [out] memory_p     Owned by the caller.
 *
 * @return 0, or -1 after @ref perf_error (no runtime, no GPU, no host memory).
 */
int perf_memory_open(perf_segment_t segment, const char *hip_library,
                     perf_memory_t **memory_p);

/** Everything allocated must have been freed. */
void perf_memory_close(perf_memory_t *memory);

/** @return Page-aligned bytes, or NULL after @ref perf_error. */
void *perf_memory_alloc(perf_memory_t *memory, size_t size);

void perf_memory_free(perf_memory_t *memory, void *address, size_t size);

/**
 * Queue a copy from host bytes into the memory, or from it into host bytes.
 *
 * Host bytes must stay untouched until @ref perf_memory_sync, which returns the result.
 */
void perf_memory_write(perf_memory_t *memory, void *address, const void *host,
                       size_t length);
void perf_memory_read(perf_memory_t *memory, void *host, const void *address,
                      size_t length);

/** Wait for all queued copies. @return 0, or -1 after @ref perf_error. */
int perf_memory_sync(perf_memory_t *memory);

/** Set the memory type that UCX gets for memory of the GPU, instead of ROCm's. */
void perf_memory_set_gpu_type(perf_memory_t *memory, perf_gpu_type_t type);

/** Memory type to pass to UCX. */
ucs_memory_type_t perf_memory_type(const perf_memory_t *memory);

/** Name of the GPU, or "host". */
const char *perf_memory_device(const perf_memory_t *memory);

#endif
