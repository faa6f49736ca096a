/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_HIP_H
#define MKV_HIP_H

/**
 * @file
 * GPU memory for tests: the few HIP calls they need, from whatever
 * libamdhip64 the library path leads to (libhipcpu, a shim, AMD's).
 *
 * UCX_MORI_TEST_HIP names another file.
 */

#include <stddef.h>
#include <stdint.h>

/** @return Number of devices; 0 without a runtime, the reason in mkv_hip_why(). */
int mkv_hip_num_devices(void);

/** @return Why there is no device, never NULL. */
const char *mkv_hip_why(void);

/** Choose the device of later allocations; nonzero on success. */
int mkv_hip_set_device(int device);

/** @return The calling thread's device; -1 without a runtime. */
int mkv_hip_current_device(void);

/** @return Device memory, or NULL. */
void *mkv_hip_alloc(size_t length);

/** Free device memory; nonzero on success. */
int mkv_hip_free(void *addr);

/** @return Memory of the host, pinned by the runtime, or NULL. */
void *mkv_hip_alloc_host(size_t length);

/** Free pinned memory; nonzero on success. */
int mkv_hip_free_host(void *addr);

/** @return Bytes of the current device that are free; 0 without one. */
size_t mkv_hip_free_bytes(void);

/** Copy in any direction and wait; nonzero on success. */
int mkv_hip_copy(void *to, const void *from, size_t length);

/**
 * Bytes that the runtime has copied in this process so far, of which one end at least
 * was memory of the host; marks that a stream or a kernel writes are none.
 *
 * @param [out] from_host  Read in memory of the host.
 * @param [out] to_host    Written to memory of the host.
 *
 * @return Nonzero on success; a runtime other than libhipcpu counts nothing.
 */
int mkv_hip_copied(uint64_t *from_host, uint64_t *to_host);

/** @return The device an address is memory of; -1 for none. */
int mkv_hip_device_of(const void *addr);

/**
 * @return Result of hipGetLastError() for this thread; 0 without a runtime.
 */
int mkv_hip_last_error(void);

#endif
