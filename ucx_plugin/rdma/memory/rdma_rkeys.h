/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_RKEYS_H
#define MUCT_RDMA_RKEYS_H

/**
 * @file
 * Remote keys that this process holds, to find the one of another device for the same
 * memory: an endpoint that moved there needs it (rdma_move.h).
 *
 * Incarnations. The upper 48 bits are the process', drawn when it opens its first
 * device; the lower ones count its openings of devices. So equal upper bits show that
 * two devices belong to one process.
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

/** Have it found. */
void muct_rdma_rkeys_add(muct_rdma_key_t *key);

/** Free a key of @ref muct_rdma_rkeys_alloc; searches do not find it any more. */
void muct_rdma_rkeys_free(muct_rdma_key_t *key);

/**
 * Key of a device for [*address, *address + length), or, where the address is that of
 * the flush page of a GPU with another device of the process, for its own page of that
 * GPU.
 *
 * @param [in,out] address  The page's own, then.
 * @return False when this process holds none.
 */
bool muct_rdma_rkeys_find(uint64_t incarnation, uint64_t *address, uint64_t length,
                          uint32_t *rkey_p);

#endif
