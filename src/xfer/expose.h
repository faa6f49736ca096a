/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_EXPOSE_H
#define MKV_EXPOSE_H

/**
 * @file
 * Block lists of a leg.
 */

#include "xfer/leg.h"

/** Active side: handle the peer's block list. */
void mkv_leg_exposed(mkv_leg_t *leg, const mkv_msg_t *msg);

/**
 * Passive side: make the sets of exposed units, if this was not done. It needs them
 * once, when the peer first names units.
 *
 * @return MKV_OK, MKV_ERR_NOMEM.
 */
mkv_status_t mkv_leg_index_exposed(mkv_leg_t *leg);

/** The exposed units of a component, once they are indexed. */
const mkv_unit_set_t *mkv_leg_exposed_set(const mkv_leg_t *leg, uint32_t component);

/** Passive side: the units of the pair's region that the leg has exposed. NULL: no
 *  memory. */
const mkv_unit_set_t *mkv_leg_exposed_units(mkv_leg_t *leg, const mkv_pair_t *pair);

#endif
