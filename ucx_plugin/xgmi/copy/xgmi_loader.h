/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_LOADER_H
#define MUCT_XGMI_LOADER_H

/**
 * @file
 * Loads the copy kernel that is embedded in this module onto a device.
 */

#include "base/muct_gpu.h"

#include <stdbool.h>


/**
 * Load the kernel for the current device.
 *
 * Having no kernel is no error: copies are then made call by call. A warning reports a
 * device that the code does not fit, and, once per process, a build without code.
 *
 * @param [in]  gpu       Runtime.
 * @param [in]  device    Ordinal of the current device, for messages.
 * @param [out] module_p  To be unloaded by the caller; NULL when there is no kernel.
 * @param [out] kernel_p  Takes one muct_xgmi_copy_args_t; NULL when there is no kernel.
 * @param [out] is_flag_last_p  Whether the kernel may report its end by its flag.
 */
void muct_xgmi_loader_load(const muct_gpu_t *gpu, int device,
                           muct_hip_module_t *module_p, muct_hip_function_t *kernel_p,
                           bool *is_flag_last_p);

#endif
