/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/unit/xgmi/xgmi_lists.h"

#include "xgmi/xgmi_iface.h"


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
