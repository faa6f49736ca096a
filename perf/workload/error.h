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

/** Set what every line begins with, for example "mori_kv_perf(prefill)"; copied. */
void perf_message_prefix(const char *prefix);

/** Print one line and keep it for @ref perf_last_error. */
void perf_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Print one line about something that costs precision or speed but not truth. */
void perf_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Text of the latest error without its prefix, or "". Valid until the next one. */
const char *perf_last_error(void);

#endif
