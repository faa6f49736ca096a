/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_AM_H
#define MUCT_AM_H

/**
 * @file
 * Active message code shared by the transports.
 */

#include "base/muct_log.h"
#include "base/muct_uct_abi.h"


/** Log a message with the text of the user's tracer. */
void muct_am_log(const uct_base_iface_t *iface, uct_am_trace_type_t type, uint8_t id,
                 const void *data, size_t length);


/** Log the message if the log's level is data. */
static inline void muct_am_trace(const uct_base_iface_t *iface,
                                 uct_am_trace_type_t type, uint8_t id, const void *data,
                                 size_t length)
{
    if (ucs_log_is_enabled(UCS_LOG_LEVEL_TRACE_DATA)) {
        muct_am_log(iface, type, id, data, length);
    }
}


/** Largest alignment of received messages that an interface supports. */
#define MUCT_AM_MAX_ALIGN 65536u

/**
 * Check the alignment that the user requests for received messages.
 *
 * @param [out] align_p  The alignment; 1 if none is requested.
 *
 * @return UCS_ERR_INVALID_PARAM The alignment is not a power of two up to
 *                                MUCT_AM_MAX_ALIGN, or an offset is given without an
 *                                alignment.
 */
ucs_status_t muct_am_check_alignment(const uct_iface_params_t *params, size_t *align_p);


/**
 * Length of a message in blocks.
 *
 * @return UCS_ERR_INVALID_PARAM: a block repeats at a stride. UCP makes none that does.
 */
static inline ucs_status_t muct_am_iov_length(const uct_iov_t *iov, size_t iovcnt,
                                              size_t *length_p)
{
    size_t i;

    *length_p = 0;
    for (i = 0; i < iovcnt; ++i) {
        if (ucs_unlikely(iov[i].count > 1)) {
            muct_error("block %zu of a message comes %u times: expected once", i,
                       iov[i].count);
            return UCS_ERR_INVALID_PARAM;
        }
        *length_p += iov[i].length;
    }
    return UCS_OK;
}


/** Log the invalid parameter of a message. @return UCS_ERR_INVALID_PARAM. */
ucs_status_t muct_am_refuse(uint8_t id, size_t length, size_t max);

#endif
