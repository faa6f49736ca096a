/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/mkv_check.h"
#include "xgmi/memory/xgmi_leave.h"

#include <stdlib.h>
#include <string.h>

#define START_NS UINT64_C(1000000000)

static muct_xgmi_leave_t leave;

static void setup(void)
{
    memset(&leave, 0, sizeof(leave));
    muct_xgmi_leave_came(&leave);
}

/* The list would never be completed. */
START_TEST(no_work_is_left_to_a_thread_that_never_comes)
{
    leave.comes = false;
    ck_assert(!muct_xgmi_leave_should(&leave, 1, START_NS));
    ck_assert(!muct_xgmi_leave_is_on(&leave));
}
END_TEST

START_TEST(list_is_left_while_more_is_posted)
{
    uint64_t now_ns, posted = 0;

    for (now_ns = START_NS; now_ns < START_NS + MUCT_XGMI_LEAVE_MAX_NS;
         now_ns += MUCT_XGMI_LEAVE_BEHIND_NS - 1) {
        ck_assert(muct_xgmi_leave_should(&leave, ++posted, now_ns));
        ck_assert(muct_xgmi_leave_is_on(&leave));
    }
    /* others may wait for it; the posting thread may still come for the next one */
    ck_assert(
        !muct_xgmi_leave_should(&leave, ++posted, START_NS + MUCT_XGMI_LEAVE_MAX_NS));
    muct_xgmi_leave_end(&leave);
    ck_assert(!muct_xgmi_leave_is_on(&leave));
    ck_assert(muct_xgmi_leave_should(&leave, ++posted, now_ns));
}
END_TEST

/* The posting thread was to finish it, and did not: the next one is not left. */
START_TEST(list_is_left_for_a_while_behind_the_last_post)
{
    const uint64_t end_ns = START_NS + 5000 + MUCT_XGMI_LEAVE_BEHIND_NS;

    ck_assert(muct_xgmi_leave_should(&leave, 1, START_NS));
    ck_assert(muct_xgmi_leave_should(&leave, 2, START_NS + 5000));
    ck_assert(muct_xgmi_leave_should(&leave, 2, end_ns - 1));
    ck_assert(!muct_xgmi_leave_should(&leave, 2, end_ns));
    muct_xgmi_leave_end(&leave);
    ck_assert(!muct_xgmi_leave_should(&leave, 3, end_ns + 1));
    muct_xgmi_leave_came(&leave);
    ck_assert(muct_xgmi_leave_should(&leave, 4, end_ns + 2));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xgmi_leave");
    TCase *tcase = tcase_create("leave");

    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, no_work_is_left_to_a_thread_that_never_comes);
    tcase_add_test(tcase, list_is_left_while_more_is_posted);
    tcase_add_test(tcase, list_is_left_for_a_while_behind_the_last_post);
    suite_add_tcase(suite, tcase);
    return mkv_check_run_forked(suite);
}
