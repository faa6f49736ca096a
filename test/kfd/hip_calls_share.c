/* SPDX-License-Identifier: BSD-3-Clause */

/* Probes of memory that goes to other processes. */

#include "hip_calls.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void calls_ipc(void)
{
    char *device = hip_device_memory(CALLS_SIZE), *host = hip_host_memory(CALLS_SIZE);
    hipIpcMemHandle_t handle, other;
    char *heap = malloc(CALLS_SIZE);
    void *opened = NULL;

    memset(&handle, 0, sizeof(handle));
    ASK("get", hipIpcGetMemHandle, &handle, device);
    ASK("inner", hipIpcGetMemHandle, &other, device + 4096);
    ASK("host", hipIpcGetMemHandle, &other, host);
    ASK("heap", hipIpcGetMemHandle, &other, heap);
    ASK("null", hipIpcGetMemHandle, &other, NULL);
    ASK("own", hipIpcOpenMemHandle, &opened, handle, 1);
    ASK("flags", hipIpcOpenMemHandle, &opened, handle, 0);
    memset(&other, 0, sizeof(other));
    ASK("zero", hipIpcOpenMemHandle, &opened, other, 1);
}

static void calls_ipc_close_own(void)
{
    ASK("close", hipIpcCloseMemHandle, hip_device_memory(CALLS_SIZE));
}

static void calls_ipc_chunk(void)
{
    hipMemGenericAllocationHandle_t handles[2];
    char *range = hip_chunk_memory(handles);
    hipIpcMemHandle_t handle;

    ASK("get", hipIpcGetMemHandle, &handle, range);
    HIP_OK(hipMemUnmap, range, CALLS_CHUNK);
    HIP_OK(hipMemUnmap, range + CALLS_CHUNK, CALLS_CHUNK);
}

static void calls_ipc_async(void)
{
    hipIpcMemHandle_t handle;
    void *memory;

    HIP_OK(hipMallocAsync, &memory, CALLS_SIZE, hip_stream());
    ASK("get", hipIpcGetMemHandle, &handle, memory);
}

/* A handle that this program's second process opens. */
static void calls_export(const char *probe, size_t offset, int is_freed)
{
    char *device = hip_device_memory(CALLS_SIZE);
    hipIpcMemHandle_t handle;

    ASK("get", hipIpcGetMemHandle, &handle, device + offset);
    if (is_freed) {
        ASK("free", hipFree, device);
    }
    hip_run_probe(probe, &handle, sizeof(handle));
}

static hipIpcMemHandle_t calls_handle(void)
{
    hipIpcMemHandle_t handle;

    HIP_TRUE(read(STDIN_FILENO, &handle, sizeof(handle)) == sizeof(handle));
    return handle;
}

static void calls_open(void)
{
    hipIpcMemHandle_t handle = calls_handle();
    char *opened = NULL;
    int rc = (int)HIP(hipIpcOpenMemHandle)((void **)&opened, handle, 1);

    hip_say("open", rc);
    if (rc == 0) {
        hip_say_attributes("opened", opened);
        hip_say_range("inner", opened + 9);
        ASK("export", hipIpcGetMemHandle, &handle, opened);
        ASK("close", hipIpcCloseMemHandle, opened);
        hip_say_attributes("closed", opened);
    }
}

static void calls_open_twice(void)
{
    hipIpcMemHandle_t handle = calls_handle();
    void *first = NULL, *second = NULL;

    ASK("open", hipIpcOpenMemHandle, &first, handle, 1);
    ASK("again", hipIpcOpenMemHandle, &second, handle, 1);
    hip_say("same", first == second);
    ASK("close", hipIpcCloseMemHandle, first);
    hip_say_attributes("first", first);
    ASK("close", hipIpcCloseMemHandle, second);
    hip_say_attributes("second", second);
}

static void calls_open_again(void)
{
    hipIpcMemHandle_t handle = calls_handle();
    void *first = NULL, *second = NULL;

    ASK("open", hipIpcOpenMemHandle, &first, handle, 1);
    ASK("close", hipIpcCloseMemHandle, first);
    ASK("open", hipIpcOpenMemHandle, &second, handle, 1);
    ASK("close", hipIpcCloseMemHandle, second);
}

static void calls_open_free(void)
{
    hipIpcMemHandle_t handle = calls_handle();
    void *opened = NULL;

    ASK("open", hipIpcOpenMemHandle, &opened, handle, 1);
    ASK("free", hipFree, opened);
    ASK("close", hipIpcCloseMemHandle, opened);
}

static void calls_open_on_other(void)
{
    hipIpcMemHandle_t handle = calls_handle();
    hipPointerAttribute_t attributes;
    void *opened = NULL;

    HIP_OK(hipSetDevice, 1);
    ASK("open", hipIpcOpenMemHandle, &opened, handle, 1);
    HIP_OK(hipPointerGetAttributes, &attributes, opened);
    hip_say("device", attributes.device);
}

static void calls_ipc_open(void)
{
    calls_export("-open", 0, 0);
}

static void calls_ipc_inner(void)
{
    calls_export("-open", 8192, 0);
}

static void calls_ipc_freed(void)
{
    calls_export("-open", 0, 1);
}

static void calls_ipc_twice(void)
{
    calls_export("-open_twice", 0, 0);
}

static void calls_ipc_again(void)
{
    calls_export("-open_again", 0, 0);
}

static void calls_ipc_free(void)
{
    calls_export("-open_free", 0, 0);
}

static void calls_ipc_other(void)
{
    calls_export("-open_on_other", 0, 0);
}

const hip_probe_t hip_probes_share[] = {
    {"ipc", calls_ipc},
    {"ipc_close_own", calls_ipc_close_own},
    {"ipc_chunk", calls_ipc_chunk},
    {"ipc_async", calls_ipc_async},
    {"ipc_open", calls_ipc_open},
    {"ipc_inner", calls_ipc_inner},
    {"ipc_freed", calls_ipc_freed},
    {"ipc_twice", calls_ipc_twice},
    {"ipc_again", calls_ipc_again},
    {"ipc_free", calls_ipc_free},
    {"ipc_other", calls_ipc_other},
    {"-open", calls_open},
    {"-open_twice", calls_open_twice},
    {"-open_again", calls_open_again},
    {"-open_free", calls_open_free},
    {"-open_on_other", calls_open_on_other},
    {NULL, NULL},
};
