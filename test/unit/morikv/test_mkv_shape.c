/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Common parts of ranks of two group sizes, compared with a full tensor. The test cuts
 * every rank's unit out of the tensor element by element and copies the elected slices.
 * Each destination must then hold its own cut, with each byte written once.
 */

#include "memory/shape.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <stdlib.h>
#include <string.h>

#define MAX_RANKS 16u

/* Geometry of the models of the field: heads, latents, states; inner bytes are cut down
 * where only their number matters */
static const struct {
    const char *name;
    uint32_t outer, tokens, inner, num_groups, groups[MKV_MAX_GROUPS];
    bool is_replicated, is_heads_first[2];
} rows[] = {
    {"Llama-3-70B, K or V, NHD", 1, 4, 4, 1, {8}, false, {false, false}},
    {"Llama-3-70B, K and V adjoin, HND", 2, 4, 4, 1, {8}, false, {true, true}},
    {"Qwen3-235B, K and V adjoin, NHD", 2, 4, 4, 1, {4}, false, {false, false}},
    {"GPT-OSS-120B, K and V of a token adjoin",
     1,
     4,
     4,
     2,
     {8, 8},
     false,
     {false, false}},
    {"DeepSeek-R1, latent", 1, 4, 36, 0, {1}, true, {false, false}},
    {"DeepSeek-V3.2, indexer", 1, 4, 33, 0, {1}, true, {false, false}},
    {"GLM-5.3-Flash, KDA convolution",
     1,
     1,
     6,
     3,
     {8192, 2048, 2048},
     false,
     {false, false}},
    {"GLM-5.3-Flash, KDA state", 1, 1, 16, 1, {64}, false, {false, false}},
    {"DeepSeek-V4, compressed latent", 1, 2, 36, 0, {1}, true, {false, false}},
    {"Qwen3.5-397B, GDN convolution, rows",
     3,
     1,
     2,
     3,
     {2048, 2048, 8192},
     false,
     {false, false}},
    {"Qwen3.5-397B, GDN state", 1, 1, 16, 1, {64}, false, {false, false}},
    {"Qwen3.5-397B, 2 heads", 1, 4, 8, 1, {2}, false, {false, false}},
    {"Kimi-K3, KDA state", 1, 1, 8, 1, {96}, false, {false, false}},
    {"MiniMax-M3, HND", 1, 4, 4, 1, {4}, false, {true, true}},
    {"Gemma-4-31B, window", 2, 4, 4, 1, {16}, false, {false, false}},
    {"Nemotron-3, Mamba2 convolution",
     1,
     1,
     6,
     3,
     {4096, 1024, 1024},
     false,
     {false, false}},
    {"Nemotron-3, 2 heads, adjoining", 2, 4, 4, 1, {2}, false, {true, true}},
    {"one head", 1, 4, 4, 1, {1}, false, {false, false}},
    {"64 heads", 1, 2, 2, 1, {64}, false, {false, false}},
    {"NHD to HND", 2, 4, 4, 1, {8}, false, {false, true}},
    {"HND to NHD, groups that are not alike", 1, 3, 4, 2, {8, 2}, false, {true, false}},
    {"8 heads, each on every rank", 1, 4, 4, 1, {8}, true, {false, false}},
};

static uint32_t row_groups(int row)
{
    return (rows[row].num_groups == 0) ? 1 : rows[row].num_groups;
}

static uint64_t row_elements(int row)
{
    uint64_t sum = 0;
    uint32_t i;

    for (i = 0; i < row_groups(row); ++i) {
        sum += rows[row].groups[i];
    }
    return sum;
}

static mkv_shape_t shape_of(int row, int side, uint32_t rank, uint32_t size)
{
    mkv_shape_t shape = {.outer = rows[row].outer,
                         .inner = rows[row].inner,
                         .tokens = rows[row].tokens,
                         .num_groups = row_groups(row),
                         .rank = rank,
                         .size = size,
                         .is_replicated = rows[row].is_replicated,
                         .is_heads_first = rows[row].is_heads_first[side]};

    memcpy(shape.groups, rows[row].groups, sizeof(shape.groups));
    return shape;
}

/* Whether a rank holds an element of F, computed element by element */
static bool holds(const mkv_shape_t *shape, uint32_t all, uint32_t element)
{
    if (shape->is_replicated) {
        return true;
    }
    return (shape->size <= all) ? (element * shape->size / all == shape->rank)
                                : (shape->rank * all / shape->size == element);
}

static uint8_t value_of(uint64_t outer, uint64_t token, uint64_t element, uint64_t byte)
{
    return (
        uint8_t)((outer * 131 + token * 31 + element * 7 + byte + element / 256 * 3) ^
                 (element / 37));
}

/* The elements that a rank holds, as they follow each other in its unit */
static uint32_t held(const mkv_shape_t *shape, uint64_t *elements)
{
    uint32_t num = 0, i, k;
    uint64_t before = 0;

    for (i = 0; i < shape->num_groups; before += shape->groups[i++]) {
        for (k = 0; k < shape->groups[i]; ++k) {
            if (holds(shape, shape->groups[i], k)) {
                elements[num++] = before + k;
            }
        }
    }
    return num;
}

/* A rank's unit of the full tensor. @return Its bytes */
static size_t cut_out(const mkv_shape_t *shape, uint8_t *unit)
{
    uint64_t outer, token, i, byte, at;
    uint64_t elements[16384];
    uint32_t num = held(shape, elements);

    for (outer = 0; outer < shape->outer; ++outer) {
        for (token = 0; token < shape->tokens; ++token) {
            for (i = 0; i < num; ++i) {
                at = shape->is_heads_first
                         ? ((outer * num + i) * shape->tokens + token)
                         : ((outer * shape->tokens + token) * num + i);
                for (byte = 0; byte < shape->inner; ++byte) {
                    unit[at * shape->inner + byte] =
                        value_of(outer, token, elements[i], byte);
                }
            }
        }
    }
    return shape->outer * shape->tokens * num * shape->inner;
}

static void copy_slice(const mkv_slice_t *slice, const uint8_t *from, uint8_t *to,
                       uint8_t *times)
{
    const mkv_slice_dim_t *d = slice->dims;
    uint64_t i, j, k, b, local, remote;

    for (i = 0; i < d[0].count; ++i) {
        for (j = 0; j < d[1].count; ++j) {
            for (k = 0; k < d[2].count; ++k) {
                local = slice->local + i * d[0].local + j * d[1].local + k * d[2].local;
                remote =
                    slice->remote + i * d[0].remote + j * d[1].remote + k * d[2].remote;
                for (b = 0; b < slice->length; ++b) {
                    to[remote + b] = from[local + b];
                    ++times[remote + b];
                }
            }
        }
    }
}

/* All that comes to one destination */
static void gather(int row, uint32_t num_sources, const mkv_shape_t *target,
                   uint8_t *const *sources, uint8_t *unit, uint8_t *times)
{
    mkv_shape_t source;
    mkv_slice_t slice;
    uint32_t rank, i;

    for (rank = 0; rank < num_sources; ++rank) {
        source = shape_of(row, 0, rank, num_sources);
        for (i = 0; i < source.num_groups; ++i) {
            if (mkv_shape_slice(&source, target, i, source.tokens, &slice) &&
                mkv_shape_is_elected(&source, i, target)) {
                copy_slice(&slice, sources[rank], unit, times);
            }
        }
    }
}

static void check_target(int row, uint32_t num_sources, const mkv_shape_t *target,
                         uint8_t *const *sources, size_t room)
{
    uint8_t *unit = calloc(3, room), *wanted = unit + room, *times = wanted + room;
    size_t size = cut_out(target, wanted), i;
    mkv_shape_t source = shape_of(row, 0, 0, num_sources);
    uint64_t element;
    uint32_t group;

    ck_assert_uint_eq(mkv_shape_bytes(target), size);
    gather(row, num_sources, target, sources, unit, times);
    /* Check's assertions write to a file each time: one for all the bytes */
    for (i = 0; (i < size) && (times[i] == 1) && (unit[i] == wanted[i]); ++i) {
    }
    ck_assert_msg(i == size,
                  "%s: TP%u to rank %u of %u: byte %zu is written %u times, is %u, "
                  "expected %u",
                  rows[row].name, num_sources, target->rank, target->size, i, times[i],
                  unit[i], wanted[i]);
    ck_assert(mkv_shape_covers(&source, target, &group, &element));
    free(unit);
}

static void check_sizes(int row, uint32_t num_sources, uint32_t num_targets)
{
    size_t room = (size_t)rows[row].outer * rows[row].tokens * rows[row].inner *
                  row_elements(row);
    uint8_t *sources[MAX_RANKS];
    mkv_shape_t shape;
    uint32_t rank;

    for (rank = 0; rank < num_sources; ++rank) {
        shape = shape_of(row, 0, rank, num_sources);
        sources[rank] = calloc(1, room);
        ck_assert_uint_eq(mkv_shape_bytes(&shape), cut_out(&shape, sources[rank]));
    }
    for (rank = 0; rank < num_targets; ++rank) {
        shape = shape_of(row, 1, rank, num_targets);
        check_target(row, num_sources, &shape, sources, room);
    }
    for (rank = 0; rank < num_sources; ++rank) {
        free(sources[rank]);
    }
}

static bool can(int row, uint32_t size)
{
    uint32_t i;

    for (i = 0; !rows[row].is_replicated && (i < row_groups(row)); ++i) {
        if ((rows[row].groups[i] % size != 0) && (size % rows[row].groups[i] != 0)) {
            return false;
        }
    }
    return true;
}

/* Loop index: the row. Shapes that cannot be divided are reported as such */
/* TP-01, TP-07 */
START_TEST(every_rank_gets_its_part_of_the_tensor_once)
{
    uint32_t num_sources, num_targets, num = 0;
    mkv_shape_t source, target;

    for (num_sources = 1; num_sources <= MAX_RANKS; ++num_sources) {
        source = shape_of(_i, 0, 0, num_sources);
        ck_assert_int_eq(mkv_shape_is_divisible(&source), can(_i, num_sources));
        for (num_targets = 1; num_targets <= MAX_RANKS; ++num_targets) {
            target = shape_of(_i, 1, 0, num_targets);
            if (mkv_shape_is_divisible(&source) && mkv_shape_is_divisible(&target)) {
                check_sizes(_i, num_sources, num_targets);
                ++num;
            }
        }
    }
    ck_assert_uint_ge(num, 25); /* all powers of two */
}
END_TEST

/* The elected source is near: the target's own rank where sizes are equal, the
 * first of its block of ranks, or the rank that it shares with others */
/* TP-06, TP-08 */
START_TEST(the_nearest_of_those_that_hold_the_same_is_elected)
{
    mkv_shape_t source = {.outer = 1,
                          .inner = 1,
                          .tokens = 1,
                          .num_groups = 1,
                          .groups = {1},
                          .is_replicated = true};
    static const struct {
        uint32_t sources, targets, target, elected;
    } cases[] = {{8, 8, 5, 5}, {8, 4, 3, 6}, {8, 1, 0, 0}, {4, 8, 5, 2}, {1, 8, 7, 0}};
    mkv_shape_t target;
    size_t i;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        source.size = cases[i].sources;
        target = source;
        target.size = cases[i].targets;
        target.rank = cases[i].target;
        for (source.rank = 0; source.rank < source.size; ++source.rank) {
            ck_assert_int_eq(mkv_shape_is_elected(&source, 0, &target),
                             source.rank == cases[i].elected);
            ck_assert_int_eq(mkv_shape_gives(&source, &target),
                             source.rank == cases[i].elected);
        }
    }
}
END_TEST

/* Two heads on four ranks go to ranks that hold both: the nearest of the ranks that
 * hold a head gives it, on either side of the destination */
START_TEST(a_rank_with_all_heads_gets_them_from_the_sharing_ranks)
{
    mkv_shape_t source = {
        .outer = 1, .inner = 1, .tokens = 1, .num_groups = 1, .groups = {2}, .size = 4};
    static const uint32_t elected[4][2] = {{0, 2}, {1, 2}, {1, 2}, {1, 3}};
    mkv_shape_t target = source;
    uint64_t element;
    uint32_t group;

    target.is_replicated = true;
    for (target.rank = 0; target.rank < 4; ++target.rank) {
        ck_assert(mkv_shape_covers(&source, &target, &group, &element));
        for (source.rank = 0; source.rank < 4; ++source.rank) {
            ck_assert_int_eq(mkv_shape_gives(&source, &target),
                             elected[target.rank][source.rank / 2] == source.rank);
        }
    }
}
END_TEST

/* A shape with a gap or with a duplicate element is no cover: six elements on four
 * ranks, and a rank order that no model uses */
START_TEST(a_gap_is_seen)
{
    mkv_shape_t source = {.outer = 1,
                          .inner = 1,
                          .tokens = 1,
                          .num_groups = 2,
                          .groups = {4, 6},
                          .size = 4};
    mkv_shape_t target = source;
    uint64_t element;
    uint32_t group;

    target.size = 1;
    ck_assert(!mkv_shape_covers(&source, &target, &group, &element));
    ck_assert_uint_eq(group, 1);
    ck_assert_uint_eq(element, 4);
    source.groups[1] = target.groups[1] = 8;
    ck_assert(mkv_shape_covers(&source, &target, &group, &element));
}
END_TEST

/* Two heads on four ranks, eight ranks there: load is spread over all four */
/* TP-06, TP-08 */
START_TEST(copies_share_the_destinations)
{
    mkv_shape_t source = {
        .outer = 1, .inner = 1, .tokens = 1, .num_groups = 1, .groups = {2}, .size = 4};
    mkv_shape_t target = source;
    uint32_t num;

    target.size = 8;
    for (source.rank = 0; source.rank < 4; ++source.rank) {
        num = 0;
        for (target.rank = 0; target.rank < 8; ++target.rank) {
            num += mkv_shape_gives(&source, &target);
        }
        ck_assert_uint_eq(num, 2);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mkv_shape");
    TCase *tcase = tcase_create("shape");
    SRunner *runner;
    int num_failed;

    mkv_test_init();
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, every_rank_gets_its_part_of_the_tensor_once, 0,
                        sizeof(rows) / sizeof(rows[0]));
    tcase_add_test(tcase, the_nearest_of_those_that_hold_the_same_is_elected);
    tcase_add_test(tcase, a_rank_with_all_heads_gets_them_from_the_sharing_ranks);
    tcase_add_test(tcase, copies_share_the_destinations);
    tcase_add_test(tcase, a_gap_is_seen);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    num_failed = mkv_check_failed(runner);
    srunner_free(runner);
    return num_failed != 0;
}
