/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_PROGRESS_H
#define MUCT_RDMA_PROGRESS_H

/**
 * @file
 * Progress and events of an interface, for the operation table.
 */

#include "rdma/ep/rdma_iface.h"

unsigned muct_rdma_iface_progress(uct_iface_h iface);
ucs_status_t muct_rdma_iface_event_fd_get(uct_iface_h iface, int *fd_p);
ucs_status_t muct_rdma_iface_event_arm(uct_iface_h iface, unsigned events);

#endif
