/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * libuct reports no version. libucp does, and is loaded in every UCP application;
 * without it, the operations that libuct exports give the lowest possible version.
 */

#include "config.h"

#include "loader/loader_version.h"

#include <stdio.h>

int muct_loader_version_choose(const muct_loader_facts_t *facts, char *reason,
                               size_t size)
{
    reason[0] = '\0';
    if (facts->has_statistics) {
        snprintf(reason, size,
                 "this UCX was built with statistics (--enable-stats), which changes "
                 "its structures: use one without");
        return -1;
    }

    if (facts->minor >= 0) {
        if ((facts->major == 1) && (facts->minor >= 22)) {
            return facts->minor;
        }
        snprintf(reason, size, "this is UCX %d.%d, and 1.22 or a later 1.x is needed",
                 facts->major, facts->minor);
        return -1;
    }

    if (facts->has_get_sgl) {
        return 23;
    }
    if (facts->has_put_sgl) {
        return 22;
    }

    snprintf(reason, size, "this UCX is older than 1.22, and 1.22 or later is needed");
    return -1;
}
