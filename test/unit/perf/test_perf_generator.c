/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/mkv_check.h"

#include "perf/workload/generator.h"
#include "perf/base/error.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>


static perf_source_t *generator(uint64_t seed, uint32_t input, uint32_t output)
{
    perf_generator_config_t config = {seed, input, output, 0};
    perf_source_t *source;

    ck_assert_int_eq(perf_generator_create(&config, &source), 0);
    return source;
}

START_TEST(same_seed_same_requests_other_seed_others)
{
    perf_source_t *a = generator(1, 4000, 300), *b = generator(1, 4000, 300);
    perf_source_t *c = generator(2, 4000, 300);
    const perf_request_t *x, *y, *z;
    unsigned i, differ = 0;

    for (i = 0; i < 500; ++i) {
        ck_assert_int_eq(perf_source_next(a, &x), 1);
        ck_assert_int_eq(perf_source_next(b, &y), 1);
        ck_assert_int_eq(perf_source_next(c, &z), 1);
        ck_assert_uint_eq(x->input_length, y->input_length);
        ck_assert_uint_eq(x->timestamp_ms, y->timestamp_ms);
        ck_assert_mem_eq(x->hashes, y->hashes, x->num_hashes * sizeof(*x->hashes));
        differ += (x->input_length != z->input_length);
    }
    ck_assert_uint_gt(differ, 400);
    perf_source_destroy(a);
    perf_source_destroy(b);
    perf_source_destroy(c);
}
END_TEST

START_TEST(lengths_average_to_the_mean_and_keep_their_range)
{
    perf_source_t *source = generator(7, 4000, 300);
    const perf_request_t *request;
    uint64_t sum = 0, before = 0;
    bool is_slow = (getenv("MKV_UNDER_VALGRIND") != NULL);
    unsigned i, count = is_slow ? 1000 : 20000;

    for (i = 0; i < count; ++i) {
        ck_assert_int_eq(perf_source_next(source, &request), 1);
        ck_assert(request->input_length >= 1000 && request->input_length <= 16000);
        ck_assert_uint_ge(request->output_length, 75);
        ck_assert_uint_ge(request->timestamp_ms, before);
        ck_assert_uint_eq(request->num_hashes, (request->input_length + 511) / 512);
        before = request->timestamp_ms;
        sum += request->input_length;
    }
    ck_assert_uint_gt(sum / count, is_slow ? 3500 : 3900);
    ck_assert_uint_lt(sum / count, is_slow ? 4500 : 4100);
    perf_source_destroy(source);
}
END_TEST

/* A hash means all tokens up to its end, so it must always follow the same one. */
START_TEST(equal_hashes_have_equal_histories)
{
    static uint64_t parent[1 << 20];
    perf_source_t *source = generator(3, 6000, 300);
    const perf_request_t *request;
    unsigned i, h, reused = 0;
    unsigned count = (getenv("MKV_UNDER_VALGRIND") != NULL) ? 200 : 5000;
    uint64_t before;

    for (i = 0; i < count; ++i) {
        ck_assert_int_eq(perf_source_next(source, &request), 1);
        before = 1;
        for (h = 0; h < request->num_hashes; ++h) {
            ck_assert_uint_lt(request->hashes[h], 1 << 20);
            if (parent[request->hashes[h]] != 0) {
                ck_assert_uint_eq(parent[request->hashes[h]], before);
                ++reused;
            }
            parent[request->hashes[h]] = before;
            before = request->hashes[h] + 2;
        }
    }
    ck_assert_uint_gt(reused, count); /* more than the system prompt comes back */
    perf_source_destroy(source);
}
END_TEST

START_TEST(tiny_prompts_work)
{
    perf_source_t *source = generator(3, 1, 1);
    const perf_request_t *request;
    unsigned i;

    for (i = 0; i < 100; ++i) {
        ck_assert_int_eq(perf_source_next(source, &request), 1);
        ck_assert_uint_ge(request->input_length, 1);
        ck_assert_uint_eq(request->num_hashes, 1);
    }
    perf_source_destroy(source);
}
END_TEST

START_TEST(exact_lengths_are_exact)
{
    perf_generator_config_t config = {3, 8192, 17, 1};
    perf_source_t *source;
    const perf_request_t *request;
    unsigned i;

    ck_assert_int_eq(perf_generator_create(&config, &source), 0);
    for (i = 0; i < 100; ++i) {
        ck_assert_int_eq(perf_source_next(source, &request), 1);
        ck_assert_uint_eq(request->input_length, 8192);
        ck_assert_uint_eq(request->output_length, 17);
        ck_assert_uint_eq(request->hashes[0], 0);          /* system prompt */
        ck_assert_uint_eq(request->hashes[1], 1 + 15 * i); /* never seen before */
    }
    perf_source_destroy(source);
}
END_TEST

START_TEST(lengths_out_of_range_are_named)
{
    perf_generator_config_t config = {1, 0, 1, 0};
    perf_source_t *source;

    ck_assert_int_eq(perf_generator_create(&config, &source), -1);
    ck_assert_ptr_nonnull(strstr(perf_last_error(), "input_length of 0 tokens"));
    config.input_length = 1;
    config.output_length = 5 << 20;
    ck_assert_int_eq(perf_generator_create(&config, &source), -1);
    ck_assert_ptr_nonnull(strstr(perf_last_error(), "output_length of 5242880 tokens; "
                                                    "expected 1 to 4194304"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("perf_generator");
    TCase *tcase = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tcase, same_seed_same_requests_other_seed_others);
    tcase_add_test(tcase, lengths_average_to_the_mean_and_keep_their_range);
    tcase_add_test(tcase, equal_hashes_have_equal_histories);
    tcase_add_test(tcase, tiny_prompts_work);
    tcase_add_test(tcase, exact_lengths_are_exact);
    tcase_add_test(tcase, lengths_out_of_range_are_named);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
