/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_TOPO_H
#define MUCT_TOPO_H

/**
 * @file
 * Locations of GPUs as UCX's system devices.
 *
 * UCX chooses the NIC next to a GPU if GPU memory has a system device, the one with the
 * GPU's PCI address. Partitions of a GPU share the system device of function 0, as
 * sysfs has no others. Threads: any.
 */

#include "base/muct_gpu.h"

#include <ucs/sys/topo/base/topo.h>


/** Room for a PCI address in text. */
#define MUCT_TOPO_BDF_SIZE 32


/** System device of a GPU; UCS_SYS_DEVICE_ID_UNKNOWN if it cannot be found. */
ucs_sys_device_t muct_topo_sys_dev(const muct_gpu_t *gpu, int device);


/**
 * The GPU on which UCX requests memory: the first one with this system device; for
 * UCS_SYS_DEVICE_ID_UNKNOWN the thread's current one. -1: there is none.
 */
int muct_topo_device(const muct_gpu_t *gpu, ucs_sys_device_t sys_dev);

#endif
