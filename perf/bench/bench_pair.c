/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/bench/bench_pair.h"

#include "perf/base/clock.h"
#include "perf/base/error.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

int bench_fail(const char *what)
{
    perf_error("%s: %s", what, mkv_last_error());
    return -1;
}

static int bench_open(bench_side_t *side, mkv_region_t region)
{
    if (region.base == NULL) {
        region.base = mmap(NULL, region.length, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (region.base == MAP_FAILED) {
        perf_error("no %" PRIu64 " bytes of address space", region.length);
        return -1;
    }
    return ((mkv_open(NULL, NULL, &side->ctx) == MKV_OK) &&
            (mkv_region_add(side->ctx, &region, &side->region) == MKV_OK) &&
            (mkv_regions_commit(side->ctx, NULL) == MKV_OK))
               ? 0
               : bench_fail("a context");
}

void bench_progress(bench_side_t *side)
{
    mkv_event_t event;
    size_t num;

    do {
        mkv_progress(side->ctx);
        num = 0;
        mkv_poll(side->ctx, &event, sizeof(event), 1, &num);
        if ((num > 0) && (event.type == MKV_EV_PEER_READY)) {
            side->peer = event.peer;
        }
    } while (num > 0);
}

static int bench_connect(bench_side_t sides[2])
{
    uint64_t start_ns = perf_clock_ns();
    char blob[65536];
    size_t length = sizeof(blob);
    mkv_peer_t *peer;

    if ((mkv_blob(sides[1].ctx, MKV_BLOB_ADDR, blob, &length) != MKV_OK) ||
        (mkv_peer_add(sides[0].ctx, blob, length, NULL, &peer) != MKV_OK)) {
        return bench_fail("a peer");
    }
    while ((sides[0].peer == NULL) || (sides[1].peer == NULL)) {
        bench_progress(&sides[0]);
        bench_progress(&sides[1]);
        if (perf_clock_ns() - start_ns > 30 * UINT64_C(1000000000)) {
            perf_error("the two contexts did not connect in 30 s");
            return -1;
        }
    }
    return ((mkv_map_create(sides[0].peer, NULL, &sides[0].map) == MKV_OK) &&
            (mkv_map_create(sides[1].peer, NULL, &sides[1].map) == MKV_OK))
               ? 0
               : bench_fail("a map");
}

int bench_pair_open_each(bench_side_t sides[2], const mkv_region_t regions[2])
{
    setenv("MORIKV_DRAIN_TIMEOUT", "100",
           0); /* the context that closes first gets no answer */
    return ((bench_open(&sides[0], regions[0]) == 0) &&
            (bench_open(&sides[1], regions[1]) == 0) && (bench_connect(sides) == 0))
               ? 0
               : -1;
}

int bench_pair_open(bench_side_t sides[2], const mkv_region_t *region)
{
    const mkv_region_t regions[2] = {*region, *region};

    return bench_pair_open_each(sides, regions);
}

void bench_settle(bench_side_t sides[2])
{
    bench_progress(&sides[0]);
    bench_progress(&sides[1]);
}

mkv_xfer_attr_t bench_query(const mkv_xfer_t *xfer)
{
    mkv_xfer_attr_t attr = {.size = sizeof(attr)};

    mkv_xfer_query(xfer, &attr);
    return attr;
}

int bench_xfer_open(bench_side_t sides[2], const mkv_xfer_params_t *params,
                    const mkv_units_t *exposed, mkv_xfer_t *xfers[2])
{
    mkv_xfer_params_t each = *params;
    int i;

    each.size = sizeof(each);
    each.mode = MKV_WRITE;
    each.num_legs = 1;
    for (i = 0; i < 2; ++i) {
        each.role = (i == 0) ? MKV_SRC : MKV_DST;
        each.legs = &sides[i].map;
        if (mkv_xfer_open(sides[i].ctx, &each, &xfers[i]) != MKV_OK) {
            return bench_fail("a transfer");
        }
    }
    if (mkv_xfer_expose(xfers[1], 0, exposed, 1, NULL, 0) != MKV_OK) {
        return bench_fail("a block list");
    }
    while (bench_query(xfers[0]).state != MKV_XFER_BOUND) {
        bench_settle(sides);
    }
    return 0;
}

int bench_xfer_abort(bench_side_t sides[2], mkv_xfer_t *xfers[2])
{
    int i;

    mkv_xfer_abort(xfers[0], MKV_ERR_ABORTED, NULL);
    while (!bench_query(xfers[0]).is_quiet || !bench_query(xfers[1]).is_quiet) {
        bench_settle(sides);
    }
    for (i = 0; i < 2; ++i) {
        if ((mkv_xfer_status(xfers[i], NULL) != MKV_ERR_ABORTED) ||
            (mkv_xfer_close(xfers[i]) != MKV_OK)) {
            return bench_fail("a transfer");
        }
    }
    return 0;
}

void bench_pair_close(bench_side_t sides[2])
{
    int i;

    for (i = 0; i < 2; ++i) {
        if (sides[i].map != NULL) {
            mkv_map_destroy(sides[i].map);
        }
    }
    for (i = 0; i < 2; ++i) {
        if (sides[i].ctx != NULL) {
            mkv_close(sides[i].ctx);
        }
    }
}
