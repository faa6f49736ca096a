/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The handles are in a table with one place for each hash of an allocation; the newest
 * allocation has the place. An evicted one is exported again.
 *
 * muct_xgmi_export_lock guards the table. It is never held while the driver exports,
 * which may take long. Threads export one at a time: two threads that need one handle
 * make one call, and ROCm 10 is reported to mix up concurrent exports (rocm-systems
 * 11892).
 */

#include "xgmi/memory/xgmi_export.h"

#include "base/muct_lock.h"
#include "base/muct_log.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define MUCT_XGMI_EXPORT_PLACES 1024

/* Calls of hipIpcGetMemHandle() for one key; the next key tries again. */
#define MUCT_XGMI_EXPORT_TRIES 3


static pthread_mutex_t muct_xgmi_export_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t muct_xgmi_export_turn = PTHREAD_MUTEX_INITIALIZER;
MUCT_FREE_IN_CHILD(muct_xgmi_export_lock, &muct_xgmi_export_lock)
MUCT_FREE_IN_CHILD(muct_xgmi_export_turn, &muct_xgmi_export_turn)
static muct_xgmi_export_t muct_xgmi_exports[MUCT_XGMI_EXPORT_PLACES];


static muct_xgmi_export_t *muct_xgmi_export_place(uint64_t base)
{
    /* allocations begin at 2 MiB or 4 KiB: fold the high bits down */
    uint64_t hash = (base >> 12) * UINT64_C(0x9e3779b97f4a7c15);

    return &muct_xgmi_exports[(hash >> 32) % MUCT_XGMI_EXPORT_PLACES];
}

static void muct_xgmi_export_warn_vmm(const muct_xgmi_export_t *export)
{
    static atomic_bool has_warned;

    if (!atomic_exchange(&has_warned, true)) {
        muct_warn("0x%" PRIx64 " length %" PRIu64
                  " is memory of hipMemMap() (expandable "
                  "segments of PyTorch) or hipMallocAsync(), for which the runtime has "
                  "no IPC handle: other processes reach it over other transports; name "
                  "mori_copy and tcp in UCX_TLS, or use hipMalloc() for xGMI",
                  export->base, export->length);
    }
}

static void muct_xgmi_export_warn_failure(const muct_xgmi_export_t *export,
                                          const char *error)
{
    const char *legacy = getenv("HSA_ENABLE_IPC_MODE_LEGACY");
    static const char *const causes[] = {
        "where another process uses other GPUs of the node, see rocm-systems 10609",
        "HSA_ENABLE_IPC_MODE_LEGACY=1 is set: unset it (rocm-systems 2209)"};
    static atomic_bool has_warned;

    if (!atomic_exchange(&has_warned, true)) {
        muct_warn("hipIpcGetMemHandle(0x%" PRIx64 " length %" PRIu64
                  ") failed %d times: "
                  "%s; other processes reach this memory over slower transports; %s",
                  export->base, export->length, MUCT_XGMI_EXPORT_TRIES, error,
                  causes[(legacy != NULL) && !strcmp(legacy, "1")]);
    }
}

/* An export of hipMemMap() memory fails, and ends the process where ROCr 7.2.4 was
 * built with assertions (runtime.cpp, "DMA Buf inconsistent with pointer offset"). */
static ucs_status_t muct_xgmi_export_call(const muct_gpu_t *gpu,
                                          muct_xgmi_export_t *export)
{
    const void *base = (const void *)(uintptr_t)export->base;
    int tries = MUCT_XGMI_EXPORT_TRIES;
    muct_hip_ipc_mem_handle_t handle;
    int mode, prev, ret;

    if (muct_gpu_is_vmm(gpu, base)) {
        muct_xgmi_export_warn_vmm(export);
        return UCS_ERR_UNSUPPORTED;
    }
    if (muct_gpu_push_device(gpu, export->device, &prev) != UCS_OK) {
        return UCS_ERR_UNSUPPORTED;
    }

    mode = muct_gpu_relax(gpu);
    do {
        ret = gpu->ipc_get_mem_handle(&handle, (void *)(uintptr_t)export->base);
    } while ((muct_gpu_forget(gpu, ret) != MUCT_HIP_SUCCESS) && (--tries > 0));
    muct_gpu_unrelax(gpu, mode);
    muct_gpu_pop_device(gpu, export->device, prev);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_xgmi_export_warn_failure(export, muct_gpu_error_name(gpu, ret));
        return UCS_ERR_UNSUPPORTED;
    }

    memcpy(export->handle, &handle, sizeof(export->handle));
    return UCS_OK;
}

static bool muct_xgmi_export_find(uint64_t id, const muct_gpu_mem_info_t *info,
                                  muct_xgmi_export_t *export)
{
    const muct_xgmi_export_t *place = muct_xgmi_export_place(info->base);
    bool is_found;

    pthread_mutex_lock(&muct_xgmi_export_lock);
    is_found = (id != 0) && (place->buffer_id == id) && (place->base == info->base) &&
               (place->length == info->length);
    if (is_found) {
        *export = *place;
    }
    pthread_mutex_unlock(&muct_xgmi_export_lock);
    return is_found;
}

static void muct_xgmi_export_keep(const muct_xgmi_export_t *export)
{
    pthread_mutex_lock(&muct_xgmi_export_lock);
    *muct_xgmi_export_place(export->base) = *export;
    pthread_mutex_unlock(&muct_xgmi_export_lock);
}

ucs_status_t muct_xgmi_export_get(const muct_gpu_t *gpu, uint64_t address,
                                  muct_xgmi_export_t *export)
{
    uint64_t id = muct_gpu_buffer_id(gpu, (const void *)(uintptr_t)address);
    muct_xgmi_export_t exported = {0};
    ucs_status_t status = UCS_OK;
    muct_gpu_mem_info_t info;

    if ((id != 0) && (export->length != 0) && (export->buffer_id == id)) {
        return UCS_OK;
    }
    export->length = 0;
    if (muct_gpu_query(gpu, (const void *)(uintptr_t)address, &info) != UCS_OK) {
        return UCS_ERR_UNSUPPORTED;
    }
    if (muct_xgmi_export_find(id, &info, export)) {
        return UCS_OK;
    }

    pthread_mutex_lock(&muct_xgmi_export_turn);
    if (!muct_xgmi_export_find(id, &info, export)) {
        exported.base = info.base;
        exported.device = info.device;
        exported.length = info.length;
        exported.buffer_id = id;
        status = muct_xgmi_export_call(gpu, &exported);
        if (status == UCS_OK) {
            muct_xgmi_export_keep(&exported);
            *export = exported;
        }
    }
    pthread_mutex_unlock(&muct_xgmi_export_turn);
    return status;
}
