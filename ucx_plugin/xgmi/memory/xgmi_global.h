/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_GLOBAL_H
#define MUCT_XGMI_GLOBAL_H

/**
 * @file
 * State that all memory domains of a process share: the first one creates it, the last
 * one destroys it.
 */

#include "base/muct_gpu.h"
#include "xgmi/memory/xgmi_map.h"

#include <stdatomic.h>
#include <stdint.h>


typedef struct muct_xgmi_global {
    unsigned refs;        /**< Memory domains */
    muct_xgmi_map_t *map; /**< NULL while there is no memory domain */
    const muct_gpu_t *gpu;
    _Atomic uint64_t next_uid; /**< Counter for remote keys */
    atomic_int device; /**< Device of the last registration, -1 before the first */
} muct_xgmi_global_t;

extern muct_xgmi_global_t muct_xgmi_global;


/**
 * Take a reference.
 *
 * @param [in]  gpu     GPU runtime; must outlive the last reference.
 * @param [in] config   Limits of the cache of mappings; those of the first caller
 *                      apply.
 * @param [out] map_p   The cache of mappings of this process.
 *
 * @return UCS_OK, or the error of @ref muct_xgmi_map_create.
 */
ucs_status_t muct_xgmi_global_get(const muct_gpu_t *gpu,
                                  const muct_xgmi_map_config_t *config,
                                  muct_xgmi_map_t **map_p);


/** Release a reference. */
void muct_xgmi_global_put(void);

#endif
