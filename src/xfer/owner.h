/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_OWNER_H
#define MKV_OWNER_H

/**
 * @file
 * Transfers that write to blocks of this side and are not quiet yet (option OVERLAP).
 */

#include "xfer/xfer.h"

/**
 * Count the blocks of a leg that are about to be exposed for writing. They belong to it
 * until the transfer is quiet. Without memory, an overlap goes unnoticed.
 *
 * @return MKV_OK, or MKV_ERR_DUPLICATE: OVERLAP=refuse, and a block belongs to a
 *         different transfer.
 */
mkv_status_t mkv_owners_take(mkv_leg_t *leg, const mkv_units_t *units,
                             size_t num_units);

/** Undo mkv_owners_take(): the units were not exposed after all. */
void mkv_owners_return(mkv_leg_t *leg, const mkv_units_t *units, size_t num_units);

/** Uncount the blocks of a quiet transfer. */
void mkv_owners_give(mkv_xfer_t *xfer);

void mkv_owners_cleanup(mkv_ctx_t *ctx);

#endif
