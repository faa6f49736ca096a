/* SPDX-License-Identifier: BSD-3-Clause */

/* What a connector asks about ranks before it has peers. */

#include "cache/shape.h"

#include <string.h>

int mkv_rank_gives(const uint32_t *groups, uint32_t num_groups, uint32_t src_rank,
                   uint32_t src_size, uint32_t dst_rank, uint32_t dst_size)
{
    mkv_shape_t source = {.outer = 1,
                          .inner = 1,
                          .tokens = 1,
                          .num_groups = (num_groups == 0) ? 1 : num_groups,
                          .groups = {1},
                          .rank = src_rank,
                          .size = src_size,
                          .is_replicated = (num_groups == 0)};
    mkv_shape_t destination;

    if ((num_groups > MKV_MAX_GROUPS) || (src_rank >= src_size) ||
        (dst_rank >= dst_size)) {
        return -1;
    }
    if (num_groups > 0) {
        memcpy(source.groups, groups, num_groups * sizeof(*groups));
    }
    destination = source;
    destination.rank = dst_rank;
    destination.size = dst_size;
    return (mkv_shape_is_divisible(&source) && mkv_shape_is_divisible(&destination))
               ? mkv_shape_gives(&source, &destination)
               : -1;
}

void mkv_cp_range(uint64_t num, uint32_t size, uint32_t rank, uint64_t *first_p,
                  uint64_t *num_p)
{
    uint64_t each = num / size, more = num % size;

    *first_p = rank * each + ((rank < more) ? rank : more);
    *num_p = each + (rank < more);
}
