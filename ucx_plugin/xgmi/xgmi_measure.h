/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_MEASURE_H
#define MUCT_XGMI_MEASURE_H

/**
 * @file
 * Finds by trying how many pieces are copied faster by calls than by a launch.
 */

#include "xgmi/xgmi_queue.h"


/**
 * Set queue->max_calls to what is best on this machine. Takes some milliseconds; leaves
 * the queue as it is when it has no kernel or no memory.
 *
 * @param [in] queue  Idle queue, its device current.
 */
void muct_xgmi_measure(muct_xgmi_queue_t *queue);

#endif
