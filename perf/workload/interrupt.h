/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_INTERRUPT_H
#define PERF_INTERRUPT_H

/**
 * @file
 * Ctrl-C: the first one ends what runs, in order; a second one ends the process.
 */

#include <signal.h>
#include <stdbool.h>


/** As a shell has it for a program that SIGINT ended. */
enum { PERF_EXIT_INTERRUPTED = 130 };

extern volatile sig_atomic_t perf_is_interrupted;

/** From now on SIGINT sets @ref perf_is_interrupted. */
void perf_interrupt_catch(void);

/**
 * Who waits for processes leaves SIGINT to them: a terminal's goes to all of them, what
 * kill(1) sent goes on to them by @a forward.
 */
void perf_interrupt_leave(void (*forward)(int number));

#endif
