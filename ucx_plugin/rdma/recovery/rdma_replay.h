/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_REPLAY_H
#define MUCT_RDMA_REPLAY_H

/**
 * @file
 * Work requests that are repeated after a reconnection.
 */

#include "rdma/ep/rdma_ep.h"

/**
 * Select the work requests to repeat: of the incomplete ones, messages that have not
 * arrived, writes, and reads whose response has not arrived. Atomics cannot be
 * repeated; see rdma_replay.c.
 *
 * @param [in] received  Messages the peer has received since the beginning.
 *
 * @return False when something cannot be repeated; logged.
 */
bool muct_rdma_replay_prepare(muct_rdma_ep_t *ep, uint32_t received);

#endif
