/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_LOG_H
#define MKV_LOG_H

/**
 * @file
 * Log sink of a context, and the text of the last error of a thread.
 */

#include "morikv.h"

#include <stdarg.h>

#define MKV_PRINTF(_fmt, _args) __attribute__((format(printf, _fmt, _args)))

/** Destination of a context's log lines. */
typedef struct mkv_log {
    mkv_log_level_t level; /**< Lines above it are dropped */
    void (*sink)(void *arg, mkv_log_level_t level, const char *text);
    void *arg;
    const char *name; /**< Name of the context; prefixes lines on stderr */
} mkv_log_t;

void mkv_log_write(const mkv_log_t *log, mkv_log_level_t level, const char *fmt, ...)
    MKV_PRINTF(3, 4);

/**
 * Remember the text for mkv_last_error(); the caller of the library acts on it, so it
 * is logged as debug only.
 *
 * @param [in] log  May be NULL.
 *
 * @return status, so that it can be returned in one line.
 */
mkv_status_t mkv_error(const mkv_log_t *log, mkv_status_t status, const char *fmt, ...)
    MKV_PRINTF(3, 4);

/** Like vsnprintf(), always terminated. A text that is cut ends in "...", behind a
 * whole character of UTF-8. */
void mkv_text_va(char *buffer, size_t size, const char *fmt, va_list args)
    MKV_PRINTF(3, 0);

void mkv_text(char *buffer, size_t size, const char *fmt, ...) MKV_PRINTF(3, 4);

#define mkv_log_error(_ctx, ...) mkv_log_write(&(_ctx)->log, MKV_LOG_ERROR, __VA_ARGS__)
#define mkv_log_warn(_ctx, ...) mkv_log_write(&(_ctx)->log, MKV_LOG_WARN, __VA_ARGS__)
#define mkv_log_info(_ctx, ...) mkv_log_write(&(_ctx)->log, MKV_LOG_INFO, __VA_ARGS__)
/* Trace of an operation: formatted only at this level */
#define mkv_log_trace(_ctx, ...)                                                       \
    do {                                                                               \
        if ((_ctx)->log.level >= MKV_LOG_TRACE) {                                      \
            mkv_log_write(&(_ctx)->log, MKV_LOG_TRACE, __VA_ARGS__);                   \
        }                                                                              \
    } while (0)
#define mkv_log_debug(_ctx, ...) mkv_log_write(&(_ctx)->log, MKV_LOG_DEBUG, __VA_ARGS__)

#endif
