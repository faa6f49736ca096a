/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_GATE_H
#define MKV_GATE_H

/**
 * @file
 * Signals of gates without a callback.
 *
 * mkv_gate_signal() takes no lock. It queues a node, which the next call that makes
 * progress or posts processes under the context's lock.
 */

#include "base/ctx.h"

/**
 * Process queued signals.
 * @return Number of signals.
 */
unsigned mkv_gates_take(mkv_ctx_t *ctx);

/** Last value that was signalled; 0: none. */
uint64_t mkv_gate_value(const mkv_ctx_t *ctx, uint64_t id);

void mkv_gates_cleanup(mkv_ctx_t *ctx);

#endif
