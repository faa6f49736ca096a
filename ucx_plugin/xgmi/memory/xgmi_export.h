/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_EXPORT_H
#define MUCT_XGMI_EXPORT_H

/**
 * @file
 * IPC handles of this process's allocations, one per allocation.
 *
 * A handle costs the driver a call that may export and import a dma-buf, and ROCm 7.2.0
 * to 7.2.4 never free what each call took. UCX packs a key for each message. So handles
 * are kept for the whole process, as long as the runtime's buffer id shows that the
 * allocation is the same.
 *
 * Threads. All calls may be made from several threads.
 */

#include "base/muct_gpu.h"
#include "xgmi/memory/xgmi_key.h"


/** An allocation that was exported to other processes. */
typedef struct muct_xgmi_export {
    uint64_t base;
    uint64_t length;    /**< 0: not queried yet */
    uint64_t buffer_id; /**< 0: unknown to the runtime */
    int device;
    unsigned char handle[MUCT_XGMI_HANDLE_SIZE];
} muct_xgmi_export_t;


/**
 * Export the allocation around an address.
 *
 * @param [in]     gpu      Runtime.
 * @param [in]     address  Any address in it.
 * @param [in,out] export   As this call left it for the same address, or zeros.
 *
 * @return UCS_OK, or UCS_ERR_UNSUPPORTED: other processes cannot map this memory.
 */
ucs_status_t muct_xgmi_export_get(const muct_gpu_t *gpu, uint64_t address,
                                  muct_xgmi_export_t *export);

#endif
