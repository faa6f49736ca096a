/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_OP_GIVE_H
#define MKV_OP_GIVE_H

/**
 * @file
 * Pieces of an operation, given to UCX.
 */

#include "direct/op.h"

/**
 * Give UCX as many pieces as the peer's credit allows.
 * @return Calls made.
 */
unsigned mkv_op_give(mkv_op_t *op);

#endif
