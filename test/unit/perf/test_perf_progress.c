/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/mkv_check.h"

#include "perf/kv_perf/report/progress.h"

#include <stdlib.h>


#define SECOND UINT64_C(1000000000)

static const struct {
    perf_position_t position;
    uint64_t elapsed_ns;
    double rate;
    const char *text;
} bars[] = {
    {{"rows", 0, 4, 0, 0, 0}, 0, 0, "rows [                              ] 0/4"},
    {{"rows", 1, 4, 0, 0, 0},
     10 * SECOND,
     2.5e9,
     "rows [#######                       ] 1/4, 2.5 GB/s, 0:30 left"},
    {{"rows", 0, 1, 1, 2, 0},
     90 * SECOND,
     0,
     "rows [###############               ] 0/1, 1:30 left"},
    {{"requests", 3, 3, 1, 2, 0},
     SECOND,
     1e9,
     "requests [##############################] 3/3, 1 GB/s, 0:00 left"},
};

START_TEST(bar_has_rate_and_time_left)
{
    char text[128];

    perf_progress_text(&bars[_i].position, bars[_i].elapsed_ns, bars[_i].rate, text,
                       sizeof(text));
    ck_assert_str_eq(text, bars[_i].text);
}
END_TEST

START_TEST(text_that_has_no_room_is_cut)
{
    char text[20];

    perf_progress_text(&bars[1].position, SECOND, 1e9, text, sizeof(text));
    ck_assert_str_eq(text, "rows [#######      ");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("perf_progress");
    TCase *tcase = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_loop_test(tcase, bar_has_rate_and_time_left, 0,
                        sizeof(bars) / sizeof(bars[0]));
    tcase_add_test(tcase, text_that_has_no_room_is_cut);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
