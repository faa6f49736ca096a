/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Every copy is followed in its stream by an event and by a write of its number to the
 * mark. The event releases the bytes to the whole system; the number alone does not
 * (rocm-systems 2304), since a short copy is a kernel that releases to its own device.
 * The event is never queried, because that may break graph captures. The number is read
 * with acquire. Numbers wrap around; fewer than 2^31 are in flight.
 *
 * A waiting thread polls the mark. Once in a while it queries in the relaxed capture
 * mode whether the stream has failed, because a lost device writes no mark.
 */

#include "config.h"

#include "copy/copy_queue.h"

#include "base/muct_log.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The mark uses a page of its own. */
#define MUCT_COPY_MARK_SIZE 4096
/* Polls of the mark between two reads of the clock. */
#define MUCT_COPY_LOOKS 1024
/* Seconds without a completion after which the runtime is queried. */
#define MUCT_COPY_PATIENCE 1

struct muct_copy_op {
    muct_copy_op_t *next;
    uct_completion_t *comp;
    uint32_t mark;
};


/* ---- marks ---- */

static bool muct_copy_queue_has_reached(const muct_copy_queue_t *queue, uint32_t mark)
{
    uint32_t now = __atomic_load_n(queue->mark, __ATOMIC_ACQUIRE);

    return (int32_t)(now - mark) >= 0;
}

bool muct_copy_queue_is_idle(const muct_copy_queue_t *queue)
{
    return muct_copy_queue_has_reached(queue, queue->last_mark);
}

/* Whether the stream has failed. A busy stream, or one that must not be queried, has
 * not failed. */
static ucs_status_t muct_copy_queue_check(const muct_copy_queue_t *queue)
{
    int mode = muct_gpu_relax(queue->gpu);
    int ret = muct_gpu_forget(queue->gpu, queue->gpu->stream_query(queue->stream));

    muct_gpu_unrelax(queue->gpu, mode);
    if ((ret == MUCT_HIP_SUCCESS) || (ret == MUCT_HIP_NOT_READY) ||
        (ret == MUCT_HIP_CAPTURE_UNSUPPORTED) || (ret == MUCT_HIP_CAPTURED_EVENT)) {
        return UCS_OK;
    }

    muct_error("copies on device %d failed: hipStreamQuery() = %s", queue->device,
               muct_gpu_error_name(queue->gpu, ret));
    return UCS_ERR_IO_ERROR;
}

/* Query the runtime once per second of waiting; called at every MUCT_COPY_LOOKS-th
 * poll.
 */
static ucs_status_t muct_copy_queue_doubt(muct_copy_queue_t *queue)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if (queue->doubted_mark != queue->last_mark) {
        queue->doubted_mark = queue->last_mark;
        queue->doubted_at = now.tv_sec;
    } else if (now.tv_sec - queue->doubted_at > MUCT_COPY_PATIENCE) {
        queue->doubted_at = now.tv_sec;
        return muct_copy_queue_check(queue);
    }

    return UCS_OK;
}

static ucs_status_t muct_copy_queue_wait_mark(muct_copy_queue_t *queue, uint32_t mark)
{
    ucs_status_t status;
    unsigned looks = 0;

    while (!muct_copy_queue_has_reached(queue, mark)) {
        if (++looks % MUCT_COPY_LOOKS != 0) {
            continue;
        }

        sched_yield(); /* the runtime's threads may need this processor */
        status = muct_copy_queue_doubt(queue);
        if (status != UCS_OK) {
            return status;
        }
    }

    return UCS_OK;
}

ucs_status_t muct_copy_queue_wait(muct_copy_queue_t *queue)
{
    return muct_copy_queue_wait_mark(queue, queue->last_mark);
}

/* Wait for a stream that accepts no event or mark, and set the mark for it. */
static ucs_status_t muct_copy_queue_drain(muct_copy_queue_t *queue)
{
    int mode = muct_gpu_relax(queue->gpu);
    int ret = queue->gpu->stream_synchronize(queue->stream);

    muct_gpu_unrelax(queue->gpu, mode);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_error("hipStreamSynchronize() on device %d failed: %s", queue->device,
                   muct_gpu_error_name(queue->gpu, ret));
        return UCS_ERR_IO_ERROR;
    }

    __atomic_store_n(queue->mark, queue->last_mark, __ATOMIC_RELEASE);
    return UCS_OK;
}

/* Queue a copy and its mark, which becomes the queue's last one. */
static ucs_status_t muct_copy_queue_submit(muct_copy_queue_t *queue, void *dst,
                                           const void *src, size_t length)
{
    const muct_gpu_t *gpu = queue->gpu;
    int ret;

    ret = muct_gpu_copy(gpu, dst, src, length, queue->stream);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_error("hipMemcpyAsync(to %p, from %p, length %zu) on device %d failed: %s",
                   dst, src, length, queue->device, muct_gpu_error_name(gpu, ret));
        return UCS_ERR_IO_ERROR;
    }

    ++queue->last_mark;
    ret = gpu->event_record(queue->event, queue->stream);
    if (ret == MUCT_HIP_SUCCESS) {
        ret = gpu->stream_write_value32(queue->stream, queue->mark_on_device,
                                        queue->last_mark, 0);
    }
    if (ret != MUCT_HIP_SUCCESS) {
        muct_debug("hipEventRecord() or hipStreamWriteValue32() on device %d failed: "
                   "%s",
                   queue->device, muct_gpu_error_name(gpu, ret));
        return muct_copy_queue_drain(queue);
    }

    return UCS_OK;
}


/* ---- copies that are called back ---- */

static muct_copy_op_t *muct_copy_queue_get_op(muct_copy_queue_t *queue)
{
    muct_copy_op_t *op = queue->free_ops;

    if (op == NULL) {
        return malloc(sizeof(*op));
    }

    queue->free_ops = op->next;
    return op;
}

static void muct_copy_queue_put_op(muct_copy_queue_t *queue, muct_copy_op_t *op)
{
    op->next = queue->free_ops;
    queue->free_ops = op;
}

ucs_status_t muct_copy_queue_notify(muct_copy_queue_t *queue, uct_completion_t *comp)
{
    muct_copy_op_t *op;

    if ((queue->head == NULL) && muct_copy_queue_is_idle(queue)) {
        return UCS_OK;
    }

    op = muct_copy_queue_get_op(queue);
    if (op == NULL) {
        return muct_copy_queue_wait(queue);
    }

    op->next = NULL;
    op->comp = comp;
    op->mark = queue->last_mark;
    *queue->tail = op;
    queue->tail = &op->next;
    return UCS_INPROGRESS;
}

ucs_status_t muct_copy_queue_start(muct_copy_queue_t *queue, void *dst, const void *src,
                                   size_t length, uct_completion_t *comp)
{
    ucs_status_t status = muct_copy_queue_submit(queue, dst, src, length);

    return (status == UCS_OK) ? muct_copy_queue_notify(queue, comp) : status;
}

/* Remove the oldest copy before its callback runs, as the callback may start another
 * copy. */
static void muct_copy_queue_end_head(muct_copy_queue_t *queue, ucs_status_t status)
{
    muct_copy_op_t *op = queue->head;
    uct_completion_t *comp = op->comp;

    queue->head = op->next;
    if (queue->head == NULL) {
        queue->tail = &queue->head;
    }

    muct_copy_queue_put_op(queue, op);
    if (comp != NULL) {
        muct_completion_invoke(comp, status);
    }
}

unsigned muct_copy_queue_complete(muct_copy_queue_t *queue)
{
    ucs_status_t status = UCS_OK;
    unsigned count = 0;

    if (!muct_copy_queue_has_reached(queue, queue->head->mark) &&
        (++queue->num_looks % MUCT_COPY_LOOKS == 0)) {
        status = muct_copy_queue_doubt(queue);
    }

    while (
        (queue->head != NULL) &&
        ((status != UCS_OK) || muct_copy_queue_has_reached(queue, queue->head->mark))) {
        muct_copy_queue_end_head(queue, status);
        ++count;
    }

    return count;
}


/* ---- copies through the segments ---- */

static size_t muct_copy_queue_piece(const muct_copy_queue_t *queue, size_t left)
{
    return (left < queue->seg_size) ? left : queue->seg_size;
}

/* Double buffering: one segment is packed while the other one is copied. */
ucs_status_t muct_copy_queue_move_in(muct_copy_queue_t *queue, void *dst,
                                     const void *src, size_t length)
{
    uint32_t marks[2] = {queue->last_mark, queue->last_mark};
    size_t done, piece;
    ucs_status_t status;
    unsigned turn = 0;

    for (done = 0; done < length; done += piece, turn ^= 1) {
        piece = muct_copy_queue_piece(queue, length - done);
        status = muct_copy_queue_wait_mark(queue, marks[turn]);
        if (status != UCS_OK) {
            return status;
        }

        memcpy(queue->segs[turn], (const char *)src + done, piece);
        status =
            muct_copy_queue_submit(queue, (char *)dst + done, queue->segs[turn], piece);
        if (status != UCS_OK) {
            (void)muct_copy_queue_wait(queue);
            return status;
        }
        marks[turn] = queue->last_mark;
    }

    return muct_copy_queue_wait(queue);
}

/* Double buffering: one segment is unpacked while the other one is copied. */
ucs_status_t muct_copy_queue_move_out(muct_copy_queue_t *queue, void *dst,
                                      const void *src, size_t length)
{
    size_t done = 0, piece = 0, next_piece = muct_copy_queue_piece(queue, length);
    const char *next = src;
    ucs_status_t status;
    uint32_t mark;
    unsigned turn;

    status = muct_copy_queue_submit(queue, queue->segs[0], next, next_piece);
    for (turn = 0; (status == UCS_OK) && (done < length); turn ^= 1, done += piece) {
        mark = queue->last_mark;
        piece = next_piece;
        next += piece;
        next_piece = muct_copy_queue_piece(queue, length - done - piece);
        if (next_piece > 0) {
            status =
                muct_copy_queue_submit(queue, queue->segs[turn ^ 1], next, next_piece);
        }
        if (status == UCS_OK) {
            status = muct_copy_queue_wait_mark(queue, mark);
        }
        if (status == UCS_OK) {
            memcpy((char *)dst + done, queue->segs[turn], piece);
        }
    }

    if (status != UCS_OK) {
        (void)muct_copy_queue_wait(queue);
    }
    return status;
}


/* ---- copies without a queue ---- */

ucs_status_t muct_copy_queue_do_without(const muct_gpu_t *gpu, void *dst,
                                        const void *src, size_t length)
{
    const char *function = "hipMemcpyAsync";
    int mode = muct_gpu_relax(gpu);
    int ret = muct_gpu_copy(gpu, dst, src, length, NULL);

    if (ret == MUCT_HIP_SUCCESS) {
        function = "hipStreamSynchronize";
        ret = gpu->stream_synchronize(NULL);
    }
    muct_gpu_unrelax(gpu, mode);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_error("copy to %p, from %p, length %zu in the default stream: %s() "
                   "failed: %s",
                   dst, src, length, function, muct_gpu_error_name(gpu, ret));
        return UCS_ERR_IO_ERROR;
    }

    return UCS_OK;
}


/* ---- life ---- */

static ucs_status_t muct_copy_queue_create_stream(muct_copy_queue_t *queue)
{
    const muct_gpu_t *gpu = queue->gpu;
    int least, greatest = 0, ret;

    (void)muct_gpu_forget(gpu,
                          gpu->device_get_stream_priority_range(&least, &greatest));
    ret = gpu->stream_create_with_priority(&queue->stream, MUCT_HIP_STREAM_NON_BLOCKING,
                                           greatest);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_error("hipStreamCreateWithPriority() on device %d failed: %s",
                   queue->device, muct_gpu_error_name(gpu, ret));
        return UCS_ERR_IO_ERROR;
    }

    return UCS_OK;
}

static ucs_status_t muct_copy_queue_create_event(muct_copy_queue_t *queue)
{
    int ret = queue->gpu->event_create_with_flags(&queue->event,
                                                  MUCT_HIP_EVENT_DISABLE_TIMING);

    if (ret != MUCT_HIP_SUCCESS) {
        muct_error("hipEventCreateWithFlags() on device %d failed: %s", queue->device,
                   muct_gpu_error_name(queue->gpu, ret));
        return UCS_ERR_IO_ERROR;
    }

    return UCS_OK;
}

static ucs_status_t muct_copy_queue_create_memory(muct_copy_queue_t *queue)
{
    const muct_gpu_t *gpu = queue->gpu;
    size_t size = MUCT_COPY_MARK_SIZE + (2 * queue->seg_size);
    int ret;

    ret = gpu->host_malloc(&queue->memory, size,
                           MUCT_HIP_HOST_PORTABLE | MUCT_HIP_HOST_MAPPED |
                               MUCT_HIP_HOST_COHERENT);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_error("hipHostMalloc(%zu bytes) failed: %s", size,
                   muct_gpu_error_name(gpu, ret));
        return UCS_ERR_NO_MEMORY;
    }

    ret = gpu->host_get_device_pointer(&queue->mark_on_device, queue->memory, 0);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_error("hipHostGetDevicePointer(%p) failed: %s", queue->memory,
                   muct_gpu_error_name(gpu, ret));
        (void)muct_gpu_forget(gpu, gpu->host_free(queue->memory));
        return UCS_ERR_IO_ERROR;
    }

    queue->mark = queue->memory;
    *queue->mark = 0;
    queue->segs[0] = (char *)queue->memory + MUCT_COPY_MARK_SIZE;
    queue->segs[1] = queue->segs[0] + queue->seg_size;
    return UCS_OK;
}

/* The device is current. */
static ucs_status_t muct_copy_queue_fill(muct_copy_queue_t *queue)
{
    const muct_gpu_t *gpu = queue->gpu;
    ucs_status_t status;

    status = muct_copy_queue_create_stream(queue);
    if (status != UCS_OK) {
        return status;
    }

    status = muct_copy_queue_create_event(queue);
    if (status != UCS_OK) {
        goto err_destroy_stream;
    }

    status = muct_copy_queue_create_memory(queue);
    if (status != UCS_OK) {
        goto err_destroy_event;
    }

    return UCS_OK;

err_destroy_event:
    (void)muct_gpu_forget(gpu, gpu->event_destroy(queue->event));
err_destroy_stream:
    (void)muct_gpu_forget(gpu, gpu->stream_destroy(queue->stream));
    return status;
}

ucs_status_t muct_copy_queue_create(const muct_gpu_t *gpu, int device, size_t seg_size,
                                    muct_copy_queue_t **queue_p)
{
    muct_copy_queue_t *queue = calloc(1, sizeof(*queue));
    ucs_status_t status;
    int prev, mode;

    if (queue == NULL) {
        muct_error("failed to allocate a queue of copies");
        return UCS_ERR_NO_MEMORY;
    }

    queue->gpu = gpu;
    queue->device = device;
    queue->seg_size = seg_size;
    queue->tail = &queue->head;
    status = muct_gpu_push_device(gpu, device, &prev);
    if (status != UCS_OK) {
        goto err_free;
    }

    mode = muct_gpu_relax(gpu);
    status = muct_copy_queue_fill(queue);
    muct_gpu_unrelax(gpu, mode);
    muct_gpu_pop_device(gpu, device, prev);
    if (status != UCS_OK) {
        goto err_free;
    }

    *queue_p = queue;
    return UCS_OK;

err_free:
    free(queue);
    return status;
}

void muct_copy_queue_destroy(muct_copy_queue_t *queue)
{
    const muct_gpu_t *gpu = queue->gpu;
    ucs_status_t status = muct_copy_queue_wait(queue);
    muct_copy_op_t *op;
    int mode;

    while (queue->head != NULL) {
        muct_copy_queue_end_head(queue, UCS_ERR_CANCELED);
    }

    /* do not free memory that the device may still write */
    if (status == UCS_OK) {
        mode = muct_gpu_relax(gpu);
        (void)muct_gpu_forget(gpu, gpu->event_destroy(queue->event));
        (void)muct_gpu_forget(gpu, gpu->stream_destroy(queue->stream));
        (void)muct_gpu_forget(gpu, gpu->host_free(queue->memory));
        muct_gpu_unrelax(gpu, mode);
    }

    while ((op = queue->free_ops) != NULL) {
        queue->free_ops = op->next;
        free(op);
    }
    free(queue);
}
