/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_CONFIG_H
#define MUCT_RDMA_CONFIG_H

/**
 * @file
 * Options of an interface: as the user sets them, and reduced to the device's limits.
 */

#include "base/muct_uct_abi.h"
#include "rdma/device/rdma_device.h"

#include <stdbool.h>

/** Condition for two ports of RoCE version 2 to reach each other; same meaning as in
 * UCX. */
typedef enum {
    MUCT_RDMA_REACH_ROUTE,
    MUCT_RDMA_REACH_LOCAL_SUBNET,
    MUCT_RDMA_REACH_ALL
} muct_rdma_reachability_t;

typedef struct muct_rdma_iface_config {
    uct_iface_config_t super;
    unsigned long num_qps;
    unsigned long tx_depth;
    unsigned rx_depth;
    unsigned cq_depth;
    unsigned long max_sge;
    unsigned long max_inline;
    unsigned long post_batch;
    size_t seg_size;
    size_t stripe_size;
    double timeout;
    unsigned long retry_count;
    unsigned rnr_retry;
    double rnr_timer;
    unsigned sl;
    unsigned long traffic_class;
    unsigned hop_limit;
    unsigned long gid_index;
    unsigned path_mtu;
    unsigned pkey;
    unsigned long max_reads;
    unsigned long ece;
    int rail_affinity;
    unsigned reachability; /**< muct_rdma_reachability_t */
    double port_down_timeout;
    unsigned recovery;
    double recovery_timeout;
    unsigned max_bufs;
    int thread_domain; /**< ucs_ternary_auto_value_t */
} muct_rdma_iface_config_t;

extern ucs_config_field_t muct_rdma_iface_config_table[];

/** Limits in use: the user's options, reduced to the device's limits. */
typedef struct muct_rdma_limits {
    unsigned num_qps;
    unsigned tx_depth; /**< Work requests of a queue pair */
    unsigned rx_depth; /**< Active messages a peer may send before new credits */
    unsigned rx_first; /**< Part of rx_depth posted before the first message; at most
                          rx_depth; fewer with many endpoints */
    unsigned cq_depth;
    unsigned max_sge;
    unsigned max_inline; /**< Bytes; a queue pair may grant less */
    unsigned batch;      /**< Work requests a doorbell */
    unsigned seg_size;   /**< Bytes of a message, its header included */
    unsigned max_reads;
    unsigned max_dest_reads;
    bool shares_reads; /**< The device may grant a queue pair no responder resources */
    uint32_t max_msg_size; /**< Bytes of one work request */
    size_t stripe_size;    /**< Least bytes for which a further queue pair is used */
    uint8_t mtu_shift;
    bool has_atomics;
} muct_rdma_limits_t;

/** Receives beyond rx_depth, for credit messages: see rdma_am.c. */
#define MUCT_RDMA_CREDIT_RECEIVES 4

/**
 * Reduce the options to the device's limits; each reduction is logged as a warning.
 *
 * @return UCS_OK, or UCS_ERR_INVALID_PARAM for a value that is invalid on any device;
 *         logged as an error.
 */
ucs_status_t muct_rdma_limits_init(const muct_rdma_iface_config_t *config,
                                   const muct_rdma_device_t *device,
                                   const muct_rdma_port_t *port,
                                   muct_rdma_limits_t *limits);

#endif
