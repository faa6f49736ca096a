/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_HOLD_H
#define MUCT_XGMI_HOLD_H

/**
 * @file
 * Mappings that an operation needs, kept until it is tried again.
 *
 * Without the hold, a cache with low limits would close a mapping while the operation
 * waits for the next one. The hold also keeps the result of a failed open for the next
 * try.
 */

#include "xgmi/memory/xgmi_map.h"
#include "xgmi/memory/xgmi_rkey.h"


/** Zeros: nothing is held. */
typedef struct muct_xgmi_hold {
    const muct_xgmi_region_t **regions;
    unsigned num, max;
} muct_xgmi_hold_t;


/**
 * Hold the mapping of a key, and begin to open it.
 *
 * @return UCS_OK, UCS_INPROGRESS, or an error: as @ref muct_xgmi_map_try. Nothing is
 *         added with an error.
 */
ucs_status_t muct_xgmi_hold_add(muct_xgmi_hold_t *hold, muct_xgmi_map_t *map,
                                const muct_xgmi_rkey_t *rkey, int device);


/** Release all held mappings. */
void muct_xgmi_hold_release(muct_xgmi_hold_t *hold, muct_xgmi_map_t *map);

#endif
