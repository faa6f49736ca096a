/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/mkv_check.h"

#include "perf/workload/slots.h"

#include <stdlib.h>


START_TEST(windows_of_a_full_house_share_no_block)
{
    uint32_t blocks[12], seen = 0;
    perf_slots_t *slots;
    unsigned i;

    ck_assert_int_eq(perf_slots_create(4, 3, false, 1, &slots), 0);
    for (i = 0; i < 12; i += 3) {
        ck_assert_int_eq(perf_slots_get(slots, 3, 100, &blocks[i]), 0);
    }
    for (i = 0; i < 12; ++i) {
        ck_assert_uint_lt(blocks[i], 12);
        seen |= 1u << blocks[i];
    }
    ck_assert_uint_eq(seen, 0xfff);
    ck_assert_int_eq(perf_slots_get(slots, 1, 0, blocks), -1);
    perf_slots_put(slots, 3, &blocks[3]);
    ck_assert_int_eq(perf_slots_get(slots, 2, 0, blocks), 0);
    perf_slots_destroy(slots);
}
END_TEST

START_TEST(ring_is_entered_where_its_prompt_ends)
{
    uint32_t blocks[4], other[4];
    perf_slots_t *slots;

    ck_assert_int_eq(perf_slots_create(2, 4, true, 1, &slots), 0);
    ck_assert_int_eq(perf_slots_get(slots, 3, 6, blocks),
                     0); /* 6, 7, 8 of the prompt */
    ck_assert_uint_eq(blocks[0] % 4, 2);
    ck_assert_uint_eq(blocks[1], blocks[0] + 1);
    ck_assert_uint_eq(blocks[2], blocks[0] - 2);
    ck_assert_int_eq(perf_slots_get(slots, 1, 0, other), 0);
    ck_assert_uint_ne(other[0] / 4, blocks[0] / 4);
    ck_assert_int_eq(perf_slots_get(slots, 1, 0, other), -1);
    perf_slots_put(slots, 3, blocks);
    ck_assert_int_eq(perf_slots_get(slots, 4, 0, other), 0);
    ck_assert_uint_eq(other[0], blocks[0] - 2);
    perf_slots_destroy(slots);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("perf_slots");
    TCase *tcase = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tcase, windows_of_a_full_house_share_no_block);
    tcase_add_test(tcase, ring_is_entered_where_its_prompt_ends);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
