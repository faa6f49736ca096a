/* SPDX-License-Identifier: BSD-3-Clause */

#include "plan/plan_sel.h"

#define MKV_SEL_ALL                                                                    \
    ((uint32_t)(MKV_SEL_COMPONENTS | MKV_SEL_LAYERS | MKV_SEL_POSITIONS |              \
                MKV_SEL_NOTIFY))

mkv_status_t mkv_plan_check_layers(const mkv_plan_t *plan, const mkv_sel_t *sel)
{
    const mkv_map_t *map = plan->map;

    if (!(sel->fields & MKV_SEL_LAYERS) || (sel->layer_lo == sel->layer_hi) ||
        ((sel->layer_lo >= map->layer_first) &&
         (sel->layer_hi - 1 <= map->layer_last))) {
        return MKV_OK;
    }
    return mkv_error(&plan->ctx->log, MKV_ERR_BOUNDS,
                     "sel: layers [%d, %d), expected some of [%d, %d), which this "
                     "side's regions have",
                     sel->layer_lo, sel->layer_hi, map->layer_first,
                     map->layer_last + 1);
}

static mkv_status_t mkv_plan_check_fields(const mkv_log_t *log, const mkv_sel_t *sel)
{
    if (sel->fields & ~MKV_SEL_ALL) {
        return mkv_error(log, MKV_ERR_UNSUPPORTED,
                         "sel: fields 0x%x, libmorikv %s supports 0x%x", sel->fields,
                         mkv_version_string(), MKV_SEL_ALL);
    }
    if ((!(sel->fields & MKV_SEL_COMPONENTS) && (sel->component_mask != 0)) ||
        (!(sel->fields & MKV_SEL_LAYERS) && ((sel->layer_lo | sel->layer_hi) != 0)) ||
        (!(sel->fields & MKV_SEL_POSITIONS) && ((sel->pos_lo | sel->pos_hi) != 0)) ||
        (!(sel->fields & MKV_SEL_NOTIFY) && (sel->notify != 0))) {
        return mkv_error(
            log, MKV_ERR_INVALID,
            "sel: component_mask 0x%llx, layers [%d, %d), positions [%u, "
            "%u), notify %u, but fields is 0x%x: expected MKV_SEL_* of what "
            "is given",
            (unsigned long long)sel->component_mask, sel->layer_lo, sel->layer_hi,
            sel->pos_lo, sel->pos_hi, sel->notify, sel->fields);
    }
    return MKV_OK;
}

mkv_status_t mkv_plan_check_sel(const mkv_plan_t *plan, const mkv_sel_t *sel)
{
    const mkv_log_t *log = &plan->ctx->log;
    mkv_status_t status = mkv_plan_check_fields(log, sel);
    uint32_t max = 0;
    uint32_t i;

    if (status != MKV_OK) {
        return status;
    }
    if ((sel->layer_lo > sel->layer_hi) || (sel->pos_lo > sel->pos_hi)) {
        return mkv_error(
            log, MKV_ERR_INVALID,
            "sel: layers [%d, %d), positions [%u, %u), expected no end below its "
            "begin",
            sel->layer_lo, sel->layer_hi, sel->pos_lo, sel->pos_hi);
    }
    if (!mkv_sel_has_positions(sel)) {
        return MKV_OK;
    }
    if (plan->bytes != NULL) {
        return mkv_error(log, MKV_ERR_INVALID, "a plan of bytes has no positions");
    }
    if (!(plan->flags & MKV_PLAN_KEEP_ORDER)) {
        return mkv_error(log, MKV_ERR_INVALID,
                         "a range of positions needs a plan with MKV_PLAN_KEEP_ORDER");
    }
    for (i = 0; i < plan->map->num_components; ++i) {
        max = (plan->parts[i].num_units > max) ? plan->parts[i].num_units : max;
    }
    if (sel->pos_hi > max) {
        return mkv_error(log, MKV_ERR_BOUNDS,
                         "sel: positions [%u, %u), expected an end of at most %u",
                         sel->pos_lo, sel->pos_hi, max);
    }
    return MKV_OK;
}
