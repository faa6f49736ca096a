/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_PROCESS_H
#define MKV_PROCESS_H

/**
 * @file
 * Who a process is, and whether it still is.
 */

#include "wire/wire.h"

/** Everything but ctx_id; what cannot be found out is 0. */
void mkv_process_self(mkv_process_t *process);

/** The process is proven gone: same boot, same pid namespace, other start time. */
int mkv_process_is_gone(const mkv_process_t *self, const mkv_process_t *process);

/** Both run on the same host, or nobody knows. */
int mkv_process_is_local(const mkv_process_t *self, const mkv_process_t *process);

#endif
