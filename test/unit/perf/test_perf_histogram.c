/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/mkv_check.h"

#include "perf/kv_perf/report/histogram.h"
#include "perf/base/random.h"

#include <stdlib.h>


static perf_histogram_t histogram, other;

START_TEST(empty_has_zeroes)
{
    perf_histogram_init(&histogram);
    ck_assert_uint_eq(perf_histogram_permille(&histogram, 500), 0);
    ck_assert(perf_histogram_mean(&histogram) == 0.0);
}
END_TEST

START_TEST(small_values_are_exact)
{
    unsigned i;

    perf_histogram_init(&histogram);
    for (i = 1; i <= 60; ++i) {
        perf_histogram_add(&histogram, i);
    }
    ck_assert_uint_eq(perf_histogram_permille(&histogram, 0), 1);
    ck_assert_uint_eq(perf_histogram_permille(&histogram, 500), 30);
    ck_assert_uint_eq(perf_histogram_permille(&histogram, 1000), 60);
    ck_assert(perf_histogram_mean(&histogram) == 30.5);
}
END_TEST

START_TEST(p999_of_few_samples_is_the_largest)
{
    unsigned i;

    perf_histogram_init(&histogram);
    for (i = 1; i <= 10; ++i) {
        perf_histogram_add(&histogram, i * 1000003);
    }
    ck_assert_uint_eq(perf_histogram_permille(&histogram, 999), 10000030);
}
END_TEST

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

START_TEST(any_magnitude_is_within_a_64th_above)
{
    enum { COUNT = 20000 };
    static uint64_t samples[COUNT];
    uint64_t random = 3, got, exact;
    unsigned i;

    perf_histogram_init(&histogram);
    for (i = 0; i < COUNT; ++i) {
        samples[i] = perf_random(&random) >> perf_random_below(&random, 64);
        perf_histogram_add(&histogram, samples[i]);
    }
    qsort(samples, COUNT, sizeof(samples[0]), compare);
    for (i = 1; i <= 1000; ++i) {
        got = perf_histogram_permille(&histogram, i);
        exact = samples[COUNT / 1000 * i - 1];
        ck_assert_uint_ge(got, exact);
        ck_assert_uint_le(got - exact, exact / 64);
    }
    ck_assert_uint_eq(histogram.max, samples[COUNT - 1]);
    ck_assert_uint_eq(histogram.min, samples[0]);
}
END_TEST

START_TEST(merge_equals_adding_everything_to_one)
{
    perf_histogram_t all;
    uint64_t random = 8, ns;
    unsigned i;

    perf_histogram_init(&histogram);
    perf_histogram_init(&other);
    perf_histogram_init(&all);
    for (i = 0; i < 1000; ++i) {
        ns = perf_random(&random) >> 40;
        perf_histogram_add((i & 1) ? &histogram : &other, ns);
        perf_histogram_add(&all, ns);
    }
    perf_histogram_merge(&histogram, &other);
    ck_assert_mem_eq(&histogram, &all, sizeof(all));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("perf_histogram");
    TCase *tcase = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tcase, empty_has_zeroes);
    tcase_add_test(tcase, small_values_are_exact);
    tcase_add_test(tcase, p999_of_few_samples_is_the_largest);
    tcase_add_test(tcase, any_magnitude_is_within_a_64th_above);
    tcase_add_test(tcase, merge_equals_adding_everything_to_one);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
