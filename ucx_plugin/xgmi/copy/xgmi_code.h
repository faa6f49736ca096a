/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_CODE_H
#define MUCT_XGMI_CODE_H

/**
 * @file
 * The copy kernel's machine code, embedded in the module.
 *
 * A clang offload bundle with a code object for each architecture of the build; the
 * runtime selects the one of the current device. Without hipcc the bundle is empty, and
 * AMD's runtime refuses it with hipErrorNoBinaryForGpu.
 *
 * Separate from xgmi_loader.h, because gpu_limits and the kernel's own test use the
 * code without the module's runtime table and messages.
 */

#include <stdbool.h>


/** The bundle, for hipModuleLoadData(). */
const void *muct_xgmi_code_image(void);


/** Whether the bundle contains no code at all, for the log text. */
bool muct_xgmi_code_is_empty(void);


/** Architectures of the code objects, such as "gfx90a gfx942". */
const char *muct_xgmi_code_archs(void);

#endif
