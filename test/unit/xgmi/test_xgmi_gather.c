/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/mkv_check.h"

#include "xgmi/copy/xgmi_gather.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define START_NS UINT64_C(1000000000)

static muct_xgmi_gather_t gather;

static void *open_list(void *arg)
{
    muct_xgmi_gather_open(arg, true);
    return NULL;
}

/* The list is filled by a thread other than the one that looks. */
static void setup(void)
{
    pthread_t thread;

    memset(&gather, 0, sizeof(gather));
    ck_assert_int_eq(pthread_create(&thread, NULL, open_list, &gather), 0);
    pthread_join(thread, NULL);
}

START_TEST(own_list_never_waits)
{
    muct_xgmi_gather_open(&gather, true);
    ck_assert(!muct_xgmi_gather_should_wait(&gather, 1, START_NS));
    ck_assert(!muct_xgmi_gather_should_wait(&gather, 100, START_NS + 1));
    ck_assert(!muct_xgmi_gather_is_steady(&gather, START_NS + 100000));
}
END_TEST

START_TEST(list_without_operations_never_waits)
{
    ck_assert(!muct_xgmi_gather_should_wait(&gather, 0, START_NS));
}
END_TEST

START_TEST(single_operation_waits_for_a_microsecond)
{
    ck_assert(muct_xgmi_gather_should_wait(&gather, 1, START_NS));
    ck_assert(muct_xgmi_gather_should_wait(&gather, 1, START_NS + 900));
    ck_assert(!muct_xgmi_gather_should_wait(&gather, 1, START_NS + 1000));
}
END_TEST

START_TEST(list_that_is_waited_for_does_not_wait)
{
    ck_assert(muct_xgmi_gather_should_wait(&gather, 1, START_NS));
    muct_xgmi_gather_hurry(&gather);
    ck_assert(!muct_xgmi_gather_should_wait(&gather, 2, START_NS + 10));
    ck_assert(!muct_xgmi_gather_is_steady(&gather, START_NS + 100000));
}
END_TEST

START_TEST(list_grows_while_operations_come)
{
    uint64_t now_ns = START_NS;
    size_t count;

    for (count = 1; count < 1000; ++count, now_ns += 200) {
        ck_assert(muct_xgmi_gather_should_wait(&gather, count, now_ns));
        ck_assert_int_eq(muct_xgmi_gather_is_steady(&gather, now_ns),
                         now_ns >= START_NS + 10000);
    }
    /* the row has ended: some intervals later at most */
    ck_assert(!muct_xgmi_gather_should_wait(&gather, count - 1, now_ns + 1800));
}
END_TEST

/* The previous list was full: it got as many operations as there was time for. */
START_TEST(row_goes_on_in_the_next_list)
{
    const uint64_t next_ns = START_NS + 20000;

    ck_assert(muct_xgmi_gather_should_wait(&gather, 1, START_NS));
    gather.count = 0; /* opened anew by the same thread */
    ck_assert(muct_xgmi_gather_should_wait(&gather, (_i == 0) ? 20 : 19, next_ns));
    ck_assert_int_eq(muct_xgmi_gather_is_steady(&gather, next_ns), _i == 0);
    ck_assert(muct_xgmi_gather_is_steady(&gather, next_ns + 10000));
}
END_TEST

/* The looking thread has slept for so long that the previous list was started
 * meanwhile. */
START_TEST(row_is_counted_over_the_lists_that_started)
{
    const uint64_t next_ns = START_NS + 100000;

    ck_assert(muct_xgmi_gather_should_wait(&gather, 10, START_NS));
    muct_xgmi_gather_close(&gather, (_i == 0) ? 109 : 108);
    ck_assert(muct_xgmi_gather_should_wait(&gather, 1, next_ns));
    ck_assert_int_eq(muct_xgmi_gather_is_steady(&gather, next_ns), _i == 0);
    /* counted once */
    muct_xgmi_gather_close(&gather, 1);
    ck_assert(muct_xgmi_gather_should_wait(&gather, 1, next_ns + 100000));
    ck_assert(!muct_xgmi_gather_is_steady(&gather, next_ns + 100000));
}
END_TEST

START_TEST(slow_row_is_given_more_time)
{
    uint64_t now_ns = START_NS;
    size_t count;

    for (count = 1; count < 50; ++count, now_ns += 900) {
        ck_assert(muct_xgmi_gather_should_wait(&gather, count, now_ns));
    }
    ck_assert(muct_xgmi_gather_should_wait(&gather, count - 1, now_ns + 4000));
    ck_assert(!muct_xgmi_gather_should_wait(&gather, count - 1, now_ns + 10000));
}
END_TEST

START_TEST(endless_row_starts_all_the_same)
{
    uint64_t now_ns = START_NS;
    size_t count = 1;

    while (muct_xgmi_gather_should_wait(&gather, count++, now_ns)) {
        now_ns += 100;
        ck_assert_uint_le(now_ns, START_NS + MUCT_XGMI_GATHER_MAX_NS);
    }
    ck_assert_uint_eq(now_ns, START_NS + MUCT_XGMI_GATHER_MAX_NS);
}
END_TEST

/* Open @a count lists of one operation, each when nothing was under way. */
static void lists_alone(unsigned count)
{
    while (count-- > 0) {
        muct_xgmi_gather_open(&gather, true);
        ck_assert(!muct_xgmi_gather_is_alone(&gather));
        muct_xgmi_gather_close(&gather, 1);
    }
}

START_TEST(operation_is_alone_when_those_before_it_were)
{
    lists_alone(MUCT_XGMI_GATHER_ALONE);
    muct_xgmi_gather_open(&gather, true);
    ck_assert(muct_xgmi_gather_is_alone(&gather));
    muct_xgmi_gather_close(&gather, 1);

    muct_xgmi_gather_open(&gather, false); /* beside the one before it */
    ck_assert(!muct_xgmi_gather_is_alone(&gather));
    muct_xgmi_gather_close(&gather, 1);
    lists_alone(MUCT_XGMI_GATHER_ALONE - 1);
    muct_xgmi_gather_open(&gather, true);
    ck_assert(muct_xgmi_gather_is_alone(&gather));
    muct_xgmi_gather_close(&gather, 2);

    lists_alone(MUCT_XGMI_GATHER_ALONE);
    muct_xgmi_gather_open(&gather, true);
    ck_assert(muct_xgmi_gather_is_alone(&gather));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xgmi_gather");
    TCase *tcase = tcase_create("gather");
    SRunner *runner;
    int num_failed;

    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, own_list_never_waits);
    tcase_add_test(tcase, list_without_operations_never_waits);
    tcase_add_test(tcase, single_operation_waits_for_a_microsecond);
    tcase_add_test(tcase, list_that_is_waited_for_does_not_wait);
    tcase_add_test(tcase, list_grows_while_operations_come);
    tcase_add_loop_test(tcase, row_goes_on_in_the_next_list, 0, 2);
    tcase_add_loop_test(tcase, row_is_counted_over_the_lists_that_started, 0, 2);
    tcase_add_test(tcase, slow_row_is_given_more_time);
    tcase_add_test(tcase, endless_row_starts_all_the_same);
    tcase_add_test(tcase, operation_is_alone_when_those_before_it_were);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    num_failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (num_failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
