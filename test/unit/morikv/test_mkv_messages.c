/* SPDX-License-Identifier: BSD-3-Clause */

/* Bytes of the connector: what comes with DONE, and what an older library is spared. */

#include "test/support/mkv_pair.h"

#include <string.h>

#define NUM 4u
#define MAX_DATA 65536u

static mkv_xfer_t *active, *passive;
static mkv_plan_t *plan;

static void bind_mode(mkv_mode_t mode)
{
    int is_write = (mode == MKV_WRITE);

    active = pair_xfer(A, 1, 1, mode, is_write ? MKV_SRC : MKV_DST);
    passive = pair_xfer(B, 0, 1, mode, is_write ? MKV_DST : MKV_SRC);
    pair_expose(passive, 0, NUM);
    pair_run();
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
}

static void finish(void)
{
    pair_run();
    ck_assert_int_eq(pair_query(active).status, MKV_OK);
    ck_assert_int_eq(pair_query(passive).status, MKV_OK);
    pair_close(active, passive, plan);
    pair_teardown();
}

/* A library of wire version 2.0 tells no features */
static void setup_old(unsigned old)
{
    fake_ucp_reset();
    pair_now = 1000000000ull;
    pair_open(0);
    pair_open(1);
    pair_sides[old].ctx->features = 0;
    pair_connect(0, 1);
}

/* Loop index: mode and size */
START_TEST(bytes_come_with_done)
{
    static const size_t sizes[] = {1, 3, MAX_DATA};
    static uint8_t data[MAX_DATA];
    const size_t length = sizes[_i / 2];
    const mkv_event_t *event;
    const void *again;
    size_t again_length;

    pair_setup();
    bind_mode((_i % 2 == 0) ? MKV_WRITE : MKV_READ);
    mkv_pattern_fill(data, length, 7, 0);
    fake_ucp_hold(FAKE_UCP_PUT | FAKE_UCP_LIST | FAKE_UCP_GET);
    OK(mkv_xfer_seal_data(active, 0, data, length));
    memset(data, 0, length); /* it was copied */
    pair_run();
    fake_ucp_hold(0);
    pair_run();
    event = pair_last(B, MKV_EV_DONE, passive);
    ck_assert_uint_eq(event->length, length);
    ck_assert_uint_eq(mkv_pattern_check(event->data, length, 7, 0), length);
    OK(mkv_xfer_done_data(passive, 0, &again, &again_length));
    ck_assert_ptr_eq(again, event->data);
    ck_assert_uint_eq(again_length, length);
    ck_assert_uint_eq(pair_last(A, MKV_EV_DONE, active)->length, 0);
    finish();
}
END_TEST

START_TEST(a_seal_without_bytes_brings_none)
{
    const void *data = "";
    size_t length = 1;

    pair_setup();
    bind_mode(MKV_WRITE);
    IS(mkv_xfer_done_data(passive, 0, &data, &length), MKV_ERR_INVALID);
    OK(mkv_xfer_seal(active, 0));
    pair_run();
    ck_assert_uint_eq(pair_last(B, MKV_EV_DONE, passive)->length, 0);
    ck_assert_ptr_null(pair_last(B, MKV_EV_DONE, passive)->data);
    OK(mkv_xfer_done_data(passive, 0, &data, &length));
    ck_assert_ptr_null(data);
    ck_assert_uint_eq(length, 0);
    IS(mkv_xfer_done_data(passive, 1, &data, &length), MKV_ERR_INVALID);
    IS(mkv_xfer_done_data(active, 0, &data, &length), MKV_ERR_INVALID);
    finish();
}
END_TEST

/* Two sources write into one destination: the event has the bytes of the first that
 * sent some, and each leg's can be asked for */
START_TEST(each_leg_has_its_own_bytes)
{
    mkv_xfer_params_t params = {
        .size = sizeof(params), .id = 1, .mode = MKV_WRITE, .role = MKV_DST};
    mkv_map_t *legs[2];
    mkv_xfer_t *sources[2];
    mkv_plan_t *plans[2];
    const void *data;
    size_t length;

    pair_setup();
    pair_open(2);
    pair_connect(2, 1);
    legs[0] = B->maps[0];
    legs[1] = B->maps[2];
    params.legs = legs;
    params.num_legs = 2;
    OK(mkv_xfer_open(B->ctx, &params, &passive));
    pair_expose(passive, 0, NUM);
    sources[0] = pair_xfer(A, 1, 1, MKV_WRITE, MKV_SRC);
    sources[1] = pair_xfer(&pair_sides[2], 1, 1, MKV_WRITE, MKV_SRC);
    pair_run();
    plans[0] = pair_plan(A, 1, 0, 0, NUM, 0);
    plans[1] = pair_plan(&pair_sides[2], 1, 0, 0, NUM, 0);
    OK(mkv_xfer_post(sources[0], 0, plans[0], NULL, NULL));
    OK(mkv_xfer_post(sources[1], 0, plans[1], NULL, NULL));
    OK(mkv_xfer_seal(sources[0], 0));
    OK(mkv_xfer_seal_data(sources[1], 0, "two", 3));
    pair_run();
    ck_assert_uint_eq(pair_last(B, MKV_EV_DONE, passive)->leg, 1);
    ck_assert_mem_eq(pair_last(B, MKV_EV_DONE, passive)->data, "two", 3);
    OK(mkv_xfer_done_data(passive, 0, &data, &length));
    ck_assert_uint_eq(length, 0);
    OK(mkv_xfer_done_data(passive, 1, &data, &length));
    ck_assert_uint_eq(length, 3);
    OK(mkv_xfer_close(sources[1]));
    OK(mkv_plan_destroy(plans[1]));
    pair_close(sources[0], passive, plans[0]);
    pair_teardown();
}
END_TEST

/* The leg stays unsealed, and can be sealed with less */
START_TEST(more_bytes_than_a_message_holds_are_refused)
{
    static const uint8_t data[4096];

    pair_set("MAX_MESSAGE", "8k");
    pair_setup();
    bind_mode(MKV_WRITE);
    IS(mkv_xfer_seal_data(active, 0, data, 8192 - 1023), MKV_ERR_LENGTH);
    ck_assert_str_eq(mkv_last_error(),
                     "seal: 7169 bytes for peer B, MAX_MESSAGE of both "
                     "sides leaves room for 7168");
    OK(mkv_xfer_seal_data(active, 0, data, sizeof(data)));
    finish();
}
END_TEST

/* The receiver takes less than the sender */
START_TEST(the_limit_is_the_smaller_one)
{
    static const uint8_t data[8192];

    fake_ucp_reset();
    pair_open(0);
    pair_set("MAX_MESSAGE", "8k");
    pair_open(1);
    pair_connect(0, 1);
    bind_mode(MKV_WRITE);
    IS(mkv_xfer_seal_data(active, 0, data, sizeof(data)), MKV_ERR_LENGTH);
    OK(mkv_xfer_seal_data(active, 0, data, 1));
    finish();
}
END_TEST

START_TEST(an_older_peer_gets_no_bytes_with_done)
{
    setup_old(1);
    bind_mode(MKV_WRITE);
    IS(mkv_xfer_seal_data(active, 0, "t", 1), MKV_ERR_UNSUPPORTED);
    ck_assert_str_eq(mkv_last_error(),
                     "seal: the library of peer B takes no bytes with DONE");
    OK(mkv_xfer_seal(active, 0));
    finish();
}
END_TEST

START_TEST(an_older_peer_is_served)
{
    setup_old(0);
    bind_mode(MKV_READ);
    OK(mkv_xfer_seal_data(active, 0, "t", 1));
    finish();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("messages");

    tcase_add_loop_test(tcase, bytes_come_with_done, 0, 6);
    tcase_add_test(tcase, a_seal_without_bytes_brings_none);
    tcase_add_test(tcase, each_leg_has_its_own_bytes);
    tcase_add_test(tcase, more_bytes_than_a_message_holds_are_refused);
    tcase_add_test(tcase, the_limit_is_the_smaller_one);
    tcase_add_test(tcase, an_older_peer_gets_no_bytes_with_done);
    tcase_add_test(tcase, an_older_peer_is_served);
    return pair_main("mkv_messages", tcase);
}
