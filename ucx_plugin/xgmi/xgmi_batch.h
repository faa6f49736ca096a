/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_BATCH_H
#define MUCT_XGMI_BATCH_H

/**
 * @file
 * One batch of a queue: the inside of xgmi_queue.h, for its two files.
 *
 * A batch is free, open or started. It is filled through the queue, which holds what
 * is hot while it is open.
 */

#include "xgmi/xgmi_queue.h"

/* What a started batch waits for: its launch's flag, or these streams
 * (events, or marks where asking an event would break captures). */
#define MUCT_XGMI_WAITS_FOR(_stream) (1u << (_stream))


/* A remote registration a batch copies from or to. */
typedef struct muct_xgmi_use {
    muct_xgmi_peer_t *peer;
    const muct_xgmi_region_t *region;
    uint32_t slot;
} muct_xgmi_use_t;

struct muct_xgmi_batch {
    muct_xgmi_batch_t *next;
    muct_xgmi_entry_t *entries; /* pinned */
    muct_xgmi_op_t *ops;
    muct_xgmi_op_t *end_op;
    muct_xgmi_marker_t *markers, **markers_tail;
    muct_xgmi_use_t *uses;
    unsigned num_uses, max_uses;
    muct_xgmi_run_t runs[MUCT_XGMI_MAX_RUNS];
    unsigned waits_for;
    int has_launch;
    uint32_t sequence;
    uint64_t armed_at_ns; /* first time it was slept for; 0: never */
    ucs_status_t status;
    muct_hip_event_t events[1 + MUCT_XGMI_MAX_ENGINES];
    uint32_t marks[1 + MUCT_XGMI_MAX_ENGINES]; /* where events are not asked */
};


/** Allocate what the batch needs. @return UCS_OK or UCS_ERR_NO_MEMORY. */
ucs_status_t muct_xgmi_batch_init(muct_xgmi_queue_t *queue, muct_xgmi_batch_t *batch);


/** Make the batch, a free one, the open one. */
void muct_xgmi_batch_open(muct_xgmi_queue_t *queue, muct_xgmi_batch_t *batch);


/** Room for one more registration the batch uses; NULL without memory. */
muct_xgmi_use_t *muct_xgmi_batch_new_use(muct_xgmi_batch_t *batch);


/** Hand the open batch to the device, which is current. Errors become its status. */
void muct_xgmi_batch_start(muct_xgmi_queue_t *queue, muct_xgmi_batch_t *batch);


/** Whether a started batch is over; then its status is final. */
int muct_xgmi_batch_is_over(muct_xgmi_queue_t *queue, muct_xgmi_batch_t *batch);


/** Call the operations of a batch that is over and free it. */
void muct_xgmi_batch_finish(muct_xgmi_queue_t *queue, muct_xgmi_batch_t *batch,
                            ucs_status_t status);


/** Give back what a free batch holds. */
void muct_xgmi_batch_cleanup(muct_xgmi_queue_t *queue, muct_xgmi_batch_t *batch);

#endif
