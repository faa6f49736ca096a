/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_OP_BUILD_H
#define MKV_OP_BUILD_H

/**
 * @file
 * Creation of an operation.
 */

#include "direct/op.h"

/**
 * Check the parameters, and create an open operation that has not given anything to
 * UCX. Releases the lock between rounds of MKV_ROUND_COST pieces.
 *
 * @param [in] params  Of the library's size.
 *
 * @return As mkv_op_post().
 */
mkv_status_t mkv_op_build(mkv_peer_t *peer, const mkv_op_params_t *params,
                          mkv_op_t **op_p);

#endif
