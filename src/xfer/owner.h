/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_OWNER_H
#define MKV_OWNER_H

/**
 * @file
 * Which transfer that is not quiet yet writes to a block of ours (option OVERLAP).
 */

#include "xfer/xfer.h"

/**
 * The blocks are about to be exposed by the transfer, to be written to.
 *
 * @return MKV_OK, or MKV_ERR_DUPLICATE: OVERLAP=refuse, and one of them is another's.
 */
mkv_status_t mkv_owners_check(mkv_xfer_t *xfer, const mkv_units_t *units,
                              size_t num_units);

/** They are exposed: those that are nobody's are the transfer's. Without memory it is
 *  only not noticed when others expose them, too. */
void mkv_owners_take(mkv_xfer_t *xfer, const mkv_units_t *units, size_t num_units);

/** The transfer is quiet. */
void mkv_owners_give(mkv_xfer_t *xfer);

void mkv_owners_cleanup(mkv_ctx_t *ctx);

#endif
