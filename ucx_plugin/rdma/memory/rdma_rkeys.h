/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_RKEYS_H
#define MUCT_RDMA_RKEYS_H

/**
 * @file
 * Remote keys that this process holds, to find the one of another device for the same
 * memory: an endpoint that moved there needs it (rdma_move.h).
 *
 * Incarnations. The upper 48 bits are random for each process, drawn when it opens its
 * first device; the lower ones count its openings of devices. So equal upper bits show
 * that two devices belong to one process.
 *
 * Any thread.
 */

#include "rdma/memory/rdma_key.h"

#include <ucs/type/status.h>

/** Draw a number for a device that is opened. @return UCS_OK or UCS_ERR_IO_ERROR,
 * logged. */
ucs_status_t muct_rdma_incarnation_next(uint64_t *incarnation_p);

/** Whether two devices belong to the same process. */
static inline bool muct_rdma_incarnation_is_near(uint64_t incarnation, uint64_t other)
{
    return ((incarnation ^ other) >> 16) == 0;
}

/** Allocate an empty key that can be added; NULL without memory. */
muct_rdma_key_t *muct_rdma_rkeys_alloc(void);

/** Add the key, so that searches find it. */
void muct_rdma_rkeys_add(muct_rdma_key_t *key);

/** Free a key of @ref muct_rdma_rkeys_alloc; searches do not find it any more. */
void muct_rdma_rkeys_free(muct_rdma_key_t *key);

/** What a work request names at the peer, with the device of an incarnation. */
typedef struct muct_rdma_rkeys_target {
    uint64_t incarnation;
    uint64_t address;
    uint64_t length;
    uint32_t rkey;
} muct_rdma_rkeys_target_t;

/**
 * Replace the key of a device by that of another one of the same process. Several keys
 * of a device may cover the same bytes, some of them of memory that its owner has
 * deregistered. The one that belongs to the given key was unpacked with it: UCP unpacks
 * the keys of a region with all devices at once, in the order of their openings.
 *
 * Limit: two registrations of one range are taken for one if a thread unpacks them in a
 * row, and the second has only devices opened after those of the first.
 *
 * Where the address is that of the flush page of a GPU, address and key become those of
 * the other device's page of that GPU.
 *
 * @param [in,out] target  Changed only on success.
 * @return False when this process holds none.
 */
bool muct_rdma_rkeys_translate(muct_rdma_rkeys_target_t *target, uint64_t incarnation);

#endif
