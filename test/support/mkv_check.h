/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_CHECK_H
#define MKV_CHECK_H

/**
 * @file
 * Additions to Check for code that runs inside and outside of its tests.
 */

#include "test/support/mkv_test.h"

#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Check writes the line of each assertion that holds to a file, to report the place
 * where a case dies. That took a third of the time of cases that check every block.
 * Here a line is written when a case first reaches it.
 */
static inline void mkv_check_mark(const char *file, unsigned line)
{
    static atomic_uint marked[1024];
    atomic_uint *last = &marked[line % 1024];

    if (atomic_load_explicit(last, memory_order_relaxed) != line) {
        atomic_store_explicit(last, line, memory_order_relaxed);
        _mark_point(file, (int)line);
    }
}

#undef ck_assert_msg
#define ck_assert_msg(_cond, ...)                                                      \
    ((_cond) ? mkv_check_mark(__FILE__, __LINE__)                                      \
             : _ck_assert_failed(__FILE__, __LINE__, "Assertion '" #_cond "' failed",  \
                                 ##__VA_ARGS__))

/** Like ck_assert_msg(), and silent when it holds: usable outside a test too. */
#define MKV_REQUIRE(_cond, ...)                                                        \
    do {                                                                               \
        if (!(_cond)) {                                                                \
            ck_abort_msg(__VA_ARGS__);                                                 \
        }                                                                              \
    } while (0)

/** How many cases failed; one where none was run, as CK_RUN_CASE or CK_RUN_SUITE names
 *  none: nothing was tested then. */
static inline int mkv_check_failed(SRunner *runner)
{
    const char *name = getenv("CK_RUN_CASE"), *suite = getenv("CK_RUN_SUITE");

    if (srunner_ntests_run(runner) > 0) {
        return srunner_ntests_failed(runner);
    }
    fprintf(stderr, "no case was run (CK_RUN_CASE=%s, CK_RUN_SUITE=%s)\n",
            (name != NULL) ? name : "", (suite != NULL) ? suite : "");
    return 1;
}

/** Run a suite and free it. @return The program's exit status. */
static inline int mkv_check_run(Suite *suite, enum fork_status fork_status,
                                enum print_output output)
{
    SRunner *runner = srunner_create(suite);
    int failed;

    srunner_set_fork_status(runner, fork_status);
    srunner_run_all(runner, output);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? MKV_TEST_EXIT_OK : MKV_TEST_EXIT_FAIL;
}

/** The same, each case in a process of its own even with CK_FORK=no: for cases that
 * change the environment. */
static inline int mkv_check_run_forked(Suite *suite)
{
    return mkv_check_run(suite, CK_FORK, CK_NORMAL);
}

#endif
