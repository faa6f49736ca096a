/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_COPY_IFACE_H
#define MUCT_COPY_IFACE_H

/**
 * @file
 * Interface of mori_copy. It reaches only itself: UCP connects an endpoint of a worker
 * to the worker's own interface for each type of memory that the processor does not
 * reach, and packs, unpacks and stages through it.
 *
 * Threads: one at a time, as UCT requires.
 */

#include "base/muct_transport.h"
#include "copy/copy_md.h"
#include "copy/copy_queue.h"

#include <stdbool.h>

/* Devices of a process that are copied from and to. */
#define MUCT_COPY_MAX_DEVICES 64


/** An interface. */
typedef struct muct_copy_iface {
    uct_base_iface_t super;
    muct_copy_md_t *md;
    uint64_t id; /**< Random number that is the interface's address */
    muct_copy_queue_t *queues[MUCT_COPY_MAX_DEVICES];
    unsigned num_queues; /**< Highest ordinal of a device with a queue, plus 1 */
    int event_fd;
    bool is_armed; /**< A thread may sleep on the event descriptor */
    size_t seg_size;
    double bandwidth;        /**< Bandwidth from and to pinned memory */
    double staged_bandwidth; /**< Bandwidth through the segments */
    double latency;
    double overhead;
} muct_copy_iface_t;


/** Slow half of @ref muct_copy_iface_queue. */
ucs_status_t muct_copy_iface_add_queue(muct_copy_iface_t *iface, int device,
                                       muct_copy_queue_t **queue_p);


/**
 * Get the queue of a device, which is made with its first use.
 *
 * @return UCS_OK, or an error of @ref muct_copy_queue_create.
 */
static inline ucs_status_t muct_copy_iface_queue(muct_copy_iface_t *iface, int device,
                                                 muct_copy_queue_t **queue_p)
{
    if ((unsigned)device < iface->num_queues) {
        *queue_p = iface->queues[device];
        if (*queue_p != NULL) {
            return UCS_OK;
        }
    }

    return muct_copy_iface_add_queue(iface, device, queue_p);
}


/** Wake the sleeping thread: a copy runs, and only progress sees its end. */
void muct_copy_iface_wake(muct_copy_iface_t *iface);


/** Whether no copy is queued or running. */
bool muct_copy_iface_is_idle(const muct_copy_iface_t *iface);


/** Wait for all copies. @return UCS_OK, or UCS_ERR_IO_ERROR. */
ucs_status_t muct_copy_iface_wait(muct_copy_iface_t *iface);


/**
 * Register @a comp, which may be NULL, to be called when all copies are over.
 *
 * @return UCS_OK             No copy runs; @a comp is not called.
 * @return UCS_INPROGRESS     Copies run.
 * @return UCS_ERR_NO_MEMORY, UCS_ERR_IO_ERROR
 */
ucs_status_t muct_copy_iface_start_flush(muct_copy_iface_t *iface,
                                         uct_completion_t *comp);

#endif
