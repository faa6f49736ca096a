/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "base/muct_am.h"

void muct_am_log(const uct_base_iface_t *iface, uct_am_trace_type_t type, uint8_t id,
                 const void *data, size_t length)
{
    char text[256] = "";

    if (iface->am_tracer != NULL) {
        iface->am_tracer(iface->am_tracer_arg, type, id, data, length, text,
                         sizeof(text));
    }
    muct_trace_data("%s message id %u length %zu %s",
                    (type == UCT_AM_TRACE_TYPE_SEND) ? "send" : "receive", id, length,
                    text);
}

ucs_status_t muct_am_refuse(uint8_t id, size_t length, size_t max)
{
    muct_error(
        "active message id %u, length %zu: expected an id below %u and a length of "
        "at most %zu bytes",
        id, length, (unsigned)UCT_AM_ID_MAX, max);
    return UCS_ERR_INVALID_PARAM;
}
