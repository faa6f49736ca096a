/* SPDX-License-Identifier: BSD-3-Clause */

/* Each line is one write(), so that lines of several processes do not mix. */

#include "config.h"

#include "loader/loader_log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/time.h>
#include <unistd.h>

static bool muct_loader_is_quiet(void)
{
    const char *level = getenv("UCX_LOG_LEVEL");

    return (level != NULL) &&
           (!strcasecmp(level, "error") || !strcasecmp(level, "fatal"));
}

void muct_loader_warn(const char *format, ...)
{
    char host[256] = "", text[2048];
    struct timeval now;
    va_list args;

    if (muct_loader_is_quiet()) {
        return;
    }

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);

    (void)gethostname(host, sizeof(host) - 1);
    gettimeofday(&now, NULL);
    fprintf(stderr, "[%lu.%06lu] [%s:%-5d:0]         mori_loader:0    UCX  WARN  %s\n",
            (unsigned long)now.tv_sec, (unsigned long)now.tv_usec, host, (int)getpid(),
            text);
}
