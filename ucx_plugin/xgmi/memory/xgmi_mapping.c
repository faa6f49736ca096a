/* SPDX-License-Identifier: BSD-3-Clause */

#include "xgmi/memory/xgmi_mapping.h"

#include "base/muct_log.h"
#include "xgmi/memory/xgmi_file.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

/*
 * Time between the loss of a killed process's memory and its end, with a margin. It is
 * a tenth of the time that unpacking a key waits for a mapping (OPEN_TIMEOUT).
 */
#define MUCT_XGMI_END_MS 100

bool muct_xgmi_mapping_is_there(const muct_xgmi_peer_t *peer,
                                const muct_xgmi_key_t *key, int device,
                                muct_xgmi_mapping_t *mapping)
{
    if (!muct_xgmi_peer_is_self(peer) || (key->device != device) ||
        (key->kind == MUCT_XGMI_KEY_FILE)) {
        return false;
    }

    mapping->is_self = true;
    mapping->address = (void *)(uintptr_t)key->base;
    return true;
}

/* Open memory of another device of this process. It needs no handle, but the devices
 * must have access to each other. */
static ucs_status_t muct_xgmi_mapping_open_self(const muct_gpu_t *gpu,
                                                const muct_xgmi_key_t *key, int device,
                                                muct_xgmi_mapping_t *mapping)
{
    int ret, can_access = 0;

    mapping->is_self = true;
    mapping->address = (void *)(uintptr_t)key->base;
    ret = gpu->device_can_access_peer(&can_access, device, key->device);
    if ((ret != MUCT_HIP_SUCCESS) || !can_access) {
        muct_diag("device %d cannot access device %u: hipDeviceCanAccessPeer() = %s",
                  device, key->device, muct_gpu_error_name(gpu, ret));
        return UCS_ERR_UNSUPPORTED;
    }

    ret = gpu->device_enable_peer_access(key->device, 0);
    (void)muct_gpu_forget(gpu, ret);
    if ((ret != MUCT_HIP_SUCCESS) && (ret != MUCT_HIP_PEER_ALREADY_ENABLED)) {
        muct_diag("hipDeviceEnablePeerAccess(%u) on device %d failed: %s", key->device,
                  device, muct_gpu_error_name(gpu, ret));
        return UCS_ERR_UNREACHABLE;
    }

    return UCS_OK;
}

/*
 * Reason why a handle could not be opened. AMD's runtime reports one error for all
 * causes, so check the owner: if it is alive and its key is valid, a retry may succeed.
 */
static ucs_status_t muct_xgmi_mapping_status(muct_xgmi_peer_t *peer,
                                             const muct_xgmi_key_t *key, int hip_error)
{
    switch (hip_error) {
    case MUCT_HIP_OUT_OF_MEMORY:
        return UCS_ERR_NO_MEMORY;
    case MUCT_HIP_ALREADY_MAPPED:
        return UCS_ERR_BUSY;
    case MUCT_HIP_INVALID_CONTEXT: /* the exporter has the same pid as this process */
    case MUCT_HIP_PEER_UNSUPPORTED:
        return UCS_ERR_UNSUPPORTED;
    default:
        break;
    }

    if (!muct_xgmi_peer_enter(peer, key->slot, key->generation)) {
        return UCS_ERR_UNREACHABLE;
    }
    muct_xgmi_peer_leave(peer, key->slot);
    return muct_xgmi_peer_ends(peer, MUCT_XGMI_END_MS) ? UCS_ERR_UNREACHABLE
                                                       : UCS_ERR_IO_ERROR;
}

/*
 * Whether the mapping is as long as the exported allocation. An export by another
 * process at the same time may map other memory (rocm-systems 11892).
 */
static bool muct_xgmi_mapping_is_whole(const muct_gpu_t *gpu,
                                       const muct_xgmi_key_t *key,
                                       muct_xgmi_mapping_t *mapping)
{
    size_t length = 0;
    void *base;
    int ret;

    ret = gpu->mem_get_address_range(&base, &length, mapping->address);
    if ((muct_gpu_forget(gpu, ret) != MUCT_HIP_SUCCESS) ||
        (length >= key->alloc_length)) {
        return true;
    }

    muct_warn("hipIpcOpenMemHandle(peer 0x%" PRIx64 " address 0x%" PRIx64
              " length %" PRIu64 ") mapped other memory of length %zu, which is not "
              "used (rocm-systems 11892)",
              key->owner, key->base, key->alloc_length, length);
    mapping->error = "other memory was mapped";
    ret = muct_gpu_ipc_close(gpu, mapping->address);
    (void)muct_gpu_forget(gpu, ret);
    return false;
}

static ucs_status_t muct_xgmi_mapping_open_ipc(const muct_gpu_t *gpu,
                                               muct_xgmi_peer_t *peer,
                                               const muct_xgmi_key_t *key, int device,
                                               muct_xgmi_mapping_t *mapping)
{
    muct_hip_ipc_mem_handle_t handle;
    int mode, ret;

    memcpy(&handle, key->handle, sizeof(handle));
    mode = muct_gpu_relax(gpu);
    ret = gpu->ipc_open_mem_handle(&mapping->address, handle, gpu->ipc_flags);
    muct_gpu_unrelax(gpu, mode);
    if ((ret == MUCT_HIP_SUCCESS) && muct_xgmi_mapping_is_whole(gpu, key, mapping)) {
        return UCS_OK;
    }
    if (ret == MUCT_HIP_SUCCESS) {
        return muct_xgmi_mapping_status(peer, key, ret);
    }

    mapping->error = muct_gpu_error_name(gpu, ret);
    muct_diag("hipIpcOpenMemHandle(peer 0x%" PRIx64 " address 0x%" PRIx64
              " length %" PRIu64 ") on device %d failed: %s",
              key->owner, key->base, key->alloc_length, device, mapping->error);
    return muct_xgmi_mapping_status(peer, key, ret);
}

static ucs_status_t muct_xgmi_mapping_open_file(const muct_gpu_t *gpu,
                                                muct_xgmi_peer_t *peer,
                                                const muct_xgmi_key_t *key,
                                                muct_xgmi_mapping_t *mapping)
{
    pid_t pid = muct_xgmi_peer_pid(peer);
    ucs_status_t status;
    void *host;

    if (pid == 0) {
        mapping->error = "its host memory is in another PID namespace";
        return UCS_ERR_UNSUPPORTED;
    }

    status = muct_xgmi_file_map(key->handle, pid, key->alloc_length, &host);
    if (status == UCS_ERR_UNSUPPORTED) {
        if (!muct_xgmi_peer_enter(peer, key->slot, key->generation)) {
            return UCS_ERR_UNREACHABLE; /* the memory was deregistered meanwhile */
        }
        muct_xgmi_peer_leave(peer, key->slot);
        mapping->error = "its host memory cannot be mapped";
    }
    if (status != UCS_OK) {
        return status;
    }

    muct_pin_init(&mapping->host, host, key->alloc_length, MUCT_PIN_UNTRIED);
    if (!muct_pin(gpu, &mapping->host) &&
        !muct_xgmi_file_populate(host, key->alloc_length)) {
        muct_diag("host memory of peer 0x%" PRIx64 " length %" PRIu64
                  " is not used: neither pinned nor populated: %s",
                  key->owner, key->alloc_length, strerror(errno));
        munmap(host, key->alloc_length);
        mapping->host.length = 0;
        mapping->error = "its pages cannot be had";
        return UCS_ERR_UNSUPPORTED;
    }
    mapping->address = (char *)host + mapping->host.delta;
    return UCS_OK;
}

bool muct_xgmi_mapping_is_pageable(const muct_xgmi_mapping_t *mapping)
{
    return (mapping->host.length > 0) &&
           (atomic_load_explicit(&mapping->host.state, memory_order_relaxed) ==
            MUCT_PIN_PAGEABLE);
}

static void muct_xgmi_mapping_close_ipc(const muct_gpu_t *gpu, int device,
                                        const muct_xgmi_mapping_t *mapping)
{
    int ret = muct_gpu_ipc_close(gpu, mapping->address);

    if (ret != MUCT_HIP_SUCCESS) {
        muct_warn("closing IPC memory %p on device %d failed: %s", mapping->address,
                  device, muct_gpu_error_name(gpu, ret));
    }
}

void muct_xgmi_mapping_close(const muct_gpu_t *gpu, int device,
                             muct_xgmi_mapping_t *mapping)
{
    int prev;

    if (muct_gpu_push_device(gpu, device, &prev) != UCS_OK) {
        return;
    }

    if (mapping->host.length > 0) {
        muct_pin_drop(gpu, &mapping->host);
        munmap(mapping->host.address, mapping->host.length);
    } else {
        muct_xgmi_mapping_close_ipc(gpu, device, mapping);
    }
    muct_gpu_pop_device(gpu, device, prev);
}

ucs_status_t muct_xgmi_mapping_open(const muct_gpu_t *gpu, muct_xgmi_peer_t *peer,
                                    const muct_xgmi_key_t *key, int device,
                                    muct_xgmi_mapping_t *mapping)
{
    ucs_status_t status;
    int prev;

    if (!muct_xgmi_peer_is_alive(peer)) {
        muct_diag("peer 0x%" PRIx64 " is dead", key->owner);
        return UCS_ERR_UNREACHABLE;
    }

    status = muct_gpu_push_device(gpu, device, &prev);
    if (status != UCS_OK) {
        return UCS_ERR_UNREACHABLE;
    }

    status = (key->kind == MUCT_XGMI_KEY_FILE)
                 ? muct_xgmi_mapping_open_file(gpu, peer, key, mapping)
             : muct_xgmi_peer_is_self(peer)
                 ? muct_xgmi_mapping_open_self(gpu, key, device, mapping)
                 : muct_xgmi_mapping_open_ipc(gpu, peer, key, device, mapping);
    muct_gpu_pop_device(gpu, device, prev);
    return status;
}
