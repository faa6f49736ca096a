/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef HIPCPU_ABI_H
#define HIPCPU_ABI_H

/**
 * @file
 * The part of the HIP runtime's binary interface that libhipcpu has.
 *
 * Written down here because enum values differ between ROCm 5 and 6 under the
 * same symbol names and because libhipcpu is built where no ROCm is. Functions
 * return hipError_t, which is an int to the linker. Not to be included together
 * with hip/hip_runtime_api.h.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** hsa_status_t and hsa_amd_pointer_type_t of ROCr */
enum {
    HIPCPU_HSA_ERROR = 0x1000,
    HIPCPU_HSA_INVALID_ARG = 0x1001,
    HIPCPU_HSA_DMABUF_SUPPORTED = 0x204,
    HIPCPU_HSA_INVALID_AGENT = 0x1003,
    HIPCPU_HSA_INVALID_ALLOC = 0x1008,
    HIPCPU_HSA_POINTER_UNKNOWN = 0,
    HIPCPU_HSA_POINTER_HSA = 1,
    HIPCPU_HSA_POINTER_LOCKED = 2,
    HIPCPU_HSA_POINTER_IPC = 4,
    HIPCPU_HSA_POINTER_RESERVED = 5,
    HIPCPU_HSA_POINTER_VMEM = 6
};

/** Up to agentOwner; newer releases append fields. */
typedef struct hsa_amd_pointer_info {
    uint32_t size;
    int type;
    void *agentBaseAddress;
    void *hostBaseAddress;
    size_t sizeInBytes;
    void *userData;
    uint64_t agentOwner;
} hsa_amd_pointer_info_t;

#pragma GCC visibility push(default)

typedef int hipError_t;

enum {
    hipSuccess = 0,
    hipErrorInvalidValue = 1,
    hipErrorOutOfMemory = 2,
    hipErrorInvalidConfiguration = 9,
    hipErrorInvalidDevicePointer = 17,
    hipErrorInvalidMemcpyDirection = 21,
    hipErrorInvalidDeviceFunction = 98,
    hipErrorNoDevice = 100,
    hipErrorInvalidDevice = 101,
    hipErrorInvalidImage = 200,
    hipErrorInvalidContext = 201,
    hipErrorNoBinaryForGpu = 209,
    hipErrorAlreadyMapped = 208,
    hipErrorPeerAccessUnsupported = 217,
    hipErrorInvalidHandle = 400,
    hipErrorIllegalState = 401,
    hipErrorNotFound = 500,
    hipErrorNotReady = 600,
    hipErrorIllegalAddress = 700,
    hipErrorPeerAccessAlreadyEnabled = 704,
    hipErrorPeerAccessNotEnabled = 705,
    hipErrorHostMemoryAlreadyRegistered = 712,
    hipErrorHostMemoryNotRegistered = 713,
    hipErrorLaunchFailure = 719,
    hipErrorNotSupported = 801,
    hipErrorStreamCaptureUnsupported = 900,
    hipErrorStreamCaptureInvalidated = 901,
    hipErrorStreamCaptureImplicit = 906,
    hipErrorCapturedEvent = 907,
    hipErrorUnknown = 999
};

enum {
    hipMemcpyHostToHost = 0,
    hipMemcpyHostToDevice = 1,
    hipMemcpyDeviceToHost = 2,
    hipMemcpyDeviceToDevice = 3,
    hipMemcpyDefault = 4
};

enum {
    hipStreamCaptureModeGlobal = 0,
    hipStreamCaptureModeThreadLocal = 1,
    hipStreamCaptureModeRelaxed = 2
};

enum { hipStreamDefault = 0, hipStreamNonBlocking = 1 };

enum { hipEventDefault = 0, hipEventBlockingSync = 1, hipEventDisableTiming = 2 };

/** Values of hipPointerAttribute_t::type up to ROCm 5 and from ROCm 6 on */
enum {
    HIPCPU_V5_MEMORY_HOST = 0,
    HIPCPU_V5_MEMORY_DEVICE = 1,
    HIPCPU_V5_MEMORY_MANAGED = 4,
    HIPCPU_V6_MEMORY_UNREGISTERED = 0,
    HIPCPU_V6_MEMORY_HOST = 1,
    HIPCPU_V6_MEMORY_DEVICE = 2,
    HIPCPU_V6_MEMORY_MANAGED = 3
};

/** hipPointer_attribute */
enum {
    HIP_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
    HIP_POINTER_ATTRIBUTE_BUFFER_ID = 7,
    HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
    HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
    HIP_POINTER_ATTRIBUTE_RANGE_SIZE = 12
};

/** hipDeviceAttribute_t as of ROCm 6 */
enum {
    hipDeviceAttributeAsyncEngineCount = 2,
    hipDeviceAttributeCanMapHostMemory = 3,
    hipDeviceAttributeCanUseHostPointerForRegisteredMem = 4,
    hipDeviceAttributeConcurrentKernels = 8,
    hipDeviceAttributeIntegrated = 16,
    hipDeviceAttributeComputeCapabilityMajor = 23,
    hipDeviceAttributeManagedMemory = 24,
    hipDeviceAttributeMaxThreadsPerBlock = 56,
    hipDeviceAttributeComputeCapabilityMinor = 61,
    hipDeviceAttributeMultiprocessorCount = 63,
    hipDeviceAttributePciBusId = 67,
    hipDeviceAttributePciDeviceId = 68,
    hipDeviceAttributePciDomainID = 69,
    hipDeviceAttributeStreamPrioritiesSupported = 78,
    hipDeviceAttributeUnifiedAddressing = 85,
    hipDeviceAttributeWarpSize = 87,
    hipDeviceAttributeVirtualMemoryManagementSupported = 89,
    hipDeviceAttributeHostRegisterSupported = 90,
    hipDeviceAttributeIsLargeBar = 10011,
    hipDeviceAttributeCanUseStreamWaitValue = 10013,
    hipDeviceAttributeFineGrainSupport = 10016
};

typedef struct hipcpu_stream *hipStream_t;
typedef struct hipcpu_event *hipEvent_t;
typedef struct hipcpu_module *hipModule_t;
typedef struct hipcpu_function *hipFunction_t;
typedef struct hipcpu_graph *hipGraph_t;
typedef struct hipcpu_graph *hipGraphExec_t;
typedef void *hipDeviceptr_t;
typedef void (*hipHostFn_t)(void *arg);
typedef void (*hipStreamCallback_t)(hipStream_t stream, hipError_t status, void *arg);

typedef struct hipIpcMemHandle_st {
    char reserved[64];
} hipIpcMemHandle_t;

typedef struct hipPointerAttribute_t {
    int type;
    int device;
    void *devicePointer;
    void *hostPointer;
    int isManaged;
    unsigned allocationFlags;
} hipPointerAttribute_t;

typedef struct ihipMemGenericAllocationHandle *hipMemGenericAllocationHandle_t;

typedef struct hipMemLocation {
    int type;
    int id;
} hipMemLocation;

typedef struct hipMemAllocationProp {
    int type;
    int handle_types;
    hipMemLocation location;
    void *win32_metadata;
    struct {
        unsigned char compression;
        unsigned char gpu_direct_rdma;
        unsigned short usage;
    } flags;
} hipMemAllocationProp;

typedef struct hipcpu_pool *hipMemPool_t;

typedef struct hipMemPoolProps {
    int type;
    int handle_types;
    hipMemLocation location;
    void *win32_metadata;
    size_t max_size;
    unsigned char reserved[56];
} hipMemPoolProps;

typedef struct hipMemAccessDesc {
    hipMemLocation location;
    int flags;
} hipMemAccessDesc;

typedef struct hipUUID_t {
    char bytes[16];
} hipUUID;

/* runtime and devices */
hipError_t hipInit(unsigned flags);
hipError_t hipRuntimeGetVersion(int *version);
hipError_t hipDriverGetVersion(int *version);
hipError_t hipGetDeviceCount(int *count);
hipError_t hipGetDevice(int *device);
hipError_t hipSetDevice(int device);
hipError_t hipDeviceGet(int *device, int ordinal);
hipError_t hipDeviceSynchronize(void);
hipError_t hipDeviceGetAttribute(int *value, int attribute, int device);
hipError_t hipDeviceGetName(char *name, int length, int device);
hipError_t hipDeviceGetPCIBusId(char *bus_id, int length, int device);
hipError_t hipDeviceGetByPCIBusId(int *device, const char *bus_id);
hipError_t hipDeviceGetUuid(hipUUID *uuid, int device);
hipError_t hipDeviceTotalMem(size_t *bytes, int device);
hipError_t hipDeviceGetStreamPriorityRange(int *least, int *greatest);
hipError_t hipDeviceCanAccessPeer(int *can_access, int device, int peer);
hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags);
hipError_t hipDeviceDisablePeerAccess(int peer);
hipError_t hipDeviceGetP2PAttribute(int *value, int attribute, int src, int dst);
hipError_t hipExtGetLinkTypeAndHopCount(int device1, int device2, uint32_t *type,
                                        uint32_t *hops);
hipError_t hipGetDevicePropertiesR0600(void *properties, int device);
hipError_t hipGetLastError(void);
hipError_t hipPeekAtLastError(void);
const char *hipGetErrorName(hipError_t error);
const char *hipGetErrorString(hipError_t error);

/* memory */
hipError_t hipMalloc(void **ptr, size_t size);
hipError_t hipExtMallocWithFlags(void **ptr, size_t size, unsigned flags);
hipError_t hipMallocManaged(void **ptr, size_t size, unsigned flags);
hipError_t hipFree(void *ptr);
hipError_t hipHostMalloc(void **ptr, size_t size, unsigned flags);
hipError_t hipHostAlloc(void **ptr, size_t size, unsigned flags);
hipError_t hipHostFree(void *ptr);
hipError_t hipHostRegister(void *ptr, size_t size, unsigned flags);
hipError_t hipHostUnregister(void *ptr);
hipError_t hipHostGetDevicePointer(void **device_ptr, void *host_ptr, unsigned flags);
hipError_t hipMallocAsync(void **ptr, size_t size, hipStream_t stream);
hipError_t hipMallocFromPoolAsync(void **ptr, size_t size, hipMemPool_t pool,
                                  hipStream_t stream);
hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t *pool, int device);
hipError_t hipDeviceGetMemPool(hipMemPool_t *pool, int device);
hipError_t hipMemPoolCreate(hipMemPool_t *pool, const hipMemPoolProps *props);
hipError_t hipMemPoolDestroy(hipMemPool_t pool);
hipError_t hipMemPoolTrimTo(hipMemPool_t pool, size_t kept);
hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, int attribute, void *value);
hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, int attribute, void *value);
hipError_t hipFreeAsync(void *ptr, hipStream_t stream);
hipError_t hipMemGetInfo(size_t *available, size_t *total);
hipError_t hipMemGetAddressRange(void **base, size_t *size, void *ptr);
hipError_t hipMemPtrGetInfo(void *ptr, size_t *size);
hipError_t hipPointerGetAttribute(void *data, int attribute, hipDeviceptr_t ptr);
hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *ptr);

/* memory that the program maps */
hipError_t hipMemGetAllocationGranularity(size_t *granularity,
                                          const hipMemAllocationProp *prop, int option);
hipError_t hipMemAddressReserve(void **ptr, size_t size, size_t alignment, void *addr,
                                unsigned long long flags);
hipError_t hipMemAddressFree(void *ptr, size_t size);
hipError_t hipMemCreate(hipMemGenericAllocationHandle_t *handle, size_t size,
                        const hipMemAllocationProp *prop, unsigned long long flags);
hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle);
hipError_t hipMemMap(void *ptr, size_t size, size_t offset,
                     hipMemGenericAllocationHandle_t handle, unsigned long long flags);
hipError_t hipMemSetAccess(void *ptr, size_t size, const hipMemAccessDesc *desc,
                           size_t count);
hipError_t hipMemUnmap(void *ptr, size_t size);
hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t *handle,
                                        void *addr);

/* other processes, other devices */
hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *ptr);
hipError_t hipIpcOpenMemHandle(void **ptr, hipIpcMemHandle_t handle, unsigned flags);
hipError_t hipIpcCloseMemHandle(void *ptr);
hipError_t hipMemGetHandleForAddressRange(void *handle, void *ptr, size_t size,
                                          int type, unsigned long long flags);
int hsa_amd_portable_export_dmabuf(const void *ptr, size_t size, int *fd,
                                   uint64_t *offset);
int hsa_amd_portable_close_dmabuf(int fd);
int hsa_system_get_info(int attribute, void *value);
int hsa_amd_pointer_info(const void *ptr, hsa_amd_pointer_info_t *info,
                         void *(*alloc)(size_t size), uint32_t *num_agents,
                         void **agents);

/* copies */
hipError_t hipMemcpy(void *dst, const void *src, size_t size, int kind);
hipError_t hipMemcpyAsync(void *dst, const void *src, size_t size, int kind,
                          hipStream_t stream);
hipError_t hipMemcpyWithStream(void *dst, const void *src, size_t size, int kind,
                               hipStream_t stream);
hipError_t hipMemcpyPeer(void *dst, int dst_device, const void *src, int src_device,
                         size_t size);
hipError_t hipMemcpyPeerAsync(void *dst, int dst_device, const void *src,
                              int src_device, size_t size, hipStream_t stream);
hipError_t hipMemcpyDtoD(void *dst, void *src, size_t size);
hipError_t hipMemcpyDtoDAsync(void *dst, void *src, size_t size, hipStream_t stream);
hipError_t hipMemcpyHtoD(void *dst, const void *src, size_t size);
hipError_t hipMemcpyHtoDAsync(void *dst, const void *src, size_t size,
                              hipStream_t stream);
hipError_t hipMemcpyDtoH(void *dst, void *src, size_t size);
hipError_t hipMemcpyDtoHAsync(void *dst, void *src, size_t size, hipStream_t stream);
hipError_t hipMemset(void *dst, int value, size_t size);
hipError_t hipMemsetAsync(void *dst, int value, size_t size, hipStream_t stream);
hipError_t hipMemsetD32Async(void *dst, int value, size_t count, hipStream_t stream);

/* streams and events */
hipError_t hipStreamCreate(hipStream_t *stream);
hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags);
hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned flags,
                                       int priority);
hipError_t hipStreamDestroy(hipStream_t stream);
hipError_t hipStreamQuery(hipStream_t stream);
hipError_t hipStreamSynchronize(hipStream_t stream);
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags);
hipError_t hipStreamGetFlags(hipStream_t stream, unsigned *flags);
hipError_t hipStreamGetPriority(hipStream_t stream, int *priority);
hipError_t hipStreamGetDevice(hipStream_t stream, int *device);
hipError_t hipStreamWriteValue32(hipStream_t stream, void *ptr, uint32_t value,
                                 unsigned flags);
hipError_t hipStreamWriteValue64(hipStream_t stream, void *ptr, uint64_t value,
                                 unsigned flags);
hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t callback,
                                void *arg, unsigned flags);
hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void *arg);
hipError_t hipStreamBeginCapture(hipStream_t stream, int mode);
hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph);
hipError_t hipThreadExchangeStreamCaptureMode(int *mode);
hipError_t hipGraphDestroy(hipGraph_t graph);
hipError_t hipGraphInstantiate(hipGraphExec_t *exec, hipGraph_t graph, void *node,
                               char *log, size_t log_size);
hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream);
hipError_t hipGraphExecDestroy(hipGraphExec_t exec);
hipError_t hipEventCreate(hipEvent_t *event);
hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags);
hipError_t hipEventDestroy(hipEvent_t event);
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream);
hipError_t hipEventQuery(hipEvent_t event);
hipError_t hipEventSynchronize(hipEvent_t event);
hipError_t hipEventElapsedTime(float *ms, hipEvent_t start, hipEvent_t stop);

/* modules */
hipError_t hipModuleLoadData(hipModule_t *module, const void *image);
hipError_t hipModuleUnload(hipModule_t module);
hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module,
                                const char *name);
hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned grid_x,
                                 unsigned grid_y, unsigned grid_z, unsigned block_x,
                                 unsigned block_y, unsigned block_z,
                                 unsigned shared_bytes, hipStream_t stream,
                                 void **params, void **extra);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
