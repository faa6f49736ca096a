/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_WATCH_H
#define MUCT_RDMA_WATCH_H

/**
 * @file
 * Watch for work requests that a device neither ends nor fails.
 *
 * A device limits the time of an acknowledgement to TIMEOUT x RETRY_COUNT, but it may
 * lose its timer. soft-RoCE does so after a lost acknowledgement: when an earlier
 * duplicate of it arrives during the retransmission and the last one is lost, too, no
 * retry is started and no timer is set (Linux, drivers/infiniband/sw/rxe/rxe_comp.c,
 * COMPST_ERROR_RETRY).
 *
 * If a queue pair has ended nothing for half of the limit, a write of zero bytes is
 * posted: its acknowledgement covers everything before it. After the limit recovery
 * begins, or the endpoint fails.
 */

#include "rdma/ep/rdma_ep.h"

/** Milliseconds within which a lightly loaded queue pair of this path completes
 * something: four times the device's own retry limit, at least two seconds. */
uint64_t muct_rdma_watch_limit(const muct_rdma_qp_path_t *path);

/** Checks in the time that a queue pair may go without a completion. */
#define MUCT_RDMA_WATCH_CHECKS 4

/** Milliseconds between two checks. */
static inline uint64_t muct_rdma_watch_period(const muct_rdma_iface_t *iface)
{
    return iface->watch_ms / MUCT_RDMA_WATCH_CHECKS;
}

/** Check the queue pairs of all endpoints when the next check is due. Endpoints may be
 * failed and destroyed. */
void muct_rdma_watch_progress(muct_rdma_iface_t *iface);

/** Whether work is in flight, so that a blocked worker must wake for the next check. */
bool muct_rdma_watch_is_needed(const muct_rdma_iface_t *iface);

#endif
