/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_BATCH_H
#define MUCT_XGMI_BATCH_H

/**
 * @file
 * Internals of xgmi_queue.h, for its own files: a batch of a queue, and the streams.
 *
 * A batch is free, open or started. It is filled through the queue, which holds the
 * frequently used fields while the batch is open.
 */

#include "xgmi/copy/xgmi_queue.h"

#include <stdbool.h>

/* A started batch waits for its launch's flag or for the work on these streams. Events
 * show the end of that work, or marks where querying an event would break captures. */
#define MUCT_XGMI_WAITS_FOR(_stream) (1u << (_stream))


/* A remote registration that a batch copies from or to. */
typedef struct muct_xgmi_use {
    muct_xgmi_peer_t *peer;
    const muct_xgmi_region_t *region;
    uint32_t slot;
    uint32_t generation;
    uint64_t start; /* address of the registered part in this process */
    uint64_t length;
} muct_xgmi_use_t;

struct muct_xgmi_batch {
    muct_xgmi_batch_t *next;
    uint64_t stamp;
    muct_xgmi_entry_t *entries; /* pinned */
    muct_xgmi_op_t *ops;
    muct_xgmi_op_t *end_op;
    pthread_t thread; /* thread that opened the batch */
    muct_xgmi_marker_t *markers, **markers_tail;
    muct_xgmi_use_t *uses;
    unsigned num_uses, max_uses;
    const muct_xgmi_peer_t *peers[MUCT_XGMI_MAX_COUNTED_PEERS]; /* distinct owners */
    unsigned num_peers;
    muct_xgmi_run_t runs[MUCT_XGMI_MAX_RUNS];
    unsigned waits_for; /* bit mask of streams that the batch still waits for */
    bool has_launch;
    unsigned used;          /* value of waits_for when the batch started */
    bool was_launched;      /* value of has_launch when the batch started */
    unsigned launch_stream; /* index of the stream for its launch and calls */
    uint32_t sequence;
    uint64_t armed_at_ns; /* first time a thread slept for it, or the last at which the
                             device had to be looked at; 0: never */
    ucs_status_t status;
    muct_hip_event_t events[MUCT_XGMI_MAX_STREAMS];
    /* mark of the batch in each stream, to wait for where events must not be queried */
    uint32_t marks[MUCT_XGMI_MAX_STREAMS];
};


/** Whether the kernel launch of a batch has ended. */
static inline bool muct_xgmi_batch_is_launch_over(const muct_xgmi_queue_t *queue,
                                                  const muct_xgmi_batch_t *batch)
{
    return muct_xgmi_word_reached(muct_xgmi_queue_flag_at(queue, batch->launch_stream),
                                  batch->sequence);
}


/** Allocate what the batch needs. @return UCS_OK or UCS_ERR_NO_MEMORY. */
ucs_status_t muct_xgmi_batch_init(muct_xgmi_queue_t *queue, muct_xgmi_batch_t *batch);


/** Make the batch, a free one, the open one. */
void muct_xgmi_batch_open(muct_xgmi_queue_t *queue, muct_xgmi_batch_t *batch);


/** Note that the batch copies from or to this peer. */
void muct_xgmi_batch_count_peer(muct_xgmi_batch_t *batch, const muct_xgmi_peer_t *peer);


/** Room for one more registration that the batch uses; NULL without memory. */
muct_xgmi_use_t *muct_xgmi_batch_new_use(muct_xgmi_batch_t *batch);


/** Hand the open batch to the device, which is current. Errors become its status. */
void muct_xgmi_batch_start(muct_xgmi_queue_t *queue, muct_xgmi_batch_t *batch);


/** Whether a started batch has ended; its status is final then. */
bool muct_xgmi_batch_is_over(muct_xgmi_queue_t *queue, muct_xgmi_batch_t *batch);


/** Call the operations of an ended batch that has released its mappings, and free
 * it. */
void muct_xgmi_batch_finish(muct_xgmi_queue_t *queue, muct_xgmi_batch_t *batch,
                            ucs_status_t status);


/** Release mappings and withdraw announcements to owners; with the queue's lock. */
void muct_xgmi_batch_release_uses(muct_xgmi_queue_t *queue, muct_xgmi_batch_t *batch);


/** Release the resources of a free batch. */
void muct_xgmi_batch_cleanup(muct_xgmi_queue_t *queue, muct_xgmi_batch_t *batch);

#endif
