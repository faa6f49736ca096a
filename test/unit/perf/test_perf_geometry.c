/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/workload/geometry.h"
#include "perf/base/error.h"
#include "test/unit/perf/models_here.h"
#include "test/support/mkv_check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>


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
    {"DeepSeek-R1", 8, 16, "bf16", 61, 1, 18432}, /* a latent is not divided */
    {"Kimi-K2", 3, 64, "fp8", 61, 1, 36864},
};

START_TEST(builtin_models_have_the_published_bytes)
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

/* Pieces and bytes of a prompt, as field reports have them
 * and with the model's own ranks and blocks: perf/models/README.md. */
static const struct {
    const char *model;
    const char *dtype;
    unsigned tokens;
    unsigned component; /* size of the piece in the report */
    size_t piece_bytes;
    uint64_t pieces, bytes;
} prompts[] = {
    {"Llama-3-70B", NULL, 32768, 0, 4096, 327680, 1342177280},
    {"Qwen3-235B", NULL, 32768, 0, 4096, 385024, 1577058304},
    {"GPT-OSS-120B", NULL, 32768, 0, 2048, 73728 + 288, 150994944 + 589824},
    {"GPT-OSS-120B", NULL, 32769, 1, 2048, 73764 + 324, 151068672 + 663552},
    {"DeepSeek-R1", NULL, 32768, 0, 73728, 31232, 2302672896},
    {"Kimi-K2", NULL, 32768, 0, 73728, 31232, 2302672896},
    {"DeepSeek-V3.2", "fp8", 32768, 0, 41984, 62464, 1575092224},
    {"DeepSeek-V3.2", "bf16", 32768, 1, 8448, 62464, 2566520832},
    {"GLM-5.2", "fp8", 32768, 0, 41984, 50688, 1767505920},
    {"GLM-5.2", "bf16", 32768, 0, 73728, 50688, 3035234304},
    {"DeepSeek-V4-Pro", NULL, 131072, 0, 37440, 30720 + 15872 + 122,
     704839680 + 27426816 + 4567680},
    {"DeepSeek-V4-Pro", NULL, 131072, 2, 1728, 30720 + 15872 + 122,
     704839680 + 27426816 + 4567680},
    {"Qwen3.5-397B", NULL, 32768, 0, 8192, 61440 + 90, 503316480 + 24007680},
    {"Qwen3.5-397B", NULL, 32768, 1, 524288, 61440 + 90, 503316480 + 24007680},
    {"Qwen3.5-397B", NULL, 32768, 2, 9216, 61440 + 90, 503316480 + 24007680},
    {"MiniMax-M3", NULL, 32768, 0, 32768, 30720 + 14592, 1006632960 + 478150656},
    {"Gemma-4-31B", NULL, 32768, 0, 16384, 40960 + 6400, 671088640 + 209715200},
    {"Gemma-4-31B", NULL, 32767, 1, 32768, 40960 + 6500, 671088640 + 212992000},
    {"Nemotron-3-Nano", NULL, 32768, 0, 4096, 24576 + 46, 100663296 + 24541184},
    {"Nemotron-3-Nano", NULL, 32768, 1, 1048576, 24576 + 46, 100663296 + 24541184},
};

START_TEST(prompts_have_the_published_pieces_and_bytes)
{
    perf_geometry_t geometry;
    uint64_t pieces, bytes;

    ck_assert_int_eq(
        perf_geometry_init(prompts[_i].model, 0, 0, prompts[_i].dtype, &geometry), 0);
    ck_assert_uint_eq(geometry.shares[prompts[_i].component].piece_bytes,
                      prompts[_i].piece_bytes);
    perf_geometry_prompt(&geometry, prompts[_i].tokens, &pieces, &bytes);
    ck_assert_uint_eq(pieces, prompts[_i].pieces);
    ck_assert_uint_eq(bytes, prompts[_i].bytes);
}
END_TEST

static size_t state_bytes(const perf_geometry_t *geometry)
{
    const perf_component_t *component;
    size_t bytes = 0;
    unsigned i;

    for (i = 0; i < geometry->model.num_components; ++i) {
        component = &geometry->model.components[i];
        if (component->keep == PERF_KEEP_STATE) {
            bytes += component->num_layers * geometry->shares[i].piece_bytes;
        }
    }
    return bytes;
}

START_TEST(states_and_bytes_a_token_are_the_published_ones)
{
    perf_geometry_t geometry;

    ck_assert_int_eq(perf_geometry_init("GLM-5.3-Flash", 0, 0, NULL, &geometry), 0);
    ck_assert_uint_eq(state_bytes(&geometry), (1048576 + 36864) * 34);
    ck_assert_int_eq(perf_geometry_init("Kimi-K3", 0, 0, NULL, &geometry), 0);
    ck_assert_uint_eq(state_bytes(&geometry), (786432 + 27648) * 69);
    /* LMCache counts a page in all 93 layers */
    ck_assert_uint_eq(geometry.piece_bytes / geometry.block_tokens * 93, 107136);
    ck_assert_int_eq(perf_geometry_init("Qwen3.8-27B", 0, 0, NULL, &geometry), 0);
    ck_assert_uint_eq(geometry.block_bytes / geometry.block_tokens, 65536);
    ck_assert_int_eq(perf_geometry_init("DeepSeek-V4-Flash", 0, 0, NULL, &geometry), 0);
    ck_assert_uint_eq(geometry.block_bytes, 1045824); /* "1.04 MB" */
    ck_assert_int_eq(perf_geometry_init("Nemotron-3-Super", 0, 0, NULL, &geometry), 0);
    ck_assert_uint_eq(geometry.model.components[0].num_layers, 8);
}
END_TEST

START_TEST(chunks_begin_at_multiples)
{
    perf_geometry_t geometry;
    unsigned first;

    ck_assert_int_eq(perf_geometry_init("Llama-4", 0, 0, NULL, &geometry), 0);
    ck_assert_uint_eq(perf_geometry_units(&geometry, 1, 8192, &first), 512);
    ck_assert_uint_eq(first, 0);
    ck_assert_uint_eq(perf_geometry_units(&geometry, 1, 8193, &first), 1);
    ck_assert_uint_eq(first, 512);
    ck_assert_uint_ge(perf_geometry_max_units(&geometry, 1), 512);
}
END_TEST

/* A file of JSON, or the error that it gives */
static const struct {
    const char *json, *text;
} files[] = {
    {"{", "cannot be read"},
    {"[]", "expected an object in braces"},
    {"{\"name\": \"x\"}", "layers is missing"},
    {"{\"name\": \"x\", \"layers\": 0}", "layers is 0; expected a whole number from 1"},
    {"{\"name\": \"x\", \"layers\": 2, \"haeds\": 1}", "haeds is 1; expected a member"},
    {"{\"name\": \"x\", \"layers\": 2, \"components\": []}", "a list of 1 to 8"},
    {"{\"name\": \"x\", \"layers\": 2, \"components\": [{\"name\": \"a\"}]}",
     "components[0].dim is missing; expected it or bytes"},
    {"{\"name\": \"x\", \"layers\": 2, \"components\": [{\"name\": \"a\", \"dim\": 2, "
     "\"window\": 3}]}",
     "expected components that keep every token to come first"},
    {"{\"name\": \"x\", \"layers\": 2, \"pattern\": \"ab\", \"components\": [{\"name\": "
     "\"a\", \"dim\": 2, \"on\": \"c\"}]}",
     "components[0].on is \"c\"; expected letters"},
    {"{\"name\": \"x\", \"layers\": 2, \"components\": [{\"name\": \"a\", \"dim\": 2, "
     "\"ring\": true}]}",
     "components[0].ring is missing; expected a window"},
    {"{\"name\": \"x\", \"layers\": 3, \"tp\": 2, \"block_tokens\": 8, \"pattern\": \"ab\", "
     "\"components\": [{\"name\": \"a\", \"heads\": 4, \"dim\": 10, \"on\": \"a\"}]}",
     NULL},
};

START_TEST(file_of_a_user_is_read_or_refused_with_the_cause)
{
    char path[] = "/tmp/perf_model_XXXXXX";
    int fd = mkstemp(path);
    perf_geometry_t geometry;
    const size_t length = strlen(files[_i].json);
    int ret;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, files[_i].json, length), (int)length);
    close(fd);
    ret = perf_geometry_init(path, 0, 0, NULL, &geometry);
    unlink(path);
    if (files[_i].text != NULL) {
        ck_assert_int_eq(ret, -1);
        ck_assert_msg(strstr(perf_last_error(), files[_i].text) != NULL, "%s",
                      perf_last_error());
        return;
    }
    ck_assert_int_eq(ret, 0);
    ck_assert_uint_eq(geometry.model.components[0].num_layers, 2);
    ck_assert_uint_eq(geometry.piece_bytes, 2 * 8 * 10 * 2);
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
    {"Llama-9", 8, 16, "bf16", "model 'Llama-9' is not known in "},
    {"Llama-9", 8, 16, "bf16", "or one of DeepSeek-R1, DeepSeek-V3.2,"},
    {"/no/such.json", 8, 16, "bf16", "model '/no/such.json' cannot be read"},
    {"Kimi-K2", 8, 16, "int3", "dtype 'int3' is not known; expected bf16"},
    {"Kimi-K2", 1025, 16, "bf16", "tp 1025 is out of range; expected 1 to 1024"},
    {"Qwen3-235B", 3, 16, "bf16", "tp 3 does not divide the 4 heads of kv"},
    {"Qwen3-235B", 6, 16, "bf16", "tp 6 does not divide the 4 heads of kv"},
    {"Kimi-K2", 1, 8193, "bf16", "block of 8193 tokens; expected 1 to 8192"},
    {"DeepSeek-V4-Pro", 8, 64, "fp8", "expected a multiple of the 128 that hca merges"},
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

    tcase_add_loop_test(tcase, builtin_models_have_the_published_bytes, 0,
                        sizeof(shapes) / sizeof(shapes[0]));
    tcase_add_loop_test(tcase, prompts_have_the_published_pieces_and_bytes, 0,
                        sizeof(prompts) / sizeof(prompts[0]));
    tcase_add_test(tcase, states_and_bytes_a_token_are_the_published_ones);
    tcase_add_test(tcase, chunks_begin_at_multiples);
    tcase_add_loop_test(tcase, file_of_a_user_is_read_or_refused_with_the_cause, 0,
                        sizeof(files) / sizeof(files[0]));
    tcase_add_test(tcase, last_block_may_be_partly_full);
    tcase_add_loop_test(tcase, bad_input_is_named_and_nothing_set, 0,
                        sizeof(refusals) / sizeof(refusals[0]));
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
