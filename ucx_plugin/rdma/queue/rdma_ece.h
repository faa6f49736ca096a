/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_ECE_H
#define MUCT_RDMA_ECE_H

/**
 * @file
 * Enhanced connection establishment (ECE): two devices of one vendor agree on what goes
 * beyond the standard, selective repeat on lossy networks for one.
 *
 * As librdmacm and NCCL do it. Each side tells the other what its queue pairs offer,
 * and sets what the other one offers before they are ready to receive; a device keeps
 * to what of that it has. Both keep to the same, whoever is first: one that answers
 * tells what they keep to already. Without an offer, or with one of another vendor,
 * nothing is set, and devices then keep to the standard.
 */

#include "rdma/device/rdma_addr.h"
#include "rdma/device/rdma_verbs.h"

/**
 * What a new queue pair offers.
 *
 * @param [in]  wish  UCS_ULUNITS_AUTO for what its device says, UCS_ULUNITS_INF for
 * all, or the options themselves; 0 for none.
 * @param [out] ece   No options where the device or the library has no ECE.
 */
void muct_rdma_ece_offer(struct ibv_qp *qp, unsigned long wish, muct_rdma_ece_t *ece);

/**
 * What both sides will have.
 *
 * @param [in]  wish  As above: options that the user has named win over the peer's.
 * @param [in]  own   Our offer.
 * @param [in]  peer  The peer's.
 * @param [out] ece   To be set; no options where nothing is to be.
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

/** What a queue pair keeps to on which @a set was set, and that is ready to receive. */
void muct_rdma_ece_agreed(struct ibv_qp *qp, const muct_rdma_ece_t *set,
                          muct_rdma_ece_t *ece);

#endif
