/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_GENERATOR_H
#define PERF_GENERATOR_H

/**
 * @file
 * Made-up chat traffic: sessions of several turns, each turn's prompt beginning with
 * the whole prompt before it, all sessions beginning with one system prompt.
 *
 * Two properties of real traces matter to block tables and are kept: lengths that
 * differ by an order of magnitude, and prefixes that come back while others are in
 * between.
 */

#include "perf/workload/request.h"

#include <stdbool.h>


typedef struct perf_generator_config {
    uint64_t seed;          /**< Equal seeds give equal requests */
    uint32_t input_length;  /**< Mean tokens of a prompt; from a quarter to four times
                                 as many are made */
    uint32_t output_length; /**< Mean tokens generated */
    bool is_exact;          /**< All lengths are the mean; no session goes on */
} perf_generator_config_t;


/**
 * Create an endless source.
 *
 * @param [in]  config    Copied.
 * @param [out] source_p  To be destroyed by perf_source_destroy(). Set on success.
 *
 * @return 0, or -1 after @ref perf_error (a length of 0 or above 4 million, no memory).
 */
int perf_generator_create(const perf_generator_config_t *config,
                          perf_source_t **source_p);

#endif
