/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_CTL_H
#define MUCT_RDMA_CTL_H

/**
 * @file
 * Control channel of an interface: one datagram (UD) queue pair. The two ends of
 * a broken connection exchange new numbers over it (rdma_recover.h).
 *
 * A datagram needs no connection, so it arrives as soon as the network works again.
 * Until then datagrams are lost, and their senders repeat them. The queue pair itself
 * breaks when a device refuses a datagram, as soft-RoCE does without a link. It is then
 * reset and keeps the number that peers have. If the reset fails it is retried a few
 * times, and then reported. A new queue pair replaces it only if the completion queue
 * failed; peers must then be notified of the new number.
 *
 * Single-threaded.
 */

#include "rdma/queue/rdma_cq.h"
#include "rdma/ep/rdma_ctl_msg.h"
#include "rdma/memory/rdma_mr.h"
#include "rdma/queue/rdma_qp.h"

/** A peer's port. */
typedef struct muct_rdma_ctl_peer {
    muct_rdma_dev_addr_t addr;
    struct ibv_ah *ah; /**< NULL: not made yet, or its creation failed */
} muct_rdma_ctl_peer_t;

/** Number of former queue pair numbers that are remembered. */
#define MUCT_RDMA_CTL_PAST 8

typedef struct muct_rdma_ctl {
    struct ibv_qp *ibv;                /**< NULL when there is none */
    uint32_t past[MUCT_RDMA_CTL_PAST]; /**< Numbers of former queue pairs; 0: none */
    unsigned num_past;
    muct_rdma_cq_t *cq;
    uint64_t id; /**< High half of the wr_ids */
    const muct_rdma_qp_path_t *path;
    void *memory;
    muct_rdma_mem_t *mem;
    unsigned num_sends; /**< Sends posted and not completed */
    unsigned num_recvs;
    unsigned next_send;  /**< Index of the next send buffer */
    bool is_broken;      /**< A work request failed: nothing is sent before a restart */
    bool is_given_up;    /**< All restarts have failed: nothing is sent any more */
    bool has_refused;    /**< A warning reported an invalid datagram; others follow at
                            level debug */
    unsigned num_failed; /**< Failed restarts in a row; 0: no restart is due */
    uint64_t restart_ms; /**< Time of the next restart */
    unsigned num_peers;
    unsigned num_prepared; /**< Peers for which an address handle was tried */
    muct_rdma_ctl_peer_t *peers;
    bool has_moved; /**< Address handles belong to an earlier address of the port */
} muct_rdma_ctl_t;

/**
 * Make the queue pair, ready to send and receive.
 *
 * @param [in] id    High half of its wr_ids, unique among queue pairs.
 * @param [in] path  How datagrams go; kept. Its remote address is not read.
 *
 * @return UCS_OK, or an error, logged at level debug: some devices have no datagrams.
 */
ucs_status_t muct_rdma_ctl_open(muct_rdma_ctl_t *ctl, struct ibv_pd *pd,
                                muct_rdma_cq_set_t *cqs, uint64_t id,
                                const muct_rdma_qp_path_t *path);

/**
 * Replace the queue pair after its completion queue failed. The new queue pair has
 * another number.
 *
 * @param [in] id  As for @ref muct_rdma_ctl_open, but a different one.
 *
 * @return UCS_OK, or an error, logged at level debug; the channel is closed then.
 */
ucs_status_t muct_rdma_ctl_renew(muct_rdma_ctl_t *ctl, muct_rdma_cq_set_t *cqs,
                                 uint64_t id);

/** Whether the control queue pair has or had this number. */
bool muct_rdma_ctl_had_number(const muct_rdma_ctl_t *ctl, uint32_t qp_num);

/** Destroy the queue pair. No effect on a channel that was never opened. */
void muct_rdma_ctl_close(muct_rdma_ctl_t *ctl);

/** Create new address handles, because the port's address or its index changed. */
void muct_rdma_ctl_set_moved(muct_rdma_ctl_t *ctl);

/**
 * Announce that datagrams may have to go to a peer's port; @ref muct_rdma_ctl_prepare
 * makes its address handle. To make a handle the kernel may have to resolve the address
 * on the network, and may wait for up to a second. It already has the address if a
 * connection to that port exists.
 */
void muct_rdma_ctl_meet(muct_rdma_ctl_t *ctl, const muct_rdma_dev_addr_t *peer);

/** Create one address handle. @return Whether more must be created. */
bool muct_rdma_ctl_prepare(muct_rdma_ctl_t *ctl);

/** Send if that is possible now. The datagram may be lost in any case. */
void muct_rdma_ctl_send(muct_rdma_ctl_t *ctl, const muct_rdma_dev_addr_t *to,
                        uint32_t qp_num, const muct_rdma_ctl_msg_t *msg);

/** Whether a completion belongs to the control queue pair. */
static inline bool muct_rdma_ctl_owns(const muct_rdma_ctl_t *ctl, uint64_t wr_id)
{
    return (ctl->ibv != NULL) && ((((wr_id ^ ctl->id) << 1) >> 33) == 0);
}

/** Whether datagrams can be sent, now or after a restart. */
static inline bool muct_rdma_ctl_is_usable(const muct_rdma_ctl_t *ctl)
{
    return (ctl->ibv != NULL) && !ctl->cq->is_broken && !ctl->is_given_up;
}

/** Whether a restart after an error has failed and is to be retried. */
static inline bool muct_rdma_ctl_has_to_restart(const muct_rdma_ctl_t *ctl)
{
    return (ctl->ibv != NULL) && (ctl->num_failed != 0);
}

/** Retry a restart that is due; after the last try, log the error and give up. */
void muct_rdma_ctl_progress(muct_rdma_ctl_t *ctl, uint64_t now_ms);

/**
 * Handle a completion of the control queue pair.
 *
 * @return Whether it delivered @a msg.
 */
bool muct_rdma_ctl_complete(muct_rdma_ctl_t *ctl, const struct ibv_wc *wc,
                            muct_rdma_ctl_msg_t *msg);

#endif
