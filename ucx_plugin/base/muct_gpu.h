/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_GPU_H
#define MUCT_GPU_H

/**
 * @file
 * AMD's GPU runtime, found at run time.
 *
 * One table of hip* functions, bound by dlopen, so that one binary runs with any AMD
 * runtime from ROCm 5 to 7 and on machines without one. This file hides all differences
 * between the runtime's versions.
 *
 * Identity. One table per process. The runtime that the application already mapped is
 * used, because a second copy would not recognize the application's pointers. Otherwise
 * libamdhip64.so.7, .6 and .5 are tried. UCX_MORI_HIP_LIB overrides the library.
 *
 * Threads. Every function may be called from any thread. The current device of the
 * calling thread is left as it was found.
 *
 * Errors. The runtime keeps the last error of each thread, from ROCm 7.0 on until it is
 * read, and applications read it after each of their kernel launches. They must not
 * find an error of this module there. If a function of the table fails, the caller
 * therefore calls @ref muct_gpu_error_name, or @ref muct_gpu_forget where the error is
 * not logged.
 */

#include <ucs/config/parser.h>
#include <ucs/memory/memory_type.h>
#include <ucs/type/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


/** hipError_t values that this module handles; the same in all versions */
enum {
    MUCT_HIP_SUCCESS = 0,
    MUCT_HIP_INVALID_VALUE = 1,
    MUCT_HIP_OUT_OF_MEMORY = 2,
    MUCT_HIP_NO_DEVICE = 100,
    MUCT_HIP_INVALID_CONTEXT = 201,
    MUCT_HIP_ALREADY_MAPPED = 208,
    MUCT_HIP_PEER_UNSUPPORTED = 217,
    MUCT_HIP_NOT_READY = 600,
    MUCT_HIP_PEER_ALREADY_ENABLED = 704,
    MUCT_HIP_HOST_ALREADY_REGISTERED = 712,
    MUCT_HIP_CAPTURE_UNSUPPORTED = 900, /**< Some thread captures a graph: try again */
    MUCT_HIP_CAPTURED_EVENT = 907       /**< Some thread captures a graph: try again */
};

/** Arguments of the functions below; the same in all versions */
enum {
    MUCT_HIP_MEMCPY_DEFAULT = 4,
    MUCT_HIP_STREAM_NON_BLOCKING = 1,
    MUCT_HIP_EVENT_DISABLE_TIMING = 2,
    MUCT_HIP_HOST_PORTABLE = 1,
    MUCT_HIP_HOST_MAPPED = 2,
    MUCT_HIP_HOST_COHERENT = 0x40000000,
    MUCT_HIP_HOST_REGISTER_PORTABLE = 1,
    MUCT_HIP_CAPTURE_RELAXED = 2,
    MUCT_HIP_POINTER_BUFFER_ID = 7
};

typedef struct muct_hip_ipc_mem_handle {
    char reserved[64];
} muct_hip_ipc_mem_handle_t;

typedef struct muct_hip_pointer_attribute {
    int type;
    int device;
    void *device_pointer;
    void *host_pointer;
    int is_managed;
    unsigned allocation_flags;
} muct_hip_pointer_attribute_t;

/** HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED: a bool, from interface 1.12 of KFD on */
#define MUCT_HSA_DMABUF_SUPPORTED 0x204

/** First fields of hsa_amd_pointer_info_t; ROCr fills @a size bytes. */
typedef struct muct_hsa_pointer_info {
    uint32_t size;
    int type;
    void *agent_base;
    void *host_base;
    size_t length;
    void *user_data;
    uint64_t owner;
} muct_hsa_pointer_info_t;

typedef void *muct_hip_stream_t;
typedef void *muct_hip_event_t;
typedef void *muct_hip_module_t;
typedef void *muct_hip_function_t;
typedef void (*muct_hip_stream_callback_t)(muct_hip_stream_t stream, int error,
                                           void *arg);

/**
 * Functions the runtime must have: X(member, return type, symbol, arguments).
 * All are in every runtime from ROCm 5.0 on.
 */
#define MUCT_HIP_REQUIRED(X)                                                           \
    X(runtime_get_version, int, "hipRuntimeGetVersion", (int *version))                \
    X(get_device_count, int, "hipGetDeviceCount", (int *count))                        \
    X(get_device, int, "hipGetDevice", (int *device))                                  \
    X(set_device, int, "hipSetDevice", (int device))                                   \
    X(device_can_access_peer, int, "hipDeviceCanAccessPeer",                           \
      (int *can, int device, int peer))                                                \
    X(device_enable_peer_access, int, "hipDeviceEnablePeerAccess",                     \
      (int peer, unsigned flags))                                                      \
    X(device_get_stream_priority_range, int, "hipDeviceGetStreamPriorityRange",        \
      (int *least, int *greatest))                                                     \
    X(get_error_name, const char *, "hipGetErrorName", (int error))                    \
    X(get_last_error, int, "hipGetLastError", (void))                                  \
    X(mem_get_address_range, int, "hipMemGetAddressRange",                             \
      (void **base, size_t *size, void *ptr))                                          \
    X(pointer_get_attributes, int, "hipPointerGetAttributes",                          \
      (muct_hip_pointer_attribute_t * attr, const void *ptr))                          \
    X(ipc_get_mem_handle, int, "hipIpcGetMemHandle",                                   \
      (muct_hip_ipc_mem_handle_t * handle, void *ptr))                                 \
    X(ipc_open_mem_handle, int, "hipIpcOpenMemHandle",                                 \
      (void **ptr, muct_hip_ipc_mem_handle_t handle, unsigned flags))                  \
    X(ipc_close_mem_handle, int, "hipIpcCloseMemHandle", (void *ptr))                  \
    X(mem_alloc, int, "hipMalloc", (void **ptr, size_t size))                          \
    X(mem_free, int, "hipFree", (void *ptr))                                           \
    X(host_malloc, int, "hipHostMalloc", (void **ptr, size_t size, unsigned flags))    \
    X(host_free, int, "hipHostFree", (void *ptr))                                      \
    X(host_register, int, "hipHostRegister", (void *ptr, size_t size, unsigned flags)) \
    X(host_unregister, int, "hipHostUnregister", (void *ptr))                          \
    X(host_get_device_pointer, int, "hipHostGetDevicePointer",                         \
      (void **dev_ptr, void *host_ptr, unsigned flags))                                \
    X(memcpy_async, int, "hipMemcpyAsync",                                             \
      (void *dst, const void *src, size_t size, int kind, muct_hip_stream_t stream))   \
    X(stream_create_with_priority, int, "hipStreamCreateWithPriority",                 \
      (muct_hip_stream_t * stream, unsigned flags, int priority))                      \
    X(stream_destroy, int, "hipStreamDestroy", (muct_hip_stream_t stream))             \
    X(stream_query, int, "hipStreamQuery", (muct_hip_stream_t stream))                 \
    X(stream_synchronize, int, "hipStreamSynchronize", (muct_hip_stream_t stream))     \
    X(stream_write_value32, int, "hipStreamWriteValue32",                              \
      (muct_hip_stream_t stream, void *ptr, uint32_t value, unsigned flags))           \
    X(stream_wait_event, int, "hipStreamWaitEvent",                                    \
      (muct_hip_stream_t stream, muct_hip_event_t event, unsigned flags))              \
    X(stream_add_callback, int, "hipStreamAddCallback",                                \
      (muct_hip_stream_t stream, muct_hip_stream_callback_t cb, void *arg,             \
       unsigned flags))                                                                \
    X(event_create_with_flags, int, "hipEventCreateWithFlags",                         \
      (muct_hip_event_t * event, unsigned flags))                                      \
    X(event_record, int, "hipEventRecord",                                             \
      (muct_hip_event_t event, muct_hip_stream_t stream))                              \
    X(event_query, int, "hipEventQuery", (muct_hip_event_t event))                     \
    X(event_destroy, int, "hipEventDestroy", (muct_hip_event_t event))                 \
    X(module_load_data, int, "hipModuleLoadData",                                      \
      (muct_hip_module_t * module, const void *image))                                 \
    X(module_unload, int, "hipModuleUnload", (muct_hip_module_t module))               \
    X(module_get_function, int, "hipModuleGetFunction",                                \
      (muct_hip_function_t * function, muct_hip_module_t module, const char *name))    \
    X(module_launch_kernel, int, "hipModuleLaunchKernel",                              \
      (muct_hip_function_t function, unsigned grid_x, unsigned grid_y,                 \
       unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,          \
       unsigned shared_bytes, muct_hip_stream_t stream, void **params, void **extra))

/** Functions newer runtimes have; NULL when absent. */
#define MUCT_HIP_OPTIONAL(X)                                                           \
    X(thread_exchange_stream_capture_mode, int, "hipThreadExchangeStreamCaptureMode",  \
      (int *mode))                                                                     \
    X(driver_get_version, int, "hipDriverGetVersion", (int *version))                  \
    X(device_get_pci_bus_id, int, "hipDeviceGetPCIBusId",                              \
      (char *bus_id, int length, int device))                                          \
    X(pointer_get_attribute, int, "hipPointerGetAttribute",                            \
      (void *data, int attribute, void *ptr))                                          \
    X(mem_get_handle_for_address_range, int, "hipMemGetHandleForAddressRange",         \
      (void *handle, void *ptr, size_t size, int type, unsigned long long flags))      \
    X(hsa_export_dmabuf, int, "hsa_amd_portable_export_dmabuf",                        \
      (const void *ptr, size_t size, int *fd, uint64_t *offset))                       \
    X(hsa_system_get_info, int, "hsa_system_get_info", (int attribute, void *value))   \
    X(hsa_pointer_info, int, "hsa_amd_pointer_info",                                   \
      (const void *ptr, muct_hsa_pointer_info_t *info, void *(*alloc)(size_t),         \
       uint32_t *num_agents, void *agents))

#define MUCT_HIP_MEMBER(_member, _ret, _symbol, _args) _ret(*_member) _args;

/** The bound runtime. */
typedef struct muct_gpu {
    MUCT_HIP_REQUIRED(MUCT_HIP_MEMBER)
    MUCT_HIP_OPTIONAL(MUCT_HIP_MEMBER)
    int version;           /**< Result of hipRuntimeGetVersion() */
    int num_devices;       /**< Visible devices, at least 1 */
    bool has_hsa;          /**< Allocations go through ROCr, whose calls UCX can hook */
    unsigned ipc_flags;    /**< hipIpcMemLazyEnablePeerAccess of this version */
    int mem_type_device;   /**< hipMemoryTypeDevice of this version */
    int mem_type_managed;  /**< hipMemoryTypeManaged of this version */
    bool may_query_events; /**< hipEventQuery() does not invalidate graphs that other
                              threads capture */
    bool ipc_needs_owner;  /**< Opening a handle queries its owner's process, and works
                              in the owner's network namespace only */
    bool ipc_close_races; /**< hipIpcCloseMemHandle() may crash during a concurrent call
                           */
    bool keeps_errors;    /**< The last error stays until it is read, and is never
                               NOT_READY */
} muct_gpu_t;

/** Kind of memory at an address. */
typedef enum muct_gpu_place {
    MUCT_GPU_PLACE_HOST,   /**< Host memory unknown to the runtime */
    MUCT_GPU_PLACE_PINNED, /**< Host memory that devices reach */
    MUCT_GPU_PLACE_DEVICE  /**< A device's, or managed */
} muct_gpu_place_t;

/** Type, device and range of the memory of a pointer. */
typedef struct muct_gpu_mem_info {
    ucs_memory_type_t type; /**< ROCM, ROCM_MANAGED or HOST */
    int device;             /**< Ordinal, -1 for host memory */
    uintptr_t base;         /**< Start of the allocation */
    size_t length;          /**< Bytes in the allocation */
} muct_gpu_mem_info_t;


/**
 * Bind the runtime; the first call decides.
 *
 * A missing library, a missing function or no device is not an error of this process:
 * it is logged once, at debug level (or as an error when UCX_MORI_HIP_LIB named the
 * library).
 *
 * @param [out] gpu_p  The table, valid for the life of the process. Set only on
 *                     UCS_OK.
 *
 * @return UCS_OK, or UCS_ERR_NO_DEVICE when there is nothing to use.
 */
ucs_status_t muct_gpu_get(const muct_gpu_t **gpu_p);


/**
 * Bind a given runtime into a given table, without the process-wide state.
 *
 * @param [in]  path  Library to load; NULL to search as described above.
 * @param [out] gpu   Filled only on UCS_OK.
 *
 * @return UCS_OK, or UCS_ERR_NO_DEVICE with the reason in the log.
 */
ucs_status_t muct_gpu_bind(const char *path, muct_gpu_t *gpu);


/**
 * Look up the device and allocation of an address.
 *
 * @param [in]  gpu   Runtime.
 * @param [in]  ptr   Any address.
 * @param [out] info  Filled only on UCS_OK.
 *
 * @return UCS_OK             It is memory of a device (or managed).
 * @return UCS_ERR_NO_ELEM    The memory is not device memory of the runtime.
 */
ucs_status_t muct_gpu_query(const muct_gpu_t *gpu, const void *ptr,
                            muct_gpu_mem_info_t *info);


/**
 * Like @ref muct_gpu_query, for a range. Adjacent allocations of one device count as
 * one: hipMemGetAddressRange() reports each hipMemMap() chunk of PyTorch's expandable
 * segments by itself, and each hipMalloc() block of an arena.
 *
 * @param [in]  length  Bytes from @a ptr on that are of interest.
 * @param [out] info    Filled only on UCS_OK; its end may be before that of the range.
 *
 * @return See @ref muct_gpu_query.
 */
ucs_status_t muct_gpu_query_range(const muct_gpu_t *gpu, const void *ptr, size_t length,
                                  muct_gpu_mem_info_t *info);


/**
 * Whether this is virtually mapped memory, which has no IPC handle: that of
 * hipMemMap(), and from ROCm 7 on that of hipMallocAsync().
 *
 * hipMemRetainAllocationHandle() would detect it, but must not be called: it reads
 * through NULL for hipMalloc() memory from ROCm 6.2 to 7.2 (rocm-systems 5807), and
 * takes no reference before 2026 (rocm-systems 2696).
 *
 * @return false also where the runtime has no hsa_amd_pointer_info().
 */
bool muct_gpu_is_vmm(const muct_gpu_t *gpu, const void *ptr);


/**
 * Queue a copy. A refused copy is repeated in parts that each stay in one allocation.
 *
 * @return hipError_t of the call that failed; some of the parts may be copied then.
 */
int muct_gpu_copy(const muct_gpu_t *gpu, void *dst, const void *src, size_t length,
                  muct_hip_stream_t stream);


/**
 * Number of an allocation, never reused in this process. An address and size are
 * used again when memory is freed and allocated.
 *
 * @return The number, or 0 where the runtime has none.
 */
uint64_t muct_gpu_buffer_id(const muct_gpu_t *gpu, const void *ptr);


/**
 * Place of an address: one call of the runtime, cheap enough for each operation.
 *
 * @param [in]  gpu       Runtime.
 * @param [in]  ptr       Any address.
 * @param [out] device_p  The device; set only for MUCT_GPU_PLACE_DEVICE.
 */
muct_gpu_place_t muct_gpu_place(const muct_gpu_t *gpu, const void *ptr, int *device_p);


/**
 * Whether the runtime can export dma-bufs and the driver supports it. Exports nothing.
 */
bool muct_gpu_may_export_dmabuf(const muct_gpu_t *gpu);


/**
 * Export GPU memory as a dma-buf.
 *
 * @param [in]  gpu       Runtime.
 * @param [in]  ptr       First byte, anywhere inside an allocation.
 * @param [in]  length    Bytes.
 * @param [out] fd_p      File descriptor, owned by the caller: close(2).
 * @param [out] offset_p  Offset of @a ptr in the dma-buf, bytes.
 *
 * @return UCS_OK, or UCS_ERR_UNSUPPORTED when this runtime or kernel cannot.
 */
ucs_status_t muct_gpu_export_dmabuf(const muct_gpu_t *gpu, const void *ptr,
                                    size_t length, int *fd_p, uint64_t *offset_p);


/**
 * Make @a device current for this thread.
 *
 * @param [in]  gpu     Runtime.
 * @param [in]  device  Ordinal.
 * @param [out] prev_p  The former current device, for @ref muct_gpu_pop_device. Always
 *                      set.
 *
 * @return UCS_OK, or UCS_ERR_NO_DEVICE: do not call @ref muct_gpu_pop_device then.
 */
ucs_status_t muct_gpu_push_device(const muct_gpu_t *gpu, int device, int *prev_p);


/** Make the device current again that @ref muct_gpu_push_device replaced. */
void muct_gpu_pop_device(const muct_gpu_t *gpu, int device, int prev);


/**
 * Keep calls of this thread from breaking a graph that another thread captures, and
 * from being refused because of it, until @ref muct_gpu_unrelax.
 *
 * The runtime's default is that a call that allocates, registers or queries a stream
 * invalidates every capture of the process.
 *
 * @return The mode to give to @ref muct_gpu_unrelax.
 */
int muct_gpu_relax(const muct_gpu_t *gpu);


/** End @ref muct_gpu_relax, which returned @a mode. */
void muct_gpu_unrelax(const muct_gpu_t *gpu, int mode);


/** Whether a query's result means only that the query must be repeated. */
static inline bool muct_gpu_is_not_ready(int error)
{
    return (error == MUCT_HIP_NOT_READY) || (error == MUCT_HIP_CAPTURE_UNSUPPORTED) ||
           (error == MUCT_HIP_CAPTURED_EVENT);
}


/**
 * Clear the runtime's last error, which a call has just returned to this thread.
 *
 * @return @a error, which may be success; then nothing is done.
 */
static inline int muct_gpu_forget(const muct_gpu_t *gpu, int error)
{
    if ((error != MUCT_HIP_SUCCESS) &&
        !((error == MUCT_HIP_NOT_READY) && gpu->keeps_errors)) {
        (void)gpu->get_last_error();
    }

    return error;
}


/**
 * Close memory that hipIpcOpenMemHandle() mapped, safely beside calls of other threads.
 *
 * Up to ROCm 6 hipIpcCloseMemHandle() unmaps the address before its entry leaves the
 * runtime's table (clr, Device::IpcDetach): a lookup of another thread then reads a
 * freed object, and a new allocation at the address loses its entry. hipFree() of such
 * memory removes the entry first (clr, roc::Device::svmFree), and closes it as well.
 *
 * @return hipError_t.
 */
int muct_gpu_ipc_close(const muct_gpu_t *gpu, void *mapped);


/** Name of a hipError_t, for messages, never NULL; clears the runtime's last error. */
const char *muct_gpu_error_name(const muct_gpu_t *gpu, int error);


/** The options of this file: UCX_MORI_HIP_LIB. Registered by the module. */
extern ucs_config_global_list_entry_t muct_gpu_config_entry;

#endif
