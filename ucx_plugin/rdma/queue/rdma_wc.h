/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_WC_H
#define MUCT_RDMA_WC_H

/**
 * @file
 * Meaning of a work completion's status, for UCX and for readers of the log.
 */

#include <infiniband/verbs.h>
#include <ucs/type/status.h>

#include <stdbool.h>

/**
 * Status of the operation that ended so.
 *
 * UCS_ERR_ENDPOINT_TIMEOUT   the peer or the network does not answer
 * UCS_ERR_CONNECTION_RESET   the peer refused: key, range, length, or it failed
 * UCS_ERR_CANCELED           flushed behind another failure
 * UCS_ERR_IO_ERROR           our own side: local key, queue pair, device
 */
ucs_status_t muct_rdma_wc_status(enum ibv_wc_status status);

/**
 * Whether a retry with another queue pair may succeed: the peer did not answer, or the
 * reason is unknown. A refused request would be refused again.
 */
bool muct_rdma_wc_may_pass(enum ibv_wc_status status);

/** Usual cause of the status, for messages; never NULL. */
const char *muct_rdma_wc_hint(enum ibv_wc_status status);

#endif
