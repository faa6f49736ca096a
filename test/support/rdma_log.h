/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMA_LOG_H
#define RDMA_LOG_H

/**
 * @file
 * Count lines of UCX's log that contain a text; all lines are logged. One thread.
 */

#include <ucs/debug/log_def.h>

/** Lines of one level that have a text in them. */
typedef struct rdma_log_watch {
    ucs_log_level_t level;
    const char *text;
    unsigned num; /**< So far */
} rdma_log_watch_t;

/** Count for @a num watches from now on, instead of those before. They stay the
 * caller's until the process ends. */
void rdma_log_watch(rdma_log_watch_t *watches, unsigned num);

#endif
