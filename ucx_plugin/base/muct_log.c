/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "base/muct_lock.h"
#include "base/muct_log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

void muct_log(ucs_log_level_t level, const char *file, unsigned line,
              const char *function, const char *format, ...)
{
    char text[1024];
    va_list args;

    if (!ucs_log_component_is_enabled(level, &ucs_global_opts.log_component)) {
        return;
    }

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    ucs_log_dispatch(file, line, function, level, &ucs_global_opts.log_component, "%s",
                     text);
}

static pthread_mutex_t muct_report_lock = PTHREAD_MUTEX_INITIALIZER;
MUCT_FREE_IN_CHILD(muct_report_lock, &muct_report_lock)
static char muct_report_text[MUCT_REPORT_NUM_PARTS][256];

/* With the lock. @return Whether this was the last missing part. */
static bool muct_report_keep(muct_report_part_t part, const char *text)
{
    unsigned i;

    if (muct_report_text[part][0] != '\0') {
        return false;
    }
    snprintf(muct_report_text[part], sizeof(muct_report_text[part]), "%s", text);
    for (i = 0; (i < MUCT_REPORT_NUM_PARTS) && (muct_report_text[i][0] != '\0'); ++i) {
    }
    return i == MUCT_REPORT_NUM_PARTS;
}

void muct_report(muct_report_part_t part, const char *fmt, ...)
{
    char text[sizeof(muct_report_text[0])];
    bool is_complete;
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    muct_debug("%s", text);

    pthread_mutex_lock(&muct_report_lock);
    is_complete = muct_report_keep(part, text);
    pthread_mutex_unlock(&muct_report_lock);
    if (is_complete) {
        muct_info("ucx-mori: %s; %s", muct_report_text[MUCT_REPORT_GPU],
                  muct_report_text[MUCT_REPORT_RDMA]);
    }
}
