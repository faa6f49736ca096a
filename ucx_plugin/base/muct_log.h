/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_LOG_H
#define MUCT_LOG_H

/**
 * @file
 * Messages go to UCX's log, with UCX's levels.
 *
 * error: the user must act. warn: look at it. diag: detail on request. debug: once per
 * object. trace: once per operation; nothing in the data path is louder. data: once per
 * operation as well, at the level that UCX's transports have for it. The text names the
 * attempt, its object, the numbers, and the system's own reason; lower case, no
 * newline, no guess.
 *
 * The arguments are evaluated whether or not the message is shown, except those of
 * trace. Therefore an error's name in a message also clears the GPU runtime's last
 * error.
 */

#include <ucs/debug/log_def.h>

/** Log a message that UCX's settings may hide; the macros below add its origin. */
void muct_log(ucs_log_level_t level, const char *file, unsigned line,
              const char *function, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#define muct_log_at(_level, _fmt, ...)                                                 \
    muct_log(_level, __FILE__, __LINE__, __func__, _fmt, ##__VA_ARGS__)

#define muct_error(_fmt, ...) muct_log_at(UCS_LOG_LEVEL_ERROR, _fmt, ##__VA_ARGS__)
#define muct_warn(_fmt, ...) muct_log_at(UCS_LOG_LEVEL_WARN, _fmt, ##__VA_ARGS__)
#define muct_diag(_fmt, ...) muct_log_at(UCS_LOG_LEVEL_DIAG, _fmt, ##__VA_ARGS__)
#define muct_info(_fmt, ...) muct_log_at(UCS_LOG_LEVEL_INFO, _fmt, ##__VA_ARGS__)
#define muct_debug(_fmt, ...) muct_log_at(UCS_LOG_LEVEL_DEBUG, _fmt, ##__VA_ARGS__)
#define muct_trace(_fmt, ...) ucs_trace_req(_fmt, ##__VA_ARGS__)
#define muct_trace_data(_fmt, ...) ucs_trace_data(_fmt, ##__VA_ARGS__)

/** Log a put or get; costs one check where the level is lower. */
#define muct_trace_op(_what, _length, _remote)                                         \
    muct_trace_data("%s %zu to or from 0x%llx", _what, (size_t)(_length),              \
                    (unsigned long long)(_remote))

/** Parts of the report: one line per process at level INFO, printed when each part is
 *  set, with this machine's resources for the transports or the reason why one is not
 *  used. */
typedef enum muct_report_part {
    MUCT_REPORT_GPU,
    MUCT_REPORT_RDMA,
    MUCT_REPORT_NUM_PARTS
} muct_report_part_t;

/** Set a part, unless it is set, and log it at level DEBUG. */
void muct_report(muct_report_part_t part, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
