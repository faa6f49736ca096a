/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_LOADER_BIND_H
#define MUCT_LOADER_BIND_H

/**
 * @file
 * Bind a core's references to UCX to one UCX of the process.
 *
 * The dynamic linker would look them up in the process' global scope, where a UCX that
 * Python loaded is not, and where another one may be. Changing that scope would change
 * it for every library that is loaded later, so the references are filled in by hand.
 */

#include "loader/loader_ucx.h"

#include <link.h>
#include <stddef.h>

/**
 * Fill in every reference of a core to symbols of UCX.
 *
 * The caller guarantees that no code of the core has run.
 *
 * @param [in]  core    The core; its references to UCX are weak.
 * @param [in]  ucx     The UCX whose symbols are used.
 * @param [out] reason  The missing symbol or the failure, for the log; untouched on
 *                      success.
 * @param [in]  size    Bytes in @a reason.
 *
 * @return 0, or -1: that UCX lacks a symbol, the machine's kind of reference is
 *         unknown, or memory could not be made writable. The core must then not be
 *         used.
 */
int muct_loader_bind(const struct link_map *core, const muct_loader_ucx_t *ucx,
                     char *reason, size_t size);

#endif
