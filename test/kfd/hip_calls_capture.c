/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Probes of calls while a stream captures in the global mode. A probe's name contains
 * the calling thread ("own" captures itself, "thread" is a second one) and its mode.
 */

#include "hip_calls.h"

#include <pthread.h>
#include <stdlib.h>

/* Objects used by the calls; made before the capture begins. */
static struct {
    hipStream_t captured, stream;
    hipEvent_t event, recorded;
    char *device, *host, *heap;
} calls;

static void calls_prepare(void)
{
    calls.captured = hip_stream();
    calls.stream = hip_stream();
    HIP_OK(hipEventCreateWithFlags, &calls.event, hipEventDisableTiming);
    HIP_OK(hipEventCreateWithFlags, &calls.recorded, hipEventDisableTiming);
    HIP_OK(hipEventRecord, calls.recorded, calls.stream);
    HIP_OK(hipStreamSynchronize, calls.stream);
    calls.device = hip_device_memory(CALLS_SIZE);
    calls.host = hip_host_memory(CALLS_SIZE);
    calls.heap = aligned_alloc(4096, CALLS_SIZE);
}

static void calls_relax(void)
{
    hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;

    HIP_OK(hipThreadExchangeStreamCaptureMode, &mode);
}

typedef struct calls_thread {
    void (*call)(void);
    int is_relaxed;
} calls_thread_t;

static void *calls_thread_main(void *arg)
{
    const calls_thread_t *thread = arg;

    if (thread->is_relaxed) {
        calls_relax();
    }
    thread->call();
    return NULL;
}

/* Call while a stream captures; the last word is whether the capture has survived. */
static void calls_capture(void (*call)(void), int is_relaxed, int is_other)
{
    calls_thread_t thread = {call, is_relaxed};
    hipGraph_t graph = NULL;
    pthread_t id;

    calls_prepare();
    HIP_OK(hipStreamBeginCapture, calls.captured, hipStreamCaptureModeGlobal);
    if (is_other) {
        HIP_TRUE(pthread_create(&id, NULL, calls_thread_main, &thread) == 0);
        pthread_join(id, NULL);
    } else {
        calls_thread_main(&thread);
    }
    CALL_AND_PRINT("end", hipStreamEndCapture, calls.captured, &graph);
}

static void call_memcpy(void)
{
    CALL_AND_PRINT("memcpy", hipMemcpy, calls.heap, calls.device, 16,
                   hipMemcpyDeviceToHost);
}

static void call_memset(void)
{
    CALL_AND_PRINT("memset", hipMemset, calls.device, 1, 16);
}

static void call_device_sync(void)
{
    CALL_AND_PRINT("synchronize", hipDeviceSynchronize);
}

static void call_stream_sync(void)
{
    CALL_AND_PRINT("synchronize", hipStreamSynchronize, calls.stream);
}

static void call_stream_query(void)
{
    CALL_AND_PRINT("query", hipStreamQuery, calls.stream);
}

static void call_null_sync(void)
{
    CALL_AND_PRINT("synchronize", hipStreamSynchronize, NULL);
}

static void call_null_async(void)
{
    CALL_AND_PRINT("copy", hipMemcpyAsync, calls.device, calls.host, 16,
                   hipMemcpyHostToDevice, NULL);
}

static void call_event_query(void)
{
    CALL_AND_PRINT("query", hipEventQuery, calls.recorded);
}

static void call_event_sync(void)
{
    CALL_AND_PRINT("synchronize", hipEventSynchronize, calls.recorded);
}

static void call_register(void)
{
    CALL_AND_PRINT("register", hipHostRegister, calls.heap, CALLS_SIZE, 0);
}

static void call_unregister_pair(void)
{
    CALL_AND_PRINT("register", hipHostRegister, calls.heap, CALLS_SIZE, 0);
    CALL_AND_PRINT("unregister", hipHostUnregister, calls.heap);
}

static void call_malloc(void)
{
    void *memory = NULL;

    CALL_AND_PRINT("malloc", hipMalloc, &memory, 4096);
}

static void call_host_malloc(void)
{
    void *memory = NULL;

    CALL_AND_PRINT("malloc", hipHostMalloc, &memory, 4096, 0);
}

static void call_free(void)
{
    CALL_AND_PRINT("free", hipFree, calls.device);
    CALL_AND_PRINT("host_free", hipHostFree, calls.host);
}

static void call_ipc(void)
{
    hipIpcMemHandle_t handle;

    CALL_AND_PRINT("get", hipIpcGetMemHandle, &handle, calls.device);
    hip_print_attributes("attributes", calls.device);
    hip_print_range("range", calls.device);
}

static void call_streams(void)
{
    hipStream_t stream = NULL;
    hipEvent_t event = NULL;

    CALL_AND_PRINT("create", hipStreamCreateWithFlags, &stream, hipStreamNonBlocking);
    CALL_AND_PRINT("event", hipEventCreateWithFlags, &event, hipEventDisableTiming);
    CALL_AND_PRINT("record", hipEventRecord, event, stream);
    CALL_AND_PRINT("wait", hipStreamWaitEvent, stream, event, 0);
    CALL_AND_PRINT("write", hipStreamWriteValue32, stream, calls.device, 1, 0);
    CALL_AND_PRINT("copy", hipMemcpyAsync, calls.device, calls.host, 16,
                   hipMemcpyHostToDevice, stream);
}

static void call_peer(void)
{
    CALL_AND_PRINT("enable", hipDeviceEnablePeerAccess, 1, 0);
}

/* A probe for each thread and mode. */
#define CALLS_PROBES(_name)                                                            \
    static void calls_own_##_name(void)                                                \
    {                                                                                  \
        calls_capture(call_##_name, 0, 0);                                             \
    }                                                                                  \
    static void calls_own_relaxed_##_name(void)                                        \
    {                                                                                  \
        calls_capture(call_##_name, 1, 0);                                             \
    }                                                                                  \
    static void calls_thread_##_name(void)                                             \
    {                                                                                  \
        calls_capture(call_##_name, 0, 1);                                             \
    }                                                                                  \
    static void calls_thread_relaxed_##_name(void)                                     \
    {                                                                                  \
        calls_capture(call_##_name, 1, 1);                                             \
    }

#define CALLS_ROWS(_name)                                                              \
    {"own_" #_name, calls_own_##_name},                                                \
        {"own_relaxed_" #_name, calls_own_relaxed_##_name},                            \
        {"thread_" #_name, calls_thread_##_name},                                      \
    {                                                                                  \
        "thread_relaxed_" #_name, calls_thread_relaxed_##_name                         \
    }

CALLS_PROBES(memcpy)
CALLS_PROBES(memset)
CALLS_PROBES(device_sync)
CALLS_PROBES(stream_sync)
CALLS_PROBES(stream_query)
CALLS_PROBES(null_sync)
CALLS_PROBES(null_async)
CALLS_PROBES(event_query)
CALLS_PROBES(event_sync)
CALLS_PROBES(register)
CALLS_PROBES(unregister_pair)
CALLS_PROBES(malloc)
CALLS_PROBES(host_malloc)
CALLS_PROBES(free)
CALLS_PROBES(ipc)
CALLS_PROBES(streams)
CALLS_PROBES(peer)

const hip_probe_t hip_probes_capture[] = {
    CALLS_ROWS(memcpy),
    CALLS_ROWS(memset),
    CALLS_ROWS(device_sync),
    CALLS_ROWS(stream_sync),
    CALLS_ROWS(stream_query),
    CALLS_ROWS(null_sync),
    CALLS_ROWS(null_async),
    CALLS_ROWS(event_query),
    CALLS_ROWS(event_sync),
    CALLS_ROWS(register),
    CALLS_ROWS(unregister_pair),
    CALLS_ROWS(malloc),
    CALLS_ROWS(host_malloc),
    CALLS_ROWS(free),
    CALLS_ROWS(ipc),
    CALLS_ROWS(streams),
    CALLS_ROWS(peer),
    {NULL, NULL},
};
