/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_COMPUTE_H
#define PERF_COMPUTE_H

/**
 * @file
 * Stand-in for a model that computes a request layer by layer, and how much was moved
 * beside it.
 *
 * Threads. The thread that makes progress queries gates; all else is for one thread.
 */

#include <morikv.h>

#include <stdint.h>


typedef struct perf_compute perf_compute_t;

/** A layer that is not ready before its time. */
typedef struct perf_compute_layer {
    perf_compute_t *compute;
    uint64_t ready_ns;
} perf_compute_layer_t;

struct perf_compute {
    const mkv_xfer_t *xfer;
    uint32_t num_layers;
    uint64_t moved;               /**< Result of perf_compute_moved(), in pieces */
    perf_compute_layer_t *layers; /**< Array of num_layers, owned by the caller */
};

/** Compute from now on, @a layer_us microseconds a layer; 0: the computation is over.
 * The transfer must be quiet before the layers are used otherwise. */
void perf_compute_start(perf_compute_t *compute, const mkv_xfer_t *xfer,
                        uint32_t layer_us);

/** Opens when a layer has been computed. */
mkv_gate_t perf_compute_gate(perf_compute_t *compute, uint32_t layer);

/** Pieces of the transfer of which it was seen that they had moved before the last
 *  layer was computed. */
uint64_t perf_compute_moved(const perf_compute_t *compute);

#endif
