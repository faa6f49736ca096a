/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/unit/xgmi/xgmi_lists.h"

#include "xgmi/xgmi_iface.h"

#include <time.h>


void xgmi_lists_set_count(uct_iface_h iface, unsigned num_lists)
{
    ucs_derived_of(iface, muct_xgmi_iface_t)->queue_config.num_lists = num_lists;
}

void xgmi_lists_set_max_started(uct_iface_h iface, unsigned max_started)
{
    ucs_derived_of(iface, muct_xgmi_iface_t)->queue_config.max_started = max_started;
}

void xgmi_lists_set_open_limit(uct_iface_h iface, unsigned limit_ms)
{
    ucs_derived_of(iface, muct_xgmi_iface_t)->open_limit_ms = limit_ms;
}

bool xgmi_lists_is_timer_over(uct_iface_h iface)
{
    uint64_t at_ns = ucs_derived_of(iface, muct_xgmi_iface_t)->wake->timer_at_ns;
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (at_ns != 0) &&
           (at_ns <= ((uint64_t)now.tv_sec * 1000000000) + (uint64_t)now.tv_nsec);
}
