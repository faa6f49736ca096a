/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Option FENCE: waits of a destination between the last byte and DONE.
 */

#include "test/support/mkv_pair.h"

#include <string.h>

#define NUM 4
#define FIRST 8 /* block of the destination */

static mkv_xfer_t *source, *destination;
static mkv_plan_t *plan;

/* All bytes are in blocks 8, 9, 10, and in a WRITE in no other blocks of B. */
static void move_all(mkv_mode_t mode)
{
    mkv_xfer_t *active, *passive;

    source =
        pair_xfer((mode == MKV_WRITE) ? A : B, mode == MKV_WRITE, 1, mode, MKV_SRC);
    destination =
        pair_xfer((mode == MKV_WRITE) ? B : A, mode != MKV_WRITE, 1, mode, MKV_DST);
    active = (mode == MKV_WRITE) ? source : destination;
    passive = (mode == MKV_WRITE) ? destination : source;
    pair_expose(passive, FIRST, NUM);
    pair_run();
    plan = pair_plan(A, 1, 0, FIRST, NUM, 0);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_seal(active, 0));
    pair_run();
}

static void finish(mkv_mode_t mode)
{
    pair_close((mode == MKV_WRITE) ? source : destination,
               (mode == MKV_WRITE) ? destination : source, plan);
    pair_teardown();
}

static void setup_flush(const char *transport, const char *fence)
{
    fake_ucp_reset();
    fake_ucp_set_transport(transport);
    pair_now = 1000000000ull;
    pair_set("FENCE", fence);
    pair_open(0);
    pair_open(1);
    pair_connect(0, 1);
}

/* A byte of the one allocation is read back after the puts, and then DONE is sent. Loop
 * index 1: a better lane is connected as well, but UCX does not use it. */
/* FN-01, FN-03 */
START_TEST(done_waits_until_a_byte_was_read_back)
{
    setup_flush(_i ? "mori_xgmi" : "rc_verbs", "flush");
    fake_ucp_set_path("zero-copy rc_verbs/fake0");
    fake_ucp_hold(FAKE_UCP_GET);
    move_all(MKV_WRITE);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_GET), 1);
    ck_assert_int_eq(pair_query(source).status, MKV_INPROGRESS);
    ck_assert_int_eq(pair_query(destination).status, MKV_INPROGRESS);
    fake_ucp_hold(0);
    pair_run();
    ck_assert_int_eq(pair_query(source).state, MKV_XFER_DONE);
    ck_assert_int_eq(pair_query(destination).state, MKV_XFER_DONE);
    finish(MKV_WRITE);
}
END_TEST

/* FN-01 */
START_TEST(a_byte_that_cannot_be_read_back_fails_both_sides)
{
    setup_flush("rc_verbs", "flush");
    fake_ucp_set_inline(_i ? FAKE_UCP_GET : 0);
    fake_ucp_fail(FAKE_UCP_GET, 0, UCS_ERR_IO_ERROR);
    move_all(MKV_WRITE);
    ck_assert_int_eq(pair_query(source).status, MKV_ERR_TRANSPORT);
    ck_assert_ptr_nonnull(strstr(pair_query(source).error, "flush failed"));
    ck_assert_int_eq(pair_query(destination).status, MKV_ERR_TRANSPORT);
    finish(MKV_WRITE);
}
END_TEST

/* There is no memory for the byte that is read back */
/* FN-01 */
START_TEST(a_byte_that_has_no_place_fails_both_sides)
{
    setup_flush("rc_verbs", "flush");
    fake_ucp_fail_map(1);
    move_all(MKV_WRITE);
    fake_ucp_fail_map(0);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_GET), 0);
    ck_assert_int_lt(pair_query(source).status, MKV_OK);
    ck_assert_ptr_nonnull(strstr(pair_query(source).error, "flush failed"));
    ck_assert_int_lt(pair_query(destination).status, MKV_OK);
    finish(MKV_WRITE);
}
END_TEST

/* FN-01 */
START_TEST(a_flush_that_fails_is_not_mended_by_a_read)
{
    setup_flush("rc_verbs", "flush");
    fake_ucp_fail(FAKE_UCP_FLUSH, 0, UCS_ERR_IO_ERROR);
    move_all(MKV_WRITE);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_GET), 1); /* of the next flush */
    ck_assert_int_eq(pair_query(source).status, MKV_ERR_TRANSPORT);
    ck_assert_int_eq(pair_query(destination).status, MKV_ERR_TRANSPORT);
    finish(MKV_WRITE);
}
END_TEST

/* Loop index: a transport that does not need it, host memory, or no option */
/* FN-01, FN-03 */
START_TEST(nothing_is_read_back_without_need)
{
    pair_mem_type = (_i == 1) ? UCS_MEMORY_TYPE_HOST : UCS_MEMORY_TYPE_ROCM;
    setup_flush((_i == 0) ? "mori_xgmi" : "rc_verbs", (_i == 2) ? "none" : "flush");
    move_all(MKV_WRITE);
    ck_assert_uint_eq(fake_ucp_num_calls(FAKE_UCP_GET), 0);
    ck_assert_int_eq(pair_query(destination).state, MKV_XFER_DONE);
    finish(MKV_WRITE);
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("fence");

    tcase_add_loop_test(tcase, done_waits_until_a_byte_was_read_back, 0, 2);
    tcase_add_loop_test(tcase, a_byte_that_cannot_be_read_back_fails_both_sides, 0, 2);
    tcase_add_test(tcase, a_byte_that_has_no_place_fails_both_sides);
    tcase_add_loop_test(tcase, nothing_is_read_back_without_need, 0, 3);
    tcase_add_test(tcase, a_flush_that_fails_is_not_mended_by_a_read);
    return pair_main("test_mkv_fence", tcase);
}
