/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_REPORT_H
#define PERF_REPORT_H

/**
 * @file
 * Results as a table on stdout, with nixlbench's columns, more with --wide, and as
 * JSON, which mori_kv_plot draws. The table's lines have at most 100 characters, 200
 * with --wide.
 *
 * GB is 10^9 bytes. Average latency is nixlbench's: time divided by descriptors.
 *
 * Threads. One thread per report.
 */

#include "perf/workload/options.h"
#include "perf/kv_perf/report/result.h"

struct json_object;

typedef struct perf_report {
    const perf_options_t *options;
    const char *ucx;          /**< Version of UCX */
    int json_fd;              /**< -1: no file */
    struct json_object *json; /**< Contents to write; NULL without a file */
    unsigned num_rows;
} perf_report_t;


/**
 * Open the JSON file, if the options name one. Its old contents stay until the report
 * is closed.
 *
 * @param [in] ucx  Version of the UCX that is measured; the caller keeps it.
 *
 * @return 0, or -1 after @ref perf_error (the file cannot be written, no memory).
 */
int perf_report_open(const perf_options_t *options, const char *ucx, int argc,
                     char **argv, perf_report_t *report);

/** Print one row; the first one prints the header. */
void perf_report_row(perf_report_t *report, const perf_result_t *result);

/**
 * Write the JSON file.
 *
 * @return 0, or -1 after @ref perf_error (the file could not be written).
 */
int perf_report_close(perf_report_t *report);

#endif
