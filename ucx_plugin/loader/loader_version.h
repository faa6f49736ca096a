/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_LOADER_VERSION_H
#define MUCT_LOADER_VERSION_H

/**
 * @file
 * The core that a UCX needs.
 */

#include <stdbool.h>
#include <stddef.h>

/** The newest UCX 1.x that this release can be built for: base/muct_uct_abi.h. */
#define MUCT_LOADER_NEWEST_MINOR 23

/** Versions that a UCX reports. */
typedef struct muct_loader_facts {
    int minor;           /**< Minor version of its libucp, -1 when none is loaded */
    int major;           /**< Major version of its libucp, -1 when none is loaded */
    bool has_put_sgl;    /**< libuct exports uct_ep_put_sgl_zcopy: 1.22 or newer */
    bool has_get_sgl;    /**< libuct exports uct_ep_get_sgl_zcopy: 1.23 or newer */
    bool has_statistics; /**< libucs was built with ENABLE_STATS: other layouts */
} muct_loader_facts_t;


/**
 * Decide.
 *
 * @param [in]  facts   What was found.
 * @param [out] reason  Why no core can serve it, for the log. Always terminated.
 * @param [in]  size    Bytes in @a reason.
 *
 * @return Minor version of UCX 1.x whose core fits, whether it is installed or not;
 *         -1 when none can.
 */
int muct_loader_version_choose(const muct_loader_facts_t *facts, char *reason,
                               size_t size);

#endif
