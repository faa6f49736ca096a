/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_LAUNCH_H
#define PERF_LAUNCH_H

/**
 * @file
 * Start the processes of a run on this host and wait for them.
 *
 * The parent forks and executes itself before anything of UCX or HIP is initialised.
 * The center has a socket to each leaf. Each process with GPU memory sees one GPU.
 */

#include "perf/kv_perf/engine/channel.h"
#include "perf/workload/options.h"


/**
 * Run all processes.
 *
 * When a process fails the others are ended, since they would wait for it.
 *
 * @return The exit status: 0 when all succeeded, PERF_EXIT_INTERRUPTED after SIGINT,
 * else EXIT_FAILURE, after a message of the process that failed.
 */
int perf_launch(const perf_options_t *options, int argc, char **argv);

/** Leave a process with GPU memory one GPU, before a runtime is opened. */
void perf_launch_environment(const perf_options_t *options, unsigned rank);

/**
 * Channels of a started process to the others.
 *
 * @param [out] channels  Room for PERF_MAX_LEAVES.
 * @param [out] num_p     How many.
 *
 * @return 0, or -1 after @ref perf_error.
 */
int perf_launch_channels(const perf_options_t *options, perf_channel_t *channels,
                         unsigned *num_p);

#endif
