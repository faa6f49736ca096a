/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_QUERY_H
#define MUCT_RDMA_QUERY_H

/**
 * @file
 * Attributes, addresses and reachability of an interface, for the operation table.
 */

#include "rdma/ep/rdma_iface.h"

ucs_status_t muct_rdma_iface_query(uct_iface_h iface, uct_iface_attr_t *attr);
ucs_status_t muct_rdma_iface_query_v2(uct_iface_h iface, uct_iface_attr_v2_t *attr);
ucs_status_t muct_rdma_iface_estimate_perf(uct_iface_h iface, uct_perf_attr_t *attr);
ucs_status_t muct_rdma_iface_get_device_address(uct_iface_h iface,
                                                uct_device_addr_t *buffer);
ucs_status_t muct_rdma_iface_get_address(uct_iface_h iface, uct_iface_addr_t *buffer);
int muct_rdma_iface_is_reachable_v2(const uct_iface_h iface,
                                    const uct_iface_is_reachable_params_t *params);

#endif
