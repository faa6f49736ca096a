/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The same rule serves every kind of data: two ranks share the intersection of the
 * intervals that they hold of each group. If several sources hold the same interval,
 * one is elected.
 */

#include "memory/shape.h"

typedef struct mkv_interval {
    uint64_t first, num;
} mkv_interval_t;

/* Ranks that hold the same elements of a group */
static uint32_t mkv_shape_copies(const mkv_shape_t *shape, uint32_t group)
{
    if (shape->is_replicated) {
        return shape->size;
    }
    return (shape->size > shape->groups[group]) ? shape->size / shape->groups[group]
                                                : 1;
}

static mkv_interval_t mkv_shape_interval(const mkv_shape_t *shape, uint32_t group)
{
    uint64_t all = shape->groups[group], num;
    uint32_t copies = mkv_shape_copies(shape, group);

    num = shape->is_replicated ? all : all * copies / shape->size;
    return (mkv_interval_t){shape->rank / copies * num, num};
}

static mkv_interval_t mkv_interval_meet(mkv_interval_t a, mkv_interval_t b)
{
    uint64_t first = (a.first > b.first) ? a.first : b.first;
    uint64_t a_end = a.first + a.num, b_end = b.first + b.num;
    uint64_t end = (a_end < b_end) ? a_end : b_end;

    return (mkv_interval_t){first, (end > first) ? end - first : 0};
}

bool mkv_shape_is_divisible(const mkv_shape_t *shape)
{
    uint32_t i, elements;

    for (i = 0; !shape->is_replicated && (i < shape->num_groups); ++i) {
        elements = shape->groups[i];
        if ((elements % shape->size != 0) && (shape->size % elements != 0)) {
            return false;
        }
    }
    return true;
}

/* Number of elements, as held by the rank, of all earlier groups */
static uint64_t mkv_shape_before(const mkv_shape_t *shape, uint32_t group)
{
    uint64_t sum = 0;
    uint32_t i;

    for (i = 0; i < group; ++i) {
        sum += mkv_shape_interval(shape, i).num;
    }
    return sum;
}

uint64_t mkv_shape_elements(const mkv_shape_t *shape)
{
    return mkv_shape_before(shape, shape->num_groups);
}

uint64_t mkv_shape_bytes(const mkv_shape_t *shape)
{
    uint64_t bytes = mkv_shape_elements(shape);

    return (__builtin_mul_overflow(bytes, shape->inner, &bytes) ||
            __builtin_mul_overflow(bytes, shape->tokens, &bytes) ||
            __builtin_mul_overflow(bytes, shape->outer, &bytes))
               ? 0
               : bytes;
}

uint64_t mkv_shape_step(const mkv_shape_t *shape, uint32_t tokens)
{
    return tokens * shape->inner *
           (shape->is_heads_first ? 1 : mkv_shape_elements(shape));
}

bool mkv_shape_is_elected(const mkv_shape_t *source, uint32_t group,
                          const mkv_shape_t *destination)
{
    uint32_t copies = mkv_shape_copies(source, group);
    uint32_t first = source->rank / copies * copies;
    uint64_t nearest = (uint64_t)destination->rank * source->size / destination->size;

    nearest = (nearest < first) ? first : nearest;
    nearest = (nearest >= first + copies) ? first + copies - 1 : nearest;
    return source->rank == nearest;
}

bool mkv_shape_has_direction(const mkv_shape_t *a, const mkv_shape_t *b, uint32_t group)
{
    return (a->size != b->size) &&
           ((mkv_shape_copies(a, group) > 1) || (mkv_shape_copies(b, group) > 1));
}

/* Bytes from token to token, and from element to element of the axis */
static uint64_t mkv_shape_element_step(const mkv_shape_t *shape)
{
    return shape->inner * (shape->is_heads_first ? shape->tokens : 1);
}

bool mkv_shape_slice(const mkv_shape_t *local, const mkv_shape_t *remote,
                     uint32_t group, uint32_t tokens, mkv_slice_t *slice)
{
    mkv_interval_t mine = mkv_shape_interval(local, group);
    mkv_interval_t theirs = mkv_shape_interval(remote, group);
    mkv_interval_t both = mkv_interval_meet(mine, theirs);
    uint64_t my_element = mkv_shape_before(local, group) + both.first - mine.first;
    uint64_t their_element =
        mkv_shape_before(remote, group) + both.first - theirs.first;

    slice->local = my_element * mkv_shape_element_step(local);
    slice->remote = their_element * mkv_shape_element_step(remote);
    slice->length = local->inner;
    slice->dims[0].count = local->outer;
    slice->dims[0].local = mkv_shape_bytes(local) / local->outer;
    slice->dims[0].remote = mkv_shape_bytes(remote) / remote->outer;
    slice->dims[1].count = tokens;
    slice->dims[1].local = mkv_shape_step(local, 1);
    slice->dims[1].remote = mkv_shape_step(remote, 1);
    slice->dims[2].count = both.num;
    slice->dims[2].local = mkv_shape_element_step(local);
    slice->dims[2].remote = mkv_shape_element_step(remote);
    return both.num > 0;
}

/* ---- All sources of a destination ------------------------------------------------ */

static bool mkv_shape_gives_group(const mkv_shape_t *source,
                                  const mkv_shape_t *destination, uint32_t group)
{
    return (mkv_interval_meet(mkv_shape_interval(source, group),
                              mkv_shape_interval(destination, group))
                .num > 0) &&
           mkv_shape_is_elected(source, group, destination);
}

bool mkv_shape_gives(const mkv_shape_t *source, const mkv_shape_t *destination)
{
    uint32_t i;

    for (i = 0; i < source->num_groups; ++i) {
        if (mkv_shape_gives_group(source, destination, i)) {
            return true;
        }
    }
    return false;
}

/* Ranks hold the axis in order, so a gap or an overlap appears at the first rank
 * that does not begin at the end of the previous one */
static bool mkv_shape_covers_group(const mkv_shape_t *source,
                                   const mkv_shape_t *destination, uint32_t group,
                                   uint64_t *element_p)
{
    mkv_interval_t wanted = mkv_shape_interval(destination, group), given;
    mkv_shape_t rank = *source;

    *element_p = wanted.first;
    for (rank.rank = 0; rank.rank < source->size; ++rank.rank) {
        if (mkv_shape_gives_group(&rank, destination, group)) {
            given = mkv_interval_meet(mkv_shape_interval(&rank, group), wanted);
            if (given.first != *element_p) {
                return false;
            }
            *element_p += given.num;
        }
    }
    return *element_p == wanted.first + wanted.num;
}

bool mkv_shape_covers(const mkv_shape_t *source, const mkv_shape_t *destination,
                      uint32_t *group_p, uint64_t *element_p)
{
    for (*group_p = 0; *group_p < source->num_groups; ++*group_p) {
        if (!mkv_shape_covers_group(source, destination, *group_p, element_p)) {
            return false;
        }
    }
    return true;
}
