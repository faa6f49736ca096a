/* SPDX-License-Identifier: BSD-3-Clause */

/* What a connector asks about ranks before it has peers. */

#include "base/log.h"
#include "cache/shape.h"

#include <stddef.h>
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

enum { MKV_RANK_KINDS = 4, MKV_TOPOLOGY_RESERVED = 4 };

/* Slowest first, in pairs of rank and size */
static const struct {
    const char *name;
    size_t rank, size;
} mkv_rank_kinds[MKV_RANK_KINDS] = {
    {"DP", offsetof(mkv_topology_t, dp_rank), offsetof(mkv_topology_t, dp_size)},
    {"PP", offsetof(mkv_topology_t, pp_rank), offsetof(mkv_topology_t, pp_size)},
    {"CP", offsetof(mkv_topology_t, cp_rank), offsetof(mkv_topology_t, cp_size)},
    {"TP", offsetof(mkv_topology_t, tp_rank), offsetof(mkv_topology_t, tp_size)}};

static uint32_t mkv_topology_get(const mkv_topology_t *topology, size_t offset)
{
    uint32_t value;

    memcpy(&value, (const char *)topology + offset, sizeof(value));
    return value;
}

static uint32_t mkv_topology_size(const mkv_topology_t *topology, unsigned kind)
{
    uint32_t size = mkv_topology_get(topology, mkv_rank_kinds[kind].size);

    return (size != 0) ? size : 1;
}

/* @return How many places there are; 0: an error was told. */
static uint64_t mkv_topology_places(const mkv_topology_t *topology)
{
    uint64_t num = 1;
    unsigned i;

    for (i = 0; i < MKV_TOPOLOGY_RESERVED; ++i) {
        if (topology->reserved[i] != 0) {
            (void)mkv_error(NULL, MKV_ERR_INVALID,
                            "a place: reserved[%u] is %u, expected 0", i,
                            topology->reserved[i]);
            return 0;
        }
    }
    for (i = 0; i < MKV_RANK_KINDS; ++i) {
        num *= mkv_topology_size(topology, i);
        if (num > UINT32_MAX + 1ull) {
            (void)mkv_error(NULL, MKV_ERR_INVALID, "there are more than 2^32 places");
            return 0;
        }
    }
    return num;
}

mkv_status_t mkv_rank_pack(const mkv_topology_t *topology, uint32_t *rank_p)
{
    uint32_t rank, size;
    uint64_t all = 0;
    unsigned i;

    if (mkv_topology_places(topology) == 0) {
        return MKV_ERR_INVALID;
    }
    for (i = 0; i < MKV_RANK_KINDS; ++i) {
        rank = mkv_topology_get(topology, mkv_rank_kinds[i].rank);
        size = mkv_topology_size(topology, i);
        if (rank >= size) {
            return mkv_error(NULL, MKV_ERR_INVALID,
                             "%s rank %u is not below its size, %u",
                             mkv_rank_kinds[i].name, rank, size);
        }
        all = all * size + rank;
    }
    *rank_p = (uint32_t)all;
    return MKV_OK;
}

mkv_status_t mkv_rank_unpack(uint32_t rank, mkv_topology_t *topology)
{
    uint64_t num = mkv_topology_places(topology);
    uint32_t own, size;
    unsigned i;

    if (num == 0) {
        return MKV_ERR_INVALID;
    }
    if (rank >= num) {
        return mkv_error(NULL, MKV_ERR_INVALID, "rank %u of %llu places", rank,
                         (unsigned long long)num);
    }
    for (i = MKV_RANK_KINDS; i > 0; --i) {
        size = mkv_topology_size(topology, i - 1);
        own = rank % size;
        memcpy((char *)topology + mkv_rank_kinds[i - 1].rank, &own, sizeof(own));
        rank /= size;
    }
    return MKV_OK;
}

void mkv_cp_range(uint64_t num, uint32_t size, uint32_t rank, uint64_t *first_p,
                  uint64_t *num_p)
{
    uint64_t ranks = (size != 0) ? size : 1, each = num / ranks, more = num % ranks;

    *first_p = rank * each + ((rank < more) ? rank : more);
    *num_p = each + (rank < more);
}
