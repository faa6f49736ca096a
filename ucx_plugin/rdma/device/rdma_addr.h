/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_ADDR_H
#define MUCT_RDMA_ADDR_H

/**
 * @file
 * Addresses that two interfaces, and then two endpoints, exchange: packing and
 * unpacking.
 *
 * UCX carries both inside its own worker address, whose first version has room for 31
 * bytes of a device address and 63 of an endpoint address. The limit of queue pairs
 * follows from that.
 *
 * Device address, 30 bytes, little endian except the GID:
 *   0 version | 1 link and RoCE version | 2 log2(mtu) | 3 rail | 4 lid (2)
 *   6 incarnation (8) | 14 gid (16)
 *
 * Endpoint address, 25 bytes and 3 a queue pair:
 *   0 version | 1 num_qps | 2 psn (3) | 5 receives (2) | 7 receive size in 16 bytes (2)
 *   9 concurrent reads that it answers, plus 128 until its device has granted them
 *   10 flush address (8) | 18 flush rkey (4)
 *   22 control queue pair (3) | 25 queue pair numbers (3 each)
 *
 * If there is room and ECE is not switched off, 8 more bytes follow:
 *   0 ECE vendor (4) | 4 ECE options (4)
 */

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MUCT_RDMA_ADDR_VERSION 3
#define MUCT_RDMA_ADDR_MAX_QPS 12
#define MUCT_RDMA_ADDR_WISH 128
#define MUCT_RDMA_DEV_ADDR_SIZE 30
#define MUCT_RDMA_EP_ADDR_SIZE(_num_qps) (25 + 3 * (size_t)(_num_qps))
#define MUCT_RDMA_ECE_SIZE 8
#define MUCT_RDMA_ECE_MAX_QPS 10 /* with more there is no room for ECE */

/** Link types; both devices must have the same. */
typedef enum {
    MUCT_RDMA_LINK_IB = 1,      /**< InfiniBand */
    MUCT_RDMA_LINK_ROCE_V1 = 2, /**< Ethernet, one broadcast domain */
    MUCT_RDMA_LINK_ROCE_V2 = 3  /**< Ethernet, routed over UDP */
} muct_rdma_link_t;

/** Enhanced connection establishment: features of a queue pair beyond the standard. */
typedef struct muct_rdma_ece {
    uint32_t vendor_id; /**< Vendor that defines the options */
    uint32_t options;   /**< 0: none */
} muct_rdma_ece_t;

typedef struct muct_rdma_dev_addr {
    uint8_t link;         /**< muct_rdma_link_t */
    uint8_t mtu_shift;    /**< log2 of the path MTU, bytes */
    uint8_t rail;         /**< Index among the used devices of its process */
    uint16_t lid;         /**< InfiniBand only */
    uint64_t incarnation; /**< Random number, drawn when the device was opened */
    uint8_t gid[16];
} muct_rdma_dev_addr_t;

typedef struct muct_rdma_ep_addr {
    uint8_t num_qps;       /**< 1 to MUCT_RDMA_ADDR_MAX_QPS */
    uint32_t psn;          /**< First packet number, 24 bits, of every queue pair */
    uint16_t num_receives; /**< Active messages that the sender may send before it needs
                              credits */
    uint32_t receive_size; /**< Bytes of each receive, header included */
    uint8_t max_reads;     /**< Reads and atomics it answers at once, 0 to 127 */
    bool is_read_wish;     /**< The sender's device has not granted max_reads yet */
    uint64_t flush_addr;   /**< Memory that connected peers read to flush writes */
    uint32_t flush_rkey;   /**< Remote key of that memory */
    uint32_t ctl_qp;       /**< Control qp for recovery messages, 0: none */
    uint32_t qp_nums[MUCT_RDMA_ADDR_MAX_QPS];
    bool has_ece; /**< ECE fits into the address; up to MUCT_RDMA_ECE_MAX_QPS */
    muct_rdma_ece_t ece;
} muct_rdma_ep_addr_t;

/** Invalid field of an address or message, for a log line. */
typedef struct muct_rdma_fault {
    const char *field;
    uint64_t value;
    const char *expected;
} muct_rdma_fault_t;

/** Format of a fault in a log line, and its arguments */
#define MUCT_RDMA_FAULT_FMT "%s is 0x%" PRIx64 ", expected %s"
#define MUCT_RDMA_FAULT_ARG(_fault) (_fault)->field, (_fault)->value, (_fault)->expected

/** Condition, and the fault when it does not hold */
typedef struct muct_rdma_rule {
    bool is_good;
    muct_rdma_fault_t fault;
} muct_rdma_rule_t;

/** Whether all rules hold; else @a fault is the first one's. */
bool muct_rdma_rules_hold(const muct_rdma_rule_t *rules, size_t num,
                          muct_rdma_fault_t *fault);

/** Numbers that a connection may use: 0, 1 and 0xffffff have a meaning of their own. */
static inline bool muct_rdma_is_qp_num(uint32_t qp_num)
{
    return (qp_num >= 2) && (qp_num < 0xffffff);
}

#define MUCT_RDMA_QP_NUM_EXPECTED "2 to 0xfffffe"

/** Whether queue pair numbers are valid and different. */
bool muct_rdma_qp_nums_are_good(const uint32_t *qp_nums, unsigned num,
                                muct_rdma_fault_t *fault);

/** Pack into MUCT_RDMA_DEV_ADDR_SIZE bytes. */
void muct_rdma_dev_addr_pack(const muct_rdma_dev_addr_t *addr, void *buffer);

/**
 * Unpack bytes of another process; nothing in them is trusted.
 *
 * @param [in]  length  Upper bound of the bytes in the buffer; SIZE_MAX when UCX gives
 *                      none.
 * @param [out] fault   Filled when they are refused.
 * @return 0, or -1 when they are cut short, of another version or invalid.
 */
int muct_rdma_dev_addr_unpack(const void *buffer, size_t length,
                              muct_rdma_dev_addr_t *addr, muct_rdma_fault_t *fault);

/** Pack into 8 bytes. */
void muct_rdma_ece_pack(const muct_rdma_ece_t *ece, void *buffer);
void muct_rdma_ece_unpack(const void *buffer, muct_rdma_ece_t *ece);

/** Pack into MUCT_RDMA_EP_ADDR_SIZE(addr->num_qps) bytes, and MUCT_RDMA_ECE_SIZE more
 * with addr->has_ece. */
void muct_rdma_ep_addr_pack(const muct_rdma_ep_addr_t *addr, void *buffer);

/** Same as @ref muct_rdma_dev_addr_unpack. If the length is unknown, there is no ECE.
 */
int muct_rdma_ep_addr_unpack(const void *buffer, size_t length,
                             muct_rdma_ep_addr_t *addr, muct_rdma_fault_t *fault);

/**
 * Explain why a device with address @a local cannot reach one with address @a remote.
 *
 * @param [in] same_rail  Whether both must have the same rail index.
 * @return NULL when it can (as far as addresses show), else a text.
 */
const char *muct_rdma_dev_addr_unreachable(const muct_rdma_dev_addr_t *local,
                                           const muct_rdma_dev_addr_t *remote,
                                           int same_rail);

#endif
