/* SPDX-License-Identifier: BSD-3-Clause */

#include "base/log.h"

#include <stdio.h>
#include <string.h>

static _Thread_local char mkv_last_error_text[512] = "no error";

static const char *const mkv_log_level_names[] = {"error", "warn", "info", "debug",
                                                  "trace"};

static const char *const mkv_status_names[] = {
    [-MKV_OK] = "ok",
    [-MKV_ERR_INVALID] = "invalid argument",
    [-MKV_ERR_NOMEM] = "out of memory",
    [-MKV_ERR_BUSY] = "busy",
    [-MKV_ERR_VERSION] = "incompatible version",
    [-MKV_ERR_GEOMETRY] = "geometry differs",
    [-MKV_ERR_LENGTH] = "lengths differ",
    [-MKV_ERR_BOUNDS] = "out of bounds",
    [-MKV_ERR_PAIRING] = "regions do not pair",
    [-MKV_ERR_DTYPE] = "data types differ",
    [-MKV_ERR_PAGE] = "page sizes differ",
    [-MKV_ERR_TOPOLOGY] = "topology does not fit",
    [-MKV_ERR_STALE] = "regions were dropped",
    [-MKV_ERR_DUPLICATE] = "exists already",
    [-MKV_ERR_NOTFOUND] = "not found",
    [-MKV_ERR_BIND_TIMEOUT] = "bind timeout",
    [-MKV_ERR_XFER_TIMEOUT] = "transfer timeout",
    [-MKV_ERR_RELEASE_TIMEOUT] = "release timeout",
    [-MKV_ERR_DRAIN_TIMEOUT] = "drain timeout",
    [-MKV_ERR_ABORTED] = "aborted",
    [-MKV_ERR_PEER] = "peer failed",
    [-MKV_ERR_TRANSPORT] = "transport error",
    [-MKV_ERR_BACKEND] = "backend refused",
    [-MKV_ERR_GATE] = "gate failed",
    [-MKV_ERR_UNSUPPORTED] = "unsupported",
    [-MKV_ERR_PROTOCOL] = "protocol violated",
};

const char *mkv_status_string(mkv_status_t status)
{
    if (status == MKV_INPROGRESS) {
        return "in progress";
    }
    if ((status > MKV_OK) || (status <= MKV_ERR_LAST)) {
        return "unknown status";
    }
    return mkv_status_names[-(int)status];
}

const char *mkv_last_error(void)
{
    return mkv_last_error_text;
}

static void mkv_log_vwrite(const mkv_log_t *log, mkv_log_level_t level, const char *fmt,
                           va_list args) MKV_PRINTF(3, 0);

static void mkv_log_vwrite(const mkv_log_t *log, mkv_log_level_t level, const char *fmt,
                           va_list args)
{
    char line[768];

    if (level > log->level) {
        return;
    }

    mkv_text_va(line, sizeof(line), fmt, args);
    if (log->sink != NULL) {
        log->sink(log->arg, level, line);
    } else {
        fprintf(stderr, "morikv %s %s: %s\n", log->name == NULL ? "-" : log->name,
                mkv_log_level_names[level], line);
    }
}

void mkv_log_write(const mkv_log_t *log, mkv_log_level_t level, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    mkv_log_vwrite(log, level, fmt, args);
    va_end(args);
}

mkv_status_t mkv_error(const mkv_log_t *log, mkv_status_t status, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    mkv_text_va(mkv_last_error_text, sizeof(mkv_last_error_text), fmt, args);
    va_end(args);

    if (log != NULL) {
        mkv_log_write(log, MKV_LOG_DEBUG, "%s: %s", mkv_status_string(status),
                      mkv_last_error_text);
    }
    return status;
}

void mkv_text_va(char *buffer, size_t size, const char *fmt, va_list args)
{
    static const char mark[] = "...";
    int length = vsnprintf(buffer, size, fmt, args);
    size_t end;

    if ((length < 0) || ((size_t)length < size) || (size < sizeof(mark))) {
        return;
    }
    end = size - sizeof(mark);
    while ((end > 0) && (((unsigned char)buffer[end] & 0xc0) == 0x80)) {
        --end;
    }
    memcpy(buffer + end, mark, sizeof(mark));
}

void mkv_text(char *buffer, size_t size, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    mkv_text_va(buffer, size, fmt, args);
    va_end(args);
}
