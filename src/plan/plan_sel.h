/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_PLAN_SEL_H
#define MKV_PLAN_SEL_H

/**
 * @file
 * Checks of selections that callers and peers give.
 */

#include "plan/plan.h"

#include <stdbool.h>

static inline bool mkv_sel_has_positions(const mkv_sel_t *sel)
{
    return (sel->fields & MKV_SEL_POSITIONS) != 0;
}

/**
 * Check that a selection can be posted with the plan.
 *
 * @return MKV_OK, MKV_ERR_UNSUPPORTED, MKV_ERR_INVALID, or MKV_ERR_BOUNDS: positions
 *         outside the plan.
 */
mkv_status_t mkv_plan_check_sel(const mkv_plan_t *plan, const mkv_sel_t *sel);

/**
 * Reject layers that this side's regions lack: a post of them would move nothing. A
 * peer may select such layers, as it has those of other pipeline stages as well.
 *
 * @return MKV_OK, MKV_ERR_BOUNDS.
 */
mkv_status_t mkv_plan_check_layers(const mkv_plan_t *plan, const mkv_sel_t *sel);

#endif
