/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_ERROR_H
#define PERF_ERROR_H

/**
 * @file
 * Errors that end the benchmark: one line on stderr, which names the value at fault and
 * the expected one.
 *
 * Threads. One thread per process; the benchmark has no other.
 */

#include <stdbool.h>

/** Set the prefix of every line, for example "mori_kv_perf(prefill)"; copied. */
void perf_message_prefix(const char *prefix);

/** Print one line and keep it for @ref perf_last_error. */
void perf_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Print one line about a loss of precision or speed; results stay correct. */
void perf_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Text of the latest error without its prefix, or "". Valid until the next one. */
const char *perf_last_error(void);

/**
 * Print only the first error of all processes of a run: it is the cause, the others
 * follow from it.
 *
 * @param [in] was_printed  Called before the first error of this process is printed:
 * returns whether another process has printed its own, and records that this one prints
 * now.
 */
void perf_message_first_only(bool (*was_printed)(void *arg), void *arg);

/** Print no further error: the other process has printed the cause. */
void perf_message_silence(void);

/** Print the reason for a wait of the run on stderr, if that is a terminal. */
void perf_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
