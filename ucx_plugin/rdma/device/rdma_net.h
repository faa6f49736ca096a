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
 * Name of the interface whose address an entry of the GID table is.
 *
 * @param [out] name  Empty when it is not known.
 */
void muct_rdma_net_name(const struct ibv_device *device, unsigned port, unsigned index,
                        char name[MUCT_RDMA_NET_NAME_MAX]);

/**
 * Whether it is an interface of another network namespace: no address of this process'.
 * False when nothing is known of it.
 *
 * @param [in] ifindex  Its number there, 0 when that is not known: a container has an
 *                      interface of the same name, more often than not.
 */
bool muct_rdma_net_is_foreign(const struct ibv_device *device, unsigned port,
                              unsigned index, unsigned ifindex);

/** Links that a bonded interface (LACP) spreads its packets over; 1 for any other. */
unsigned muct_rdma_net_num_links(const struct ibv_device *device, const char *name);

#endif
