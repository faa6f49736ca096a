/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_FENCE_H
#define MKV_FENCE_H

/**
 * @file
 * What a destination waits for between the last byte and DONE (option FENCE).
 */

#include "xfer/xfer.h"

/**
 * All legs are finished: ask for the caller's fence, once, where there is to be one.
 *
 * @return MKV_OK: the transfer may be DONE, MKV_INPROGRESS: not yet, MKV_ERR_NOMEM.
 */
mkv_status_t mkv_fence_check(mkv_xfer_t *xfer);

void mkv_fence_cleanup(mkv_xfer_t *xfer);

#endif
