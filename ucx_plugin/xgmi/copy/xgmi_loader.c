/* SPDX-License-Identifier: BSD-3-Clause */

#include "xgmi/copy/xgmi_loader.h"

#include "base/muct_log.h"
#include "xgmi/copy/xgmi_code.h"
#include "xgmi/copy/xgmi_kernel.h"

#include <stdatomic.h>

/* Warn that lists on this GPU are many times slower than with the kernel. A build
 * without a kernel warns once per process, as it affects all devices. */
static void muct_xgmi_loader_warn(const muct_gpu_t *gpu, int device, int ret)
{
    static atomic_bool is_reported;

    if (!muct_xgmi_code_is_empty()) {
        muct_warn("device %d copies call by call, which is many times slower for "
                  "lists: hipModuleLoadData() = %s; this build has the kernel for %s",
                  device, muct_gpu_error_name(gpu, ret), muct_xgmi_code_archs());
    } else if (!atomic_exchange(&is_reported, true)) {
        muct_warn("device %d copies call by call, which is many times slower for "
                  "lists: this build has no copy kernel; install one that was "
                  "configured with hipcc",
                  device);
    }
}

void muct_xgmi_loader_load(const muct_gpu_t *gpu, int device,
                           muct_hip_module_t *module_p, muct_hip_function_t *kernel_p,
                           bool *is_flag_last_p)
{
    muct_hip_function_t kernel, marker;
    muct_hip_module_t module;
    int ret;

    *module_p = NULL;
    *kernel_p = NULL;
    *is_flag_last_p = false;
    ret = gpu->module_load_data(&module, muct_xgmi_code_image());
    if (ret != MUCT_HIP_SUCCESS) {
        muct_xgmi_loader_warn(gpu, device, ret);
        (void)muct_gpu_forget(gpu, ret);
        return;
    }

    ret = gpu->module_get_function(&kernel, module, MUCT_XGMI_KERNEL_NAME);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_diag("device %d copies without the kernel: hipModuleGetFunction(%s) = %s",
                  device, MUCT_XGMI_KERNEL_NAME, muct_gpu_error_name(gpu, ret));
        (void)muct_gpu_forget(gpu, gpu->module_unload(module));
        return;
    }

    ret = gpu->module_get_function(&marker, module, MUCT_XGMI_FLAG_IS_LAST_NAME);
    *is_flag_last_p = (muct_gpu_forget(gpu, ret) == MUCT_HIP_SUCCESS);
    *module_p = module;
    *kernel_p = kernel;
}
