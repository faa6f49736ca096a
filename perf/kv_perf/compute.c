/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/kv_perf/compute.h"

#include "perf/base/clock.h"

static int perf_compute_ready(void *arg)
{
    const perf_compute_layer_t *layer = arg;
    perf_compute_t *compute = layer->compute;
    uint64_t now_ns = perf_clock_ns();

    if (now_ns < compute->layers[compute->num_layers - 1].ready_ns) {
        (void)mkv_xfer_status(compute->xfer, &compute->moved);
    }
    return now_ns >= layer->ready_ns;
}

void perf_compute_start(perf_compute_t *compute, const mkv_xfer_t *xfer,
                        uint32_t layer_us)
{
    uint64_t now_ns = perf_clock_ns();
    uint32_t i;

    compute->xfer = xfer;
    compute->moved = 0;
    for (i = 0; i < compute->num_layers; ++i) {
        compute->layers[i] = (perf_compute_layer_t){
            .compute = compute,
            .ready_ns = now_ns + (i + 1) * (uint64_t)layer_us * 1000};
    }
}

mkv_gate_t perf_compute_gate(perf_compute_t *compute, uint32_t layer)
{
    return (mkv_gate_t){.size = sizeof(mkv_gate_t),
                        .ready = perf_compute_ready,
                        .arg = &compute->layers[layer]};
}

uint64_t perf_compute_moved(const perf_compute_t *compute)
{
    return compute->moved;
}
