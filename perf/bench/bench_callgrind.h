/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_BENCH_CALLGRIND_H
#define PERF_BENCH_CALLGRIND_H

/** @file Marks for callgrind, which do nothing without valgrind's headers. */

#if defined(__has_include) && __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define RUNNING_ON_VALGRIND 0
#define CALLGRIND_ZERO_STATS (void)0
#define CALLGRIND_TOGGLE_COLLECT (void)0
#define CALLGRIND_DUMP_STATS_AT(_name) (void)(_name)
#endif

#endif
