/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_STATS_H
#define MUCT_RDMA_STATS_H

/**
 * @file
 * Settings and counters of an interface, for its user.
 */

#include "rdma/ep/rdma_iface.h"

/** Show settings in use and what was posted, for each queue pair, in UCX's VFS. */
void muct_rdma_iface_vfs_refresh(uct_iface_h iface);

/** Log the statistics at level info, if anything was posted. */
void muct_rdma_iface_log_stats(const muct_rdma_iface_t *iface);

#endif
