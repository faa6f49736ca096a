/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_LOG_H
#define MUCT_LOG_H

/**
 * @file
 * Messages go to UCX's log, with UCX's levels.
 *
 * error: somebody must act. warn: look at it. diag: a user asked for detail.
 * debug: once per object. trace: once per operation; nothing in the data path is
 * louder. The text says what was tried, on what, with which numbers, and the
 * system's own reason; lower case, no newline, no guess.
 */

#include <ucs/debug/log_def.h>

#define muct_error(_fmt, ...) ucs_error(_fmt, ##__VA_ARGS__)
#define muct_warn(_fmt, ...) ucs_warn(_fmt, ##__VA_ARGS__)
#define muct_diag(_fmt, ...) ucs_diag(_fmt, ##__VA_ARGS__)
#define muct_info(_fmt, ...) ucs_info(_fmt, ##__VA_ARGS__)
#define muct_debug(_fmt, ...) ucs_debug(_fmt, ##__VA_ARGS__)
#define muct_trace(_fmt, ...) ucs_trace_req(_fmt, ##__VA_ARGS__)

#endif
