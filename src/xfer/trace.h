/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_TRACE_H
#define MKV_TRACE_H

/**
 * @file
 * Times of a transfer's steps, for queries, histograms and the log. The caller holds
 * the context's lock.
 */

#include "xfer/xfer.h"

/** Log that the step happened. */
void mkv_xfer_trace(const mkv_xfer_t *xfer, mkv_xfer_time_t which);

/** Set the time to now, even if it was set before. */
static inline void mkv_xfer_stamp_again(mkv_xfer_t *xfer, mkv_xfer_time_t which)
{
    uint64_t ns = mkv_ctx_time(xfer->ctx) - xfer->open_time;

    __atomic_store_n(&xfer->times[which], ns + (ns == 0), /* 0 is not yet */
                     __ATOMIC_RELAXED);
    if (xfer->ctx->log.level >= MKV_LOG_TRACE) {
        mkv_xfer_trace(xfer, which);
    }
}

/** Set the time to now if it was not set before. */
static inline void mkv_xfer_stamp(mkv_xfer_t *xfer, mkv_xfer_time_t which)
{
    if (xfer->times[which] == 0) {
        mkv_xfer_stamp_again(xfer, which);
    }
}

/** Set the time to now, even if it was set before. Reading the clock takes as long as a
 * message. So in a callback of a round of progress the next step reads it, when it has
 * sent its messages. */
static inline void mkv_xfer_stamp_later(mkv_xfer_t *xfer, mkv_xfer_time_t which)
{
    if (xfer->ctx->is_in_callbacks) {
        xfer->times_due |= (uint8_t)(1u << which);
    } else {
        mkv_xfer_stamp_again(xfer, which);
    }
}

/** Set the times whose clock was not read yet. */
void mkv_xfer_stamp_due(mkv_xfer_t *xfer);

/** The transfer is done: count the time since its blocks were exposed. */
void mkv_xfer_count_latency(mkv_xfer_t *xfer);

/** Times as queries see them. Needs no lock. */
void mkv_xfer_times(const mkv_xfer_t *xfer, mkv_xfer_attr_t *attr);

#endif
