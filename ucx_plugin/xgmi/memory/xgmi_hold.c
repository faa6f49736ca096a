/* SPDX-License-Identifier: BSD-3-Clause */

#include "xgmi/memory/xgmi_hold.h"

#include "base/muct_log.h"

#include <stdlib.h>

#define MUCT_XGMI_HOLD_FIRST 16


static ucs_status_t muct_xgmi_hold_grow(muct_xgmi_hold_t *hold)
{
    unsigned max = (hold->max == 0) ? MUCT_XGMI_HOLD_FIRST : (hold->max * 2);
    const muct_xgmi_region_t **regions;

    if (hold->num < hold->max) {
        return UCS_OK;
    }

    regions = realloc(hold->regions, max * sizeof(*regions));
    if (regions == NULL) {
        muct_error("failed to allocate room for %u mappings", max);
        return UCS_ERR_NO_MEMORY;
    }

    hold->regions = regions;
    hold->max = max;
    return UCS_OK;
}

ucs_status_t muct_xgmi_hold_add(muct_xgmi_hold_t *hold, muct_xgmi_map_t *map,
                                const muct_xgmi_rkey_t *rkey, int device)
{
    ucs_status_t status = muct_xgmi_hold_grow(hold);

    if ((status != UCS_OK) || (rkey->key.kind == MUCT_XGMI_KEY_PRIVATE)) {
        return status;
    }

    status = muct_xgmi_map_try(map, rkey->peer, &rkey->key, device,
                               &hold->regions[hold->num]);
    if (!UCS_STATUS_IS_ERR(status)) {
        ++hold->num;
    }
    return status;
}

void muct_xgmi_hold_release(muct_xgmi_hold_t *hold, muct_xgmi_map_t *map)
{
    while (hold->num > 0) {
        muct_xgmi_map_put(map, hold->regions[--hold->num]);
    }
    free(hold->regions);
    *hold = (muct_xgmi_hold_t){0};
}
