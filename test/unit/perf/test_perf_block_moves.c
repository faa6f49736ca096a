/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/memory/block_moves.h"
#include "perf/base/error.h"
#include "src/morikv.h"
#include "test/unit/perf/models_here.h"
#include "test/support/mkv_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>


static perf_options_t options_of(char *text)
{
    char *argv[32], *word, *rest = text;
    perf_options_t options;
    int argc = 0;

    while ((word = strtok_r(rest, " ", &rest)) != NULL) {
        argv[argc++] = word;
    }
    ck_assert_int_eq(perf_options_parse(argc, argv, &options), 1);
    return options;
}

static uint64_t count_merged(const uint32_t *local, const uint32_t *remote,
                             uint32_t num_blocks)
{
    mkv_run_t *runs = calloc(num_blocks, sizeof(*runs));
    size_t num_runs;

    ck_assert_int_eq(mkv_runs_merge(local, remote, num_blocks, 0, runs, &num_runs),
                     MKV_OK);
    free(runs);
    return num_runs;
}

/* Figures that mori_kv_perf reported with these options between two GPUs:
 * perf/results/README.md. */
START_TEST(pieces_are_those_of_the_recorded_runs)
{
    static const struct {
        const char *model;
        uint32_t length;
        uint64_t before, after;
    } recorded[] = {{"Llama-3-70B", 8192, 614400, 578720},
                    {"Llama-3-70B", 131072, 10444800, 9960480},
                    {"DeepSeek-R1", 8192, 234240, 225029},
                    {"DeepSeek-R1", 131072, 3982080, 3721000}};
    uint64_t regions, before = 0, push = 0, pull = 0;
    perf_options_t options;
    const perf_move_t *move;
    perf_block_moves_t *moves;
    char text[256];

    snprintf(
        text, sizeof(text),
        "x --model %s --block_size 16 --input_length %u --output_length 16 --tp 8 --requests 10 "
        "--warmup_requests 2 --total_buffer_size 16g --exact_length",
        recorded[_i].model, recorded[_i].length);
    options = options_of(text);
    ck_assert_int_eq(perf_block_moves_create(&options, &moves), 0);
    ck_assert_uint_eq(moves->num_moves, 10);
    ck_assert_uint_eq(moves->num_warmup, 2);
    regions = (uint64_t)moves->shape.num_layers * moves->shape.num_parts;
    for (move = moves->moves + 2; move < moves->moves + 10; ++move) {
        before += regions * move->num_blocks;
        push += regions * count_merged(move->src, move->dst, move->num_blocks);
        pull += regions * count_merged(move->dst, move->src, move->num_blocks);
    }
    ck_assert_uint_eq(before, recorded[_i].before);
    ck_assert_uint_eq(push, recorded[_i].after);
    ck_assert_uint_eq(pull, recorded[_i].after);
    perf_block_moves_destroy(moves);
}
END_TEST

/* There is no list to repeat unless the side has its own order. */
START_TEST(requests_at_once_and_traces_are_refused)
{
    char deep[] = "x --model Kimi-K2 --pipeline_depth 2";
    char trace[] = "x --model Kimi-K2 --trace a_file";
    perf_options_t options = options_of(deep);
    perf_block_moves_t *moves;

    ck_assert_int_eq(perf_block_moves_create(&options, &moves), -1);
    ck_assert_ptr_nonnull(strstr(perf_last_error(), "pipeline depth 2, no trace"));
    options = options_of(trace);
    ck_assert_int_eq(perf_block_moves_create(&options, &moves), -1);
    ck_assert_ptr_nonnull(strstr(perf_last_error(), "pipeline depth 1, a trace"));
}
END_TEST

START_TEST(pool_without_room_for_a_request_is_named)
{
    char text[] =
        "x --model Kimi-K2 --block_size 16 --num_blocks 30 --input_length 512 --exact_length";
    perf_options_t options = options_of(text);
    perf_block_moves_t *moves;

    ck_assert_int_eq(perf_block_moves_create(&options, &moves), -1);
    ck_assert_ptr_nonnull(strstr(perf_last_error(), "takes 32 blocks; expected at most "
                                                    "the pool's 30"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("perf_block_moves");
    TCase *tcase = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_loop_test(tcase, pieces_are_those_of_the_recorded_runs, 0, 4);
    tcase_add_test(tcase, requests_at_once_and_traces_are_refused);
    tcase_add_test(tcase, pool_without_room_for_a_request_is_named);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
