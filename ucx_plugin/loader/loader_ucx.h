/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_LOADER_UCX_H
#define MUCT_LOADER_UCX_H

/**
 * @file
 * The calling UCX.
 *
 * A process may hold several, under any file names: a distribution's, one that a Python
 * wheel renamed, one linked into another library. Libraries are distinguished by their
 * symbols and by the libucs they use, never by their names. Nothing is loaded.
 */

#include "loader/loader_image.h"
#include "loader/loader_version.h"

/** A UCX of this process. */
typedef struct muct_loader_ucx {
    void *uct;                     /**< Handle; finds libuct's symbols and libucs's */
    muct_loader_image_t images[2]; /**< References of libuct and of libucs */
    const void *identity;          /**< Shared by all libraries of one UCX */
    char *file;                    /**< File of its libucs; to be freed */
    muct_loader_facts_t facts;     /**< Version that it reports */
} muct_loader_ucx_t;


/**
 * Find the UCX that code belongs to.
 *
 * @param [in]  in_ucs  An address in its libucs, such as a return address.
 * @param [out] ucx     Filled in on success.
 *
 * @return 0, or -1 when the address is in no libucs, or no libuct is bound to it.
 */
int muct_loader_ucx_find(const void *in_ucs, muct_loader_ucx_t *ucx);

/**
 * Find a second libuct bound to the libucs of this UCX. Modules of UCX, ours included,
 * reach one libuct of a libucs.
 *
 * @return Its file, to be freed; NULL when there is none.
 */
char *muct_loader_ucx_stray(const muct_loader_ucx_t *ucx);

/** @return The address that UCX itself has for one of its symbols, NULL when it has
 * none. */
const void *muct_loader_ucx_symbol(const muct_loader_ucx_t *ucx, const char *name);

#endif
