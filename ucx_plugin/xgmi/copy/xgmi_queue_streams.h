/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_QUEUE_STREAMS_H
#define MUCT_XGMI_QUEUE_STREAMS_H

/**
 * @file
 * Streams of a queue: for launches, and for the copy engines.
 */

#include "xgmi/copy/xgmi_queue.h"

/**
 * Make streams up to @a count; the device is current.
 *
 * @return hipError_t of the last attempt.
 */
int muct_xgmi_queue_add_streams(muct_xgmi_queue_t *queue, unsigned count);


/**
 * Make the streams for long runs unless they are there; the device is current.
 *
 * @return Number of streams; 0 when the device refuses, and later runs go into the
 *         list.
 */
unsigned muct_xgmi_queue_open_engines(muct_xgmi_queue_t *queue);


/**
 * Choose where the next launch goes: to a stream whose launches are over, else to the
 * one that was used least recently.
 */
unsigned muct_xgmi_queue_choose_stream(muct_xgmi_queue_t *queue);


/** Wait for a stream, also while others capture graphs; its device is current. */
void muct_xgmi_queue_sync(muct_xgmi_queue_t *queue, unsigned stream);


/**
 * Record the position of the queue's streams, for other queues to be ordered after it.
 *
 * @return UCS_OK, or UCS_ERR_IO_ERROR.
 */
ucs_status_t muct_xgmi_queue_record(muct_xgmi_queue_t *queue);


/**
 * Order batches of this queue that have not started after those that @a other had at
 * its last @ref muct_xgmi_queue_record. @a other must not have started any since. Does
 * not block.
 *
 * @return UCS_OK, or UCS_ERR_IO_ERROR.
 */
ucs_status_t muct_xgmi_queue_order_after(muct_xgmi_queue_t *queue,
                                         muct_xgmi_queue_t *other);

#endif
