/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "base/muct_log.h"

#include <stdarg.h>
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
