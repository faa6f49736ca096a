/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

/*
 * Reachability of a port: from sysfs of the network interface behind it, and from the
 * kernel's routes of that interface. The fake's addresses are 10.0.1.1 and 10.0.2.1, to
 * which no route by the loopback interface leads.
 */

#define SIZE 65536
#define GID_OFFSET 14 /* in a device address, as rdma_addr.h has it */
#define GID_OF_IPV4 3 /* entry of the fake's table, RoCE version 2 */
#define GID_OF_LINK 1

static rig_t rig;
static rig_conn_t conn;
static char sysfs[] = "/tmp/rdma_reach.XXXXXX";

/* The interface behind an entry of the first device's table */
static void set_net(unsigned index, const char *net)
{
    char command[256];

    snprintf(command, sizeof(command),
             "d=%s/infiniband/fake0/ports/1/gid_attrs/ndevs && mkdir -p $d && "
             "echo %s >$d/%u",
             sysfs, net, index);
    ck_assert_int_eq(system(command), 0);
}

static void setup(void)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -rf %s/*", sysfs);
    ck_assert_int_eq(system(command), 0);
    setenv("FAKE_VERBS_SYSFS", sysfs, 1);
    setenv("FAKE_VERBS_DEVICES", "fake0:mlx5,fake1:mlx5", 1); /* v1 and v2 entries */
}

static void get_address(unsigned which, uint8_t address[64])
{
    ck_assert_int_eq(uct_iface_get_device_address(rig.side[which].iface,
                                                  (uct_device_addr_t *)(void *)address),
                     UCS_OK);
}

static int is_reachable(char *why, size_t size)
{
    uint8_t address[64];
    const uct_iface_is_reachable_params_t params = {
        .field_mask = CT_REACH_FIELD_DEVICE_ADDR | CT_REACH_FIELD_INFO_STRING |
                      CT_REACH_FIELD_INFO_STRING_LENGTH,
        .device_addr = (uct_device_addr_t *)(void *)address,
        .info_string = why,
        .info_string_length = size,
    };

    get_address(1, address);
    return uct_iface_is_reachable_v2(rig.side[0].iface, &params);
}

/* RT-01 */
START_TEST(peer_without_a_route_is_not_reached)
{
    static const struct {
        const char *mode, *net;
        int is_reachable;
    } rows[] = {{"route", "lo", 0},
                {"local_subnet", "lo", 0},
                {"all", "lo", 1},
                {"route", "no_such_net", 1}};
    char why[256] = "";

    set_net(GID_OF_IPV4, rows[_i].net);
    setenv("UCX_MORI_RDMA_GID_INDEX", "3", 1);
    setenv("UCX_MORI_RDMA_REACHABILITY", rows[_i].mode, 1);
    rig_open(&rig, SIZE);
    ck_assert_int_eq(is_reachable(why, sizeof(why)), rows[_i].is_reachable);
    ck_assert_int_eq(strstr(why, "network interface") == NULL, rows[_i].is_reachable);
    rig_close(&rig);
}
END_TEST

/* RT-01 */
START_TEST(address_of_another_namespace_is_the_last_choice)
{
    uint8_t address[64];

    set_net(GID_OF_IPV4, "no_such_net");
    set_net(GID_OF_IPV4 - 1, "no_such_net");
    if (_i == 1) { /* none is ours */
        set_net(GID_OF_LINK, "no_such_net");
        set_net(GID_OF_LINK - 1, "no_such_net");
    }
    rig_open(&rig, SIZE);
    get_address(0, address);
    ck_assert_uint_eq(address[GID_OFFSET], (_i == 0) ? 0xfe : 0);
    rig_close(&rig);
}
END_TEST

/* A container's interface has the name of the NIC's, and another number. */
/* RT-01 */
START_TEST(interface_of_that_name_may_be_another_one)
{
    uint8_t address[64];
    char why[256] = "";

    setenv("FAKE_VERBS_CAPS", "ifindex=77", 1);
    set_net(GID_OF_IPV4, "lo");
    set_net(GID_OF_IPV4 - 1, "lo");
    if (_i == 1) { /* namespace whose routes do not apply to the NIC */
        setenv("UCX_MORI_RDMA_GID_INDEX", "3", 1);
    }
    rig_open(&rig, SIZE);
    get_address(0, address);
    ck_assert_uint_eq(address[GID_OFFSET], (_i == 0) ? 0xfe : 0);
    if (_i == 1) {
        ck_assert_msg(is_reachable(why, sizeof(why)), "%s", why);
    }
    rig_close(&rig);
}
END_TEST

/* A connection made through the old GID index is made anew through the new one. Loop
 * index 1: datagrams used the old index before. */
/* RT-01 */
START_TEST(address_that_moved_is_found_again)
{
    uint8_t before[64] = {0}, after[64] = {0};
    rig_comp_t comp;

    setenv("UCX_MORI_RDMA_TIMEOUT", "16ms", 1);
    setenv("UCX_MORI_RDMA_RETRY_COUNT", "1", 1);
    rig_open(&rig, SIZE);
    rig_connect(&rig, &conn);
    if (_i == 1) {
        fake_verbs_qp_fatal(conn.qp_nums[0][0]);
        rig_wait_replaced(&rig, conn.qp_nums[0][0]);
        ck_assert_int_eq(rig_flush(&rig, conn.ep[0]), UCS_OK);
    }
    get_address(0, before);
    fake_verbs_swap_gids("fake0", GID_OF_IPV4, GID_OF_LINK);
    fake_verbs_async("fake0", IBV_EVENT_GID_CHANGE);
    rig_comp_init(&comp);
    ck_assert(!UCS_STATUS_IS_ERR(rig_put(&rig, conn.ep[0], 0, 0, SIZE, &comp)));
    ck_assert_int_eq(rig_flush(&rig, conn.ep[0]), UCS_OK);
    rig_check(&rig, 0, SIZE);
    get_address(0, after);
    ck_assert_mem_eq(before, after, sizeof(before));
    rig_disconnect(&conn);
    rig_connect(&rig, &conn);
    ck_assert_int_eq(rig_flush(&rig, conn.ep[0]), UCS_OK);
    rig_disconnect(&conn);
    rig_close(&rig);
}
END_TEST

/* ---- through UCP ---- */

static ucp_context_h contexts[2];
static ucp_worker_h workers[2];

static void open_worker(unsigned which, const char *nets)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_TAG};
    const ucp_worker_params_t worker_params = {0};

    setenv("UCX_NET_DEVICES", nets, 1);
    ck_assert_int_eq(ucp_init(&params, NULL, &contexts[which]), UCS_OK);
    ck_assert_int_eq(
        ucp_worker_create(contexts[which], &worker_params, &workers[which]), UCS_OK);
}

static void send_message(ucp_ep_h ep)
{
    static char sent[SIZE], received[SIZE];
    const ucp_request_param_t none = {0};
    void *receive;

    memset(sent, 0x5a, sizeof(sent));
    receive = ucp_tag_recv_nbx(workers[1], received, SIZE, 1, ~0ull, &none);
    ck_assert_int_eq(rig_ucp_wait(workers, ucp_tag_send_nbx(ep, sent, SIZE, 1, &none)),
                     UCS_OK);
    ck_assert_int_eq(rig_ucp_wait(workers, receive), UCS_OK);
    ck_assert_mem_eq(sent, received, SIZE);
}

static uint64_t num_bytes(const char *device)
{
    fake_verbs_stats_t stats;

    fake_verbs_device_stats(device, &stats);
    return stats.bytes_out + stats.bytes_in;
}

/* A message between two workers is carried by mori_rdma, or by another transport. */
static void check_carrier(int is_rdma)
{
    ucp_ep_h ep;

    open_worker(0, "fake0:1,lo");
    open_worker(1, "fake1:1,lo");
    ck_assert_int_eq(rig_ucp_connect(workers, 0, UCP_ERR_HANDLING_MODE_PEER, NULL, &ep),
                     UCS_OK);
    send_message(ep);
    ck_assert_int_eq(num_bytes("fake0") + num_bytes("fake1") >= SIZE, is_rdma);
    rig_ucp_close(contexts[0], workers, ep);
    ucp_cleanup(contexts[1]);
}

/* Loop index 1 is the control: the route is not looked up, and the port is used. */
/* RT-01 */
START_TEST(another_transport_is_taken_where_no_route_leads)
{
    set_net(GID_OF_IPV4, "lo");
    rig_ucp_environment(NULL);
    if (_i == 1) {
        setenv("UCX_MORI_RDMA_REACHABILITY", "all", 1);
    }
    check_carrier(_i);
}
END_TEST

/* soft-iWARP takes no address of another queue pair. Loop index 1 is the control. */
/* RT-01 */
START_TEST(iwarp_device_is_left_out)
{
    setenv("FAKE_VERBS_DEVICES",
           (_i == 1) ? "fake0:rxe,fake1:rxe" : "fake0:siw,fake1:siw", 1);
    rig_ucp_environment(NULL);
    check_carrier(_i);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mori_rdma reachability");
    TCase *tcase = tcase_create("reachability");
    char command[64];
    int ret;

    if (mkdtemp(sysfs) == NULL) {
        perror("mkdtemp");
        return 1;
    }
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_loop_test(tcase, peer_without_a_route_is_not_reached, 0, 4);
    tcase_add_loop_test(tcase, address_of_another_namespace_is_the_last_choice, 0, 2);
    tcase_add_loop_test(tcase, interface_of_that_name_may_be_another_one, 0, 2);
    tcase_add_loop_test(tcase, address_that_moved_is_found_again, 0, 2);
    tcase_add_loop_test(tcase, another_transport_is_taken_where_no_route_leads, 0, 2);
    tcase_add_loop_test(tcase, iwarp_device_is_left_out, 0, 2);
    suite_add_tcase(suite, tcase);
    ct_side_find_module();
    mkv_test_init();
    ret = rig_run_forked(suite);
    snprintf(command, sizeof(command), "rm -rf %s", sysfs);
    if (system(command) != 0) {
        fprintf(stderr, "%s is left\n", sysfs);
    }
    return ret;
}
