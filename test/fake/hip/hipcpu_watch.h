/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef HIPCPU_WATCH_H
#define HIPCPU_WATCH_H

/** @file The kernel of perf/risks/risks_kernel.hip on the CPU. */

#include "hipcpu_impl.h"

/** Queue a launch of it. */
void hipcpu_watch_launch(hipStream_t stream, void **params);

#endif
