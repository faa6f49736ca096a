/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/ct_side.h"

#include <string.h>


ucs_status_t ct_addr_get(const ct_side_t *side, uct_ep_h ep, ct_addr_t *addr)
{
    ucs_status_t status = UCS_OK;
    uint8_t *p = addr->bytes;

    memset(addr, 0, sizeof(*addr));
    addr->dev_length = (uint16_t)side->attr.device_addr_len;
    addr->iface_length = (uint16_t)side->attr.iface_addr_len;

    if ((size_t)addr->dev_length + addr->iface_length + side->attr.ep_addr_len >
        sizeof(addr->bytes)) {
        return UCS_ERR_BUFFER_TOO_SMALL;
    }

    if (addr->dev_length > 0) {
        status = uct_iface_get_device_address(side->iface, (uct_device_addr_t *)p);
    }

    p += addr->dev_length;
    if ((status == UCS_OK) &&
        (side->attr.cap.flags & UCT_IFACE_FLAG_CONNECT_TO_IFACE)) {
        status = uct_iface_get_address(side->iface, (uct_iface_addr_t *)p);
    }

    p += addr->iface_length;
    if ((status == UCS_OK) && (ep != NULL)) {
        addr->ep_length = (uint16_t)side->attr.ep_addr_len;
        status = uct_ep_get_address(ep, (uct_ep_addr_t *)p);
    }

    return status;
}

const uct_device_addr_t *ct_addr_dev(const ct_addr_t *addr)
{
    return (addr->dev_length > 0) ? (const void *)addr->bytes : NULL;
}

const uct_iface_addr_t *ct_addr_iface(const ct_addr_t *addr)
{
    return (addr->iface_length > 0) ? (const void *)(addr->bytes + addr->dev_length)
                                    : NULL;
}

const uct_ep_addr_t *ct_addr_ep(const ct_addr_t *addr)
{
    return (const void *)(addr->bytes + addr->dev_length + addr->iface_length);
}

ucs_status_t ct_ep_create(const ct_side_t *side, const ct_addr_t *addr, uct_ep_h *ep_p)
{
    uct_ep_params_t params;

    memset(&params, 0, sizeof(params));
    params.field_mask = UCT_EP_PARAM_FIELD_IFACE;
    params.iface = side->iface;

    if (addr != NULL) {
        params.field_mask |=
            UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR |
            UCT_EP_PARAM_FIELD_DEV_ADDR_LENGTH | UCT_EP_PARAM_FIELD_IFACE_ADDR_LENGTH;
        params.dev_addr = ct_addr_dev(addr);
        params.iface_addr = ct_addr_iface(addr);
        params.dev_addr_length = addr->dev_length;
        params.iface_addr_length = addr->iface_length;
    }

    return uct_ep_create(&params, ep_p);
}
