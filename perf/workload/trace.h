/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_TRACE_H
#define PERF_TRACE_H

/**
 * @file
 * Reader of request traces in Mooncake's format: one JSON object a line with at least
 * the members timestamp (ms, never decreasing), input_length, output_length (tokens)
 * and hash_ids (one number for each 512 tokens of input, rounded up). Other members are
 * ignored; the fraction of a timestamp is dropped.
 *
 * A line with anything missing or out of range is an error that names file, line, value
 * and the expectation. Empty lines are skipped.
 */

#include "perf/workload/request.h"


/**
 * Open a trace.
 *
 * @param [in]  path      File; read request by request.
 * @param [out] source_p  To be destroyed by perf_source_destroy(). Set on success.
 *
 * @return 0, or -1 after @ref perf_error (not readable, no memory).
 */
int perf_trace_open(const char *path, perf_source_t **source_p);

#endif
