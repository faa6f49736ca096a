/* SPDX-License-Identifier: BSD-3-Clause */

/* A hash table in which a new entry replaces an older one in its slot. */

#include "base/tombstone.h"

void mkv_tombstone_add(mkv_ctx_t *ctx, uint64_t nonce)
{
    if (nonce != 0) {
        ctx->tombstones[nonce % MKV_TOMBSTONES] = nonce;
    }
}

bool mkv_tombstone_has(const mkv_ctx_t *ctx, uint64_t nonce)
{
    return (nonce != 0) && (ctx->tombstones[nonce % MKV_TOMBSTONES] == nonce);
}
