/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_ECE_H
#define MUCT_RDMA_ECE_H

/**
 * @file
 * Enhanced connection establishment (ECE): two devices of one vendor agree on features
 * beyond the standard, for example selective repeat on lossy networks.
 *
 * The protocol is that of librdmacm and NCCL. Each side sends what its queue pairs
 * offer. Each side sets the peer's offer before its queue pairs are ready to receive; a
 * device uses the part of it that it supports. Both sides use the same options,
 * whichever is first: the side that answers sends what its queue pairs use already. If
 * there is no offer, or the vendors differ, nothing is set, and the devices follow the
 * standard.
 */

#include "rdma/device/rdma_addr.h"
#include "rdma/device/rdma_verbs.h"

/**
 * Query what a new queue pair offers.
 *
 * @param [in]  wish  UCS_ULUNITS_AUTO for what its device reports, UCS_ULUNITS_INF for
 *     all, or the options themselves; 0 for none.
 * @param [out] ece   No options where the device or the library has no ECE.
 */
void muct_rdma_ece_offer(struct ibv_qp *qp, unsigned long wish, muct_rdma_ece_t *ece);

/**
 * Choose the options that both sides will use.
 *
 * @param [in]  wish  Same as above: options that the user has named win over the
 * peer's.
 * @param [in]  own   Our offer.
 * @param [in]  peer  The peer's.
 * @param [out] ece   Options to set; none if nothing is to be set.
 */
void muct_rdma_ece_choose(unsigned long wish, const muct_rdma_ece_t *own,
                          const muct_rdma_ece_t *peer, muct_rdma_ece_t *ece);

/**
 * Set it on a queue pair that is not ready to receive yet; does nothing without
 * options.
 *
 * @return UCS_OK
 * @return UCS_ERR_IO_ERROR  The device refused what it had offered; logged. The peer
 * may have set it, so there can be no connection.
 */
ucs_status_t muct_rdma_ece_set(struct ibv_qp *qp, const muct_rdma_ece_t *ece);

/** Query the options in use on a queue pair that is ready to receive. @a set are the
 * options that were set before. */
void muct_rdma_ece_agreed(struct ibv_qp *qp, const muct_rdma_ece_t *set,
                          muct_rdma_ece_t *ece);

#endif
