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
    CALL_AND_PRINT("get", hipIpcGetMemHandle, &handle, device);
    CALL_AND_PRINT("inner", hipIpcGetMemHandle, &other, device + 4096);
    CALL_AND_PRINT("host", hipIpcGetMemHandle, &other, host);
    CALL_AND_PRINT("heap", hipIpcGetMemHandle, &other, heap);
    CALL_AND_PRINT("null", hipIpcGetMemHandle, &other, NULL);
    CALL_AND_PRINT("own", hipIpcOpenMemHandle, &opened, handle, 1);
    CALL_AND_PRINT("flags", hipIpcOpenMemHandle, &opened, handle, 0);
    memset(&other, 0, sizeof(other));
    CALL_AND_PRINT("zero", hipIpcOpenMemHandle, &opened, other, 1);
}

static void calls_ipc_close_own(void)
{
    CALL_AND_PRINT("close", hipIpcCloseMemHandle, hip_device_memory(CALLS_SIZE));
}

static void calls_ipc_chunk(void)
{
    hipMemGenericAllocationHandle_t handles[2];
    char *range = hip_chunk_memory(handles);
    hipIpcMemHandle_t handle;

    CALL_AND_PRINT("get", hipIpcGetMemHandle, &handle, range);
    HIP_OK(hipMemUnmap, range, CALLS_CHUNK);
    HIP_OK(hipMemUnmap, range + CALLS_CHUNK, CALLS_CHUNK);
}

static void calls_ipc_async(void)
{
    hipIpcMemHandle_t handle;
    void *memory;

    HIP_OK(hipMallocAsync, &memory, CALLS_SIZE, hip_stream());
    CALL_AND_PRINT("get", hipIpcGetMemHandle, &handle, memory);
}

/* A handle that this program's second process opens. */
static void calls_export(const char *probe, size_t offset, int is_freed)
{
    char *device = hip_device_memory(CALLS_SIZE);
    hipIpcMemHandle_t handle;

    CALL_AND_PRINT("get", hipIpcGetMemHandle, &handle, device + offset);
    if (is_freed) {
        CALL_AND_PRINT("free", hipFree, device);
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

    hip_print("open", rc);
    if (rc == 0) {
        hip_print_attributes("opened", opened);
        hip_print_range("inner", opened + 9);
        CALL_AND_PRINT("export", hipIpcGetMemHandle, &handle, opened);
        CALL_AND_PRINT("close", hipIpcCloseMemHandle, opened);
        hip_print_attributes("closed", opened);
    }
}

static void calls_open_twice(void)
{
    hipIpcMemHandle_t handle = calls_handle();
    void *first = NULL, *second = NULL;

    CALL_AND_PRINT("open", hipIpcOpenMemHandle, &first, handle, 1);
    CALL_AND_PRINT("again", hipIpcOpenMemHandle, &second, handle, 1);
    hip_print("same", first == second);
    CALL_AND_PRINT("close", hipIpcCloseMemHandle, first);
    hip_print_attributes("first", first);
    CALL_AND_PRINT("close", hipIpcCloseMemHandle, second);
    hip_print_attributes("second", second);
}

static void calls_open_again(void)
{
    hipIpcMemHandle_t handle = calls_handle();
    void *first = NULL, *second = NULL;

    CALL_AND_PRINT("open", hipIpcOpenMemHandle, &first, handle, 1);
    CALL_AND_PRINT("close", hipIpcCloseMemHandle, first);
    CALL_AND_PRINT("open", hipIpcOpenMemHandle, &second, handle, 1);
    CALL_AND_PRINT("close", hipIpcCloseMemHandle, second);
}

static void calls_open_free(void)
{
    hipIpcMemHandle_t handle = calls_handle();
    void *opened = NULL;

    CALL_AND_PRINT("open", hipIpcOpenMemHandle, &opened, handle, 1);
    CALL_AND_PRINT("free", hipFree, opened);
    CALL_AND_PRINT("close", hipIpcCloseMemHandle, opened);
}

static void calls_open_on_other(void)
{
    hipIpcMemHandle_t handle = calls_handle();
    hipPointerAttribute_t attributes;
    void *opened = NULL;

    HIP_OK(hipSetDevice, 1);
    CALL_AND_PRINT("open", hipIpcOpenMemHandle, &opened, handle, 1);
    HIP_OK(hipPointerGetAttributes, &attributes, opened);
    hip_print("device", attributes.device);
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
