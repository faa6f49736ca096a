/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_WATCH_H
#define MKV_WATCH_H

/**
 * @file
 * Transfers as listeners of their peers.
 */

#include "base/ctx.h"

/** Register the listener for messages and ends of peers. */
void mkv_xfers_listen(mkv_ctx_t *ctx);

#endif
