/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_ERROR_H
#define PERF_ERROR_H

/**
 * @file
 * What the benchmark says when it cannot go on: one line on stderr, which names the
 * value at fault and what was expected instead.
 *
 * Threads. One thread per process; the benchmark has no other.
 */

#include <stdbool.h>

/** Set what every line begins with, for example "mori_kv_perf(prefill)"; copied. */
void perf_message_prefix(const char *prefix);

/** Print one line and keep it for @ref perf_last_error. */
void perf_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Print one line about something that costs precision or speed but not truth. */
void perf_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Text of the latest error without its prefix, or "". Valid until the next one. */
const char *perf_last_error(void);

/**
 * Print no more than the first error of all processes of a run: it is the cause, the
 * others follow from it.
 *
 * @param [in] is_told  Asked before the first error of this process is printed: whether
 *                      another process has told its own. It also tells others that this
 *                      one does now.
 */
void perf_message_first_only(bool (*is_told)(void *arg), void *arg);

/** Another process has told the cause: print no error any more. */
void perf_message_silence(void);

/** Say what is waited for, when somebody looks: on stderr, if that is a terminal. */
void perf_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
