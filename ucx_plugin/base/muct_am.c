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

ucs_status_t muct_am_check_alignment(const uct_iface_params_t *params, size_t *align_p)
{
    size_t align =
        MUCT_PARAM(UCT_IFACE_PARAM_FIELD, params, am_alignment, AM_ALIGNMENT, 1);

    if ((params->field_mask & UCT_IFACE_PARAM_FIELD_AM_ALIGN_OFFSET) &&
        !(params->field_mask & UCT_IFACE_PARAM_FIELD_AM_ALIGNMENT)) {
        muct_error("am_align_offset %zu is given without am_alignment",
                   params->am_align_offset);
        return UCS_ERR_INVALID_PARAM;
    }

    if ((align == 0) || (align & (align - 1)) || (align > MUCT_AM_MAX_ALIGN)) {
        muct_error("am_alignment is %zu: expected a power of two up to %u", align,
                   MUCT_AM_MAX_ALIGN);
        return UCS_ERR_INVALID_PARAM;
    }

    *align_p = align;
    return UCS_OK;
}
