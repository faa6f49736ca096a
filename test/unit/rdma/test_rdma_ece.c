/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Enhanced connection establishment: both ends of a connection use the same options, or
 * the fake ends the test at the first packet.
 */

#define SIZE 65536
#define ECE_VERSION 0x30000000u
#define ADDR_SIZE 256

typedef struct address {
    uint8_t dev[ADDR_SIZE];
    uint8_t ep[ADDR_SIZE];
    size_t length;
} address_t;

static rig_t rig;
static rig_conn_t conn;
static address_t addrs[2];

static void open_with(uint32_t options_a, uint32_t options_b)
{
    setenv("FAKE_VERBS_DEVICES", "fake0:mlx5,fake1:mlx5", 1);
    fake_verbs_set_ece("fake0", options_a);
    fake_verbs_set_ece("fake1", options_b);
    rig_open(&rig, SIZE);
}

static void get_address(unsigned which)
{
    const uct_iface_attr_t *attr = &rig.side[which].attr;
    address_t *addr = &addrs[which];

    ck_assert_uint_le(attr->ep_addr_len, 63); /* UCX's maximum */
    addr->length = attr->ep_addr_len;
    ck_assert_int_eq(
        uct_iface_get_device_address(rig.side[which].iface, (void *)addr->dev), UCS_OK);
    ck_assert_int_eq(uct_ep_get_address(conn.ep[which], (void *)addr->ep), UCS_OK);
}

static void connect_side(unsigned which)
{
    ck_assert_int_eq(rig_connect_to(conn.ep[which], addrs[!which].dev, addrs[!which].ep,
                                    addrs[!which].length),
                     UCS_OK);
}

static void create_both(void)
{
    conn.ep[0] = rig_create_ep(&rig, 0, &conn);
    conn.ep[1] = rig_create_ep(&rig, 1, &conn);
}

/* UCP's requester gets an answer, or both sides have sent a request at once. */
static void connect_as(int is_answered)
{
    create_both();
    get_address(0);
    if (!is_answered) {
        get_address(1);
    }
    connect_side(1);
    if (is_answered) {
        get_address(1);
    }
    connect_side(0);
}

static void expect_bytes_move(void)
{
    ck_assert(!UCS_STATUS_IS_ERR(rig_put(&rig, conn.ep[0], 0, 0, SIZE, NULL)));
    ck_assert_int_eq(rig_flush(&rig, conn.ep[0]), UCS_OK);
    rig_check(&rig, 0, SIZE);
    ck_assert_int_eq(rig_flush(&rig, conn.ep[1]), UCS_OK);
}

static void expect_options(uint32_t options)
{
    unsigned i, qp;

    for (i = 0; i < 2; i++) {
        for (qp = 0; qp < conn.num_qps; qp++) {
            ck_assert_uint_eq(fake_verbs_qp_ece(conn.qp_nums[i][qp]), options);
        }
    }
}

static void finish(void)
{
    rig_disconnect(&conn);
    rig_close(&rig);
}

static const struct {
    uint32_t a, b, both;
} devices[] = {{ECE_VERSION | 3, ECE_VERSION | 3, ECE_VERSION | 3},
               {ECE_VERSION | 3, ECE_VERSION | 1, ECE_VERSION | 1},
               {ECE_VERSION | 1, ECE_VERSION | 3, ECE_VERSION | 1},
               {ECE_VERSION | 3, 0, 0},
               {0, ECE_VERSION | 3, 0},
               {1, 2, 0}};

#define NUM_DEVICES ((int)(sizeof(devices) / sizeof(devices[0])))

/* RT-05 */
START_TEST(both_sides_keep_to_what_both_devices_have)
{
    setenv("UCX_MORI_RDMA_NUM_QPS", "2", 1);
    open_with(devices[_i / 2].a, devices[_i / 2].b);
    connect_as(_i % 2);
    expect_options(devices[_i / 2].both);
    expect_bytes_move();
    finish();
}
END_TEST

static const struct {
    const char *wish;
    uint32_t options;
} wishes[] = {{"auto", ECE_VERSION | 3}, {"inf", ECE_VERSION | 3}, {"0", 0}, {"1", 1}};

/* RT-05 */
START_TEST(option_chooses_the_offer)
{
    setenv("UCX_MORI_RDMA_ECE", wishes[_i / 2].wish, 1);
    open_with(ECE_VERSION | 3, ECE_VERSION | 3);
    connect_as(_i % 2);
    expect_options(wishes[_i / 2].options);
    expect_bytes_move();
    finish();
}
END_TEST

/* RT-05 */
START_TEST(peer_that_sends_no_offer_gets_none)
{
    open_with(ECE_VERSION | 3, ECE_VERSION | 3);
    create_both();
    get_address(0);
    get_address(1);
    addrs[0].length = addrs[1].length -= 8; /* as from a version without ECE */
    connect_side(0);
    connect_side(1);
    expect_options(0);
    expect_bytes_move();
    finish();
}
END_TEST

START_TEST(address_has_no_place_for_it_with_many_queue_pairs)
{
    static const char *const nums[] = {"10", "11", "12"};

    setenv("UCX_MORI_RDMA_NUM_QPS", nums[_i], 1);
    open_with(ECE_VERSION | 3, ECE_VERSION | 3);
    connect_as(0);
    expect_options((_i == 0) ? (ECE_VERSION | 3) : 0);
    expect_bytes_move();
    finish();
}
END_TEST

START_TEST(other_vendors_options_are_not_set)
{
    setenv("FAKE_VERBS_DEVICES", "fake0:mlx5,fake1:bnxt", 1);
    fake_verbs_set_ece("fake1", ECE_VERSION | 3);
    rig_open(&rig, SIZE);
    connect_as(_i);
    expect_options(0);
    expect_bytes_move();
    finish();
}
END_TEST

START_TEST(devices_without_it_connect_whatever_is_wished)
{
    setenv("UCX_MORI_RDMA_ECE", "3", 1);
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    expect_options(0);
    expect_bytes_move();
    finish();
}
END_TEST

START_TEST(offer_that_the_device_refuses_fails_the_connection)
{
    open_with(ECE_VERSION | 3, ECE_VERSION | 3);
    create_both();
    get_address(0);
    get_address(1);
    fake_verbs_fail_call("ibv_set_ece", 1, 1, EINVAL);
    ck_assert_int_eq(
        rig_connect_to(conn.ep[0], addrs[1].dev, addrs[1].ep, addrs[1].length), UCS_OK);
    rig_wait_errors(&rig, 0, 1);
    ck_assert_int_eq(rig.side[0].events.ep_status, UCS_ERR_IO_ERROR);
    finish();
}
END_TEST

static int has_new_queue_pairs(void *arg)
{
    uint32_t now[64];
    unsigned i, num = fake_verbs_qp_list(now, 64);

    (void)arg;
    for (i = 0; i < num; i++) {
        if ((now[i] == conn.qp_nums[0][0]) || (now[i] == conn.qp_nums[1][0]) ||
            (fake_verbs_qp_state(now[i]) != IBV_QPS_RTS)) {
            return 0;
        }
    }
    conn.qp_nums[0][0] = now[0];
    conn.qp_nums[1][0] = now[1];
    return num == 2;
}

/* Its queue pairs are queried anew: they may belong to a different device. */
/* RT-05 */
START_TEST(connection_made_anew_keeps_to_it)
{
    const uint32_t both = ECE_VERSION | ((_i == 0) ? 1 : 2);

    open_with(ECE_VERSION | 3, ECE_VERSION | 1);
    connect_as(0);
    if (_i == 1) {
        fake_verbs_set_ece("fake0", both);
        fake_verbs_set_ece("fake1", both);
    }
    fake_verbs_fail_wr(conn.qp_nums[0][0], 1, IBV_WC_RETRY_EXC_ERR);
    expect_bytes_move();
    rig_wait(&rig, has_new_queue_pairs, NULL);
    expect_options(both);
    expect_bytes_move();
    finish();
}
END_TEST

static Suite *ece_suite(void)
{
    Suite *suite = suite_create("rdma_ece");
    TCase *tcase = tcase_create("ece");

    tcase_add_loop_test(tcase, both_sides_keep_to_what_both_devices_have, 0,
                        2 * NUM_DEVICES);
    tcase_add_loop_test(tcase, option_chooses_the_offer, 0, 8);
    tcase_add_test(tcase, peer_that_sends_no_offer_gets_none);
    tcase_add_loop_test(tcase, address_has_no_place_for_it_with_many_queue_pairs, 0, 3);
    tcase_add_loop_test(tcase, other_vendors_options_are_not_set, 0, 2);
    tcase_add_test(tcase, devices_without_it_connect_whatever_is_wished);
    tcase_add_test(tcase, offer_that_the_device_refuses_fails_the_connection);
    tcase_add_loop_test(tcase, connection_made_anew_keeps_to_it, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    ct_side_find_module();
    mkv_test_init();
    return rig_run_forked(ece_suite());
}
