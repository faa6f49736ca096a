/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_OPTIONS_CHECK_H
#define PERF_OPTIONS_CHECK_H

/**
 * @file
 * Dependencies between options: values that follow from others, and impossible
 * combinations.
 */

#include "perf/workload/options.h"


/**
 * Fill in missing options, from the model and from other options, and check whether all
 * fit each other.
 *
 * @param [in] model  An option that only models have, if one was given, else NULL.
 * @param [in] sweep  An option that only sweeps have, the same way.
 *
 * @return 0, or -1 after @ref perf_error.
 */
int perf_options_complete(perf_options_t *options, const char *model,
                          const char *sweep);

/**
 * The memory that is measured where the command line does not name one.
 *
 * @param [in] root  Folder of /sys and /dev: "" but for tests.
 *
 * @return VRAM when the kernel's driver has an AMD GPU that this user may open, else
 *         DRAM.
 */
perf_segment_t perf_options_memory_here(const char *root);

#endif
