/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_RECOVER_STATE_H
#define MUCT_RDMA_RECOVER_STATE_H

/**
 * @file
 * State of an endpoint's recovery, described in rdma_recover.h.
 */

#include "rdma/ep/rdma_ctl_msg.h"

#include <ucs/datastruct/list.h>
#include <ucs/type/status.h>

#include <stdbool.h>

typedef enum {
    MUCT_RDMA_RECOVER_NONE,
    MUCT_RDMA_RECOVER_NOTIFY, /**< Connected; notifies the peer of the control qp */
    MUCT_RDMA_RECOVER_BREAK,
    MUCT_RDMA_RECOVER_DRAIN,
    MUCT_RDMA_RECOVER_MAKE,
    MUCT_RDMA_RECOVER_OFFER
} muct_rdma_recover_phase_t;

/** Part of an endpoint. */
typedef struct muct_rdma_recover {
    muct_rdma_recover_phase_t phase;
    unsigned num_done;  /**< Queue pairs that the phase, or connecting, has processed
                         */
    ucs_status_t cause; /**< Status to fail with */
    uint32_t epoch;     /**< Number of the present connection, or the one being made */
    uint32_t psn; /**< First packet number of our queue pairs in that connection */
    uint8_t granted_reads; /**< Reads granted by the device to the queue pairs connected
                            *   so far */
    uint32_t received;     /**< Messages received before the queue pairs were made */
    uint32_t ended;        /**< Work requests completed before the last reconnection */
    uint32_t rx_flushed;   /**< Receives of the old queue pairs that were flushed */
    muct_rdma_dev_addr_t first_peer; /**< Address of the peer endpoint's own device */
    uint32_t first_ctl_qp;           /**< Control qp of that device */
    uint64_t peer_incarnation;       /**< Incarnation of the peer's present device */
    uint64_t conn_incarnation;       /**< Incarnation of the peer's device to which our
                                        receiving queue pairs are connected */
    uint32_t peer_ctl_qp;            /**< Control qp of the peer's present device */
    uint32_t announced_ctl_qp;       /**< Our control qp in the endpoint's address */
    bool has_moved;                  /**< Either side uses another device */
    uint64_t move_ms;                /**< Time to try another device */
    uint64_t patience_ms; /**< Time to wait for a device; each move doubles it */
    unsigned tries;       /**< Connections made in a row on which nothing has ended */
    bool has_offer;
    muct_rdma_ctl_msg_t offer; /**< The peer's latest offer */
    uint64_t deadline_ms;
    uint64_t next_ms; /**< Time to send our offer again */
    unsigned interval_ms;
    ucs_list_link_t list; /**< In iface->recovering in every phase but NONE */
} muct_rdma_recover_t;

#endif
