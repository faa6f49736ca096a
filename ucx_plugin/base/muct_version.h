/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_VERSION_H
#define MUCT_VERSION_H

/**
 * @file
 * Is the running UCX the one this module was built for?
 */

#include <stddef.h>

/** What can be learned about the UCX libraries of this process. */
typedef struct muct_version_facts {
    int minor;          /**< Minor version libucp tells, -1 when it is not loaded */
    int major;          /**< Major version libucp tells, -1 when it is not loaded */
    int has_put_sgl;    /**< libuct exports uct_ep_put_sgl_zcopy: 1.22 or newer */
    int has_get_sgl;    /**< libuct exports uct_ep_get_sgl_zcopy: 1.23 or newer */
    int has_statistics; /**< libucs was built with ENABLE_STATS: other layouts */
} muct_version_facts_t;


/** Look at the libraries this process has loaded; loads none. */
void muct_version_collect(muct_version_facts_t *facts);


/**
 * Decide.
 *
 * @param [in]  facts      What was found.
 * @param [in]  built_for  Minor version the module was built for.
 * @param [out] reason     Why not, for the log. Always terminated.
 * @param [in]  size       Bytes in @a reason.
 *
 * @return 1 when the module may register, 0 when it must not.
 */
int muct_version_is_supported(const muct_version_facts_t *facts, int built_for,
                              char *reason, size_t size);

#endif
