/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/workload/error.h"

#include <stdarg.h>
#include <stdio.h>


static struct {
    char prefix[64];
    char error[512];
} perf_message = {.prefix = "mori_kv_perf"};


void perf_message_prefix(const char *prefix)
{
    snprintf(perf_message.prefix, sizeof(perf_message.prefix), "%s", prefix);
}

void perf_error(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(perf_message.error, sizeof(perf_message.error), format, args);
    va_end(args);
    fprintf(stderr, "%s: error: %s\n", perf_message.prefix, perf_message.error);
}

void perf_warn(const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "%s: warning: %s\n", perf_message.prefix, text);
}

const char *perf_last_error(void)
{
    return perf_message.error;
}
