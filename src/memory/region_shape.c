/* SPDX-License-Identifier: BSD-3-Clause */

#include "memory/region_shape.h"

#include <string.h>

bool mkv_region_has_shape(const mkv_region_t *info)
{
    return ((info->outer | info->inner_bytes | info->num_groups) != 0) ||
           (info->flags & MKV_REGION_REPLICATED);
}

static void mkv_region_fill_shape(const mkv_region_t *info, mkv_shape_t *shape)
{
    bool is_counted = (info->inner_bytes != 0) || (info->num_groups != 0);

    memset(shape, 0, sizeof(*shape));
    shape->outer = (info->outer != 0) ? info->outer : 1;
    shape->tokens =
        (is_counted && (info->tokens_per_unit != 0)) ? info->tokens_per_unit : 1;
    shape->num_groups = (info->num_groups != 0) ? info->num_groups : 1;
    shape->groups[0] = 1;
    if (info->num_groups != 0) {
        memcpy(shape->groups, info->groups, sizeof(shape->groups));
    }
    shape->rank = info->shard_rank;
    shape->size = info->shard_size;
    shape->is_replicated =
        (info->flags & MKV_REGION_REPLICATED) || (info->num_groups == 0);
    shape->is_heads_first = (info->flags & MKV_REGION_HEADS_FIRST) != 0;
}

static uint32_t mkv_region_indivisible(const mkv_shape_t *shape)
{
    uint32_t i = 0;

    while ((shape->groups[i] % shape->size == 0) ||
           (shape->size % shape->groups[i] == 0)) {
        ++i;
    }
    return shape->groups[i];
}

mkv_status_t mkv_region_shape(const mkv_log_t *log, const char *whose,
                              const mkv_region_t *info, mkv_shape_t *shape)
{
    uint64_t bytes;

    mkv_region_fill_shape(info, shape);
    if (!mkv_shape_is_divisible(shape)) {
        return mkv_error(log, MKV_ERR_TOPOLOGY,
                         "%scomponent %u layer %d part %u: %u elements cannot be "
                         "divided among %u ranks",
                         whose, info->component, info->layer, info->part,
                         mkv_region_indivisible(shape), shape->size);
    }
    shape->inner = 1;
    bytes = mkv_shape_bytes(shape);
    shape->inner = (info->inner_bytes != 0) ? info->inner_bytes
                   : (bytes != 0)           ? info->unit_bytes / bytes
                                            : 0;
    if ((shape->inner == 0) || (mkv_shape_bytes(shape) != info->unit_bytes)) {
        return mkv_error(log, MKV_ERR_GEOMETRY,
                         "%scomponent %u layer %d part %u: unit_bytes is %llu, but "
                         "outer %llu x %u tokens x %llu elements of this rank x %llu "
                         "bytes is %llu",
                         whose, info->component, info->layer, info->part,
                         (unsigned long long)info->unit_bytes,
                         (unsigned long long)shape->outer, shape->tokens,
                         (unsigned long long)mkv_shape_elements(shape),
                         (unsigned long long)shape->inner,
                         (unsigned long long)mkv_shape_bytes(shape));
    }
    return MKV_OK;
}
