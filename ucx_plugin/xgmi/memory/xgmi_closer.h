/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_CLOSER_H
#define MUCT_XGMI_CLOSER_H

/**
 * @file
 * Closes mappings of peers' memory from a thread of its own.
 *
 * AMD's runtime waits for all streams of the device in hipIpcCloseMemHandle. A thread
 * that copies, posts or finds a peer dead must not wait that long: a stream may itself
 * wait for that peer.
 *
 * Threads. All calls may be made from several threads, but destroy is the last one.
 */

#include "xgmi/memory/xgmi_mapping.h"


typedef struct muct_xgmi_closer muct_xgmi_closer_t;


/**
 * Create a closer; its thread starts with the first mapping.
 *
 * @param [in]  gpu       Runtime; must outlive the closer.
 * @param [out] closer_p  Set only on UCS_OK.
 *
 * @return UCS_OK, or UCS_ERR_NO_MEMORY.
 */
ucs_status_t muct_xgmi_closer_create(const muct_gpu_t *gpu,
                                     muct_xgmi_closer_t **closer_p);


/**
 * Close the remaining mappings and free the closer. If a device is busy for longer than
 * @a limit_ms, log a warning and keep the mappings.
 */
void muct_xgmi_closer_destroy(muct_xgmi_closer_t *closer, unsigned limit_ms);


/**
 * Close a mapping soon. Never blocks on the runtime.
 *
 * @param [in] device   Ordinal of the device that it was opened for.
 * @param [in] mapping  Mapping to close; no copy uses it any more.
 */
void muct_xgmi_closer_add(muct_xgmi_closer_t *closer, int device,
                          const muct_xgmi_mapping_t *mapping);


/** Wait until all mappings are closed. @return Whether this took at most @a
 * limit_ms. */
int muct_xgmi_closer_wait(muct_xgmi_closer_t *closer, unsigned limit_ms);

#endif
