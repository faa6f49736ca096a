/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_CQ_H
#define MUCT_RDMA_CQ_H

/**
 * @file
 * Completion queues of one interface, which never overrun.
 *
 * Without shared receive queues the number of completions that can be pending grows
 * with the endpoints. So a queue pair reserves as many entries as it can have work
 * requests and receives, on a queue that has room, or on a new one.
 *
 * A queue pair that is destroyed may leave entries behind. They count as reserved until
 * the queue was seen empty once.
 *
 * One thread per set.
 */

#include "rdma/device/rdma_device.h"

#include <stdbool.h>

typedef struct muct_rdma_cq {
    struct ibv_cq *ibv;
    unsigned capacity;          /**< Entries */
    unsigned reserved;          /**< Entries promised to queue pairs */
    unsigned released_unpolled; /**< Returned entries, perhaps in use */
    unsigned events;            /**< Events not acknowledged yet */
    bool is_broken;             /**< The queue broke: no completion will ever come */
    bool has_early_wc;
    struct ibv_wc early_wc; /**< Completion polled by @ref muct_rdma_cq_set_arm */
} muct_rdma_cq_t;

typedef struct muct_rdma_cq_set {
    const muct_rdma_device_t *device;
    struct ibv_comp_channel *channel; /**< Nonblocking completion channel */
    unsigned depth;                   /**< Entries of the first queue */
    unsigned vector; /**< Interrupt of the first queue; each further one has the next */
    bool has_failed; /**< A queue broke, and its endpoints were not notified yet */
    unsigned num;
    unsigned num_broken; /**< Broken queues */
    muct_rdma_cq_t **cqs;
} muct_rdma_cq_set_t;

/**
 * Make the channel; queues come when they are needed.
 *
 * @param [in] vector  First of the device's interrupts to use, any number. The number
 *                     of a CPU spreads processes over interrupts.
 *
 * @return UCS_OK, UCS_ERR_IO_ERROR with the reason in the log.
 */
ucs_status_t muct_rdma_cq_set_init(muct_rdma_cq_set_t *set,
                                   const muct_rdma_device_t *device, unsigned depth,
                                   unsigned vector);

/** Destroy all queues; no queue pair may use them any more. */
void muct_rdma_cq_set_cleanup(muct_rdma_cq_set_t *set);

/**
 * Find room for a queue pair.
 *
 * @param [in] entries  Its work requests and receives together, at most set->depth.
 * @return UCS_OK, UCS_ERR_IO_ERROR or UCS_ERR_NO_MEMORY, logged.
 */
ucs_status_t muct_rdma_cq_reserve(muct_rdma_cq_set_t *set, unsigned entries,
                                  muct_rdma_cq_t **cq_p);

/** Release the entries reserved by a destroyed queue pair. */
void muct_rdma_cq_release(muct_rdma_cq_t *cq, unsigned entries);

/** Give up a queue; its endpoints must move to another one. */
void muct_rdma_cq_set_broken(muct_rdma_cq_set_t *set, muct_rdma_cq_t *cq);

/** Destroy the queues that broke and that no queue pair has any more. Not while one of
 *  the set is polled. */
void muct_rdma_cq_set_reap(muct_rdma_cq_set_t *set);

/** Poll like ibv_poll_cq(), but return what was polled early first. Returns 0 for a
 * broken queue; has_failed of the set reports the break. */
unsigned muct_rdma_cq_poll(muct_rdma_cq_set_t *set, muct_rdma_cq_t *cq, unsigned max,
                           struct ibv_wc *wc);

/**
 * Request an event with the next completion of any queue.
 *
 * @return UCS_OK, or UCS_ERR_BUSY when completions are there already, or a queue broke.
 */
ucs_status_t muct_rdma_cq_set_arm(muct_rdma_cq_set_t *set);

#endif
