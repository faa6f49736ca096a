/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef HIPCPU_CAPTURE_H
#define HIPCPU_CAPTURE_H

/**
 * @file
 * Graphs that streams capture, and their interaction with other calls.
 *
 * A capture records copies, fills and kernels, and finds the calls that it disturbs and
 * the calls that disturb it.
 */

#include "hipcpu_abi.h"
#include "hipcpu_impl.h"
#include "hipcpu_rules.h"

#include <stdbool.h>

/** Whether work for a stream becomes a part of a graph, which then has a copy of it. */
bool hipcpu_capture_takes(hipStream_t stream, const hipcpu_op_t *op);

/**
 * Check whether this thread may make a call of this kind while others capture.
 *
 * @param [in] rule    Kind of the call: one of HIPCPU_RULE_CAPTURE_*.
 * @param [in] stream  Stream that is queried, or NULL.
 *
 * @return hipSuccess, or hipErrorStreamCaptureUnsupported; all captures that forbid the
 *         call are then invalid.
 */
hipError_t hipcpu_capture_check(hipcpu_rule_t rule, hipStream_t stream);

/**
 * Check whether this thread may query an event that was recorded in this stream.
 *
 * @return hipSuccess, or hipErrorCapturedEvent: the stream captures, and no more.
 */
hipError_t hipcpu_capture_check_event(hipStream_t stream);

/**
 * Check a synchronous copy, or a wait for a device. While a stream captures, both fail
 * in all modes of the calling thread, and all captures are invalid afterwards.
 *
 * @param [in] error  Status of the call in that case.
 *
 * @return hipSuccess, or @a error.
 */
hipError_t hipcpu_capture_check_sync(hipError_t error);

/* Use this after HIPCPU_ENTER, in the same way. */
#define HIPCPU_CAPTURE(_rule, _stream)                                                 \
    do {                                                                               \
        hipError_t captured_ = hipcpu_capture_check(_rule, _stream);                   \
        if (captured_ != hipSuccess) {                                                 \
            return captured_;                                                          \
        }                                                                              \
    } while (0)

#endif
