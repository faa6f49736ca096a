/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_BACKEND_H
#define MKV_BACKEND_H

/**
 * @file
 * Transports that carry a peer's data, and the kinds of calls that they support.
 */

#include "peer/peer.h"

#include <stdbool.h>

/** The class of the slowest transport that a text of UCX names, as "tcp/lo". */
mkv_backend_t mkv_backend_of_text(const char *text);

/** Name of a class, never NULL. */
const char *mkv_backend_string(mkv_backend_t backend);

/** Map UCX's status of a call to the status of its transfer. */
mkv_status_t mkv_status_of_ucs(ucs_status_t status);

/** Whether a lane copies lists of GPU memory by itself, without a NIC. */
bool mkv_ep_takes_gpu_lists(const mkv_ctx_t *ctx, ucp_ep_h ep);

/** Query UCX for the endpoint's transports, and note them with their class. */
void mkv_peer_query_transports(mkv_peer_t *peer);

/**
 * @param [out] text  Set if another class than option BACKEND would carry the data.
 *
 * @return MKV_OK, or MKV_ERR_BACKEND in strict mode.
 */
mkv_status_t mkv_peer_check_backend(mkv_peer_t *peer, char *text, size_t size);

/** Log better classes than the one in use, each with the known reason. */
void mkv_peer_log_rejected(mkv_peer_t *peer);

/** Whether UCX's text for transfers between GPU memory names a lane that takes lists of
 * such memory; a lane of messages and a rendezvous do not count. */
bool mkv_text_takes_lists(const char *text, unsigned ucp_version);

/** Whether a lane of the endpoint is known to support lists between these memory
 * types. */
bool mkv_peer_has_sgl_lane(const mkv_peer_t *peer, ucs_memory_type_t local,
                           ucs_memory_type_t remote);

/** Whether a put must show first that the lane of lists reaches the memory: keys of
 * mori_xgmi for some memory name no way. */
bool mkv_peer_needs_list_query(const mkv_peer_t *peer, ucs_memory_type_t local,
                               ucs_memory_type_t remote);

/**
 * Whether a list put that is complete has arrived, without a flush. mori_xgmi reports
 * the end of a put when the GPU that copied has released the bytes to the system, and
 * no other lane of the endpoint takes lists.
 */
bool mkv_peer_lists_arrive(const mkv_peer_t *peer);

#endif
