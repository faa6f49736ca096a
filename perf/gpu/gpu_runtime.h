/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef GPU_RUNTIME_H
#define GPU_RUNTIME_H

/**
 * @file
 * The GPU as a benchmark sees it: the runtime's functions, found by dlopen like the
 * product finds them, and two devices with memory, stream and copy kernel each.
 *
 * Each function prints the error and ends the program when the runtime fails: a
 * benchmark has no fallback.
 */

#include "xgmi/copy/xgmi_list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


/** Functions of the runtime: X(member, symbol, arguments) */
#define GPU_REQUIRED(X)                                                                \
    X(get_count, "hipGetDeviceCount", (int *count))                                    \
    X(get_version, "hipRuntimeGetVersion", (int *version))                             \
    X(set_device, "hipSetDevice", (int device))                                        \
    X(get_name, "hipDeviceGetName", (char *name, int length, int device))              \
    X(enable_peer, "hipDeviceEnablePeerAccess", (int peer, unsigned flags))            \
    X(priorities, "hipDeviceGetStreamPriorityRange", (int *least, int *greatest))      \
    X(alloc, "hipMalloc", (void **ptr, size_t size))                                   \
    X(free, "hipFree", (void *ptr))                                                    \
    X(alloc_host, "hipHostMalloc", (void **ptr, size_t size, unsigned flags))          \
    X(free_host, "hipHostFree", (void *ptr))                                           \
    X(copy, "hipMemcpy", (void *dst, const void *src, size_t size, int kind))          \
    X(copy_async, "hipMemcpyAsync",                                                    \
      (void *dst, const void *src, size_t size, int kind, void *stream))               \
    X(fill, "hipMemset", (void *dst, int value, size_t size))                          \
    X(stream_create, "hipStreamCreateWithPriority",                                    \
      (void **stream, unsigned flags, int priority))                                   \
    X(stream_destroy, "hipStreamDestroy", (void *stream))                              \
    X(stream_synchronize, "hipStreamSynchronize", (void *stream))                      \
    X(stream_query, "hipStreamQuery", (void *stream))                                  \
    X(event_create, "hipEventCreateWithFlags", (void **event, unsigned flags))         \
    X(event_destroy, "hipEventDestroy", (void *event))                                 \
    X(event_record, "hipEventRecord", (void *event, void *stream))                     \
    X(event_query, "hipEventQuery", (void *event))                                     \
    X(module_load, "hipModuleLoadData", (void **module, const void *image))            \
    X(module_unload, "hipModuleUnload", (void *module))                                \
    X(module_get_function, "hipModuleGetFunction",                                     \
      (void **function, void *module, const char *name))                               \
    X(launch, "hipModuleLaunchKernel",                                                 \
      (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,             \
       unsigned by, unsigned bz, unsigned shared, void *stream, void **params,         \
       void **extra))

#define GPU_OPTIONAL(X)                                                                \
    X(write_value, "hipStreamWriteValue32",                                            \
      (void *stream, void *ptr, uint32_t value, unsigned flags))                       \
    X(copy_batch, "hipMemcpyBatchAsync",                                               \
      (void **dsts, void **srcs, size_t *sizes, size_t count, void *attrs,             \
       size_t *indexes, size_t num_attrs, size_t *failed, void *stream))

#define GPU_MEMBER(_name, _symbol, _args) int(*_name) _args;

typedef struct gpu_runtime {
    GPU_REQUIRED(GPU_MEMBER)
    GPU_OPTIONAL(GPU_MEMBER)
    int num_devices;
    int version;
    char name[128]; /**< Name of device 0 */
} gpu_runtime_t;

/** hipMemcpyDefault: the runtime looks where both ends are */
#define GPU_COPY_DEFAULT 4

/** Status of hipEventQuery() and hipStreamQuery() for unfinished work */
#define GPU_NOT_READY 600

/** hipEventDisableTiming */
#define GPU_EVENT_NO_TIMING 2

/** A stream with the resources that its launches share. */
typedef struct gpu_lane {
    void *stream;
    void *arrivals;          /**< Counters in device memory */
    volatile uint32_t *flag; /**< Flag in pinned memory */
    uint32_t sequence;       /**< Sequence number of the last launch */
} gpu_lane_t;

#define GPU_MAX_LANES 2

typedef struct gpu_device {
    int number;
    void *module; /**< NULL: no code object for this GPU */
    void *kernel; /**< Copy kernel of the module */
    gpu_lane_t lanes[GPU_MAX_LANES];
    gpu_lane_t background; /**< Stream of normal priority */
    char *pool;
} gpu_device_t;


/** End the program unless a call succeeded. */
void gpu_check(int error, const char *what);


/** Load @a path, or NULL: the library that the product would find. */
void gpu_runtime_load(gpu_runtime_t *gpu, const char *path);


/** Prepare a device: pool, streams, kernel, access to @a peer (-1: none). */
void gpu_device_init(const gpu_runtime_t *gpu, gpu_device_t *device, int number,
                     int peer, size_t pool_size);


/** Let the current device reach the memory of @a peer. */
void gpu_enable_peer(const gpu_runtime_t *gpu, int peer);


/** Wait for a device's streams and free all that gpu_device_init() made. */
void gpu_device_cleanup(const gpu_runtime_t *gpu, gpu_device_t *device);


/** Pinned memory, to be freed by gpu_free_host(). */
void *gpu_alloc_host(const gpu_runtime_t *gpu, size_t size);


void gpu_free_host(const gpu_runtime_t *gpu, void *ptr);


/** Launch the copy kernel for a list; returns at once. */
void gpu_launch(const gpu_runtime_t *gpu, const gpu_device_t *device, gpu_lane_t *lane,
                const muct_xgmi_list_t *list, uint32_t max_blocks);


/** The same with the list's entries where they were copied to. */
void gpu_launch_at(const gpu_runtime_t *gpu, const gpu_device_t *device,
                   gpu_lane_t *lane, const muct_xgmi_list_t *list, uint32_t max_blocks,
                   uint64_t entries);


/** Spin until the last launch on a lane is over. */
void gpu_wait(const gpu_lane_t *lane);


/** Spin until an earlier one is, of which @a sequence was the number. */
void gpu_wait_for(const gpu_lane_t *lane, uint32_t sequence);


/** Microseconds of a monotonic clock. */
double gpu_now_us(void);

#endif
