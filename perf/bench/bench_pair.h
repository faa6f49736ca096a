/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_BENCH_PAIR_H
#define PERF_BENCH_PAIR_H

/**
 * @file
 * Two contexts of this process, for the cost of calls when no byte moves. One thread.
 */

#include "perf/bench/bench_callgrind.h"

#include <morikv.h>

typedef struct bench_side {
    mkv_ctx_t *ctx;
    mkv_peer_t *peer;
    mkv_map_t *map;
    mkv_region_id_t region;
} bench_side_t;

/** Print the failed call, with the library's reason. @return -1. */
int bench_fail(const char *what);

/**
 * Two contexts, each with this region, and connected, with maps. A region without a
 * base is over untouched memory, separate for each side.
 *
 * @param [inout] sides  Zeroed; close them with bench_pair_close() in any case.
 *
 * @return 0, or -1 with a message.
 */
int bench_pair_open(bench_side_t sides[2], const mkv_region_t *region);

/** The same with a region of its own for each side. */
int bench_pair_open_each(bench_side_t sides[2], const mkv_region_t regions[2]);

/** Progress until nothing is new; events are dropped. */
void bench_progress(bench_side_t *side);

/** The same on both sides, once. */
void bench_settle(bench_side_t sides[2]);

mkv_xfer_attr_t bench_query(const mkv_xfer_t *xfer);

/**
 * Open a WRITE from side 0 to side 1, with the blocks of side 1 exposed and received.
 *
 * @param [in] params  Its identity and limits; the rest is set here.
 */
int bench_xfer_open(bench_side_t sides[2], const mkv_xfer_params_t *params,
                    const mkv_units_t *exposed, mkv_xfer_t *xfers[2]);

/** Abort a transfer that was posted more than its blocks, and so cannot be DONE. */
int bench_xfer_abort(bench_side_t sides[2], mkv_xfer_t *xfers[2]);

void bench_pair_close(bench_side_t sides[2]);

#endif
