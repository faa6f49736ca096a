/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_TOMBSTONE_H
#define MKV_TOMBSTONE_H

/**
 * @file
 * Record of ended remote instances of transfers. It is bounded, so old entries may be
 * lost.
 */

#include "base/ctx.h"

#include <stdbool.h>

void mkv_tombstone_add(mkv_ctx_t *ctx, uint64_t nonce);
bool mkv_tombstone_has(const mkv_ctx_t *ctx, uint64_t nonce);

#endif
