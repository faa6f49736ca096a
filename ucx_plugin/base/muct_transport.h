/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_TRANSPORT_H
#define MUCT_TRANSPORT_H

/**
 * @file
 * Interface of a transport of this module to UCX. Each folder beside base/ defines a
 * transport; muct_core.c lists and registers them.
 */

#include "base/muct_uct_abi.h"

typedef struct muct_transport {
    uct_component_t *component; /**< Padded by MUCT_ABI_PADDED, as its tables are */
    uct_tl_t *tl;               /**< The component's only transport */
} muct_transport_t;

#endif
