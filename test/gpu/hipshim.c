/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * libhipshim: the hip* functions of the product on CUDA's driver, for tests on
 * machines with NVIDIA GPUs. Found by dlopen, needs no CUDA headers.
 *
 * Rules of AMD that CUDA does not have are not imitated: handles are opened at the base
 * of an allocation, which the product exports anyway. The copy kernel comes from a
 * file, HIPSHIM_KERNEL, instead of the image, which holds code for AMD.
 *
 * Errors have the same numbers on both sides, where both have them.
 */

#include "test/fake/hip/hipcpu_abi.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HIPSHIM_VERSION 60443484 /* rules of ROCm 6.4 */
#define HIPSHIM_HOST_FLAGS 3     /* portable, mapped */
#define HIPSHIM_MAX_DEVICES 16
#define HIPSHIM_MEMORY_HOST 1
#define HIPSHIM_LINK_XGMI 4
#define HIPSHIM_CAPTURE_RELAXED 2
#define HIPSHIM_ATTR_TYPE 2
#define HIPSHIM_ATTR_MANAGED 8
#define HIPSHIM_ATTR_DEVICE 9

typedef uint64_t cu_ptr_t;

/** Same layout as CUmemcpyAttributes */
typedef struct hipshim_copy_attr {
    int order;
    struct {
        int type;
        int id;
    } src, dst;
    unsigned flags;
} hipshim_copy_attr_t;

/* Functions of the driver: X(name here, symbol, arguments). */
#define HIPSHIM_DRIVER(X)                                                              \
    X(init, "cuInit", (unsigned flags))                                                \
    X(device_get_count, "cuDeviceGetCount", (int *count))                              \
    X(device_get, "cuDeviceGet", (int *device, int ordinal))                           \
    X(device_get_name, "cuDeviceGetName", (char *name, int length, int device))        \
    X(device_get_attribute, "cuDeviceGetAttribute", (int *v, int attr, int device))    \
    X(device_get_pci_bus_id, "cuDeviceGetPCIBusId",                                    \
      (char *id, int length, int device))                                              \
    X(device_total_mem, "cuDeviceTotalMem_v2", (size_t *bytes, int device))            \
    X(device_can_access_peer, "cuDeviceCanAccessPeer",                                 \
      (int *can, int device, int peer))                                                \
    X(primary_retain, "cuDevicePrimaryCtxRetain", (void **ctx, int device))            \
    X(ctx_set_current, "cuCtxSetCurrent", (void *ctx))                                 \
    X(ctx_synchronize, "cuCtxSynchronize", (void))                                     \
    X(ctx_enable_peer, "cuCtxEnablePeerAccess", (void *ctx, unsigned flags))           \
    X(ctx_priority_range, "cuCtxGetStreamPriorityRange", (int *least, int *greatest))  \
    X(get_error_name, "cuGetErrorName", (int error, const char **name))                \
    X(mem_alloc, "cuMemAlloc_v2", (cu_ptr_t * ptr, size_t size))                       \
    X(mem_alloc_managed, "cuMemAllocManaged",                                          \
      (cu_ptr_t * ptr, size_t size, unsigned f))                                       \
    X(mem_free, "cuMemFree_v2", (cu_ptr_t ptr))                                        \
    X(mem_get_info, "cuMemGetInfo_v2", (size_t *available, size_t *total))             \
    X(mem_host_alloc, "cuMemHostAlloc", (void **ptr, size_t size, unsigned flags))     \
    X(mem_free_host, "cuMemFreeHost", (void *ptr))                                     \
    X(mem_host_register, "cuMemHostRegister_v2",                                       \
      (void *p, size_t size, unsigned flags))                                          \
    X(mem_host_unregister, "cuMemHostUnregister", (void *ptr))                         \
    X(mem_host_pointer, "cuMemHostGetDevicePointer_v2",                                \
      (cu_ptr_t * ptr, void *host, unsigned flags))                                    \
    X(mem_get_address_range, "cuMemGetAddressRange_v2",                                \
      (cu_ptr_t * base, size_t *size, cu_ptr_t ptr))                                   \
    X(mem_get_handle, "cuMemGetHandleForAddressRange",                                 \
      (void *handle, cu_ptr_t ptr, size_t size, int type, unsigned long long flags))   \
    X(pointer_get_attribute, "cuPointerGetAttribute",                                  \
      (void *v, int attr, cu_ptr_t ptr))                                               \
    X(ipc_get, "cuIpcGetMemHandle", (hipIpcMemHandle_t * handle, cu_ptr_t ptr))        \
    X(ipc_open, "cuIpcOpenMemHandle_v2",                                               \
      (cu_ptr_t * ptr, hipIpcMemHandle_t handle, unsigned flags))                      \
    X(ipc_close, "cuIpcCloseMemHandle", (cu_ptr_t ptr))                                \
    X(copy, "cuMemcpy", (cu_ptr_t dst, cu_ptr_t src, size_t size))                     \
    X(copy_async, "cuMemcpyAsync",                                                     \
      (cu_ptr_t dst, cu_ptr_t src, size_t size, void *stream))                         \
    X(copy_batch, "cuMemcpyBatchAsync",                                                \
      (cu_ptr_t * dsts, cu_ptr_t * srcs, size_t *sizes, size_t count,                  \
       hipshim_copy_attr_t *attrs, size_t *indexes, size_t num, size_t *failed,        \
       void *stream))                                                                  \
    X(fill, "cuMemsetD8_v2", (cu_ptr_t dst, unsigned char value, size_t size))         \
    X(fill_async, "cuMemsetD8Async",                                                   \
      (cu_ptr_t dst, unsigned char value, size_t size, void *stream))                  \
    X(stream_create, "cuStreamCreateWithPriority",                                     \
      (void **stream, unsigned flags, int priority))                                   \
    X(stream_destroy, "cuStreamDestroy_v2", (void *stream))                            \
    X(stream_query, "cuStreamQuery", (void *stream))                                   \
    X(stream_synchronize, "cuStreamSynchronize", (void *stream))                       \
    X(stream_wait_event, "cuStreamWaitEvent", (void *stream, void *event, unsigned f)) \
    X(stream_add_callback, "cuStreamAddCallback",                                      \
      (void *stream, hipStreamCallback_t callback, void *arg, unsigned flags))         \
    X(stream_write_value, "cuStreamWriteValue32_v2",                                   \
      (void *stream, cu_ptr_t ptr, uint32_t value, unsigned flags))                    \
    X(begin_capture, "cuStreamBeginCapture_v2", (void *stream, int mode))              \
    X(end_capture, "cuStreamEndCapture", (void *stream, void **graph))                 \
    X(exchange_mode, "cuThreadExchangeStreamCaptureMode", (int *mode))                 \
    X(graph_instantiate, "cuGraphInstantiateWithFlags",                                \
      (void **exec, void *graph, unsigned long long flags))                            \
    X(graph_launch, "cuGraphLaunch", (void *exec, void *stream))                       \
    X(graph_exec_destroy, "cuGraphExecDestroy", (void *exec))                          \
    X(graph_destroy, "cuGraphDestroy", (void *graph))                                  \
    X(launch_host_func, "cuLaunchHostFunc", (void *stream, hipHostFn_t f, void *arg))  \
    X(event_create, "cuEventCreate", (void **event, unsigned flags))                   \
    X(event_destroy, "cuEventDestroy_v2", (void *event))                               \
    X(event_record, "cuEventRecord", (void *event, void *stream))                      \
    X(event_query, "cuEventQuery", (void *event))                                      \
    X(event_synchronize, "cuEventSynchronize", (void *event))                          \
    X(event_elapsed, "cuEventElapsedTime", (float *ms, void *start, void *stop))       \
    X(module_load, "cuModuleLoadData", (void **module, const void *image))             \
    X(module_unload, "cuModuleUnload", (void *module))                                 \
    X(module_get_function, "cuModuleGetFunction",                                      \
      (void **function, void *module, const char *name))                               \
    X(launch_kernel, "cuLaunchKernel",                                                 \
      (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,             \
       unsigned by, unsigned bz, unsigned shared, void *stream, void **params,         \
       void **extra))

#define HIPSHIM_MEMBER(_name, _symbol, _args) int(*_name) _args;
#define HIPSHIM_BIND(_name, _symbol, _args)                                            \
    symbol = dlsym(library, _symbol);                                                  \
    memcpy(&cu._name, &symbol, sizeof(symbol));

static struct {
    HIPSHIM_DRIVER(HIPSHIM_MEMBER)
} cu;

static pthread_once_t hipshim_once = PTHREAD_ONCE_INIT;
static int hipshim_error; /* of everything: no driver, no device */
static int hipshim_num_devices;
static void *hipshim_contexts[HIPSHIM_MAX_DEVICES];
static pthread_mutex_t hipshim_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int hipshim_device;
static _Thread_local int hipshim_has_context;
static _Thread_local int hipshim_last;

/* Declared here, as libhipcpu has no such call. */
hipError_t hipMemcpyBatchAsync(void **dsts, void **srcs, size_t *sizes, size_t count,
                               void *attrs, size_t *indexes, size_t num_attrs,
                               size_t *failed, hipStream_t stream)
    __attribute__((visibility("default")));


static void hipshim_start(void)
{
    const char *visible = getenv("HIP_VISIBLE_DEVICES");
    void *library, *symbol;

    if (visible != NULL) {
        setenv("CUDA_VISIBLE_DEVICES", visible, 1);
    }
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "libhipshim: %s\n", dlerror());
        hipshim_error = hipErrorNoDevice;
        return;
    }

    HIPSHIM_DRIVER(HIPSHIM_BIND)
    hipshim_error = cu.init(0);
    if (hipshim_error == hipSuccess) {
        hipshim_error = cu.device_get_count(&hipshim_num_devices);
    }
    if ((hipshim_error == hipSuccess) && (hipshim_num_devices == 0)) {
        hipshim_error = hipErrorNoDevice;
    }
    if (hipshim_num_devices > HIPSHIM_MAX_DEVICES) {
        hipshim_num_devices = HIPSHIM_MAX_DEVICES;
    }
}

static int hipshim_result(int error)
{
    if ((error != hipSuccess) && (error != hipErrorNotReady)) {
        hipshim_last = error;
    }
    return error;
}

static int hipshim_context(int device, void **context)
{
    int error = hipSuccess;

    if ((device < 0) || (device >= hipshim_num_devices)) {
        return hipErrorInvalidDevice;
    }
    pthread_mutex_lock(&hipshim_lock);
    if (hipshim_contexts[device] == NULL) {
        error = cu.primary_retain(&hipshim_contexts[device], device);
    }
    *context = hipshim_contexts[device];
    pthread_mutex_unlock(&hipshim_lock);
    return error;
}

static int hipshim_bring_context(void)
{
    void *context;
    int error;

    pthread_once(&hipshim_once, hipshim_start);
    error = hipshim_error;
    if (error == hipSuccess) {
        error = hipshim_context(hipshim_device, &context);
    }
    if (error == hipSuccess) {
        error = cu.ctx_set_current(context);
    }
    hipshim_has_context = (error == hipSuccess);
    return error;
}

/* Preconditions of each call: the driver, and the thread's context. */
static inline int hipshim_enter(void)
{
    return hipshim_has_context ? hipSuccess : hipshim_bring_context();
}

/* A call that passes on to one of the driver's. */
#define HIPSHIM(_name, _args, _call)                                                   \
    hipError_t _name _args                                                             \
    {                                                                                  \
        int error = hipshim_enter();                                                   \
                                                                                       \
        return hipshim_result((error == hipSuccess) ? (_call) : error);                \
    }

HIPSHIM(hipInit, (unsigned flags), ((void)flags, hipSuccess))
HIPSHIM(hipDeviceSynchronize, (void), cu.ctx_synchronize())
HIPSHIM(hipDeviceGetName, (char *name, int length, int device),
        cu.device_get_name(name, length, device))
HIPSHIM(hipDeviceGetPCIBusId, (char *id, int length, int device),
        cu.device_get_pci_bus_id(id, length, device))
HIPSHIM(hipDeviceTotalMem, (size_t *bytes, int device),
        cu.device_total_mem(bytes, device))
HIPSHIM(hipDeviceCanAccessPeer, (int *can, int device, int peer),
        cu.device_can_access_peer(can, device, peer))
HIPSHIM(hipDeviceGetStreamPriorityRange, (int *least, int *greatest),
        cu.ctx_priority_range(least, greatest))
HIPSHIM(hipMalloc, (void **ptr, size_t size), cu.mem_alloc((cu_ptr_t *)ptr, size))
HIPSHIM(hipExtMallocWithFlags, (void **ptr, size_t size, unsigned flags),
        ((void)flags, cu.mem_alloc((cu_ptr_t *)ptr, size)))
HIPSHIM(hipMallocManaged, (void **ptr, size_t size, unsigned flags),
        cu.mem_alloc_managed((cu_ptr_t *)ptr, size, flags))
HIPSHIM(hipFree, (void *ptr), (ptr == NULL) ? hipSuccess : cu.mem_free((cu_ptr_t)ptr))
HIPSHIM(hipMemGetInfo, (size_t *available, size_t *total),
        cu.mem_get_info(available, total))
HIPSHIM(hipHostMalloc, (void **ptr, size_t size, unsigned flags),
        ((void)flags, cu.mem_host_alloc(ptr, size, HIPSHIM_HOST_FLAGS)))
HIPSHIM(hipHostFree, (void *ptr), (ptr == NULL) ? hipSuccess : cu.mem_free_host(ptr))
HIPSHIM(hipHostRegister, (void *ptr, size_t size, unsigned flags),
        ((void)flags, cu.mem_host_register(ptr, size, HIPSHIM_HOST_FLAGS)))
HIPSHIM(hipHostUnregister, (void *ptr), cu.mem_host_unregister(ptr))
HIPSHIM(hipHostGetDevicePointer, (void **device, void *host, unsigned flags),
        cu.mem_host_pointer((cu_ptr_t *)device, host, flags))
HIPSHIM(hipMemGetAddressRange, (void **base, size_t *size, void *ptr),
        cu.mem_get_address_range((cu_ptr_t *)base, size, (cu_ptr_t)ptr))
HIPSHIM(hipMemGetHandleForAddressRange,
        (void *handle, void *ptr, size_t size, int type, unsigned long long flags),
        cu.mem_get_handle(handle, (cu_ptr_t)ptr, size, type, flags))
HIPSHIM(hipIpcGetMemHandle, (hipIpcMemHandle_t * handle, void *ptr),
        cu.ipc_get(handle, (cu_ptr_t)ptr))
HIPSHIM(hipIpcOpenMemHandle, (void **ptr, hipIpcMemHandle_t handle, unsigned flags),
        cu.ipc_open((cu_ptr_t *)ptr, handle, flags))
HIPSHIM(hipIpcCloseMemHandle, (void *ptr), cu.ipc_close((cu_ptr_t)ptr))
HIPSHIM(hipMemcpyAsync,
        (void *dst, const void *src, size_t size, int kind, hipStream_t stream),
        ((void)kind, cu.copy_async((cu_ptr_t)dst, (cu_ptr_t)src, size, stream)))
HIPSHIM(hipMemcpyPeerAsync,
        (void *dst, int dst_device, const void *src, int src_device, size_t size,
         hipStream_t stream),
        ((void)dst_device, (void)src_device,
         cu.copy_async((cu_ptr_t)dst, (cu_ptr_t)src, size, stream)))
HIPSHIM(hipMemcpyDtoDAsync, (void *dst, void *src, size_t size, hipStream_t stream),
        cu.copy_async((cu_ptr_t)dst, (cu_ptr_t)src, size, stream))
HIPSHIM(hipMemset, (void *dst, int value, size_t size),
        cu.fill((cu_ptr_t)dst, (unsigned char)value, size))
HIPSHIM(hipMemsetAsync, (void *dst, int value, size_t size, hipStream_t stream),
        cu.fill_async((cu_ptr_t)dst, (unsigned char)value, size, stream))
HIPSHIM(hipStreamCreateWithPriority,
        (hipStream_t * stream, unsigned flags, int priority),
        cu.stream_create((void **)stream, flags, priority))
HIPSHIM(hipStreamCreateWithFlags, (hipStream_t * stream, unsigned flags),
        cu.stream_create((void **)stream, flags, 0))
HIPSHIM(hipStreamCreate, (hipStream_t * stream),
        cu.stream_create((void **)stream, 0, 0))
HIPSHIM(hipStreamDestroy, (hipStream_t stream), cu.stream_destroy(stream))
HIPSHIM(hipStreamQuery, (hipStream_t stream), cu.stream_query(stream))
HIPSHIM(hipStreamSynchronize, (hipStream_t stream), cu.stream_synchronize(stream))
HIPSHIM(hipStreamWaitEvent, (hipStream_t stream, hipEvent_t event, unsigned flags),
        cu.stream_wait_event(stream, event, flags))
HIPSHIM(hipStreamAddCallback,
        (hipStream_t stream, hipStreamCallback_t callback, void *arg, unsigned flags),
        cu.stream_add_callback(stream, callback, arg, flags))
HIPSHIM(hipStreamWriteValue32,
        (hipStream_t stream, void *ptr, uint32_t value, unsigned flags),
        ((void)flags, cu.stream_write_value(stream, (cu_ptr_t)ptr, value, 0)))
HIPSHIM(hipStreamBeginCapture, (hipStream_t stream, int mode),
        cu.begin_capture(stream, mode))
HIPSHIM(hipStreamEndCapture, (hipStream_t stream, hipGraph_t *graph),
        cu.end_capture(stream, (void **)graph))
HIPSHIM(hipThreadExchangeStreamCaptureMode, (int *mode), cu.exchange_mode(mode))
HIPSHIM(hipGraphInstantiate,
        (hipGraphExec_t * exec, hipGraph_t graph, void *node, char *log, size_t size),
        ((void)node, (void)log, (void)size,
         cu.graph_instantiate((void **)exec, graph, 0)))
HIPSHIM(hipGraphLaunch, (hipGraphExec_t exec, hipStream_t stream),
        cu.graph_launch(exec, stream))
HIPSHIM(hipGraphExecDestroy, (hipGraphExec_t exec), cu.graph_exec_destroy(exec))
HIPSHIM(hipGraphDestroy, (hipGraph_t graph), cu.graph_destroy(graph))
HIPSHIM(hipLaunchHostFunc, (hipStream_t stream, hipHostFn_t function, void *arg),
        cu.launch_host_func(stream, function, arg))
HIPSHIM(hipEventCreateWithFlags, (hipEvent_t * event, unsigned flags),
        cu.event_create((void **)event, flags))
HIPSHIM(hipEventCreate, (hipEvent_t * event), cu.event_create((void **)event, 0))
HIPSHIM(hipEventDestroy, (hipEvent_t event), cu.event_destroy(event))
HIPSHIM(hipEventRecord, (hipEvent_t event, hipStream_t stream),
        cu.event_record(event, stream))
HIPSHIM(hipEventSynchronize, (hipEvent_t event), cu.event_synchronize(event))
HIPSHIM(hipEventElapsedTime, (float *ms, hipEvent_t start, hipEvent_t stop),
        cu.event_elapsed(ms, start, stop))
HIPSHIM(hipModuleUnload, (hipModule_t module), cu.module_unload(module))
HIPSHIM(hipModuleGetFunction,
        (hipFunction_t * function, hipModule_t module, const char *name),
        cu.module_get_function((void **)function, module, name))
HIPSHIM(hipModuleLaunchKernel,
        (hipFunction_t function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
         unsigned by, unsigned bz, unsigned shared, hipStream_t stream, void **params,
         void **extra),
        cu.launch_kernel(function, gx, gy, gz, bx, by, bz, shared, stream, params,
                         extra))

/*
 * In HIP 6.4 a query of an event ends no capture of another thread: clr checks this
 * from 7.0 on (checkEventCaptureRestrictions). CUDA ends it unless this thread is
 * relaxed.
 */
hipError_t hipEventQuery(hipEvent_t event)
{
    int mode = HIPSHIM_CAPTURE_RELAXED;
    int error = hipshim_enter();

    if (error == hipSuccess) {
        error = cu.exchange_mode(&mode);
    }
    if (error == hipSuccess) {
        error = cu.event_query(event);
        (void)cu.exchange_mode(&mode);
    }
    return hipshim_result(error);
}

hipError_t hipRuntimeGetVersion(int *version)
{
    *version = HIPSHIM_VERSION;
    return hipSuccess;
}

hipError_t hipDriverGetVersion(int *version)
{
    return hipRuntimeGetVersion(version);
}

hipError_t hipGetDeviceCount(int *count)
{
    pthread_once(&hipshim_once, hipshim_start);
    *count = hipshim_num_devices;
    return hipshim_result(hipshim_error);
}

hipError_t hipGetDevice(int *device)
{
    pthread_once(&hipshim_once, hipshim_start);
    *device = hipshim_device;
    return hipshim_result(hipshim_error);
}

hipError_t hipSetDevice(int device)
{
    int previous = hipshim_device;
    int error;

    if ((device == previous) && hipshim_has_context) {
        return hipSuccess;
    }
    hipshim_device = device;
    error = hipshim_bring_context();
    if (error != hipSuccess) {
        hipshim_device = previous;
        hipshim_has_context = 0;
    }
    return hipshim_result(error);
}

hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags)
{
    void *context;
    int error = hipshim_enter();

    if (error == hipSuccess) {
        error = hipshim_context(peer, &context);
    }
    if (error == hipSuccess) {
        error = cu.ctx_enable_peer(context, flags);
    }
    return hipshim_result(error);
}

hipError_t hipDeviceGetAttribute(int *value, int attribute, int device)
{
    /* queried attributes, by the driver's numbers */
    static const struct {
        int hip, cuda;
    } attributes[] = {{hipDeviceAttributeMultiprocessorCount, 16},
                      {hipDeviceAttributeWarpSize, 10},
                      {hipDeviceAttributeMaxThreadsPerBlock, 1},
                      {hipDeviceAttributeAsyncEngineCount, 40},
                      {hipDeviceAttributePciBusId, 33},
                      {hipDeviceAttributePciDeviceId, 34},
                      {hipDeviceAttributePciDomainID, 50}};
    int error = hipshim_enter();
    size_t i;

    if (error != hipSuccess) {
        return hipshim_result(error);
    }
    for (i = 0; i < sizeof(attributes) / sizeof(attributes[0]); ++i) {
        if (attributes[i].hip == attribute) {
            return hipshim_result(
                cu.device_get_attribute(value, attributes[i].cuda, device));
        }
    }
    return hipshim_result(hipErrorInvalidValue);
}

hipError_t hipExtGetLinkTypeAndHopCount(int device1, int device2, uint32_t *type,
                                        uint32_t *hops)
{
    (void)device1;
    (void)device2;
    *type = HIPSHIM_LINK_XGMI;
    *hops = 1;
    return hipSuccess;
}

/* The numbers of the attributes are the same. */
hipError_t hipPointerGetAttribute(void *data, int attribute, hipDeviceptr_t ptr)
{
    int error = hipshim_enter();

    return hipshim_result((error != hipSuccess) ? error
                                                : cu.pointer_get_attribute(
                                                      data, attribute, (uintptr_t)ptr));
}

hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *ptr)
{
    cu_ptr_t addr = (uintptr_t)ptr;
    unsigned type, managed = 0;
    int error = hipshim_enter();

    memset(attributes, 0, sizeof(*attributes));
    attributes->device = -1;
    if (error != hipSuccess) {
        return hipshim_result(error);
    }
    if (cu.pointer_get_attribute(&type, HIPSHIM_ATTR_TYPE, addr) != hipSuccess) {
        attributes->type = HIPCPU_V6_MEMORY_UNREGISTERED;
        return hipSuccess;
    }

    cu.pointer_get_attribute(&managed, HIPSHIM_ATTR_MANAGED, addr);
    cu.pointer_get_attribute(&attributes->device, HIPSHIM_ATTR_DEVICE, addr);
    attributes->type = managed                         ? HIPCPU_V6_MEMORY_MANAGED
                       : (type == HIPSHIM_MEMORY_HOST) ? HIPCPU_V6_MEMORY_HOST
                                                       : HIPCPU_V6_MEMORY_DEVICE;
    attributes->isManaged = (managed != 0);
    attributes->devicePointer = (void *)(uintptr_t)ptr;
    return hipSuccess;
}

hipError_t hipMemcpy(void *dst, const void *src, size_t size, int kind)
{
    int error = hipshim_enter();

    (void)kind;
    if (error == hipSuccess) {
        error = cu.copy((cu_ptr_t)dst, (cu_ptr_t)src, size);
    }
    if (error == hipSuccess) {
        error = cu.stream_synchronize(NULL); /* device to device returns early */
    }
    return hipshim_result(error);
}

hipError_t hipMemcpyBatchAsync(void **dsts, void **srcs, size_t *sizes, size_t count,
                               void *attrs, size_t *indexes, size_t num_attrs,
                               size_t *failed, hipStream_t stream)
{
    hipshim_copy_attr_t attr = {.order = 1}; /* in stream order */
    size_t first = 0;
    int error = hipshim_enter();

    (void)attrs;
    (void)indexes;
    (void)num_attrs;
    if ((error == hipSuccess) && (cu.copy_batch == NULL)) {
        error = hipErrorNotSupported;
    }
    if (error == hipSuccess) {
        error = cu.copy_batch((cu_ptr_t *)dsts, (cu_ptr_t *)srcs, sizes, count, &attr,
                              &first, 1, failed, stream);
    }
    return hipshim_result(error);
}

static char *hipshim_read(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    long size;

    if (file == NULL) {
        return NULL;
    }
    if ((fseek(file, 0, SEEK_END) == 0) && ((size = ftell(file)) > 0)) {
        rewind(file);
        data = malloc((size_t)size + 1);
        if ((data != NULL) && (fread(data, 1, (size_t)size, file) != (size_t)size)) {
            free(data);
            data = NULL;
        }
    }
    fclose(file);
    return data;
}

hipError_t hipModuleLoadData(hipModule_t *module, const void *image)
{
    const char *path = getenv("HIPSHIM_KERNEL");
    int error = hipshim_enter();
    char *data;

    (void)image;
    if (error != hipSuccess) {
        return hipshim_result(error);
    }
    data = (path == NULL) ? NULL : hipshim_read(path);
    if (data == NULL) {
        fprintf(stderr, "libhipshim: HIPSHIM_KERNEL=%s: no kernel there\n",
                (path == NULL) ? "" : path);
        return hipshim_result(hipErrorNoBinaryForGpu);
    }
    error = cu.module_load((void **)module, data);
    free(data);
    return hipshim_result(error);
}

hipError_t hipGetLastError(void)
{
    int error = hipshim_last;

    hipshim_last = hipSuccess;
    return error;
}

hipError_t hipPeekAtLastError(void)
{
    return hipshim_last;
}

const char *hipGetErrorName(hipError_t error)
{
    const char *name = NULL;

    if ((hipshim_num_devices > 0) && (cu.get_error_name(error, &name) == hipSuccess) &&
        (name != NULL)) {
        return name;
    }
    return "hipErrorUnknown";
}

const char *hipGetErrorString(hipError_t error)
{
    return hipGetErrorName(error);
}
