/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The table by which an interface finds the queue pair of a completion.
 */

#include "rdma/ep/rdma_place.h"

#include "base/muct_log.h"

#include <stdlib.h>

static ucs_status_t muct_rdma_iface_grow_places(muct_rdma_iface_t *iface)
{
    uint32_t i, num = (iface->num_places > 0) ? 2 * iface->num_places : 64;
    muct_rdma_place_t *places;

    if (num > MUCT_RDMA_WR_ID_SLOT_MASK + 1) {
        muct_error("interface has %u queue pairs, the most that it can have",
                   iface->num_places);
        return UCS_ERR_EXCEEDS_LIMIT;
    }

    places = realloc(iface->places, num * sizeof(*places));
    if (places == NULL) {
        muct_error("failed to allocate a table of %u queue pairs", num);
        return UCS_ERR_NO_MEMORY;
    }

    for (i = iface->num_places; i < num; ++i) {
        places[i].chan = NULL;
        places[i].gen = 0;
        places[i].next_free = (i + 1 < num) ? i + 1 : UINT32_MAX;
    }

    iface->free_place = iface->num_places;
    iface->places = places;
    iface->num_places = num;
    return UCS_OK;
}

ucs_status_t muct_rdma_iface_add_chan(muct_rdma_iface_t *iface, muct_rdma_chan_t *chan,
                                      uint32_t *place_p, uint64_t *id_p)
{
    muct_rdma_place_t *place;
    ucs_status_t status;
    uint32_t index;

    if (iface->free_place == UINT32_MAX) {
        status = muct_rdma_iface_grow_places(iface);
        if (status != UCS_OK) {
            return status;
        }
    }

    index = iface->free_place;
    place = &iface->places[index];
    iface->free_place = place->next_free;
    place->chan = chan;
    place->gen = (place->gen + 1) & MUCT_RDMA_WR_ID_GEN_MASK;
    *place_p = index;
    *id_p = ((uint64_t)place->gen << MUCT_RDMA_WR_ID_GEN_SHIFT) |
            ((uint64_t)index << MUCT_RDMA_WR_ID_SLOT_SHIFT);
    return UCS_OK;
}

void muct_rdma_iface_remove_chan(muct_rdma_iface_t *iface, uint32_t index)
{
    iface->places[index].chan = NULL;
    iface->places[index].next_free = iface->free_place;
    iface->free_place = index;
}
