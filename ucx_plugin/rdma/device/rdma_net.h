/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_NET_H
#define MUCT_RDMA_NET_H

/**
 * @file
 * Network interface of an entry of a port's GID table, according to sysfs.
 */

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>

/** As IFNAMSIZ. */
#define MUCT_RDMA_NET_NAME_MAX 16

/**
 * Name of the interface that has the address of an entry of the GID table.
 *
 * @param [out] name  Empty when it is not known.
 */
void muct_rdma_net_name(const struct ibv_device *device, unsigned port, unsigned index,
                        char name[MUCT_RDMA_NET_NAME_MAX]);

/**
 * Whether the interface belongs to another network namespace, so that this process
 * cannot use its addresses. False when unknown.
 *
 * @param [in] ifindex  Index of the interface in its namespace; 0: unknown. The name is
 * no proof: most containers have an interface of the same name.
 */
bool muct_rdma_net_is_foreign(const struct ibv_device *device, unsigned port,
                              unsigned index, unsigned ifindex);

/** Number of links of a bonded interface (LACP); 1 for any other interface. */
unsigned muct_rdma_net_num_links(const struct ibv_device *device, const char *name);

#endif
