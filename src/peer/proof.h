/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_PROOF_H
#define MKV_PROOF_H

/**
 * @file
 * A number known only to a context and one of its peers. The context sends it with each
 * HELLO to that peer. A HELLO with the context's number and a wrong proof comes from
 * another sender and replaces no connection.
 */

#include <stdint.h>

/**
 * Proof of the context with this key for the peer @a ctx_id: SipHash-2-4, so that a
 * peer cannot compute the proof for another one from its own.
 *
 * @return Never 0.
 */
uint64_t mkv_proof(const uint64_t key[2], uint64_t ctx_id);

#endif
