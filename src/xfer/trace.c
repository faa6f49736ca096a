/* SPDX-License-Identifier: BSD-3-Clause */

#include "xfer/trace.h"

#include "base/latency.h"

static const char *const mkv_xfer_time_names[MKV_NUM_TIMES] = {
    "exposed", "bound", "posted", "moved", "sealed", "flushed", "ended", "quiet"};

void mkv_xfer_trace(const mkv_xfer_t *xfer, mkv_xfer_time_t which)
{
    mkv_log_trace(xfer->ctx, "transfer %llu epoch %u: %s %llu ns after its open",
                  (unsigned long long)xfer->id, xfer->epoch, mkv_xfer_time_names[which],
                  (unsigned long long)xfer->times[which]);
}

void mkv_xfer_stamp_due(mkv_xfer_t *xfer)
{
    unsigned due;

    for (due = xfer->times_due; due != 0; due &= due - 1) {
        mkv_xfer_stamp_again(xfer, (mkv_xfer_time_t)__builtin_ctz(due));
    }
    xfer->times_due = 0;
}

void mkv_xfer_count_latency(mkv_xfer_t *xfer)
{
    mkv_peer_t *peer = xfer->legs[0].peer;
    uint64_t ns = xfer->times[MKV_TIME_ENDED] - xfer->times[MKV_TIME_EXPOSED];

    mkv_latency_add(peer->count.expose_to_done, ns);
    mkv_latency_add(peer->ctx->count.expose_to_done, ns);
}

void mkv_xfer_times(const mkv_xfer_t *xfer, mkv_xfer_attr_t *attr)
{
    uint64_t *const places[MKV_NUM_TIMES] = {
        &attr->exposed_ns, &attr->bound_ns,   &attr->posted_ns, &attr->moved_ns,
        &attr->sealed_ns,  &attr->flushed_ns, &attr->ended_ns,  &attr->quiet_ns};
    unsigned i;

    for (i = 0; i < MKV_NUM_TIMES; ++i) {
        *places[i] = __atomic_load_n(&xfer->times[i], __ATOMIC_RELAXED);
    }
}
