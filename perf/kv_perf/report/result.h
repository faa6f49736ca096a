/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_RESULT_H
#define PERF_RESULT_H

/**
 * @file
 * Measurements of a process for a row of the output. A plain value: the same build on
 * the other side of a channel reads its bytes.
 */

#include "perf/kv_perf/report/histogram.h"

#include <stdint.h>


/** Ends of the flows of one direction of a sweep, from the first post on; they differ
 * as far as flows were served unequally. */
typedef struct perf_ends {
    uint64_t num_flows;
    uint64_t first_ns; /**< Time from the first post to the end of the first flow */
    uint64_t last_ns;  /**< Time from the first post to the end of the last flow */
} perf_ends_t;

typedef struct perf_result {
    uint64_t block_size;    /**< Bytes of one piece */
    uint64_t num_requests;  /**< Requests that were measured */
    uint64_t num_descs;     /**< Pieces of all measured requests, before merging */
    uint64_t num_merged;    /**< Pieces of all measured requests, after merging */
    uint64_t num_ucp_calls; /**< Data calls into UCX, if known */
    uint64_t bytes;         /**< Bytes of all measured requests */
    uint64_t wall_ns;       /**< Time from the first post to the last completion */
    perf_ends_t there;      /**< Sweeps: transfers started by the center */
    perf_ends_t back;       /**< Sweeps: transfers started by the others */
    uint64_t cpu_ns;        /**< Time in prepare, post, and progress that found work */
    uint64_t total_blocks;  /**< Model: blocks of all prompts */
    uint64_t shared_blocks; /**< Model: of these, found in the destination */
    uint64_t num_posted;    /**< Model: pieces of memory of all requests */
    uint64_t num_beside; /**< Model: of these, moved before the last layer was ready */
    uint32_t num_layers; /**< Model: number of its layers */
    uint32_t is_checked;
    uint32_t is_active; /**< This process started operations */
    char path[512];     /**< Transport of the data, as UCX reports it */
    char device[64];
    char label[32];        /**< Note of the row, or "" */
    perf_histogram_t prep; /**< Plan or arrays, one a request; ns */
    perf_histogram_t post; /**< All post calls of a request; ns */
    perf_histogram_t tx;   /**< First post of a request to its completion; ns */
} perf_result_t;


/** Make it empty. */
void perf_result_init(perf_result_t *result);

/** Flows that have ended more. */
void perf_ends_add(perf_ends_t *ends, const perf_ends_t *other);

/** Add the figures of another process for the same row at the same time. */
void perf_result_merge(perf_result_t *result, const perf_result_t *other);

#endif
