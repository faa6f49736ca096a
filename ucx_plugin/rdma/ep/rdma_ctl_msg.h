/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_CTL_MSG_H
#define MUCT_RDMA_CTL_MSG_H

/**
 * @file
 * Messages between the two ends of a broken connection: packing and unpacking.
 *
 * An endpoint is identified by the queue pair number and packet number of its address,
 * and by the incarnation of its device. Queue pairs are replaced; these numbers stay.
 *
 * 119 bytes, little endian:
 *   0 version | 1 type | 2 incarnation (8) | 10 to (6) | 16 from (6) | 22 epoch (4)
 *   26 received (4) | 30 psn (3) | 33 control qp (3) | 36 device address (30)
 *   66 num_qps | 67 queue pair numbers (3 each) | 103 control qp of the address (3)
 *   106 ECE vendor (4) | 110 ECE options (4) | 114 is an answer
 *   115 control qp of the endpoint's own device (3)
 *   118 reads it answers at once
 */

#include "rdma/device/rdma_addr.h"

#define MUCT_RDMA_CTL_MSG_SIZE 119

typedef enum {
    MUCT_RDMA_CTL_RENEW = 1, /**< The sender has new queue pairs, which are named */
    MUCT_RDMA_CTL_GONE = 2   /**< There is no such endpoint, or it has failed */
} muct_rdma_ctl_type_t;

/** Two numbers of an endpoint's address. */
typedef struct muct_rdma_ctl_id {
    uint32_t qp_num;
    uint32_t psn;
} muct_rdma_ctl_id_t;

typedef struct muct_rdma_ctl_msg {
    uint8_t type;         /**< muct_rdma_ctl_type_t */
    uint64_t incarnation; /**< Incarnation of the receiver's device */
    muct_rdma_ctl_id_t to;
    muct_rdma_ctl_id_t from;
    uint32_t to_ctl_qp; /**< Control qp in the receiving endpoint's address */
    uint32_t epoch;     /**< Number of the connection to be made; the first is 0 */
    uint32_t received;  /**< Messages that have arrived since the beginning */
    uint32_t psn;       /**< First packet number, 24 bits, of every queue pair */
    uint32_t ctl_qp;    /**< Control qp that receives answers */
    muct_rdma_dev_addr_t dev; /**< Present address of the sender's device */
    uint8_t num_qps;
    uint32_t qp_nums[MUCT_RDMA_ADDR_MAX_QPS];
    muct_rdma_ece_t ece; /**< ECE of those queue pairs */
    bool is_answer;      /**< The sender is connected and needs no answer */
    uint32_t own_ctl_qp; /**< Control qp of the endpoint's own device, whichever carries
                            it now; 0: unknown */
    uint8_t max_reads;   /**< Reads the sender answers at once */
} muct_rdma_ctl_msg_t;

/** Pack into MUCT_RDMA_CTL_MSG_SIZE bytes. */
void muct_rdma_ctl_msg_pack(const muct_rdma_ctl_msg_t *msg, void *buffer);

/**
 * Unpack bytes from anywhere; nothing in them is trusted.
 *
 * @param [out] fault  Filled when they are refused.
 * @return 0, or -1 when they are cut short, of another version or invalid.
 */
int muct_rdma_ctl_msg_unpack(const void *buffer, size_t length,
                             muct_rdma_ctl_msg_t *msg, muct_rdma_fault_t *fault);

#endif
