/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_PLAN_SEL_H
#define MKV_PLAN_SEL_H

/**
 * @file
 * Selections as they come from callers and peers.
 */

#include "plan/plan.h"

#include <stdbool.h>

static inline bool mkv_sel_has_positions(const mkv_sel_t *sel)
{
    return (sel->fields & MKV_SEL_POSITIONS) != 0;
}

/**
 * Whether a selection can be posted of the plan.
 *
 * @return MKV_OK, MKV_ERR_UNSUPPORTED, MKV_ERR_INVALID, or MKV_ERR_BOUNDS: positions
 *         outside the plan.
 */
mkv_status_t mkv_plan_check_sel(const mkv_plan_t *plan, const mkv_sel_t *sel);

#endif
