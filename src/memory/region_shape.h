/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_REGION_SHAPE_H
#define MKV_REGION_SHAPE_H

/**
 * @file
 * Layout of units that a region describes, here or at a peer. Pure.
 */

#include "base/log.h"
#include "memory/shape.h"

/** Whether the region describes the layout of its units. */
bool mkv_region_has_shape(const mkv_region_t *info);

/**
 * How a local region's units are made; shard_rank and shard_size are set.
 *
 * @return MKV_OK, MKV_ERR_INVALID, MKV_ERR_GEOMETRY: they are of another size,
 *         MKV_ERR_TOPOLOGY: elements cannot be divided among the ranks.
 */
mkv_status_t mkv_region_shape(const mkv_log_t *log, const char *whose,
                              const mkv_region_t *info, mkv_shape_t *shape);

#endif
