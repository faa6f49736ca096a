/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/memory/block_tables.h"
#include "perf/workload/generator.h"
#include "perf/base/error.h"
#include "test/unit/perf/models_here.h"
#include "test/support/mkv_check.h"

#include <stdlib.h>
#include <string.h>


static perf_geometry_t geometry;

static perf_block_tables_t *make(uint32_t num_blocks, uint64_t seed)
{
    perf_block_tables_t *tables;

    ck_assert_int_eq(perf_geometry_init("Llama-3-70B", 8, 16, "bf16", &geometry), 0);
    ck_assert_int_eq(perf_block_tables_create(&geometry, num_blocks, seed, &tables), 0);
    return tables;
}

static int try_admit(perf_block_tables_t *tables, uint64_t number, uint32_t tokens,
                     const uint64_t *hashes, perf_block_table_t **table_p)
{
    perf_request_t request = {.input_length = tokens, .output_length = 64};

    request.timestamp_ms = number * 100;
    request.num_hashes = (tokens + 511) / 512;
    request.hashes = hashes;
    return perf_block_tables_admit(tables, &request, number, table_p);
}

static perf_block_table_t *admit(perf_block_tables_t *tables, uint64_t number,
                                 uint32_t tokens, const uint64_t *hashes)
{
    perf_block_table_t *table;

    ck_assert_int_eq(try_admit(tables, number, tokens, hashes, &table), 1);
    return table;
}

START_TEST(equal_prefix_has_equal_keys_in_every_process)
{
    static const uint64_t first[] = {0, 7}, second[] = {0, 8};
    perf_block_tables_t *prefill = make(400, 1), *decode = make(300, 2);
    perf_block_table_t *a = admit(prefill, 0, 1000, first);
    perf_block_table_t *b = admit(decode, 0, 1000, first);
    perf_block_table_t *c = admit(prefill, 1, 1000, second);

    ck_assert_uint_eq(a->num_blocks, 63);
    ck_assert_uint_eq(b->num_blocks, 63);
    ck_assert_mem_eq(a->keys, b->keys, 63 * sizeof(*a->keys));
    ck_assert_mem_eq(a->keys, c->keys, 32 * sizeof(*a->keys)); /* one hash */
    ck_assert_uint_ne(a->keys[32], c->keys[32]);
    ck_assert_uint_eq(c->num_shared, 32);
    ck_assert_mem_eq(a->blocks, c->blocks, 32 * sizeof(*a->blocks));

    perf_block_tables_release(prefill, a);
    perf_block_tables_release(prefill, c);
    perf_block_tables_release(decode, b);
    perf_block_tables_destroy(prefill);
    perf_block_tables_destroy(decode);
}
END_TEST

START_TEST(block_that_is_not_full_is_never_shared)
{
    static const uint64_t hashes[] = {5};
    perf_block_tables_t *tables = make(100, 1);
    perf_block_table_t *a = admit(tables, 0, 40, hashes),
                       *b = admit(tables, 1, 40, hashes);

    ck_assert_uint_eq(b->num_shared, 2);
    ck_assert_uint_ne(a->keys[2], b->keys[2]);
    ck_assert_uint_ne(a->blocks[2], b->blocks[2]);
    perf_block_tables_release(tables, a);
    perf_block_tables_release(tables, b);
    perf_block_tables_destroy(tables);
}
END_TEST

/* Neighbours in a table that are also neighbours in the pool. */
static unsigned count_neighbours(const perf_block_table_t *table)
{
    unsigned i, count = 0;

    for (i = 1; i < table->num_blocks; ++i) {
        count += (table->blocks[i] == table->blocks[i - 1] + 1);
    }
    return count;
}

START_TEST(used_pool_gives_fragmented_tables)
{
    uint64_t hashes[16];
    perf_block_tables_t *tables = make(4096, 1);
    perf_block_table_t *table;
    unsigned i;

    for (i = 0; i < 16; ++i) {
        hashes[i] = 100 + i;
    }
    table = admit(tables, 0, 16 * 512, hashes);
    ck_assert_uint_eq(table->num_blocks, 512);
    ck_assert_uint_lt(count_neighbours(table), 400);
    perf_block_tables_release(tables, table);
    perf_block_tables_destroy(tables);
}
END_TEST

START_TEST(full_pool_returns_wait_until_a_table_is_finished)
{
    static const uint64_t a_hashes[] = {1, 2}, b_hashes[] = {3, 4};
    perf_block_tables_t *tables = make(100, 1);
    perf_block_table_t *a = admit(tables, 0, 1024, a_hashes), *b;

    ck_assert_int_eq(try_admit(tables, 1, 1024, b_hashes, &b), 0); /* 36 blocks left */
    perf_block_tables_decode(tables, a); /* sequences give way */
    b = admit(tables, 1, 1024, b_hashes);
    perf_block_tables_release(tables, b);
    perf_block_tables_destroy(tables);
}
END_TEST

START_TEST(request_larger_than_the_pool_is_named)
{
    static const uint64_t hashes[] = {1, 2};
    perf_request_t request = {0, 1024, 1, 2, hashes};
    perf_block_tables_t *tables = make(63, 1);
    perf_block_table_t *table;

    ck_assert_int_eq(perf_block_tables_admit(tables, &request, 9, &table), -1);
    ck_assert_ptr_nonnull(strstr(perf_last_error(), "request 9 of 1024 tokens takes 64 "
                                                    "blocks; expected at most the "
                                                    "pool's 63"));
    perf_block_tables_destroy(tables);
}
END_TEST

/* A long life: no block belongs to two tables with different contents. */
START_TEST(living_tables_never_share_a_block_with_other_contents)
{
    enum { BLOCKS = 2000, WINDOW = 4, REQUESTS = 3000 };
    static uint64_t owner[BLOCKS];
    perf_generator_config_t config = {4, 2000, 500, 0};
    perf_block_tables_t *tables = make(BLOCKS, 3);
    perf_block_table_t *window[WINDOW] = {NULL}, *table;
    const perf_request_t *request;
    perf_source_t *source;
    unsigned i, j, num_shared = 0;
    unsigned count = (getenv("MKV_UNDER_VALGRIND") != NULL) ? 60 : REQUESTS;

    ck_assert_int_eq(perf_generator_create(&config, &source), 0);
    for (i = 0; i < count; ++i) {
        if (window[i % WINDOW] != NULL) {
            table = window[i % WINDOW];
            for (j = 0; j < table->num_blocks; ++j) {
                ck_assert_uint_eq(owner[table->blocks[j]], table->keys[j]);
            }
            perf_block_tables_decode(tables, table);
        }
        perf_source_next(source, &request);
        ck_assert_int_eq(perf_block_tables_admit(tables, request, i, &table), 1);
        for (j = 0; j < table->num_blocks; ++j) {
            ck_assert_uint_lt(table->blocks[j], BLOCKS);
            ck_assert(j >= table->num_shared ||
                      owner[table->blocks[j]] == table->keys[j]);
            owner[table->blocks[j]] = table->keys[j];
        }
        num_shared += table->num_shared;
        window[i % WINDOW] = table;
    }
    ck_assert_uint_gt(num_shared, count);
    for (i = 0; i < WINDOW; ++i) {
        perf_block_tables_release(tables, window[i]);
    }
    perf_source_destroy(source);
    perf_block_tables_destroy(tables);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("perf_block_tables");
    TCase *tcase = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tcase, equal_prefix_has_equal_keys_in_every_process);
    tcase_add_test(tcase, block_that_is_not_full_is_never_shared);
    tcase_add_test(tcase, used_pool_gives_fragmented_tables);
    tcase_add_test(tcase, full_pool_returns_wait_until_a_table_is_finished);
    tcase_add_test(tcase, request_larger_than_the_pool_is_named);
    tcase_add_test(tcase, living_tables_never_share_a_block_with_other_contents);
    tcase_set_timeout(tcase, 60);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
