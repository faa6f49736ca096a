/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/unit/xgmi/xgmi_inside.h"

#include "base/muct_transport.h"
#include "xgmi/xgmi_tl.h"
#include "xgmi/xgmi_ep.h"


void xgmi_inside_register(void)
{
    uct_component_register(muct_xgmi_transport.component);
    uct_tl_register(muct_xgmi_transport.component, muct_xgmi_transport.tl);
}

muct_xgmi_inbox_t *xgmi_inside_inbox(uct_iface_h iface)
{
    return ucs_derived_of(iface, muct_xgmi_iface_t)->inbox;
}

muct_xgmi_outbox_t *xgmi_inside_outbox(uct_ep_h ep)
{
    return ucs_derived_of(ep, muct_xgmi_ep_t)->outbox;
}
