/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"
#include "test/support/rdma_log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static rdma_log_watch_t *rdma_log_watches;
static unsigned rdma_log_num_watches;

void ucs_log_push_handler(ucs_log_func_t handler);

__attribute__((format(printf, 6, 0))) static ucs_log_func_rc_t rdma_log_line(
    const char *file, unsigned line, const char *function, ucs_log_level_t level,
    const ucs_log_component_config_t *component, const char *format, va_list ap)
{
    rdma_log_watch_t *watch;
    char text[1024];
    va_list copy;

    (void)file;
    (void)line;
    (void)function;
    (void)component;
    va_copy(copy, ap);
    vsnprintf(text, sizeof(text), format, copy);
    va_end(copy);
    for (watch = rdma_log_watches; watch != rdma_log_watches + rdma_log_num_watches;
         ++watch) {
        watch->num += (level == watch->level) && (strstr(text, watch->text) != NULL);
    }
    return UCS_LOG_FUNC_RC_CONTINUE;
}

void rdma_log_watch(rdma_log_watch_t *watches, unsigned num)
{
    if (rdma_log_watches == NULL) {
        ucs_log_push_handler(rdma_log_line);
    }
    rdma_log_watches = watches;
    rdma_log_num_watches = num;
}
