/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_DOMAIN_H
#define MUCT_RDMA_DOMAIN_H

/**
 * @file
 * Parent domain of an interface's queue pairs: the memory domain's protection domain
 * with a thread domain, where the device supports it. UCT guarantees one thread at a
 * time for an interface, so the device's library needs no lock to post.
 */

#include "rdma/device/rdma_verbs.h"

#include <ucs/config/types.h>

typedef struct muct_rdma_domain {
    struct ibv_pd *pd; /**< For queue pairs; shares memory with its parent */
    struct ibv_td *td; /**< NULL: no thread domain; pd is the memory domain's own */
} muct_rdma_domain_t;

/**
 * @param [in] pd    Protection domain of the memory domain; outlives this.
 * @param [in] mode  UCS_NO for none, UCS_TRY where the device has them, UCS_YES.
 *
 * @return UCS_OK, or UCS_ERR_UNSUPPORTED, logged, when the mode is UCS_YES and there is
 * none.
 */
ucs_status_t muct_rdma_domain_open(struct ibv_pd *pd, ucs_ternary_auto_value_t mode,
                                   muct_rdma_domain_t *domain);

/** Free the domain; no queue pair uses it. */
void muct_rdma_domain_close(muct_rdma_domain_t *domain);

#endif
