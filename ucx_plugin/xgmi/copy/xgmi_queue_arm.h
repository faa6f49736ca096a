/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_QUEUE_ARM_H
#define MUCT_XGMI_QUEUE_ARM_H

/**
 * @file
 * A queue while the thread that makes progress sleeps.
 */

#include "xgmi/copy/xgmi_queue.h"

/**
 * Make sure that a sleeping thread is woken when there is work for progress.
 *
 * @param [in] now_ns  The time of the queue's wake.
 *
 * @return UCS_OK, or UCS_ERR_BUSY: there is work now, or no wakeup could be set up.
 */
ucs_status_t muct_xgmi_queue_arm(muct_xgmi_queue_t *queue, uint64_t now_ns);

#endif
