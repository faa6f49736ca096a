/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_TRACE_H
#define MKV_TRACE_H

/**
 * @file
 * When a transfer did what: for queries, histograms and the log. The caller holds the
 * context's lock.
 */

#include "xfer/xfer.h"

/** It happened now, for the first time. */
void mkv_xfer_stamp(mkv_xfer_t *xfer, mkv_xfer_time_t which);

/** It happened now, perhaps again. */
void mkv_xfer_stamp_again(mkv_xfer_t *xfer, mkv_xfer_time_t which);

/** It is done now: count how long that took since its blocks were exposed. */
void mkv_xfer_count_latency(mkv_xfer_t *xfer);

/** Times as queries see them; without the lock, too. */
void mkv_xfer_times(const mkv_xfer_t *xfer, mkv_xfer_attr_t *attr);

#endif
