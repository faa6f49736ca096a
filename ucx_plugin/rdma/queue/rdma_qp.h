/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_QP_H
#define MUCT_RDMA_QP_H

/**
 * @file
 * Reliable-connected queue pair and its states. Posting to it is not part of this file.
 *
 * It never has a shared receive queue: some devices have none.
 */

#include "rdma/device/rdma_addr.h"
#include "rdma/device/rdma_device.h"
#include "rdma/queue/rdma_ece.h"

/** Bit of a wr_id that marks a receive. */
#define MUCT_RDMA_WR_ID_RECV (1ull << 63)

/** Requested sizes, then those that the device granted. */
typedef struct muct_rdma_qp_caps {
    unsigned send_depth; /**< Work requests */
    unsigned recv_depth; /**< Receives; 0 becomes 1, as some devices refuse 0 */
    unsigned max_sge;
    unsigned max_inline; /**< Bytes */
} muct_rdma_qp_caps_t;

/** Parameters of a connection for RTR and RTS. */
typedef struct muct_rdma_qp_path {
    const muct_rdma_port_t *port;
    muct_rdma_dev_addr_t remote;
    uint8_t mtu_shift; /**< log2 of the path MTU, bytes */
    uint8_t sl;
    uint8_t traffic_class;
    uint8_t hop_limit;
    uint8_t timeout; /**< Code: 4.096 us << timeout */
    uint8_t retry_count;
    uint8_t rnr_retry;
    uint8_t min_rnr_timer;  /**< Code of the standard */
    uint8_t max_reads;      /**< Concurrent reads and atomics that we start */
    uint8_t max_dest_reads; /**< Concurrent reads and atomics that we answer */
    bool may_answer_none;   /**< max_dest_reads may become 0 */
    uint32_t local_psn;
    uint32_t remote_psn;
    bool has_atomics;
    muct_rdma_ece_t ece; /**< ECE to set; nothing is set if it has no options */
} muct_rdma_qp_path_t;

/**
 * Create a queue pair, in state RESET.
 *
 * @param [in]     cq    For sends and receives.
 * @param [in,out] caps  Requested, then granted sizes. Inline data is halved while the
 *                       device returns ENOMEM or EINVAL, as some devices do when it is
 *                       too large. Any other error fails the call.
 * @param [out]    qp_p  Set only on UCS_OK.
 *
 * @return UCS_OK, UCS_ERR_IO_ERROR with the reason in the log.
 */
ucs_status_t muct_rdma_qp_create(struct ibv_pd *pd, struct ibv_cq *cq,
                                 muct_rdma_qp_caps_t *caps, struct ibv_qp **qp_p);

/** RESET to INIT; receives may be posted from now on. UCS_OK or UCS_ERR_IO_ERROR. */
ucs_status_t muct_rdma_qp_to_init(struct ibv_qp *qp, const muct_rdma_port_t *port,
                                  bool has_atomics);

/**
 * INIT to RTR to RTS.
 *
 * @param [in,out] path  max_dest_reads is lowered to 8, 4 or 1 where the device has no
 *                       responder resources for more, and to 0 if it
 *                       @a may_answer_none.
 *
 * @return UCS_OK
 * @return UCS_ERR_UNREACHABLE  ibv_modify_qp(3) refused the peer's address, most often
 *                              because it has no route or neighbour there.
 * @return UCS_ERR_IO_ERROR     As @ref muct_rdma_ece_set.
 */
ucs_status_t muct_rdma_qp_connect(struct ibv_qp *qp, muct_rdma_qp_path_t *path,
                                  uint32_t remote_qp_num);

/**
 * Move the queue pair to the error state: the device executes no more of its work
 * requests, and returns all it holds as completions, in order.
 *
 * @return 0, or the errno value of a device that refused, which is logged.
 */
int muct_rdma_qp_to_error(struct ibv_qp *qp);

/** Fill the address handle attributes that reach path->remote. */
void muct_rdma_qp_fill_ah(const muct_rdma_qp_path_t *path, struct ibv_ah_attr *ah);

/** Destroy it in any state: the device does not touch memory of its work requests
 * afterwards. */
void muct_rdma_qp_destroy(struct ibv_qp *qp);

/** Code of the shortest timeout of at least this many seconds, 1 to 31. */
uint8_t muct_rdma_qp_timeout_code(double seconds);

/** Code of the shortest receiver-not-ready timer of at least this many seconds. */
uint8_t muct_rdma_qp_rnr_code(double seconds);

#endif
