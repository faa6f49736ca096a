/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_INTERRUPT_H
#define PERF_INTERRUPT_H

/**
 * @file
 * Ctrl-C: the first one ends the run in order; a second one ends the process.
 */

#include <signal.h>
#include <stdbool.h>


/** Exit status of a shell for a program that SIGINT ended. */
enum { PERF_EXIT_INTERRUPTED = 130 };

extern volatile sig_atomic_t perf_is_interrupted;

/** Make SIGINT set @ref perf_is_interrupted from now on. */
void perf_interrupt_catch(void);

/**
 * Leave SIGINT to the child processes: a terminal sends it to all of them, and @a
 * forward passes a signal of kill(1) on to them.
 */
void perf_interrupt_leave(void (*forward)(int number));

#endif
