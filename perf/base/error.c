/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/base/error.h"
#include "perf/base/interrupt.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>


static struct {
    char prefix[64];
    char error[512];
    bool (*was_printed)(void *arg);
    void *arg;
    bool is_silent;
} perf_message = {.prefix = "mori_kv_perf"};


void perf_message_prefix(const char *prefix)
{
    snprintf(perf_message.prefix, sizeof(perf_message.prefix), "%s", prefix);
}

void perf_message_first_only(bool (*was_printed)(void *arg), void *arg)
{
    perf_message.was_printed = was_printed;
    perf_message.arg = arg;
}

/* A line is one write: two processes share the terminal. */
static void perf_message_print(const char *kind, const char *text)
{
    char line[700];

    snprintf(line, sizeof(line) - 1, "%s: %s: %s", perf_message.prefix, kind, text);
    strcat(line, "\n");
    fputs(line, stderr);
}

void perf_error(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(perf_message.error, sizeof(perf_message.error), format, args);
    va_end(args);
    if (perf_is_interrupted || perf_message.is_silent) {
        return;
    }
    if (perf_message.was_printed != NULL) {
        perf_message.is_silent = true; /* later errors are consequences */
        if (perf_message.was_printed(perf_message.arg)) {
            return;
        }
    }
    perf_message_print("error", perf_message.error);
}

void perf_warn(const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (!perf_message.is_silent) {
        perf_message_print("warning", text);
    }
}

void perf_message_silence(void)
{
    perf_message.is_silent = true;
}

void perf_note(const char *format, ...)
{
    char text[512];
    va_list args;

    if (isatty(STDERR_FILENO)) {
        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        perf_message_print("note", text);
    }
}

const char *perf_last_error(void)
{
    return perf_message.error;
}
