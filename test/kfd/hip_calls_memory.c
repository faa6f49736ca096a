/* SPDX-License-Identifier: BSD-3-Clause */

/* Probes of memory, pointers, copies, peers, events and devices. */

#include "hip_calls.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void calls_attributes(void)
{
    char *device = hip_device_memory(CALLS_SIZE), *host = hip_host_memory(CALLS_SIZE);
    char *heap = aligned_alloc(4096, CALLS_SIZE), stack[8];

    hip_print_attributes("device", device);
    hip_print_attributes("inner", device + 9);
    hip_print_attributes("last", device + CALLS_SIZE - 1);
    hip_print_attributes("stack", stack);
    hip_print_attributes("heap", heap);
    hip_print_attributes("null", NULL);
    hip_print_attributes("host", host);
    hip_print_attributes("host_inner", host + 9);
    CALL_AND_PRINT("free", hipFree, device);
    hip_print_attributes("freed", device);
    CALL_AND_PRINT("free_null", hipFree, NULL);
    CALL_AND_PRINT("free_host", hipHostFree, host);
}

static void calls_attributes_of_gpus(void)
{
    char *first = hip_device_memory(CALLS_SIZE), *second, *host;

    CALL_AND_PRINT("set", hipSetDevice, 1);
    second = hip_device_memory(CALLS_SIZE);
    host = hip_host_memory(CALLS_SIZE);
    hip_print_attributes("first", first);
    hip_print_attributes("second", second);
    hip_print_attributes("host", host);
}

static void calls_free_twice(void)
{
    char *device = hip_device_memory(CALLS_SIZE);

    CALL_AND_PRINT("free", hipFree, device);
    CALL_AND_PRINT("again", hipFree, device);
}

static void calls_ranges(void)
{
    char *small = hip_device_memory(100), *large = hip_device_memory(CALLS_SIZE);
    char *host = hip_host_memory(5000), stack[8];

    hip_print_range("small", small);
    hip_print_range("small_inner", small + 50);
    hip_print_range("small_end", small + 100);
    hip_print_range("large_inner", large + 9);
    hip_print_range("large_end", large + CALLS_SIZE);
    hip_print_range("stack", stack);
    hip_print_range("null", NULL);
    hip_print_range("host", host);
    hip_print_range("host_last", host + 4999);
}

static void calls_buffer_id(void)
{
    char *device = hip_device_memory(CALLS_SIZE), stack[8];
    unsigned long long id = 0, other = 0;

    CALL_AND_PRINT("id", hipPointerGetAttribute, &id, HIP_POINTER_ATTRIBUTE_BUFFER_ID,
                   device);
    CALL_AND_PRINT("inner", hipPointerGetAttribute, &other,
                   HIP_POINTER_ATTRIBUTE_BUFFER_ID, device + 8);
    hip_print("same", id == other);
    HIP_OK(hipFree, device);
    device = hip_device_memory(CALLS_SIZE);
    CALL_AND_PRINT("next", hipPointerGetAttribute, &other,
                   HIP_POINTER_ATTRIBUTE_BUFFER_ID, device);
    hip_print("same", id == other);
    CALL_AND_PRINT("stack", hipPointerGetAttribute, &id,
                   HIP_POINTER_ATTRIBUTE_BUFFER_ID, stack);
}

static void calls_pointer_attribute(void)
{
    char *device = hip_device_memory(CALLS_SIZE);
    hipDeviceptr_t start = NULL;
    unsigned type = 9, legacy = 9;
    size_t size = 9;
    int ordinal = 9;

    CALL_AND_PRINT("start", hipPointerGetAttribute, &start,
                   HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR, device + 8);
    hip_print("is", start == device);
    CALL_AND_PRINT("size", hipPointerGetAttribute, &size,
                   HIP_POINTER_ATTRIBUTE_RANGE_SIZE, device + 8);
    hip_print("is", (long)size);
    CALL_AND_PRINT("type", hipPointerGetAttribute, &type,
                   HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, device);
    hip_print("is", type);
    CALL_AND_PRINT("ordinal", hipPointerGetAttribute, &ordinal,
                   HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, device);
    hip_print("is", ordinal);
    CALL_AND_PRINT("legacy", hipPointerGetAttribute, &legacy,
                   HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE, device);
    hip_print("is", legacy);
}

static void calls_register(void)
{
    char *heap = aligned_alloc(4096, CALLS_SIZE), *device = hip_device_memory(4096);
    void *pointer = NULL;
    char *read_only =
        mmap(NULL, CALLS_SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CALL_AND_PRINT("register", hipHostRegister, heap, CALLS_SIZE, 0);
    hip_print_attributes("registered", heap);
    hip_print_attributes("inner", heap + 9);
    CALL_AND_PRINT("pointer", hipHostGetDevicePointer, &pointer, heap, 0);
    hip_print("same", pointer == heap);
    CALL_AND_PRINT("unregister", hipHostUnregister, heap);
    hip_print_attributes("unregistered", heap);
    CALL_AND_PRINT("of_device", hipHostRegister, device, 4096, 0);
    CALL_AND_PRINT("unaligned", hipHostRegister, heap + 100, 1000, 0);
    CALL_AND_PRINT("null", hipHostRegister, NULL, 100, 0);
    CALL_AND_PRINT("nothing", hipHostRegister, heap, 0, 0);
    CALL_AND_PRINT("read_only", hipHostRegister, read_only, CALLS_SIZE, 0);
}

static void calls_register_twice(void)
{
    char *heap = aligned_alloc(4096, CALLS_SIZE);

    CALL_AND_PRINT("register", hipHostRegister, heap, CALLS_SIZE, 0);
    CALL_AND_PRINT("again", hipHostRegister, heap, CALLS_SIZE, 0);
    CALL_AND_PRINT("part", hipHostRegister, heap + 4096, 4096, 0);
    CALL_AND_PRINT("unregister", hipHostUnregister, heap);
    hip_print_attributes("after", heap);
}

static void calls_register_around(void)
{
    char *heap = aligned_alloc(4096, CALLS_SIZE);

    CALL_AND_PRINT("register", hipHostRegister, heap + 4096, 8192, 0);
    CALL_AND_PRINT("around", hipHostRegister, heap, CALLS_SIZE, 0);
    CALL_AND_PRINT("unregister", hipHostUnregister, heap + 4096);
    hip_print_attributes("after", heap + 4096);
}

static void calls_unregister_twice(void)
{
    char *heap = aligned_alloc(4096, CALLS_SIZE);

    CALL_AND_PRINT("register", hipHostRegister, heap, CALLS_SIZE, 0);
    CALL_AND_PRINT("unregister", hipHostUnregister, heap);
    CALL_AND_PRINT("again", hipHostUnregister, heap);
}

static void calls_chunks(void)
{
    hipMemGenericAllocationHandle_t handles[2];
    char *range = hip_chunk_memory(handles), *host = malloc(2 * CALLS_CHUNK);

    hip_print_attributes("first", range);
    hip_print_attributes("inner", range + 9);
    hip_print_range("first", range + 1);
    hip_print_range("second", range + CALLS_CHUNK + 1);
    memset(host, 7, 2 * CALLS_CHUNK);
    CALL_AND_PRINT("one", hipMemcpy, range, host, CALLS_CHUNK, hipMemcpyHostToDevice);
    CALL_AND_PRINT("unmap", hipMemUnmap, range, CALLS_CHUNK);
    hip_print_attributes("unmapped", range + 9);
    CALL_AND_PRINT("unmap", hipMemUnmap, range + CALLS_CHUNK, CALLS_CHUNK);
    CALL_AND_PRINT("release", hipMemRelease, handles[0]);
    CALL_AND_PRINT("release", hipMemRelease, handles[1]);
    CALL_AND_PRINT("free", hipMemAddressFree, range, 2 * CALLS_CHUNK);
}

static void calls_chunks_across(void)
{
    hipMemGenericAllocationHandle_t handles[2];
    char *range = hip_chunk_memory(handles), *host = malloc(2 * CALLS_CHUNK);
    int i;

    memset(host, 7, 2 * CALLS_CHUNK);
    CALL_AND_PRINT("in", hipMemcpy, range, host, 2 * CALLS_CHUNK,
                   hipMemcpyHostToDevice);
    memset(host, 0, 2 * CALLS_CHUNK);
    CALL_AND_PRINT("out", hipMemcpy, host, range, 2 * CALLS_CHUNK,
                   hipMemcpyDeviceToHost);
    hip_print("first", host[CALLS_CHUNK - 1]);
    hip_print("last", host[(2 * CALLS_CHUNK) - 1]);
    for (i = 0; i < 2; ++i) {
        HIP_OK(hipMemUnmap, range + (i * CALLS_CHUNK), CALLS_CHUNK);
        HIP_OK(hipMemRelease, handles[i]);
    }
}

static void calls_retain(void)
{
    hipMemGenericAllocationHandle_t handles[2], retained;
    char *range = hip_chunk_memory(handles);

    CALL_AND_PRINT("chunk", hipMemRetainAllocationHandle, &retained, range);
    hip_print("same", retained == handles[0]);
    CALL_AND_PRINT("inner", hipMemRetainAllocationHandle, &retained, range + 4096);
    HIP_OK(hipMemUnmap, range, CALLS_CHUNK);
    HIP_OK(hipMemUnmap, range + CALLS_CHUNK, CALLS_CHUNK);
}

static void calls_retain_other(void)
{
    hipMemGenericAllocationHandle_t retained;

    CALL_AND_PRINT("hipMalloc", hipMemRetainAllocationHandle, &retained,
                   hip_device_memory(CALLS_SIZE));
}

static void calls_peers(void)
{
    unsigned type = 9, hops = 9;
    int can = 9, value = 9;

    CALL_AND_PRINT("own", hipDeviceCanAccessPeer, &can, 0, 0);
    hip_print("can", can);
    CALL_AND_PRINT("other", hipDeviceCanAccessPeer, &can, 0, 1);
    hip_print("can", can);
    CALL_AND_PRINT("none", hipDeviceCanAccessPeer, &can, 0, 9);
    CALL_AND_PRINT("enable", hipDeviceEnablePeerAccess, 1, 0);
    CALL_AND_PRINT("again", hipDeviceEnablePeerAccess, 1, 0);
    CALL_AND_PRINT("of_own", hipDeviceEnablePeerAccess, 0, 0);
    CALL_AND_PRINT("of_none", hipDeviceEnablePeerAccess, 9, 0);
    CALL_AND_PRINT("disable", hipDeviceDisablePeerAccess, 1);
    CALL_AND_PRINT("again", hipDeviceDisablePeerAccess, 1);
    CALL_AND_PRINT("link", hipExtGetLinkTypeAndHopCount, 0, 1, &type, &hops);
    hip_print("type", type);
    hip_print("hops", hops);
    CALL_AND_PRINT("access", hipDeviceGetP2PAttribute, &value,
                   hipDevP2PAttrAccessSupported, 0, 1);
    hip_print("is", value);
    CALL_AND_PRINT("of_own", hipDeviceGetP2PAttribute, &value,
                   hipDevP2PAttrAccessSupported, 0, 0);
}

static void calls_events(void)
{
    hipEvent_t event, other, untimed;
    hipStream_t stream = hip_stream();
    float ms = -1;

    CALL_AND_PRINT("create", hipEventCreate, &event);
    HIP_OK(hipEventCreate, &other);
    CALL_AND_PRINT("untimed", hipEventCreateWithFlags, &untimed, hipEventDisableTiming);
    CALL_AND_PRINT("query", hipEventQuery, event);
    CALL_AND_PRINT("synchronize", hipEventSynchronize, event);
    CALL_AND_PRINT("elapsed", hipEventElapsedTime, &ms, event, other);
    CALL_AND_PRINT("record", hipEventRecord, event, stream);
    CALL_AND_PRINT("record", hipEventRecord, untimed, stream);
    HIP_OK(hipStreamSynchronize, stream);
    CALL_AND_PRINT("query", hipEventQuery, event);
    CALL_AND_PRINT("elapsed_untimed", hipEventElapsedTime, &ms, event, untimed);
    CALL_AND_PRINT("elapsed_half", hipEventElapsedTime, &ms, event, other);
    CALL_AND_PRINT("wait", hipStreamWaitEvent, stream, other, 0);
    CALL_AND_PRINT("stream", hipStreamQuery, stream);
    CALL_AND_PRINT("destroy", hipEventDestroy, event);
}

static void calls_destroy_null(void)
{
    CALL_AND_PRINT("event", hipEventDestroy, NULL);
}

static void calls_write_value(void)
{
    uint32_t *device = (uint32_t *)(void *)hip_device_memory(4096), value = 0;
    uint32_t *host = (uint32_t *)(void *)hip_host_memory(4096);
    hipStream_t stream = hip_stream();
    void *memory = NULL;

    CALL_AND_PRINT("device", hipStreamWriteValue32, stream, device, 77, 0);
    CALL_AND_PRINT("host", hipStreamWriteValue32, stream, host, 78, 0);
    CALL_AND_PRINT("synchronize", hipStreamSynchronize, stream);
    HIP_OK(hipMemcpy, &value, device, sizeof(value), hipMemcpyDeviceToHost);
    hip_print("device", value);
    hip_print("host", host[0]);
    CALL_AND_PRINT("uncached", hipExtMallocWithFlags, &memory, CALLS_SIZE,
                   hipDeviceMallocUncached);
    hip_print_attributes("uncached", memory);
}

static void calls_write_stack(void)
{
    hipStream_t stream = hip_stream();
    uint32_t value = 0;

    CALL_AND_PRINT("stack", hipStreamWriteValue32, stream, &value, 1, 0);
    CALL_AND_PRINT("synchronize", hipStreamSynchronize, stream);
}

static void calls_copies(void)
{
    char *device = hip_device_memory(CALLS_SIZE), *host = hip_host_memory(CALLS_SIZE);
    char *heap = malloc(CALLS_SIZE);
    hipStream_t stream = hip_stream();

    CALL_AND_PRINT("nothing", hipMemcpyAsync, device, heap, 0, hipMemcpyHostToDevice,
                   stream);
    CALL_AND_PRINT("default", hipMemcpy, device, heap, 16, hipMemcpyDefault);
    CALL_AND_PRINT("host", hipMemcpyAsync, host, heap, 16, hipMemcpyDefault, stream);
    CALL_AND_PRINT("device", hipMemcpyAsync, device, device + 4096, 16,
                   hipMemcpyDeviceToDevice, stream);
    CALL_AND_PRINT("synchronize", hipStreamSynchronize, stream);
}

static void calls_copy_null(void)
{
    char heap[16];

    CALL_AND_PRINT("null", hipMemcpy, NULL, heap, sizeof(heap), hipMemcpyHostToDevice);
}

static void calls_copy_kind(void)
{
    char *device = hip_device_memory(CALLS_SIZE), heap[16];

    CALL_AND_PRINT("wrong", hipMemcpy, device, heap, sizeof(heap),
                   hipMemcpyDeviceToDevice);
}

static void calls_copy_over_end(void)
{
    char *device = hip_device_memory(CALLS_SIZE), heap[16];

    CALL_AND_PRINT("over", hipMemcpy, device + CALLS_SIZE - 8, heap, sizeof(heap),
                   hipMemcpyHostToDevice);
}

static void calls_devices(void)
{
    char bus[64] = "";
    int count = 9, device = 9, value = 9;

    CALL_AND_PRINT("count", hipGetDeviceCount, &count);
    hip_print("is", count);
    CALL_AND_PRINT("get", hipGetDevice, &device);
    hip_print("is", device);
    CALL_AND_PRINT("set", hipSetDevice, 9);
    CALL_AND_PRINT("set", hipSetDevice, -1);
    CALL_AND_PRINT("bus", hipDeviceGetPCIBusId, bus, sizeof(bus), 1);
    CALL_AND_PRINT("short", hipDeviceGetPCIBusId, bus, 5, 0);
    CALL_AND_PRINT("large_bar", hipDeviceGetAttribute, &value,
                   hipDeviceAttributeIsLargeBar, 0);
    hip_print("is", value);
    CALL_AND_PRINT("write_value", hipDeviceGetAttribute, &value,
                   hipDeviceAttributeCanUseStreamWaitValue, 0);
    hip_print("is", value);
}

static void calls_async(void)
{
    hipStream_t stream = hip_stream();
    void *memory = NULL;

    CALL_AND_PRINT("malloc", hipMallocAsync, &memory, CALLS_SIZE, stream);
    hip_print_attributes("memory", memory);
    hip_print_range("inner", (char *)memory + 9);
    CALL_AND_PRINT("free", hipFreeAsync, memory, stream);
    CALL_AND_PRINT("synchronize", hipStreamSynchronize, stream);
    hip_print_attributes("freed", memory);
}

static unsigned calls_id_of(void *memory)
{
    unsigned id = 0;

    HIP_OK(hipPointerGetAttribute, &id, HIP_POINTER_ATTRIBUTE_BUFFER_ID, memory);
    return id;
}

/* Freed memory stays in the pool up to its threshold. */
static void calls_pool(void)
{
    hipStream_t stream = hip_stream();
    hipMemPool_t pool = NULL, current = NULL;
    void *memory = NULL, *again = NULL;
    uint64_t threshold = 9;
    unsigned id;

    CALL_AND_PRINT("default", hipDeviceGetDefaultMemPool, &pool, 0);
    CALL_AND_PRINT("current", hipDeviceGetMemPool, &current, 0);
    hip_print("same", pool == current);
    CALL_AND_PRINT("threshold", hipMemPoolGetAttribute, pool,
                   hipMemPoolAttrReleaseThreshold, &threshold);
    hip_print("is", (long)threshold);
    threshold = 1 << 30;
    CALL_AND_PRINT("keep", hipMemPoolSetAttribute, pool, hipMemPoolAttrReleaseThreshold,
                   &threshold);
    CALL_AND_PRINT("malloc", hipMallocAsync, &memory, CALLS_SIZE, stream);
    id = calls_id_of(memory);
    CALL_AND_PRINT("free", hipFreeAsync, memory, stream);
    CALL_AND_PRINT("synchronize", hipStreamSynchronize, stream);
    hip_print_attributes("kept", memory);
    CALL_AND_PRINT("malloc", hipMallocAsync, &again, CALLS_SIZE, stream);
    hip_print("reused", again == memory);
    hip_print("same_buffer", id == calls_id_of(again));
    CALL_AND_PRINT("free", hipFreeAsync, again, stream);
    CALL_AND_PRINT("synchronize", hipStreamSynchronize, stream);
    CALL_AND_PRINT("trim", hipMemPoolTrimTo, pool, 0);
    hip_print_attributes("trimmed", memory);
    threshold = 0;
    CALL_AND_PRINT("release", hipMemPoolSetAttribute, pool,
                   hipMemPoolAttrReleaseThreshold, &threshold);
    CALL_AND_PRINT("malloc", hipMallocAsync, &memory, CALLS_SIZE, stream);
    hip_print("same_buffer", id == calls_id_of(memory));
    CALL_AND_PRINT("free", hipFreeAsync, memory, stream);
    CALL_AND_PRINT("malloc", hipMallocAsync, &again, CALLS_SIZE, stream);
    hip_print("reused", again == memory);
    CALL_AND_PRINT("free", hipFreeAsync, again, stream);
    hip_print_attributes("freed", again);
}

/* Call ROCr directly, since HIP's call may differ. */
static int calls_dmabuf(const void *memory)
{
    int (*export)(const void *ptr, size_t size, int *fd, uint64_t *offset);
    void *symbol = hip_symbol("hsa_amd_portable_export_dmabuf");
    uint64_t offset;
    int fd;

    memcpy(&export, &symbol, sizeof(export));
    return export(memory, CALLS_SIZE, &fd, &offset);
}

static void calls_pool_own(void)
{
    const hipMemPoolProps props = {
        .allocType = hipMemAllocationTypePinned,
        .location = {.type = hipMemLocationTypeDevice, .id = 1}};
    hipStream_t stream = hip_stream();
    hipMemPool_t pool = NULL;
    hipIpcMemHandle_t handle;
    void *memory = NULL;

    CALL_AND_PRINT("create", hipMemPoolCreate, &pool, &props);
    CALL_AND_PRINT("malloc", hipMallocFromPoolAsync, &memory, CALLS_SIZE, pool, stream);
    hip_print_attributes("memory", memory);
    hip_print_range("inner", (char *)memory + 9);
    CALL_AND_PRINT("export", hipIpcGetMemHandle, &handle, memory);
    hip_print("dmabuf", calls_dmabuf(memory));
    CALL_AND_PRINT("free", hipFreeAsync, memory, stream);
    CALL_AND_PRINT("synchronize", hipStreamSynchronize, stream);
    CALL_AND_PRINT("destroy", hipMemPoolDestroy, pool);
    CALL_AND_PRINT("malloc", hipMallocAsync, &memory, CALLS_SIZE, stream);
    CALL_AND_PRINT("free_now", hipFree, memory);
    hip_print_attributes("freed", memory);
}

static void calls_forked(void)
{
    int count = 9, status = 9;
    void *memory;

    hip_device_memory(CALLS_SIZE);
    if (fork() == 0) {
        CALL_AND_PRINT("count", hipGetDeviceCount, &count);
        hip_print("is", count);
        CALL_AND_PRINT("malloc", hipMalloc, &memory, CALLS_SIZE);
        _exit(0);
    }
    wait(&status);
    hip_print("status", status);
}

static void calls_many_streams(void)
{
    char *device = hip_device_memory(CALLS_SIZE), *host = hip_host_memory(CALLS_SIZE);
    hipStream_t streams[40];
    int i, bad = 0;

    for (i = 0; i < 40; ++i) {
        streams[i] = hip_stream();
    }
    for (i = 0; i < 400; ++i) {
        bad += HIP(hipMemcpyAsync)(device, host, 1000, hipMemcpyHostToDevice,
                                   streams[i % 40]) != 0;
    }
    CALL_AND_PRINT("synchronize", hipDeviceSynchronize);
    hip_print("bad", bad);
}

const hip_probe_t hip_probes_memory[] = {
    {"attributes", calls_attributes},
    {"attributes_of_gpus", calls_attributes_of_gpus},
    {"free_twice", calls_free_twice},
    {"ranges", calls_ranges},
    {"buffer_id", calls_buffer_id},
    {"pointer_attribute", calls_pointer_attribute},
    {"register", calls_register},
    {"register_twice", calls_register_twice},
    {"register_around", calls_register_around},
    {"unregister_twice", calls_unregister_twice},
    {"chunks", calls_chunks},
    {"chunks_across", calls_chunks_across},
    {"retain", calls_retain},
    {"retain_other", calls_retain_other},
    {"peers", calls_peers},
    {"events", calls_events},
    {"destroy_null", calls_destroy_null},
    {"write_value", calls_write_value},
    {"write_stack", calls_write_stack},
    {"copies", calls_copies},
    {"copy_null", calls_copy_null},
    {"copy_kind", calls_copy_kind},
    {"copy_over_end", calls_copy_over_end},
    {"devices", calls_devices},
    {"async", calls_async},
    {"pool", calls_pool},
    {"pool_own", calls_pool_own},
    {"forked", calls_forked},
    {"many_streams", calls_many_streams},
    {NULL, NULL},
};
