/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_LEAVE_H
#define PERF_LEAVE_H

/** @file The end of a process that used a GPU. */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/**
 * End without the runtime's destructors. ROCm 7.2 does not join the thread that serves
 * exported memory, and both clear one std::map (rocm-systems, pull request 3256).
 */
static inline void __attribute__((noreturn)) perf_leave(int status)
{
    fflush(NULL);
#ifdef __SANITIZE_ADDRESS__
    exit(status); /* which looks for leaks */
#else
    _exit(status);
#endif
}

#endif
