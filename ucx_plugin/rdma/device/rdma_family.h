/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_FAMILY_H
#define MUCT_RDMA_FAMILY_H

/**
 * @file
 * Default values of options that the user leaves to us. They depend on the family of
 * devices; one table has them all, with the source of each number.
 */

#include "rdma/device/rdma_config.h"

typedef struct muct_rdma_family {
    const char *name;
    uint32_t vendor_id;    /**< vendor_id of ibv_device_attr; 0 for all others */
    bool is_peermem_first; /**< GPU memory is registered faster by peer memory */
    bool needs_dmabuf;     /**< GPU memory needs a dma-buf */
    bool has_larger_mrs;   /**< The device registers more than its max_mr_size */
    unsigned num_qps;
    unsigned tx_depth;
    unsigned max_sge;
    unsigned max_inline;
    unsigned retry_count;
    double timeout;           /**< Seconds */
    double port_down_timeout; /**< Seconds */
    double recovery_timeout;  /**< Seconds */
} muct_rdma_family_t;

/** Family of a device; never NULL. */
const muct_rdma_family_t *muct_rdma_family_of(const muct_rdma_device_t *device);

/** Replace options that are auto by the family's values and the port's settings. */
void muct_rdma_family_fill(const muct_rdma_device_t *device,
                           const muct_rdma_port_t *port,
                           muct_rdma_iface_config_t *config);

/**
 * Traffic class of a port: the administrator's setting (sysfs, tc/PORT/traffic_class),
 * else 106 on RoCE version 2, like UCX, else 0.
 */
uint8_t muct_rdma_family_traffic_class(const muct_rdma_device_t *device,
                                       const muct_rdma_port_t *port);

/** Whether to enable relaxed ordering: on AMD's server processors, like UCX. */
bool muct_rdma_family_has_relaxed_ordering(void);

#endif
