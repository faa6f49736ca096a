/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Results are cached, because UCX queries the memory of each operation when its cache
 * of memory types is off. Two threads that query at once get the same result.
 */

#include "base/muct_topo.h"

#include "base/muct_log.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MUCT_TOPO_MAX_DEVICES 256
#define MUCT_TOPO_NAME_PRIORITY 5 /* of the name; NICs give theirs 10 */

/* System device + 1; 0 before the first query. */
static atomic_int muct_topo_known[MUCT_TOPO_MAX_DEVICES];


/* Whether sysfs has a GPU at the address: PCI base class 03 (display) or 12 (processing
 * accelerator). */
static bool muct_topo_is_gpu(const char *bdf)
{
    unsigned class = 0;
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/class", bdf);
    file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    (void)!fscanf(file, "%x", &class);
    fclose(file);
    return (class >> 16 == 0x03) || (class >> 16 == 0x12);
}

/*
 * HIP names partitions of a GPU (CPX, DPX) as functions 1 to 7, which sysfs does not
 * have, or which are other devices there (rocm-systems 10640). They are function 0.
 */
static void muct_topo_physical(char *bdf)
{
    char *function = strrchr(bdf, '.');

    if ((function != NULL) && strcmp(function, ".0") && !muct_topo_is_gpu(bdf)) {
        strcpy(function, ".0");
    }
}

static ucs_sys_device_t muct_topo_find(const muct_gpu_t *gpu, int device)
{
    ucs_sys_device_t sys_dev = UCS_SYS_DEVICE_ID_UNKNOWN;
    char bdf[MUCT_TOPO_BDF_SIZE], name[MUCT_TOPO_BDF_SIZE];
    int ret;

    if (gpu->device_get_pci_bus_id == NULL) {
        return UCS_SYS_DEVICE_ID_UNKNOWN;
    }

    ret = gpu->device_get_pci_bus_id(bdf, sizeof(bdf), device);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_diag("hipDeviceGetPCIBusId(%d) failed: %s", device,
                  muct_gpu_error_name(gpu, ret));
        return UCS_SYS_DEVICE_ID_UNKNOWN;
    }
    muct_topo_physical(bdf);
    if (ucs_topo_find_device_by_bdf_name(bdf, &sys_dev) != UCS_OK) {
        muct_diag("UCX has no system device for device %d at '%s'", device, bdf);
        return UCS_SYS_DEVICE_ID_UNKNOWN;
    }

    snprintf(name, sizeof(name), "GPU%d", device);
    ucs_topo_sys_device_set_name(sys_dev, name, MUCT_TOPO_NAME_PRIORITY);
    muct_debug("device %d at %s is system device %u", device, bdf, sys_dev);
    return sys_dev;
}

ucs_sys_device_t muct_topo_sys_dev(const muct_gpu_t *gpu, int device)
{
    int known;

    if ((device < 0) || (device >= MUCT_TOPO_MAX_DEVICES)) {
        return UCS_SYS_DEVICE_ID_UNKNOWN;
    }

    known = atomic_load_explicit(&muct_topo_known[device], memory_order_relaxed);
    if (known == 0) {
        known = muct_topo_find(gpu, device) + 1;
        atomic_store_explicit(&muct_topo_known[device], known, memory_order_relaxed);
    }

    return (ucs_sys_device_t)(known - 1);
}

int muct_topo_device(const muct_gpu_t *gpu, ucs_sys_device_t sys_dev)
{
    int device;

    if (sys_dev == UCS_SYS_DEVICE_ID_UNKNOWN) {
        return (muct_gpu_forget(gpu, gpu->get_device(&device)) == MUCT_HIP_SUCCESS)
                   ? device
                   : -1;
    }

    for (device = 0; device < gpu->num_devices; ++device) {
        if (muct_topo_sys_dev(gpu, device) == sys_dev) {
            return device;
        }
    }
    return -1;
}
