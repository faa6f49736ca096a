/* SPDX-License-Identifier: BSD-3-Clause */

/* The loader's decision: which core a UCX needs. */

#include "test/support/mkv_check.h"

#include "loader/loader_version.h"

#include <stdlib.h>
#include <string.h>

START_TEST(core_is_chosen_by_the_version_of_ucx)
{
    static const struct {
        muct_loader_facts_t facts;
        int minor;
        const char *reason;
    } cases[] = {
        {{23, 1, 1, 1, 0}, 23, ""},
        {{22, 1, 1, 0, 0}, 22, ""},
        {{24, 1, 1, 1, 0}, 24, ""},
        {{21, 1, 0, 0, 0}, -1, "UCX 1.21"},
        {{0, 2, 1, 1, 0}, -1, "UCX 2.0"},
        {{-1, -1, 1, 1, 0}, 23, ""},
        {{-1, -1, 1, 0, 0}, 22, ""},
        {{-1, -1, 0, 0, 0}, -1, "older than 1.22"},
        {{23, 1, 1, 1, 1}, -1, "statistics"},
    };
    char reason[128];
    size_t i;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        ck_assert_int_eq(
            muct_loader_version_choose(&cases[i].facts, reason, sizeof(reason)),
            cases[i].minor);
        ck_assert_msg(strstr(reason, cases[i].reason) != NULL, "%zu: %s", i, reason);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("loader");
    TCase *tcase = tcase_create("decisions");
    SRunner *runner;
    int num_failed;

    tcase_add_test(tcase, core_is_chosen_by_the_version_of_ucx);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    num_failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (num_failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
