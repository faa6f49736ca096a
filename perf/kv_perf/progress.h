/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_PROGRESS_H
#define PERF_PROGRESS_H

/**
 * @file
 * A bar on stderr when that is a terminal, nothing otherwise.
 */

#include <stdint.h>


/** Show that @a done of @a total are done; draws at most ten times a second. */
void perf_progress_show(const char *what, uint64_t done, uint64_t total);

/** Take the bar away, before other output. */
void perf_progress_clear(void);

#endif
