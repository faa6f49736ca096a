/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/mkv_check.h"

#include "perf/workload/allocator.h"
#include "perf/base/error.h"
#include "perf/base/random.h"

#include <stdlib.h>
#include <string.h>


/* Rounds of churn; valgrind makes each fifty times slower. */
static uint32_t rounds(uint32_t wanted)
{
    return (getenv("MKV_UNDER_VALGRIND") != NULL) ? wanted / 50 : wanted;
}

static perf_allocator_t *pool(uint32_t num_blocks)
{
    perf_allocator_t *allocator;

    ck_assert_int_eq(perf_allocator_create(num_blocks, &allocator), 0);
    return allocator;
}

START_TEST(equal_prefix_is_shared_and_the_rest_is_not)
{
    static const uint64_t first[] = {11, 12, 13, 0}, second[] = {11, 12, 99, 0};
    perf_allocator_t *allocator = pool(8);
    uint32_t a[4], b[4], shared;

    ck_assert_int_eq(perf_allocator_get(allocator, first, 4, a, &shared), 0);
    ck_assert_uint_eq(shared, 0);
    ck_assert_int_eq(perf_allocator_get(allocator, second, 4, b, &shared), 0);
    ck_assert_uint_eq(shared, 2);
    ck_assert_uint_eq(a[0], b[0]);
    ck_assert_uint_eq(a[1], b[1]);
    ck_assert_uint_ne(a[2], b[2]);
    ck_assert_uint_ne(a[3], b[3]); /* key 0 is never shared */
    ck_assert_uint_eq(perf_allocator_num_free(allocator), 2);

    perf_allocator_put(allocator, a, 4);
    ck_assert_uint_eq(perf_allocator_num_free(allocator), 4);
    perf_allocator_put(allocator, b, 4);
    ck_assert_uint_eq(perf_allocator_num_free(allocator), 8);
    perf_allocator_destroy(allocator);
}
END_TEST

START_TEST(released_contents_are_found_until_evicted_oldest_first)
{
    static const uint64_t old[] = {1, 2}, young[] = {3, 4}, big[] = {5, 6};
    perf_allocator_t *allocator = pool(5);
    uint32_t blocks[2], shared;

    perf_allocator_get(allocator, old, 2, blocks, &shared);
    perf_allocator_put(allocator, blocks, 2);
    perf_allocator_get(allocator, young, 2, blocks, &shared);
    perf_allocator_put(allocator, blocks, 2);

    /* takes the block never used, then the end of the old sequence */
    ck_assert_int_eq(perf_allocator_get(allocator, big, 2, blocks, &shared), 0);
    ck_assert_uint_eq(blocks[0], 4);
    ck_assert_uint_eq(blocks[1], 1);

    ck_assert_int_eq(perf_allocator_get(allocator, old, 1, blocks, &shared), 0);
    ck_assert_uint_eq(shared, 1);
    ck_assert_int_eq(perf_allocator_get(allocator, young, 2, blocks, &shared), 0);
    ck_assert_uint_eq(shared, 2);
    perf_allocator_destroy(allocator);
}
END_TEST

START_TEST(full_pool_refuses_and_changes_nothing)
{
    static const uint64_t first[] = {1, 2, 3}, second[] = {1, 2, 4, 5};
    perf_allocator_t *allocator = pool(4);
    uint32_t a[3], b[4], shared;

    perf_allocator_get(allocator, first, 3, a, &shared);
    ck_assert_int_eq(perf_allocator_get(allocator, second, 4, b, &shared), -1);
    ck_assert_uint_eq(perf_allocator_num_free(allocator), 1);

    /* free shared blocks must not be counted as room for the rest */
    perf_allocator_put(allocator, a, 3);
    ck_assert_int_eq(perf_allocator_get(allocator, second, 4, b, &shared), 0);
    ck_assert_uint_eq(shared, 2);
    ck_assert_uint_eq(perf_allocator_num_free(allocator), 0);
    perf_allocator_put(allocator, b, 4);
    perf_allocator_destroy(allocator);
}
END_TEST

START_TEST(shared_blocks_are_not_evicted_for_the_same_sequence)
{
    static const uint64_t first[] = {1, 2}, longer[] = {1, 2, 3, 4};
    perf_allocator_t *allocator = pool(4);
    uint32_t a[2], b[4], shared, i, j;

    perf_allocator_get(allocator, first, 2, a, &shared);
    perf_allocator_put(allocator, a, 2);
    ck_assert_int_eq(perf_allocator_get(allocator, longer, 4, b, &shared), 0);
    for (i = 0; i < 4; ++i) {
        for (j = 0; j < i; ++j) {
            ck_assert_uint_ne(b[i], b[j]);
        }
        ck_assert_uint_eq(perf_allocator_key(allocator, b[i]), longer[i]);
    }
    perf_allocator_destroy(allocator);
}
END_TEST

/* Long churn against a model that keeps only the holders of each block. */
START_TEST(churn_never_gives_a_held_block_or_wrong_contents)
{
    enum { BLOCKS = 97, SEQUENCES = 12, LENGTH = 12, ROUNDS = 20000 };
    static uint32_t tables[SEQUENCES][LENGTH], lengths[SEQUENCES];
    perf_allocator_t *allocator = pool(BLOCKS);
    uint64_t random = 5, keys[LENGTH];
    uint32_t round, s, i, shared, held[BLOCKS] = {0}, num_shared = 0;

    for (round = 0; round < rounds(ROUNDS); ++round) {
        s = perf_random_below(&random, SEQUENCES);
        for (i = 0; i < lengths[s]; ++i) {
            --held[tables[s][i]];
        }
        perf_allocator_put(allocator, tables[s], lengths[s]);

        lengths[s] = 1 + perf_random_below(&random, LENGTH);
        for (i = 0; i < lengths[s]; ++i) { /* one of three stories each */
            keys[i] = (i == 0) ? 1 + perf_random_below(&random, 3)
                               : perf_mix(keys[i - 1] + 7);
        }
        if (perf_allocator_get(allocator, keys, lengths[s], tables[s], &shared) != 0) {
            lengths[s] = 0;
            continue;
        }
        num_shared += shared;
        for (i = 0; i < lengths[s]; ++i) {
            ck_assert_uint_lt(tables[s][i], BLOCKS);
            ck_assert(i < shared || held[tables[s][i]] == 0);
            ck_assert_uint_eq(perf_allocator_key(allocator, tables[s][i]), keys[i]);
            ++held[tables[s][i]];
        }
    }

    ck_assert_uint_gt(num_shared, rounds(ROUNDS)); /* or sharing was not exercised */
    for (s = 0; s < SEQUENCES; ++s) {
        perf_allocator_put(allocator, tables[s], lengths[s]);
    }
    ck_assert_uint_eq(perf_allocator_num_free(allocator), BLOCKS);
    perf_allocator_destroy(allocator);
}
END_TEST

START_TEST(churn_with_evictions_finds_only_living_keys)
{
    enum { BLOCKS = 64, ROUNDS = 50000 };
    perf_allocator_t *allocator = pool(BLOCKS);
    uint64_t random = 9, key, holder[BLOCKS] = {0};
    uint32_t round, i, block, shared, num_wrong;

    for (round = 0; round < rounds(ROUNDS); ++round) {
        key = 1 + perf_random_below(&random, 3 * BLOCKS);
        ck_assert_int_eq(perf_allocator_get(allocator, &key, 1, &block, &shared), 0);
        /* shared exactly when the contents are still somewhere */
        ck_assert_uint_eq(shared, holder[block] == key);
        for (i = 0, num_wrong = 0; i < BLOCKS; ++i) { /* an assertion each is slow */
            num_wrong += (i != block) && (holder[i] == key);
        }
        ck_assert_uint_eq(num_wrong, 0);
        holder[block] = key;
        perf_allocator_put(allocator, &block, 1);
    }
    perf_allocator_destroy(allocator);
}
END_TEST

START_TEST(empty_pool_is_refused)
{
    perf_allocator_t *allocator = NULL;

    ck_assert_int_eq(perf_allocator_create(0, &allocator), -1);
    ck_assert_ptr_null(allocator);
    ck_assert_ptr_nonnull(strstr(perf_last_error(), "pool of 0 blocks; expected 1 to"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("perf_allocator");
    TCase *tcase = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tcase, equal_prefix_is_shared_and_the_rest_is_not);
    tcase_add_test(tcase, released_contents_are_found_until_evicted_oldest_first);
    tcase_add_test(tcase, full_pool_refuses_and_changes_nothing);
    tcase_add_test(tcase, shared_blocks_are_not_evicted_for_the_same_sequence);
    tcase_add_test(tcase, churn_never_gives_a_held_block_or_wrong_contents);
    tcase_add_test(tcase, churn_with_evictions_finds_only_living_keys);
    tcase_add_test(tcase, empty_pool_is_refused);
    tcase_set_timeout(tcase, 60);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
