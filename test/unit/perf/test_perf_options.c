/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/workload/benchmarks.h"
#include "perf/workload/options.h"
#include "perf/base/error.h"
#include "perf/workload/options_check.h"
#include "test/unit/perf/models_here.h"
#include "test/support/mkv_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>


enum { MAX_WORDS = 16 };

static perf_options_t options;

static int parse(const char *line)
{
    static char text[256];
    char *argv[MAX_WORDS + 1] = {(char[]){"mori_kv_perf"}};
    int argc = 1;

    snprintf(text, sizeof(text), "%s", line);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) {
        ck_assert_int_lt(argc, MAX_WORDS);
        argv[argc++] = word;
    }
    return perf_options_parse(argc, argv, &options);
}

START_TEST(defaults_are_a_small_sweep_in_one_command)
{
    ck_assert_int_eq(parse(""), 1);
    ck_assert_ptr_null(options.model);
    ck_assert_int_eq(options.role, PERF_ROLE_PARENT);
    ck_assert_uint_eq(options.max_block_size, 4096);
    ck_assert_uint_eq(options.max_batch_size, 1);
    ck_assert_uint_eq(options.total_buffer_size, 1u << 30);
    ck_assert_uint_eq(options.target_dev, 1);
}
END_TEST

/* A file of a machine in a folder. */
static void put(const char *root, const char *name, const char *text)
{
    char command[512];

    snprintf(command, sizeof(command), "mkdir -p $(dirname %s/%s) && echo %s >%s/%s",
             root, name, text, root, name);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(memory_is_the_gpus_where_one_can_be_opened)
{
    char root[] = "/tmp/test_perf_options.XXXXXX", command[64];

    ck_assert_ptr_nonnull(mkdtemp(root));
    ck_assert_int_eq(perf_options_memory_here(root), PERF_SEGMENT_DRAM);
    put(root, "sys/class/kfd/kfd/topology/nodes/0/gpu_id", "0");
    put(root, "dev/kfd", "device");
    ck_assert_int_eq(perf_options_memory_here(root), PERF_SEGMENT_DRAM);
    put(root, "sys/class/kfd/kfd/topology/nodes/1/gpu_id", "4711");
    ck_assert_int_eq(perf_options_memory_here(root), PERF_SEGMENT_VRAM);

    snprintf(command, sizeof(command), "rm -r %s/dev", root);
    ck_assert_int_eq(system(command), 0);
    ck_assert_int_eq(perf_options_memory_here(root), PERF_SEGMENT_DRAM);
    snprintf(command, sizeof(command), "rm -r %s", root);
    ck_assert_int_eq(system(command), 0);

    ck_assert_int_eq(parse("--target_seg_type DRAM"), 1);
    ck_assert(!options.is_memory_chosen);
    ck_assert_int_eq(options.initiator_segment, perf_options_memory_here(""));
    ck_assert_int_eq(parse(""), 1);
    ck_assert(options.is_memory_chosen);
}
END_TEST

START_TEST(values_and_units_are_taken)
{
    ck_assert_int_eq(parse("--model Kimi-K2 --op_type read --total_buffer_size 6G "
                           "--post layer --layer_us 50 --check_consistency "
                           "--initiator_seg_type vram --initiator_dev 3"),
                     1);
    ck_assert_str_eq(options.model, "Kimi-K2");
    ck_assert_int_eq(options.op, PERF_OP_READ);
    ck_assert_uint_eq(options.total_buffer_size, UINT64_C(6) << 30);
    ck_assert_int_eq(options.post, PERF_POST_LAYER);
    ck_assert_int_eq(options.is_check, 1);
    ck_assert_int_eq(options.initiator_segment, PERF_SEGMENT_VRAM);
    ck_assert_uint_eq(options.target_dev, 4);
}
END_TEST

START_TEST(roles_follow_from_rank_or_name)
{
    ck_assert_int_eq(parse("--_fds 5 --_rank 1"), 1);
    ck_assert_int_eq(options.role, PERF_ROLE_LEAF);
    ck_assert_int_eq(parse("--role decode --peer :7000"), 1);
    ck_assert_int_eq(options.role, PERF_ROLE_LEAF);
    ck_assert_uint_eq(options.rank, 1);
    ck_assert_int_eq(parse("--role prefill --peer host:7000"), 1);
    ck_assert_int_eq(options.role, PERF_ROLE_CENTER);
    ck_assert_uint_eq(options.rank, 0);
}
END_TEST

static const struct {
    const char *line;
    const char *text;
} refusals[] = {
    {"--requests 0", "--requests is '0'; expected a whole number from 1 to 16777216"},
    {"--requests 12x", "--requests is '12x'; expected a whole number"},
    {"--requests -1", "--requests is '-1'; expected a whole number"},
    {"--requests 4k", "--requests is '4k'; expected a whole number"},
    {"--total_buffer_size 4q",
     "--total_buffer_size is '4q'; expected a whole number from "
     "1 to 1099511627776, k, m, g or t may follow"},
    {"--total_buffer_size 2t", "--total_buffer_size is '2t'"},
    {"--total_buffer_size 99999999999999999999", "--total_buffer_size is '9999"},
    {"--op_type PUSH", "--op_type is 'PUSH'; expected one of WRITE, READ"},
    {"--api nixl", "--api is 'nixl'; expected one of mkv, ucp, ucp_sgl"},
    {"--role boss --peer x", "--role is 'boss'; expected one of prefill, decode"},
    {"--no_such_option", "'--no_such_option'; see --help"},
    {"--requests", "no value for the last option"},
    {"extra", "'extra' is not an option; expected --OPTION VALUE"},
    {"--model Kimi-K2 --api ucp", "--api ucp only sweeps; expected mkv with --model"},
    {"--model Kimi-K2 --scheme both", "--model Kimi-K2 has one prefill and one decode"},
    {"--api ucp_sgl --op_type READ", "UCP has no scatter-gather get"},
    {"--error_mode none", "--error_mode none with --api mkv: libmorikv's endpoints"},
    {"--api ucp --error_mode all", "--error_mode is 'all'; expected one of peer, none"},
    {"--memory_type gpu", "--memory_type is 'gpu'; expected one of rocm, cuda"},
    {"--num_target_dev 2", "--num_target_dev is 2; expected 1 with --scheme pairwise"},
    {"--scheme ping", "expected one of pairwise, onetomany, manytoone, both, pingpong"},
    {"--scheme pingpong --op_type READ",
     "--scheme pingpong with --op_type READ: a get needs no notification"},
    {"--scheme pingpong --num_target_dev 2",
     "--num_target_dev is 2; expected 1 with --scheme pingpong"},
    {"--scheme pingpong --pipeline_depth 4",
     "--pipeline_depth is 4; expected 1 with --scheme pingpong"},
    {"--scheme pingpong --recreate_xfer", "--recreate_xfer with --scheme pingpong"},
    {"--model Kimi-K2 --tp 4 --decode_tp 3",
     "--decode_tp is 3; expected a multiple or a part of --tp, 4, up to 15"},
    {"--decode_tp 4", "--decode_tp is 4 without --model"},
    {"--model Kimi-K2 --block_size 16 --decode_block_size 24",
     "--decode_block_size is 24; expected a multiple or a part of --block_size, 16"},
    {"--model GLM-5.3-Flash --block_size 12 --decode_block_size 6",
     "expected multiples of the 4 tokens that pooled of GLM-5.3-Flash merges into one"},
    {"--model Gemma-4-31B --block_size 16 --decode_block_size 32",
     "window of Gemma-4-31B is a window; expected --block_size, 16"},
    {"--model DeepSeek-V4-Pro --block_size 128 --decode_block_size 256",
     "csa of DeepSeek-V4-Pro has padded blocks; expected --block_size, 128"},
    {"--decode_layout hnd", "--layout and --decode_layout are of a model's blocks"},
    {"--model Kimi-K2 --tp 4 --decode_tp 2 --role decode --peer x/y",
     "expected equal ones with --role and --peer"},
    {"--benchmark nixl", "--benchmark is 'nixl'; expected one of collectivex, mori,"},
    {"--model Kimi-K2 --benchmark mori", "--benchmark with --model: only sweeps"},
    {"--model Kimi-K2 --dtype int3", "dtype 'int3' is not known"},
    {"--model Kimi-K2 --scheme pingpong", "expected --scheme pairwise"},
    {"--start_block_size 8k --max_block_size 4k",
     "--max_block_size is 4096; expected at least --start_block_size, 8192"},
    {"--start_batch_size 8 --max_batch_size 4",
     "--max_batch_size is 4; expected at least --start_batch_size, 8"},
    {"--warmup_requests 32",
     "--warmup_requests is 32; expected fewer than --requests, 32"},
    {"--role decode", "--role and --peer belong together"},
    {"--peer host:1", "--role and --peer belong together"},
};

START_TEST(bad_input_is_named)
{
    ck_assert_int_eq(parse(refusals[_i].line), -1);
    ck_assert_msg(strstr(perf_last_error(), refusals[_i].text) != NULL, "%s",
                  perf_last_error());
}
END_TEST

START_TEST(agreement_differs_for_different_runs)
{
    char first[4096], second[4096], text[128];

    ck_assert_int_eq(parse("--num_iter 10"), 1);
    ck_assert_int_lt(perf_options_agreement(&options, first, sizeof(first)),
                     (int)sizeof(first));
    ck_assert_int_eq(parse("--num_iter 10 --json x --initiator_dev 2"), 1);
    perf_options_agreement(&options, second, sizeof(second));
    ck_assert_str_eq(first, second);
    ck_assert_int_eq(parse("--num_iter 11"), 1);
    perf_options_agreement(&options, second, sizeof(second));
    ck_assert_str_ne(first, second);
    ck_assert(perf_options_differ(first, second, text, sizeof(text)));
    ck_assert_str_eq(text, "--num_iter is 10 here and 11 there");
    ck_assert(!perf_options_differ(first, first, text, sizeof(text)));
    ck_assert_int_eq(parse("--num_iter 10 --target_seg_type VRAM"), 1);
    perf_options_agreement(&options, second, sizeof(second));
    ck_assert(perf_options_differ(first, second, text, sizeof(text)));
    ck_assert_str_eq(text, "--target_seg_type is DRAM here and VRAM there");
}
END_TEST

static const struct {
    unsigned tp, decode_tp, ranks;
    bool is_center_prefill;
} ranks[] = {{2, 4, 2, true}, {4, 4, 1, true}, {8, 2, 4, false}, {8, 1, 8, false}};

static const struct {
    const char *name;
    unsigned row;
    uint64_t block_size;
    uint32_t batch;
} published[] = {
    {"collectivex", 0, 183066624, 1}, /* 32k tokens at once */
    {"CollectiveX", 2, 9216, 15360},  /* ... in pages of 64 tokens, 30 layers */
    {"collectivex", 5, 2304, 61440},  /* ... of 16 */
    {"mori", 0, 1024, 128},           {"mori", 10, 1048576, 128},
    {"lmcache", 1, 4096, 256},        {"vllm-d2d", 0, 4096, 4096},
    {"paged-writes", 3, 65536, 4096}, {"paged-writes", 4, 32768, 1024},
};

START_TEST(benchmarks_have_the_published_blocks)
{
    const perf_benchmark_t *benchmark = perf_benchmark_find(published[_i].name);
    char text[64];

    ck_assert_ptr_nonnull(benchmark);
    ck_assert_uint_lt(published[_i].row, benchmark->num_rows);
    ck_assert_uint_eq(benchmark->rows[published[_i].row].block_size,
                      published[_i].block_size);
    ck_assert_uint_eq(benchmark->rows[published[_i].row].batch, published[_i].batch);
    snprintf(text, sizeof(text), "--benchmark %s", published[_i].name);
    ck_assert_int_eq(parse(text), 1);
}
END_TEST

START_TEST(side_with_fewer_ranks_is_the_center)
{
    char text[64];

    snprintf(text, sizeof(text), "--model Kimi-K2 --tp %u --decode_tp %u", ranks[_i].tp,
             ranks[_i].decode_tp);
    ck_assert_int_eq(parse(text), 1);
    ck_assert_uint_eq(options.num_target_dev, ranks[_i].ranks);
    ck_assert(perf_options_is_prefill(&options, 0) == ranks[_i].is_center_prefill);
    ck_assert(perf_options_is_prefill(&options, 1) != ranks[_i].is_center_prefill);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("perf_options");
    TCase *tcase = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tcase, defaults_are_a_small_sweep_in_one_command);
    tcase_add_test(tcase, memory_is_the_gpus_where_one_can_be_opened);
    tcase_add_test(tcase, values_and_units_are_taken);
    tcase_add_test(tcase, roles_follow_from_rank_or_name);
    tcase_add_loop_test(tcase, bad_input_is_named, 0,
                        sizeof(refusals) / sizeof(refusals[0]));
    tcase_add_loop_test(tcase, benchmarks_have_the_published_blocks, 0,
                        sizeof(published) / sizeof(published[0]));
    tcase_add_loop_test(tcase, side_with_fewer_ranks_is_the_center, 0,
                        sizeof(ranks) / sizeof(ranks[0]));
    tcase_add_test(tcase, agreement_differs_for_different_runs);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
