/* SPDX-License-Identifier: BSD-3-Clause */

/* Arm a queue: choose the event that wakes a sleeping progress thread. */

#include "base/muct_log.h"
#include "xgmi/copy/xgmi_queue_arm.h"
#include "xgmi/copy/xgmi_batch.h"

/* Interval in which a sleeping thread checks a list that another thread fills. */
#define MUCT_XGMI_GATHER_LOOK_NS 50000

/* Delay until a sleeping thread first checks whether copies are over, and delay from
 * which the runtime's callback is used instead: the callback stops the stream. */
#define MUCT_XGMI_MIN_LOOK_NS 10000
#define MUCT_XGMI_CALLBACK_AFTER_NS 70000

/* Time between two queries of the device beside sleep, while a callback is due: that of
 * a device that has failed ends nothing, or does not come. */
#define MUCT_XGMI_LOOK_AT_DEVICE_NS 1000000000


/* Each stream that the batch waits for may be the last one to end. */
static ucs_status_t muct_xgmi_queue_call_back(muct_xgmi_queue_t *queue,
                                              const muct_xgmi_batch_t *batch)
{
    unsigned waits_for = batch->waits_for;
    ucs_status_t status = UCS_OK;
    unsigned i;
    int prev, ret;

    if (batch->has_launch) {
        waits_for |= MUCT_XGMI_WAITS_FOR(batch->launch_stream);
    }
    if (muct_gpu_push_device(queue->gpu, queue->device, &prev) != UCS_OK) {
        return UCS_ERR_BUSY;
    }

    for (i = 0; (i < queue->num_streams) && (status == UCS_OK); ++i) {
        if (!(waits_for & MUCT_XGMI_WAITS_FOR(i))) {
            continue;
        }
        ret = muct_xgmi_wake_after(queue->wake, queue->gpu, queue->streams[i]);
        if (ret != MUCT_HIP_SUCCESS) {
            muct_diag("hipStreamAddCallback() on device %d failed: %s", queue->device,
                      muct_gpu_error_name(queue->gpu, ret));
            status = UCS_ERR_BUSY; /* the user continues to poll */
        }
    }
    muct_gpu_pop_device(queue->gpu, queue->device, prev);
    return status;
}

/* A thread that sleeps makes too few polls to query the device by their number. */
static ucs_status_t muct_xgmi_queue_arm_beside_callback(muct_xgmi_queue_t *queue,
                                                        muct_xgmi_batch_t *batch,
                                                        uint64_t now_ns)
{
    if (now_ns - batch->armed_at_ns >= MUCT_XGMI_LOOK_AT_DEVICE_NS) {
        batch->armed_at_ns = now_ns;
        queue->num_polls = MUCT_XGMI_POLLS_TO_LOOK; /* the next poll queries it */
    }
    return muct_xgmi_wake_in(queue->wake, now_ns, MUCT_XGMI_LOOK_AT_DEVICE_NS);
}

/* Short copies are checked again after a delay that doubles each time. */
static ucs_status_t muct_xgmi_queue_arm_head(muct_xgmi_queue_t *queue, uint64_t now_ns)
{
    muct_xgmi_batch_t *batch = queue->head;
    uint64_t waited_ns;
    ucs_status_t status;

    if (queue->is_notifying) {
        return muct_xgmi_queue_arm_beside_callback(queue, batch, now_ns);
    }

    if (batch->armed_at_ns == 0) {
        batch->armed_at_ns = now_ns;
    }
    waited_ns = now_ns - batch->armed_at_ns;
    if (waited_ns < MUCT_XGMI_CALLBACK_AFTER_NS) {
        return muct_xgmi_wake_in(
            queue->wake, now_ns,
            (waited_ns > MUCT_XGMI_MIN_LOOK_NS) ? waited_ns : MUCT_XGMI_MIN_LOOK_NS);
    }

    status = muct_xgmi_queue_call_back(queue, batch);
    queue->is_notifying = (status == UCS_OK);
    return queue->is_notifying
               ? muct_xgmi_queue_arm_beside_callback(queue, batch, now_ns)
               : status;
}

ucs_status_t muct_xgmi_queue_arm(muct_xgmi_queue_t *queue, uint64_t now_ns)
{
    ucs_status_t status = UCS_OK;

    if ((queue->open != NULL) && muct_xgmi_queue_may_start(queue)) {
        if (!muct_xgmi_gather_is_steady(&queue->gather, now_ns)) {
            return UCS_ERR_BUSY; /* progress starts the list */
        }
        status = muct_xgmi_wake_in(queue->wake, now_ns, MUCT_XGMI_GATHER_LOOK_NS);
    }
    if ((queue->head != NULL) && (status == UCS_OK)) {
        status = muct_xgmi_leave_is_on(&queue->leave)
                     ? muct_xgmi_wake_in(queue->wake, now_ns, MUCT_XGMI_LEAVE_BEHIND_NS)
                     : muct_xgmi_queue_arm_head(queue, now_ns);
    }

    return status;
}
