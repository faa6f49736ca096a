/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_REQUEST_H
#define PERF_REQUEST_H

/**
 * @file
 * Requests of a serving system, from a trace file or made up, in order of arrival.
 *
 * A source gives the same requests each time it is opened, so that the prefill and the
 * decode process read separate copies and agree without messages.
 *
 * Threads. One thread per source.
 */

#include <stddef.h>
#include <stdint.h>


/** Tokens that one prefix hash stands for. */
enum { PERF_HASH_TOKENS = 512 };


typedef struct perf_request {
    uint64_t timestamp_ms;
    uint32_t input_length;  /**< Tokens of the prompt, at least 1 */
    uint32_t output_length; /**< Tokens generated, at least 1 */
    uint32_t num_hashes;    /**< Prompt tokens / 512, rounded up */
    const uint64_t *hashes; /**< Equal hash: equal tokens here and before */
} perf_request_t;


typedef struct perf_source perf_source_t;

/**
 * Next request.
 *
 * @param [out] request_p  Owned by the source, valid until the next call.
 *
 * @return 1 when there was one, 0 at the end, -1 after @ref perf_error.
 */
int perf_source_next(perf_source_t *source, const perf_request_t **request_p);

void perf_source_destroy(perf_source_t *source);


/** Implementation of a source, first member of its own structure. */
struct perf_source {
    int (*next)(perf_source_t *source, const perf_request_t **request_p);
    void (*destroy)(perf_source_t *source);
};

#endif
