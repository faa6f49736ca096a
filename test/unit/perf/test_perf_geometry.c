/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/workload/geometry.h"
#include "perf/workload/error.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>


static const struct {
    const char *model;
    unsigned tp, block_tokens;
    const char *dtype;
    unsigned layers, parts;
    size_t piece_bytes;
} shapes[] = {
    {"Llama-3-70B", 8, 16, "bf16", 80, 2, 4096},
    {"llama-3-70b", 4, 64, "fp16", 80, 2, 32768},
    {"Llama-3-70B", 1, 1, "fp8", 80, 2, 1024},
    {"Llama-3-70B", 16, 16, "bf16", 80, 2, 4096}, /* two ranks share a head */
    {"Qwen3-235B", 8, 16, "bf16", 94, 2, 4096},   /* four heads on eight ranks */
    {"Qwen3-235B", 4, 64, "bf16", 94, 2, 16384},
    {"GPT-OSS-120B", 8, 16, "bf16", 36, 2, 2048},
    {"DeepSeek-R1", 8, 16, "bf16", 61, 1, 18432}, /* a latent is not divided */
    {"Kimi-K2", 3, 64, "fp8", 61, 1, 36864},
};

START_TEST(known_models_have_the_published_bytes)
{
    perf_geometry_t geometry;

    ck_assert_int_eq(perf_geometry_init(shapes[_i].model, shapes[_i].tp,
                                        shapes[_i].block_tokens, shapes[_i].dtype,
                                        &geometry),
                     0);
    ck_assert_uint_eq(geometry.num_layers, shapes[_i].layers);
    ck_assert_uint_eq(geometry.num_parts, shapes[_i].parts);
    ck_assert_uint_eq(geometry.piece_bytes, shapes[_i].piece_bytes);
    ck_assert_uint_eq(geometry.block_bytes,
                      shapes[_i].layers * shapes[_i].parts * shapes[_i].piece_bytes);
}
END_TEST

START_TEST(last_block_may_be_partly_full)
{
    perf_geometry_t geometry;

    ck_assert_int_eq(perf_geometry_init("Kimi-K2", 1, 16, "bf16", &geometry), 0);
    ck_assert_uint_eq(perf_geometry_blocks(&geometry, 1), 1);
    ck_assert_uint_eq(perf_geometry_blocks(&geometry, 16), 1);
    ck_assert_uint_eq(perf_geometry_blocks(&geometry, 17), 2);
}
END_TEST

static const struct {
    const char *model;
    unsigned tp, block_tokens;
    const char *dtype;
    const char *text;
} refusals[] = {
    {"Llama-4", 8, 16, "bf16", "model 'Llama-4' is not known; expected one of Llama-3"},
    {"Kimi-K2", 8, 16, "int3", "dtype 'int3' is not known; expected bf16"},
    {"Kimi-K2", 0, 16, "bf16", "tp 0 is out of range; expected 1 to 1024"},
    {"Kimi-K2", 1025, 16, "bf16", "tp 1025 is out of range"},
    {"Qwen3-235B", 3, 16, "bf16", "tp 3 does not divide the 4 KV heads"},
    {"Qwen3-235B", 6, 16, "bf16", "tp 6 does not divide the 4 KV heads"},
    {"Kimi-K2", 1, 0, "bf16", "block of 0 tokens; expected a power of two"},
    {"Kimi-K2", 1, 48, "bf16", "block of 48 tokens; expected a power of two"},
    {"Kimi-K2", 1, 1024, "bf16", "block of 1024 tokens"},
};

START_TEST(bad_input_is_named_and_nothing_set)
{
    perf_geometry_t geometry = {.num_layers = 7};

    ck_assert_int_eq(perf_geometry_init(refusals[_i].model, refusals[_i].tp,
                                        refusals[_i].block_tokens, refusals[_i].dtype,
                                        &geometry),
                     -1);
    ck_assert_uint_eq(geometry.num_layers, 7);
    ck_assert_msg(strstr(perf_last_error(), refusals[_i].text) != NULL, "%s",
                  perf_last_error());
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("perf_geometry");
    TCase *tcase = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_loop_test(tcase, known_models_have_the_published_bytes, 0,
                        sizeof(shapes) / sizeof(shapes[0]));
    tcase_add_test(tcase, last_block_may_be_partly_full);
    tcase_add_loop_test(tcase, bad_input_is_named_and_nothing_set, 0,
                        sizeof(refusals) / sizeof(refusals[0]));
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
