/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_PLACE_H
#define MUCT_RDMA_PLACE_H

/**
 * @file
 * The table by which an interface finds the queue pair of a completion.
 */

#include "rdma/ep/rdma_iface.h"

/** Give a queue pair a place; the id is the high half of its wr_ids. */
ucs_status_t muct_rdma_iface_add_chan(muct_rdma_iface_t *iface, muct_rdma_chan_t *chan,
                                      uint32_t *place_p, uint64_t *id_p);

/** Free a place; its completions are dropped from now on. */
void muct_rdma_iface_remove_chan(muct_rdma_iface_t *iface, uint32_t place);

#endif
