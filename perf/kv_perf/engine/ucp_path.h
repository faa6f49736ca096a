/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_UCP_PATH_H
#define PERF_UCP_PATH_H

/**
 * @file
 * Transport of a call of UCP. The lanes of an endpoint do not determine it: UCX chooses
 * among them, or emulates, for each call by its memory and its length.
 */

#include "perf/workload/options.h"

#include <ucp/api/ucp.h>

#include <stddef.h>


/**
 * @param [in] options  Say which memory the call moves between, and which way.
 * @param [in] request  Of a call with UCP_OP_ATTR_FLAG_NO_IMM_CMPL, not freed yet.
 * @param [out] path    "put DRAM>DRAM: " and UCX's description; empty if it has none.
 */
void perf_ucp_path_query(const perf_options_t *options, void *request, char *path,
                         size_t size);

#endif
