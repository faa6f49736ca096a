/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_COPY_QUEUE_H
#define MUCT_COPY_QUEUE_H

/**
 * @file
 * The copies of one device, which run in the order in which they are started.
 *
 * A queue has a stream of its own, so that it does not wait for kernels of others. It
 * has two pinned segments for host memory that the device does not reach. The stream
 * counts up a mark in pinned memory behind each copy. The end of a copy is read there:
 * querying the runtime would invalidate graphs that other threads capture.
 *
 * Threads: one at a time. The current device and the last error of the calling thread
 * are left as they were.
 */

#include "base/muct_gpu.h"
#include "base/muct_uct_abi.h"

#include <stdbool.h>


typedef struct muct_copy_op muct_copy_op_t;

typedef struct muct_copy_queue {
    const muct_gpu_t *gpu;
    int device;
    muct_hip_stream_t stream;
    muct_hip_event_t event; /**< Recorded after each copy; never queried */
    void *memory;           /**< Pinned: the mark, then the segments */
    uint32_t *mark;         /**< Number of the last copy that is over */
    void *mark_on_device;   /**< Device address of the mark */
    uint32_t last_mark;     /**< Number of the last copy that was started */
    char *segs[2];
    size_t seg_size;
    muct_copy_op_t *head; /**< Copies with a waiting caller, oldest first */
    muct_copy_op_t **tail;
    muct_copy_op_t *free_ops;
    unsigned num_looks;    /**< Polls of the mark without a change */
    uint32_t doubted_mark; /**< Value of last_mark when the present delay began */
    long doubted_at;       /**< Start of the delay, or last query in it, in s */
} muct_copy_queue_t;


/**
 * Make the queue of a device.
 *
 * @param [in]  gpu       Runtime.
 * @param [in]  device    Ordinal.
 * @param [in]  seg_size  Bytes of a pinned segment, not 0.
 * @param [out] queue_p   Set only on UCS_OK.
 *
 * @return UCS_OK, UCS_ERR_NO_DEVICE, UCS_ERR_NO_MEMORY, or UCS_ERR_IO_ERROR when the
 *         runtime has no stream to give; the reason is in the log.
 */
ucs_status_t muct_copy_queue_create(const muct_gpu_t *gpu, int device, size_t seg_size,
                                    muct_copy_queue_t **queue_p);


/** Wait for all copies, complete the outstanding ones with UCS_ERR_CANCELED, and free.
 */
void muct_copy_queue_destroy(muct_copy_queue_t *queue);


/**
 * Start a copy; both ends are any memory, which stays as it is until the copy is over.
 *
 * @param [in] comp  Called once by @ref muct_copy_queue_poll, or NULL.
 *
 * @return UCS_INPROGRESS    Started.
 * @return UCS_OK            It is over already; @a comp is not called.
 * @return UCS_ERR_IO_ERROR  The runtime refused it; the reason is in the log.
 */
ucs_status_t muct_copy_queue_start(muct_copy_queue_t *queue, void *dst, const void *src,
                                   size_t length, uct_completion_t *comp);


/**
 * Register @a comp to be called when all copies started so far are over.
 *
 * @return UCS_INPROGRESS, or UCS_OK: they are over, after a wait if memory was short;
 *         then @a comp is not called.
 * @return UCS_ERR_IO_ERROR  The device failed.
 */
ucs_status_t muct_copy_queue_notify(muct_copy_queue_t *queue, uct_completion_t *comp);


/** Wait for all started copies. @return UCS_OK, or UCS_ERR_IO_ERROR. */
ucs_status_t muct_copy_queue_wait(muct_copy_queue_t *queue);


/** Copy to the device from host memory that it does not reach; over on return. */
ucs_status_t muct_copy_queue_move_in(muct_copy_queue_t *queue, void *dst,
                                     const void *src, size_t length);


/** Copy from the device to host memory that it does not reach; over on return. */
ucs_status_t muct_copy_queue_move_out(muct_copy_queue_t *queue, void *dst,
                                      const void *src, size_t length);


/**
 * Copy without a queue, if none could be made: in the default stream of the current
 * device, after the application's work there. The copy is over on return.
 *
 * @return UCS_OK, or UCS_ERR_IO_ERROR when the runtime refused it; the reason is in the
 *         log.
 */
ucs_status_t muct_copy_queue_do_without(const muct_gpu_t *gpu, void *dst,
                                        const void *src, size_t length);


/** Slow half of @ref muct_copy_queue_poll. */
unsigned muct_copy_queue_complete(muct_copy_queue_t *queue);


/** Whether all started copies are over. Their completions may not have been called yet.
 */
bool muct_copy_queue_is_idle(const muct_copy_queue_t *queue);


/** Call the completions of copies that are over. @return Number of copies. */
static inline unsigned muct_copy_queue_poll(muct_copy_queue_t *queue)
{
    return (queue->head == NULL) ? 0 : muct_copy_queue_complete(queue);
}

#endif
