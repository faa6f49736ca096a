/* SPDX-License-Identifier: BSD-3-Clause */

#include "xgmi/peer/xgmi_addr.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The first word of each address; addresses never leave the byte order of a host. */
#define MUCT_XGMI_ADDR_VERSION UINT64_C(0x6d6f72692d780006)

/* Version and network namespace share a word. */
typedef struct muct_xgmi_device_addr_wire {
    uint32_t version;
    uint32_t network;
    uint64_t host;
    uint64_t shm_dir;
} muct_xgmi_device_addr_wire_t;

/* Version and pid share a word. */
typedef struct muct_xgmi_iface_addr_wire {
    uint32_t version;
    uint32_t pid;
    uint64_t owner;
    uint64_t pid_namespace;
    uint32_t iface_slot;
    uint32_t iface_generation;
} muct_xgmi_iface_addr_wire_t;

_Static_assert(sizeof(muct_xgmi_device_addr_wire_t) == MUCT_XGMI_DEVICE_ADDR_SIZE,
               "device address");
_Static_assert(sizeof(muct_xgmi_iface_addr_wire_t) == MUCT_XGMI_IFACE_ADDR_SIZE,
               "interface address");


void muct_xgmi_device_addr_pack(const muct_xgmi_device_addr_t *addr, void *buffer)
{
    muct_xgmi_device_addr_wire_t wire = {(uint32_t)MUCT_XGMI_ADDR_VERSION,
                                         addr->network, addr->host, addr->shm_dir};

    memcpy(buffer, &wire, sizeof(wire));
}

void muct_xgmi_iface_addr_pack(const muct_xgmi_iface_addr_t *addr, void *buffer)
{
    muct_xgmi_iface_addr_wire_t wire = {(uint32_t)MUCT_XGMI_ADDR_VERSION,
                                        addr->pid,
                                        addr->owner,
                                        addr->pid_namespace,
                                        addr->id.slot,
                                        addr->id.generation};

    memcpy(buffer, &wire, sizeof(wire));
}

ucs_status_t muct_xgmi_device_addr_unpack(const void *buffer,
                                          muct_xgmi_device_addr_t *addr)
{
    muct_xgmi_device_addr_wire_t wire;

    memcpy(&wire, buffer, sizeof(wire));
    if (wire.version != (uint32_t)MUCT_XGMI_ADDR_VERSION) {
        return UCS_ERR_UNSUPPORTED;
    }

    addr->host = wire.host;
    addr->shm_dir = wire.shm_dir;
    addr->network = wire.network;
    return UCS_OK;
}

ucs_status_t muct_xgmi_iface_addr_unpack(const void *buffer,
                                         muct_xgmi_iface_addr_t *addr)
{
    muct_xgmi_iface_addr_wire_t wire;

    memcpy(&wire, buffer, sizeof(wire));
    if (wire.version != (uint32_t)MUCT_XGMI_ADDR_VERSION) {
        return UCS_ERR_UNSUPPORTED;
    }

    addr->owner = wire.owner;
    addr->pid_namespace = wire.pid_namespace;
    addr->pid = wire.pid;
    addr->id.slot = wire.iface_slot;
    addr->id.generation = wire.iface_generation;
    return UCS_OK;
}

bool muct_xgmi_addr_can_reach(const muct_xgmi_device_addr_t *my_device,
                              const muct_xgmi_iface_addr_t *my_iface,
                              const muct_xgmi_device_addr_t *peer_device,
                              const muct_xgmi_iface_addr_t *peer_iface, char *reason,
                              size_t size)
{
    if (my_device->host != peer_device->host) {
        snprintf(reason, size,
                 "different host id local 0x%" PRIx64 " vs remote 0x%" PRIx64,
                 my_device->host, peer_device->host);
        return false;
    }

    if (my_iface->owner == peer_iface->owner) {
        return true; /* the process itself */
    }

    if (my_device->shm_dir != peer_device->shm_dir) {
        snprintf(reason, size,
                 "different shared memory folder local 0x%" PRIx64
                 " vs remote 0x%" PRIx64 " (containers need one /dev/shm)",
                 my_device->shm_dir, peer_device->shm_dir);
        return false;
    }

    if ((my_device->network != 0) && (peer_device->network != 0) &&
        (my_device->network != peer_device->network)) {
        snprintf(reason, size,
                 "different network namespace local %" PRIu32 " vs remote %" PRIu32
                 ": IPC of this ROCm needs one (docker --network=host, or "
                 "HSA_ENABLE_IPC_MODE_LEGACY=1)",
                 my_device->network, peer_device->network);
        return false;
    }

    /* The GPU runtime treats a handle with its own pid as its own. */
    if (my_iface->pid == peer_iface->pid) {
        snprintf(reason, size,
                 "same pid %u in another pid namespace: the GPU runtime refuses IPC "
                 "handles of its own pid (docker run --pid=host)",
                 peer_iface->pid);
        return false;
    }

    return true;
}
