/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_MAPPING_H
#define MUCT_XGMI_MAPPING_H

/**
 * @file
 * Calls that map a peer's allocation, or its host memory, into this process.
 */

#include "base/muct_gpu.h"
#include "base/memory/muct_pin.h"
#include "xgmi/memory/xgmi_key.h"
#include "xgmi/peer/xgmi_peer.h"

#include <stdbool.h>


/** An allocation of a peer in this process. */
typedef struct muct_xgmi_mapping {
    void *address;
    muct_pin_t host;   /**< A file's mapping here; length 0: GPU memory */
    bool is_self;      /**< Memory of this process: nothing was opened */
    const char *error; /**< Reason of a handle that did not open, or NULL */
} muct_xgmi_mapping_t;


/**
 * Whether opening needs no call of the runtime, as for this process's memory on its own
 * device.
 * @a mapping is filled in then.
 */
bool muct_xgmi_mapping_is_there(const muct_xgmi_peer_t *peer,
                                const muct_xgmi_key_t *key, int device,
                                muct_xgmi_mapping_t *mapping);


/**
 * Open a peer's allocation for a device. May wait for the peer's process.
 *
 * @param [out] mapping  To be zeros.
 *
 * @return UCS_OK
 * @return UCS_ERR_UNREACHABLE  The peer is gone, or the key is no longer valid.
 * @return UCS_ERR_UNSUPPORTED  The device has no way to the memory.
 * @return UCS_ERR_IO_ERROR     The runtime failed though the peer lives; try again.
 * @return UCS_ERR_NO_MEMORY    Out of memory or GPU address space.
 * @return UCS_ERR_BUSY         An earlier allocation of the peer at that address is
 *                              still open.
 */
ucs_status_t muct_xgmi_mapping_open(const muct_gpu_t *gpu, muct_xgmi_peer_t *peer,
                                    const muct_xgmi_key_t *key, int device,
                                    muct_xgmi_mapping_t *mapping);


/** Whether kernels cannot use a mapping, because the runtime refused to pin it. */
bool muct_xgmi_mapping_is_pageable(const muct_xgmi_mapping_t *mapping);


/** Close a mapping of a device. May wait for the device. */
void muct_xgmi_mapping_close(const muct_gpu_t *gpu, int device,
                             muct_xgmi_mapping_t *mapping);

#endif
