/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The streams of a queue. Those for launches are there from the beginning; those for
 * the copy engines come with the first long run, since each of them takes from the few
 * hardware queues that a device's streams share.
 */

#include "base/muct_log.h"
#include "xgmi/copy/xgmi_queue_streams.h"
#include "xgmi/copy/xgmi_batch.h"

#include <time.h>

/* Pause before the next attempt to wait for a stream; a capture by another thread made
 * the last attempt fail. */
#define MUCT_XGMI_SYNC_PAUSE_NS 1000000


/* ---- life ---- */

static int muct_xgmi_queue_add_stream(muct_xgmi_queue_t *queue)
{
    int least = 0, greatest = 0;
    int ret;

    /* the highest priority, so that copies do not wait for compute; zero where it is
     * unknown */
    ret = queue->gpu->device_get_stream_priority_range(&least, &greatest);
    (void)muct_gpu_forget(queue->gpu, ret);
    ret = queue->gpu->stream_create_with_priority(
        &queue->streams[queue->num_streams], MUCT_HIP_STREAM_NON_BLOCKING, greatest);
    queue->num_streams += (ret == MUCT_HIP_SUCCESS);
    return ret;
}

int muct_xgmi_queue_add_streams(muct_xgmi_queue_t *queue, unsigned count)
{
    int ret = MUCT_HIP_SUCCESS;

    while ((queue->num_streams < count) && (ret == MUCT_HIP_SUCCESS)) {
        ret = muct_xgmi_queue_add_stream(queue);
    }
    return ret;
}

/*
 * A fence makes each launch stream wait for the others, so work behind the first one is
 * ordered behind everything that the fence covers. Streams made later wait for it too.
 */
static void muct_xgmi_queue_order_launches(muct_xgmi_queue_t *queue)
{
    int ret = MUCT_HIP_SUCCESS;
    unsigned i;

    if (queue->events[0] == NULL) {
        ret = queue->gpu->event_create_with_flags(&queue->events[0],
                                                  MUCT_HIP_EVENT_DISABLE_TIMING);
    }
    if (ret == MUCT_HIP_SUCCESS) {
        ret = queue->gpu->event_record(queue->events[0], queue->streams[0]);
    }
    for (i = queue->num_launch_streams;
         (i < queue->num_streams) && (ret == MUCT_HIP_SUCCESS); ++i) {
        ret = queue->gpu->stream_wait_event(queue->streams[i], queue->events[0], 0);
    }
    if (ret != MUCT_HIP_SUCCESS) {
        muct_diag("ordering the engines of device %d failed: %s; waiting instead",
                  queue->device, muct_gpu_error_name(queue->gpu, ret));
        muct_xgmi_queue_sync(queue, 0);
    }
}

unsigned muct_xgmi_queue_open_engines(muct_xgmi_queue_t *queue)
{
    unsigned num_launch_streams = queue->num_launch_streams;
    int mode, ret;

    if (queue->num_streams > num_launch_streams) {
        return queue->num_streams - num_launch_streams;
    }

    mode = muct_gpu_relax(queue->gpu);
    ret = muct_xgmi_queue_add_streams(queue,
                                      num_launch_streams + queue->config->num_engines);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_warn("device %d has %u of %u streams for long runs: "
                  "hipStreamCreateWithPriority() = %s",
                  queue->device, queue->num_streams - num_launch_streams,
                  queue->config->num_engines, muct_gpu_error_name(queue->gpu, ret));
    }
    if (queue->num_streams > num_launch_streams) {
        muct_xgmi_queue_order_launches(queue);
    } else {
        queue->min_run = SIZE_MAX; /* such runs are added to the list from now on */
    }
    muct_gpu_unrelax(queue->gpu, mode);
    return queue->num_streams - num_launch_streams;
}

unsigned muct_xgmi_queue_choose_stream(muct_xgmi_queue_t *queue)
{
    unsigned i;

    for (i = 0; i < queue->num_launch_streams; ++i) {
        if (muct_xgmi_word_reached(muct_xgmi_queue_flag_at(queue, i),
                                   queue->launch_streams[i].sequence)) {
            break;
        }
    }
    if (i == queue->num_launch_streams) {
        i = (queue->launch_stream + 1) % queue->num_launch_streams;
    }
    queue->launch_stream = i;
    return i;
}

void muct_xgmi_queue_sync(muct_xgmi_queue_t *queue, unsigned stream)
{
    const struct timespec pause = {.tv_nsec = MUCT_XGMI_SYNC_PAUSE_NS};
    int mode = muct_gpu_relax(queue->gpu);
    int ret;

    for (;;) {
        ret = queue->gpu->stream_synchronize(queue->streams[stream]);
        (void)muct_gpu_forget(queue->gpu, ret);
        if (!muct_gpu_is_not_ready(ret)) {
            break;
        }
        (void)nanosleep(&pause, NULL);
    }
    muct_gpu_unrelax(queue->gpu, mode);
}


/* ---- order ---- */

/* Streams with work of a batch, present or when it was started. */
static unsigned muct_xgmi_queue_busy_streams(const muct_xgmi_queue_t *queue)
{
    const muct_xgmi_batch_t *batch;
    unsigned used = 0;

    for (batch = queue->head; batch != NULL; batch = batch->next) {
        used |= batch->used | MUCT_XGMI_WAITS_FOR(batch->launch_stream);
    }
    return used;
}

ucs_status_t muct_xgmi_queue_record(muct_xgmi_queue_t *queue)
{
    int ret = MUCT_HIP_SUCCESS;
    unsigned i;
    int prev;

    queue->recorded = muct_xgmi_queue_busy_streams(queue);
    if (queue->head == NULL) {
        return UCS_OK;
    }

    if (muct_gpu_push_device(queue->gpu, queue->device, &prev) != UCS_OK) {
        return UCS_ERR_IO_ERROR;
    }

    for (i = 0; (i < queue->num_streams) && (ret == MUCT_HIP_SUCCESS); ++i) {
        if (!(queue->recorded & MUCT_XGMI_WAITS_FOR(i))) {
            continue;
        }
        if (queue->events[i] == NULL) {
            ret = queue->gpu->event_create_with_flags(&queue->events[i],
                                                      MUCT_HIP_EVENT_DISABLE_TIMING);
        }
        if (ret == MUCT_HIP_SUCCESS) {
            ret = queue->gpu->event_record(queue->events[i], queue->streams[i]);
        }
    }

    muct_gpu_pop_device(queue->gpu, queue->device, prev);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_error("hipEventRecord() on device %d failed: %s", queue->device,
                   muct_gpu_error_name(queue->gpu, ret));
        return UCS_ERR_IO_ERROR;
    }

    return UCS_OK;
}

/* Make all streams of the queue wait for the recorded event of one. */
static int muct_xgmi_queue_wait_for(muct_xgmi_queue_t *queue, muct_hip_stream_t stream,
                                    muct_hip_event_t event)
{
    int ret = MUCT_HIP_SUCCESS;
    unsigned i;

    for (i = 0; (i < queue->num_streams) && (ret == MUCT_HIP_SUCCESS); ++i) {
        if (queue->streams[i] != stream) {
            ret = queue->gpu->stream_wait_event(queue->streams[i], event, 0);
        }
    }
    return ret;
}

ucs_status_t muct_xgmi_queue_order_after(muct_xgmi_queue_t *queue,
                                         muct_xgmi_queue_t *other)
{
    int ret = MUCT_HIP_SUCCESS;
    unsigned i;
    int prev;

    if (other->head == NULL) {
        return UCS_OK;
    }

    if (muct_gpu_push_device(queue->gpu, queue->device, &prev) != UCS_OK) {
        return UCS_ERR_IO_ERROR;
    }

    for (i = 0; (i < other->num_streams) && (ret == MUCT_HIP_SUCCESS); ++i) {
        if (other->recorded & MUCT_XGMI_WAITS_FOR(i)) {
            ret = muct_xgmi_queue_wait_for(queue, other->streams[i], other->events[i]);
        }
    }

    muct_gpu_pop_device(queue->gpu, queue->device, prev);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_error("ordering device %d after device %d failed: %s", queue->device,
                   other->device, muct_gpu_error_name(queue->gpu, ret));
        return UCS_ERR_IO_ERROR;
    }

    return UCS_OK;
}
