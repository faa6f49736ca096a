/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef XGMI_OWNER_H
#define XGMI_OWNER_H

/**
 * @file
 * A second process that owns GPU memory: it registers allocations and executes commands
 * from a pipe. Over libhipcpu.
 */

#include "base/muct_gpu.h"
#include "xgmi/memory/xgmi_key.h"

#include <sys/types.h>

typedef struct xgmi_owner {
    pid_t pid;
    int commands; /**< To the owner */
    int answers;  /**< From the owner */
} xgmi_owner_t;

/** Start an owner that shares its control page in @a dir. */
void xgmi_owner_start(xgmi_owner_t *owner, const char *dir);

/** A new allocation and its key. */
void xgmi_owner_alloc(xgmi_owner_t *owner, size_t length, muct_xgmi_key_t *key);

/** Free the allocation of a key; the key is not made void. */
void xgmi_owner_free(xgmi_owner_t *owner, const muct_xgmi_key_t *key);

/** Invalidate a key; @return the owner's status. */
ucs_status_t xgmi_owner_invalidate(xgmi_owner_t *owner, const muct_xgmi_key_t *key,
                                   unsigned timeout_ms);

/** Kill it and wait until it is gone. */
void xgmi_owner_kill(xgmi_owner_t *owner);

/** Runtime of this process, bound to libhipcpu. */
const muct_gpu_t *xgmi_owner_gpu(void);

#endif
