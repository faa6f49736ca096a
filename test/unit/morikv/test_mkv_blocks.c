/* SPDX-License-Identifier: BSD-3-Clause */

/* Merging against a reference that is slow and obvious. */

#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include "src/plan/blocks.h"

#include <stdlib.h>
#include <string.h>

#define MAX_NUM 400

typedef struct pair {
    uint32_t local, remote, pos;
} pair_t;

static int by_local(const void *a, const void *b)
{
    const pair_t *pa = a, *pb = b;

    if (pa->local != pb->local) {
        return pa->local < pb->local ? -1 : 1;
    }
    return pa->pos < pb->pos ? -1 : 1;
}

/* Every pair alone, in the order the contract names */
static void reference(const uint32_t *local, const uint32_t *remote, size_t num,
                      uint32_t flags, pair_t *pairs)
{
    size_t i;

    for (i = 0; i < num; ++i) {
        pairs[i] = (pair_t){local[i], remote[i], (uint32_t)i};
    }
    if (!(flags & MKV_PLAN_KEEP_ORDER)) {
        qsort(pairs, num, sizeof(*pairs), by_local);
    }
}

/* The runs, laid out again, are the pairs; no two neighbours could have been one. Check
 * writes to a file for each passed assertion, and there are millions here. */
static void check_runs(const mkv_run_t *runs, size_t num_runs, const pair_t *pairs,
                       size_t num)
{
    size_t i, at = 0;
    uint32_t k;

    for (i = 0; i < num_runs; ++i) {
        MKV_REQUIRE(runs[i].count > 0, "run %zu is empty", i);
        MKV_REQUIRE(runs[i].pos == at, "run %zu begins at %u, not at %zu", i,
                    runs[i].pos, at);
        MKV_REQUIRE(runs[i].count <= num - at, "run %zu: %u blocks, %zu are left", i,
                    runs[i].count, num - at);
        for (k = 0; k < runs[i].count; ++k, ++at) {
            MKV_REQUIRE((runs[i].local + k == pairs[at].local) &&
                            (runs[i].remote + k == pairs[at].remote),
                        "block %zu is %u and %u, not %u and %u", at, runs[i].local + k,
                        runs[i].remote + k, pairs[at].local, pairs[at].remote);
        }
        MKV_REQUIRE(
            (i == 0) ||
                ((uint64_t)runs[i - 1].local + runs[i - 1].count != runs[i].local) ||
                ((uint64_t)runs[i - 1].remote + runs[i - 1].count != runs[i].remote),
            "runs %zu and %zu could be one", i - 1, i);
    }
    ck_assert_uint_eq(at, num);
}

/* PL-01, ST-04 */
START_TEST(merge_is_exact_and_maximal)
{
    static const uint32_t spreads[] = {200, 999, 70000, 1u << 24, UINT32_MAX - MAX_NUM};
    uint32_t local[MAX_NUM], remote[MAX_NUM], flags;
    uint64_t state = (uint64_t)_i;
    mkv_run_t runs[MAX_NUM];
    pair_t pairs[MAX_NUM];
    size_t num, num_runs, i;
    uint32_t spread;
    int round;

    for (round = 0; round < 200; ++round) {
        spread = spreads[(round / 2) % (sizeof(spreads) / sizeof(spreads[0]))];
        num = mkv_test_random(&state) % MAX_NUM;
        flags = (round & 1) ? MKV_PLAN_KEEP_ORDER : 0;
        for (i = 0; i < num; ++i) { /* mostly steps of one on each side */
            local[i] = (i > 0) && (mkv_test_random(&state) % 4)
                           ? local[i - 1] + 1
                           : (uint32_t)mkv_test_random(&state) % spread;
            remote[i] = (i > 0) && (mkv_test_random(&state) % 5)
                            ? remote[i - 1] + 1
                            : (uint32_t)mkv_test_random(&state) % spread;
        }
        ck_assert_int_eq(mkv_runs_merge(local, remote, num, flags, runs, &num_runs),
                         MKV_OK);
        reference(local, remote, num, flags, pairs);
        check_runs(runs, num_runs, pairs, num);
    }
}
END_TEST

START_TEST(merge_does_not_wrap_at_the_last_block)
{
    const uint32_t local[] = {UINT32_MAX, 0};
    const uint32_t remote[] = {7, 8};
    mkv_run_t runs[2];

    ck_assert_uint_eq(mkv_runs_merge_ordered(local, remote, 2, runs), 2);
    ck_assert_uint_eq(mkv_runs_merge_ordered(remote, local, 2, runs), 2);
}
END_TEST

START_TEST(merge_of_one_allocation_is_one_run)
{
    uint32_t local[MAX_NUM], remote[MAX_NUM];
    mkv_run_t runs[MAX_NUM];
    size_t num_runs;
    uint32_t i;

    for (i = 0; i < MAX_NUM;
         ++i) { /* backwards: sorting merges blocks that their order does not */
        local[i] = MAX_NUM - i;
        remote[i] = 1000 + MAX_NUM - i;
    }
    ck_assert_int_eq(mkv_runs_merge(local, remote, MAX_NUM, 0, runs, &num_runs),
                     MKV_OK);
    ck_assert_uint_eq(num_runs, 1);
    ck_assert_int_eq(
        mkv_runs_merge(local, remote, MAX_NUM, MKV_PLAN_KEEP_ORDER, runs, &num_runs),
        MKV_OK);
    ck_assert_uint_eq(num_runs, MAX_NUM);
}
END_TEST

/* PL-01 */
START_TEST(clip_and_find_agree_with_every_position)
{
    const mkv_run_t runs[] = {{10, 20, 3, 0}, {50, 60, 1, 3}, {70, 30, 5, 4}};
    uint32_t lo, hi, pos, seen;
    mkv_run_t part;
    size_t i;

    for (lo = 0; lo <= 9; ++lo) {
        for (hi = lo; hi <= 10; ++hi) {
            seen = lo;
            for (i = mkv_runs_find(runs, 3, lo); i < 3; ++i) {
                if (mkv_run_clip(&runs[i], lo, hi, &part) == 0) {
                    continue;
                }
                ck_assert_uint_eq(part.pos, seen);
                for (pos = 0; pos < part.count; ++pos, ++seen) {
                    ck_assert_uint_eq(part.local + pos,
                                      runs[i].local + seen - runs[i].pos);
                    ck_assert_uint_eq(part.remote + pos,
                                      runs[i].remote + seen - runs[i].pos);
                }
            }
            ck_assert_uint_eq(seen, (hi > 9) ? 9 : hi);
        }
    }
}
END_TEST

START_TEST(first_block_outside_is_found)
{
    const uint32_t blocks[] = {0, 5, 9, 4};

    ck_assert_uint_eq(mkv_blocks_find_outside(blocks, 4, 10), 4);
    ck_assert_uint_eq(mkv_blocks_find_outside(blocks, 4, 9), 2);
    ck_assert_uint_eq(mkv_blocks_find_outside(blocks, 4, 0), 0);
    ck_assert_uint_eq(mkv_blocks_find_outside(NULL, 0, 0), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mkv_blocks");
    TCase *tcase = tcase_create("blocks");
    SRunner *runner;
    int num_failed;

    tcase_add_loop_test(tcase, merge_is_exact_and_maximal, 1, 9);
    tcase_add_test(tcase, merge_does_not_wrap_at_the_last_block);
    tcase_add_test(tcase, merge_of_one_allocation_is_one_run);
    tcase_add_test(tcase, clip_and_find_agree_with_every_position);
    tcase_add_test(tcase, first_block_outside_is_found);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    num_failed = mkv_check_failed(runner);
    srunner_free(runner);
    return num_failed != 0;
}
