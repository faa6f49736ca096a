/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_CHECK_H
#define MKV_CHECK_H

/**
 * @file
 * What Check lacks for code that runs inside and outside of its tests.
 */

#include "test/support/mkv_test.h"

#include <check.h>

/** Like ck_assert_msg(), and silent when it holds: usable outside a test too. */
#define MKV_REQUIRE(_cond, ...)                                                        \
    do {                                                                               \
        if (!(_cond)) {                                                                \
            ck_abort_msg(__VA_ARGS__);                                                 \
        }                                                                              \
    } while (0)

/**
 * Run a suite and free it, each case in a process of its own, whatever the environment
 * says: for cases that set their own.
 *
 * @return The program's exit status.
 */
static inline int mkv_check_run_forked(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    int failed;

    srunner_set_fork_status(runner, CK_FORK);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? MKV_TEST_EXIT_OK : MKV_TEST_EXIT_FAIL;
}

#endif
