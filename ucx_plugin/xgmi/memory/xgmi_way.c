/* SPDX-License-Identifier: BSD-3-Clause */

#include "xgmi/memory/xgmi_way.h"

#include "base/muct_log.h"

#include <inttypes.h>
#include <stdlib.h>


muct_xgmi_way_t *muct_xgmi_way_get(muct_xgmi_way_t **ways, uint64_t owner, int device,
                                   bool is_host)
{
    muct_xgmi_way_t *way = *ways;

    while ((way != NULL) && ((way->owner != owner) || (way->device != device) ||
                             (way->is_host != is_host))) {
        way = way->next;
    }
    if (way != NULL) {
        return way;
    }

    way = calloc(1, sizeof(*way));
    if (way == NULL) {
        muct_error("failed to allocate the way from device %d to peer 0x%" PRIx64,
                   device, owner);
        return NULL;
    }

    way->owner = owner;
    way->device = device;
    way->is_host = is_host;
    way->next = *ways;
    *ways = way;
    return way;
}

void muct_xgmi_way_bar(muct_xgmi_way_t *way, uint64_t now_ns, const char *error)
{
    if (way->is_open || muct_xgmi_way_is_barred(way, now_ns)) {
        return;
    }

    way->barred_until_ns = now_ns + MUCT_XGMI_WAY_BARRED_NS;
    way->was_awaited = false; /* the next key may wait again */
    if (way->has_warned) {
        return;
    }

    way->has_warned = true;
    if (way->is_host) {
        muct_warn("host memory of peer 0x%" PRIx64 " cannot be used (%s); other "
                  "transports carry it, and it is tried again in a minute. Both "
                  "processes need the same PID namespace, and the peer needs /proc "
                  "and PR_SET_DUMPABLE",
                  way->owner, error);
        return;
    }
    muct_warn(
        "device %d has no way to the memory of peer 0x%" PRIx64 " (%s); other "
        "transports carry it, and it is tried again in a minute. hipIpcOpenMemHandle() needs: access between the "
        "devices; with ROCm 7.2 or HSA_ENABLE_IPC_MODE_LEGACY=0 one network "
        "namespace (docker --network=host); with HSA_ENABLE_IPC_MODE_LEGACY=1 "
        "AMD's own driver and the peer's /dev/dri nodes visible",
        way->device, way->owner, error);
}

void muct_xgmi_ways_drop(muct_xgmi_way_t **ways, uint64_t owner)
{
    muct_xgmi_way_t **link = ways;
    muct_xgmi_way_t *way;

    while ((way = *link) != NULL) {
        if ((owner == 0) || (way->owner == owner)) {
            *link = way->next;
            free(way);
        } else {
            link = &way->next;
        }
    }
}
