/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_OP_STEP_H
#define MKV_OP_STEP_H

/**
 * @file
 * Next step of an operation.
 */

#include "direct/op.h"

/** Give pieces, flush, raise the final event. @return Whether something moved. */
unsigned mkv_op_step(mkv_op_t *op);

/** Step all operations that have something to do. @return How many moved. */
unsigned mkv_ops_step(mkv_ctx_t *ctx);

#endif
