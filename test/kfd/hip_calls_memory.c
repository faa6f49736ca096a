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

    hip_say_attributes("device", device);
    hip_say_attributes("inner", device + 9);
    hip_say_attributes("last", device + CALLS_SIZE - 1);
    hip_say_attributes("stack", stack);
    hip_say_attributes("heap", heap);
    hip_say_attributes("null", NULL);
    hip_say_attributes("host", host);
    hip_say_attributes("host_inner", host + 9);
    ASK("free", hipFree, device);
    hip_say_attributes("freed", device);
    ASK("free_null", hipFree, NULL);
    ASK("free_host", hipHostFree, host);
}

static void calls_attributes_of_gpus(void)
{
    char *first = hip_device_memory(CALLS_SIZE), *second, *host;

    ASK("set", hipSetDevice, 1);
    second = hip_device_memory(CALLS_SIZE);
    host = hip_host_memory(CALLS_SIZE);
    hip_say_attributes("first", first);
    hip_say_attributes("second", second);
    hip_say_attributes("host", host);
}

static void calls_free_twice(void)
{
    char *device = hip_device_memory(CALLS_SIZE);

    ASK("free", hipFree, device);
    ASK("again", hipFree, device);
}

static void calls_ranges(void)
{
    char *small = hip_device_memory(100), *large = hip_device_memory(CALLS_SIZE);
    char *host = hip_host_memory(5000), stack[8];

    hip_say_range("small", small);
    hip_say_range("small_inner", small + 50);
    hip_say_range("small_end", small + 100);
    hip_say_range("large_inner", large + 9);
    hip_say_range("large_end", large + CALLS_SIZE);
    hip_say_range("stack", stack);
    hip_say_range("null", NULL);
    hip_say_range("host", host);
    hip_say_range("host_last", host + 4999);
}

static void calls_buffer_id(void)
{
    char *device = hip_device_memory(CALLS_SIZE), stack[8];
    unsigned long long id = 0, other = 0;

    ASK("id", hipPointerGetAttribute, &id, HIP_POINTER_ATTRIBUTE_BUFFER_ID, device);
    ASK("inner", hipPointerGetAttribute, &other, HIP_POINTER_ATTRIBUTE_BUFFER_ID,
        device + 8);
    hip_say("same", id == other);
    HIP_OK(hipFree, device);
    device = hip_device_memory(CALLS_SIZE);
    ASK("next", hipPointerGetAttribute, &other, HIP_POINTER_ATTRIBUTE_BUFFER_ID,
        device);
    hip_say("same", id == other);
    ASK("stack", hipPointerGetAttribute, &id, HIP_POINTER_ATTRIBUTE_BUFFER_ID, stack);
}

static void calls_pointer_attribute(void)
{
    char *device = hip_device_memory(CALLS_SIZE);
    hipDeviceptr_t start = NULL;
    unsigned type = 9, legacy = 9;
    size_t size = 9;
    int ordinal = 9;

    ASK("start", hipPointerGetAttribute, &start, HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        device + 8);
    hip_say("is", start == device);
    ASK("size", hipPointerGetAttribute, &size, HIP_POINTER_ATTRIBUTE_RANGE_SIZE,
        device + 8);
    hip_say("is", (long)size);
    ASK("type", hipPointerGetAttribute, &type, HIP_POINTER_ATTRIBUTE_MEMORY_TYPE,
        device);
    hip_say("is", type);
    ASK("ordinal", hipPointerGetAttribute, &ordinal,
        HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, device);
    hip_say("is", ordinal);
    ASK("legacy", hipPointerGetAttribute, &legacy,
        HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE, device);
    hip_say("is", legacy);
}

static void calls_register(void)
{
    char *heap = aligned_alloc(4096, CALLS_SIZE), *device = hip_device_memory(4096);
    void *pointer = NULL;
    char *read_only =
        mmap(NULL, CALLS_SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ASK("register", hipHostRegister, heap, CALLS_SIZE, 0);
    hip_say_attributes("registered", heap);
    hip_say_attributes("inner", heap + 9);
    ASK("pointer", hipHostGetDevicePointer, &pointer, heap, 0);
    hip_say("same", pointer == heap);
    ASK("unregister", hipHostUnregister, heap);
    hip_say_attributes("unregistered", heap);
    ASK("of_device", hipHostRegister, device, 4096, 0);
    ASK("unaligned", hipHostRegister, heap + 100, 1000, 0);
    ASK("null", hipHostRegister, NULL, 100, 0);
    ASK("nothing", hipHostRegister, heap, 0, 0);
    ASK("read_only", hipHostRegister, read_only, CALLS_SIZE, 0);
}

static void calls_register_twice(void)
{
    char *heap = aligned_alloc(4096, CALLS_SIZE);

    ASK("register", hipHostRegister, heap, CALLS_SIZE, 0);
    ASK("again", hipHostRegister, heap, CALLS_SIZE, 0);
    ASK("part", hipHostRegister, heap + 4096, 4096, 0);
    ASK("unregister", hipHostUnregister, heap);
    hip_say_attributes("after", heap);
}

static void calls_register_around(void)
{
    char *heap = aligned_alloc(4096, CALLS_SIZE);

    ASK("register", hipHostRegister, heap + 4096, 8192, 0);
    ASK("around", hipHostRegister, heap, CALLS_SIZE, 0);
    ASK("unregister", hipHostUnregister, heap + 4096);
    hip_say_attributes("after", heap + 4096);
}

static void calls_unregister_twice(void)
{
    char *heap = aligned_alloc(4096, CALLS_SIZE);

    ASK("register", hipHostRegister, heap, CALLS_SIZE, 0);
    ASK("unregister", hipHostUnregister, heap);
    ASK("again", hipHostUnregister, heap);
}

static void calls_chunks(void)
{
    hipMemGenericAllocationHandle_t handles[2];
    char *range = hip_chunk_memory(handles), *host = malloc(2 * CALLS_CHUNK);

    hip_say_attributes("first", range);
    hip_say_attributes("inner", range + 9);
    hip_say_range("first", range + 1);
    hip_say_range("second", range + CALLS_CHUNK + 1);
    memset(host, 7, 2 * CALLS_CHUNK);
    ASK("one", hipMemcpy, range, host, CALLS_CHUNK, hipMemcpyHostToDevice);
    ASK("unmap", hipMemUnmap, range, CALLS_CHUNK);
    hip_say_attributes("unmapped", range + 9);
    ASK("unmap", hipMemUnmap, range + CALLS_CHUNK, CALLS_CHUNK);
    ASK("release", hipMemRelease, handles[0]);
    ASK("release", hipMemRelease, handles[1]);
    ASK("free", hipMemAddressFree, range, 2 * CALLS_CHUNK);
}

static void calls_chunks_across(void)
{
    hipMemGenericAllocationHandle_t handles[2];
    char *range = hip_chunk_memory(handles), *host = malloc(2 * CALLS_CHUNK);
    int i;

    memset(host, 7, 2 * CALLS_CHUNK);
    ASK("in", hipMemcpy, range, host, 2 * CALLS_CHUNK, hipMemcpyHostToDevice);
    memset(host, 0, 2 * CALLS_CHUNK);
    ASK("out", hipMemcpy, host, range, 2 * CALLS_CHUNK, hipMemcpyDeviceToHost);
    hip_say("first", host[CALLS_CHUNK - 1]);
    hip_say("last", host[(2 * CALLS_CHUNK) - 1]);
    for (i = 0; i < 2; ++i) {
        HIP_OK(hipMemUnmap, range + (i * CALLS_CHUNK), CALLS_CHUNK);
        HIP_OK(hipMemRelease, handles[i]);
    }
}

static void calls_retain(void)
{
    hipMemGenericAllocationHandle_t handles[2], retained;
    char *range = hip_chunk_memory(handles);

    ASK("chunk", hipMemRetainAllocationHandle, &retained, range);
    hip_say("same", retained == handles[0]);
    ASK("inner", hipMemRetainAllocationHandle, &retained, range + 4096);
    HIP_OK(hipMemUnmap, range, CALLS_CHUNK);
    HIP_OK(hipMemUnmap, range + CALLS_CHUNK, CALLS_CHUNK);
}

static void calls_retain_other(void)
{
    hipMemGenericAllocationHandle_t retained;

    ASK("hipMalloc", hipMemRetainAllocationHandle, &retained,
        hip_device_memory(CALLS_SIZE));
}

static void calls_peers(void)
{
    unsigned type = 9, hops = 9;
    int can = 9, value = 9;

    ASK("own", hipDeviceCanAccessPeer, &can, 0, 0);
    hip_say("can", can);
    ASK("other", hipDeviceCanAccessPeer, &can, 0, 1);
    hip_say("can", can);
    ASK("none", hipDeviceCanAccessPeer, &can, 0, 9);
    ASK("enable", hipDeviceEnablePeerAccess, 1, 0);
    ASK("again", hipDeviceEnablePeerAccess, 1, 0);
    ASK("of_own", hipDeviceEnablePeerAccess, 0, 0);
    ASK("of_none", hipDeviceEnablePeerAccess, 9, 0);
    ASK("disable", hipDeviceDisablePeerAccess, 1);
    ASK("again", hipDeviceDisablePeerAccess, 1);
    ASK("link", hipExtGetLinkTypeAndHopCount, 0, 1, &type, &hops);
    hip_say("type", type);
    hip_say("hops", hops);
    ASK("access", hipDeviceGetP2PAttribute, &value, hipDevP2PAttrAccessSupported, 0, 1);
    hip_say("is", value);
    ASK("of_own", hipDeviceGetP2PAttribute, &value, hipDevP2PAttrAccessSupported, 0, 0);
}

static void calls_events(void)
{
    hipEvent_t event, other, untimed;
    hipStream_t stream = hip_stream();
    float ms = -1;

    ASK("create", hipEventCreate, &event);
    HIP_OK(hipEventCreate, &other);
    ASK("untimed", hipEventCreateWithFlags, &untimed, hipEventDisableTiming);
    ASK("query", hipEventQuery, event);
    ASK("synchronize", hipEventSynchronize, event);
    ASK("elapsed", hipEventElapsedTime, &ms, event, other);
    ASK("record", hipEventRecord, event, stream);
    ASK("record", hipEventRecord, untimed, stream);
    HIP_OK(hipStreamSynchronize, stream);
    ASK("query", hipEventQuery, event);
    ASK("elapsed_untimed", hipEventElapsedTime, &ms, event, untimed);
    ASK("elapsed_half", hipEventElapsedTime, &ms, event, other);
    ASK("wait", hipStreamWaitEvent, stream, other, 0);
    ASK("stream", hipStreamQuery, stream);
    ASK("destroy", hipEventDestroy, event);
}

static void calls_destroy_null(void)
{
    ASK("event", hipEventDestroy, NULL);
}

static void calls_write_value(void)
{
    uint32_t *device = (uint32_t *)(void *)hip_device_memory(4096), value = 0;
    uint32_t *host = (uint32_t *)(void *)hip_host_memory(4096);
    hipStream_t stream = hip_stream();
    void *memory = NULL;

    ASK("device", hipStreamWriteValue32, stream, device, 77, 0);
    ASK("host", hipStreamWriteValue32, stream, host, 78, 0);
    ASK("synchronize", hipStreamSynchronize, stream);
    HIP_OK(hipMemcpy, &value, device, sizeof(value), hipMemcpyDeviceToHost);
    hip_say("device", value);
    hip_say("host", host[0]);
    ASK("uncached", hipExtMallocWithFlags, &memory, CALLS_SIZE,
        hipDeviceMallocUncached);
    hip_say_attributes("uncached", memory);
}

static void calls_write_stack(void)
{
    hipStream_t stream = hip_stream();
    uint32_t value = 0;

    ASK("stack", hipStreamWriteValue32, stream, &value, 1, 0);
    ASK("synchronize", hipStreamSynchronize, stream);
}

static void calls_copies(void)
{
    char *device = hip_device_memory(CALLS_SIZE), *host = hip_host_memory(CALLS_SIZE);
    char *heap = malloc(CALLS_SIZE);
    hipStream_t stream = hip_stream();

    ASK("nothing", hipMemcpyAsync, device, heap, 0, hipMemcpyHostToDevice, stream);
    ASK("default", hipMemcpy, device, heap, 16, hipMemcpyDefault);
    ASK("host", hipMemcpyAsync, host, heap, 16, hipMemcpyDefault, stream);
    ASK("device", hipMemcpyAsync, device, device + 4096, 16, hipMemcpyDeviceToDevice,
        stream);
    ASK("synchronize", hipStreamSynchronize, stream);
}

static void calls_copy_null(void)
{
    char heap[16];

    ASK("null", hipMemcpy, NULL, heap, sizeof(heap), hipMemcpyHostToDevice);
}

static void calls_copy_kind(void)
{
    char *device = hip_device_memory(CALLS_SIZE), heap[16];

    ASK("wrong", hipMemcpy, device, heap, sizeof(heap), hipMemcpyDeviceToDevice);
}

static void calls_copy_over_end(void)
{
    char *device = hip_device_memory(CALLS_SIZE), heap[16];

    ASK("over", hipMemcpy, device + CALLS_SIZE - 8, heap, sizeof(heap),
        hipMemcpyHostToDevice);
}

static void calls_devices(void)
{
    char bus[64] = "";
    int count = 9, device = 9, value = 9;

    ASK("count", hipGetDeviceCount, &count);
    hip_say("is", count);
    ASK("get", hipGetDevice, &device);
    hip_say("is", device);
    ASK("set", hipSetDevice, 9);
    ASK("set", hipSetDevice, -1);
    ASK("bus", hipDeviceGetPCIBusId, bus, sizeof(bus), 1);
    ASK("short", hipDeviceGetPCIBusId, bus, 5, 0);
    ASK("large_bar", hipDeviceGetAttribute, &value, hipDeviceAttributeIsLargeBar, 0);
    hip_say("is", value);
    ASK("write_value", hipDeviceGetAttribute, &value,
        hipDeviceAttributeCanUseStreamWaitValue, 0);
    hip_say("is", value);
}

static void calls_async(void)
{
    hipStream_t stream = hip_stream();
    void *memory = NULL;

    ASK("malloc", hipMallocAsync, &memory, CALLS_SIZE, stream);
    hip_say_attributes("memory", memory);
    hip_say_range("inner", (char *)memory + 9);
    ASK("free", hipFreeAsync, memory, stream);
    ASK("synchronize", hipStreamSynchronize, stream);
    hip_say_attributes("freed", memory);
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

    ASK("default", hipDeviceGetDefaultMemPool, &pool, 0);
    ASK("current", hipDeviceGetMemPool, &current, 0);
    hip_say("same", pool == current);
    ASK("threshold", hipMemPoolGetAttribute, pool, hipMemPoolAttrReleaseThreshold,
        &threshold);
    hip_say("is", (long)threshold);
    threshold = 1 << 30;
    ASK("keep", hipMemPoolSetAttribute, pool, hipMemPoolAttrReleaseThreshold,
        &threshold);
    ASK("malloc", hipMallocAsync, &memory, CALLS_SIZE, stream);
    id = calls_id_of(memory);
    ASK("free", hipFreeAsync, memory, stream);
    ASK("synchronize", hipStreamSynchronize, stream);
    hip_say_attributes("kept", memory);
    ASK("malloc", hipMallocAsync, &again, CALLS_SIZE, stream);
    hip_say("reused", again == memory);
    hip_say("same_buffer", id == calls_id_of(again));
    ASK("free", hipFreeAsync, again, stream);
    ASK("synchronize", hipStreamSynchronize, stream);
    ASK("trim", hipMemPoolTrimTo, pool, 0);
    hip_say_attributes("trimmed", memory);
    threshold = 0;
    ASK("release", hipMemPoolSetAttribute, pool, hipMemPoolAttrReleaseThreshold,
        &threshold);
    ASK("malloc", hipMallocAsync, &memory, CALLS_SIZE, stream);
    hip_say("same_buffer", id == calls_id_of(memory));
    ASK("free", hipFreeAsync, memory, stream);
    ASK("malloc", hipMallocAsync, &again, CALLS_SIZE, stream);
    hip_say("reused", again == memory);
    ASK("free", hipFreeAsync, again, stream);
    hip_say_attributes("freed", again);
}

/* ROCr's call, whatever the HIP call is. */
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

    ASK("create", hipMemPoolCreate, &pool, &props);
    ASK("malloc", hipMallocFromPoolAsync, &memory, CALLS_SIZE, pool, stream);
    hip_say_attributes("memory", memory);
    hip_say_range("inner", (char *)memory + 9);
    ASK("export", hipIpcGetMemHandle, &handle, memory);
    hip_say("dmabuf", calls_dmabuf(memory));
    ASK("free", hipFreeAsync, memory, stream);
    ASK("synchronize", hipStreamSynchronize, stream);
    ASK("destroy", hipMemPoolDestroy, pool);
    ASK("malloc", hipMallocAsync, &memory, CALLS_SIZE, stream);
    ASK("free_now", hipFree, memory);
    hip_say_attributes("freed", memory);
}

static void calls_forked(void)
{
    int count = 9, status = 9;
    void *memory;

    hip_device_memory(CALLS_SIZE);
    if (fork() == 0) {
        ASK("count", hipGetDeviceCount, &count);
        hip_say("is", count);
        ASK("malloc", hipMalloc, &memory, CALLS_SIZE);
        _exit(0);
    }
    wait(&status);
    hip_say("status", status);
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
    ASK("synchronize", hipDeviceSynchronize);
    hip_say("bad", bad);
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
