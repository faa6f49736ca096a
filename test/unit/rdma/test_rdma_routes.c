/* SPDX-License-Identifier: BSD-3-Clause */

/* Which addresses routes lead to; and the kernel's own, of its loopback interface. */

#include "test/support/mkv_check.h"

#include "rdma/device/rdma_route.h"

#include <linux/netlink.h>
#include <stdlib.h>
#include <sys/socket.h>

#define IPV4(_a, _b, _c, _d) {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, _a, _b, _c, _d}

static const uint8_t near_host[16] = IPV4(10, 0, 1, 7);
static const uint8_t far_host[16] = IPV4(10, 0, 2, 7);
static const uint8_t odd_host[16] = IPV4(10, 0, 5, 200);
static const uint8_t ipv6_host[16] = {0xfd, 0, 0, 1, [15] = 1};
static muct_rdma_routes_t routes;

static void add(const muct_rdma_route_t *route)
{
    routes.is_known = true;
    routes.list[routes.num++] = *route;
}

static void add_near(void)
{
    const muct_rdma_route_t route = {
        .prefix = IPV4(10, 0, 1, 0), .length = 96 + 24, .is_direct = true};

    routes.num = 0;
    add(&route);
}

START_TEST(address_in_the_prefix_is_reached)
{
    add_near();
    ck_assert(muct_rdma_routes_lead_to(&routes, near_host, false));
    ck_assert(muct_rdma_routes_lead_to(&routes, near_host, true));
    ck_assert(!muct_rdma_routes_lead_to(&routes, far_host, false));
    ck_assert(!muct_rdma_routes_lead_to(&routes, ipv6_host, false));
}
END_TEST

START_TEST(prefix_may_end_within_a_byte)
{
    const muct_rdma_route_t route = {
        .prefix = IPV4(10, 0, 4, 0), .length = 96 + 23, .is_direct = true};

    add_near();
    add(&route);
    ck_assert(muct_rdma_routes_lead_to(&routes, odd_host, false));
    ck_assert(!muct_rdma_routes_lead_to(&routes, far_host, false));
}
END_TEST

START_TEST(gateway_leads_anywhere_but_to_the_own_subnet)
{
    const muct_rdma_route_t route = {.prefix = IPV4(0, 0, 0, 0), .length = 96};

    add_near();
    add(&route);
    ck_assert(muct_rdma_routes_lead_to(&routes, far_host, false));
    ck_assert(!muct_rdma_routes_lead_to(&routes, far_host, true));
    ck_assert(!muct_rdma_routes_lead_to(&routes, ipv6_host, false));
}
END_TEST

START_TEST(an_unknown_address_counts_as_reachable)
{
    add_near();
    routes.is_known = false;
    ck_assert(muct_rdma_routes_lead_to(&routes, far_host, true));
    muct_rdma_routes_read("no_such_net", near_host, &routes);
    ck_assert(muct_rdma_routes_lead_to(&routes, far_host, true));
}
END_TEST

/* RT-01 */
START_TEST(routes_of_an_interface_come_from_the_kernel)
{
    const uint8_t own[16] = IPV4(127, 0, 0, 1), other[16] = IPV4(127, 7, 8, 9);

    muct_rdma_routes_read("lo", own, &routes);
    ck_assert(routes.is_known);
    ck_assert(muct_rdma_routes_lead_to(&routes, own, true));
    ck_assert(muct_rdma_routes_lead_to(&routes, other, true));
    ck_assert(!muct_rdma_routes_lead_to(&routes, far_host, false));
}
END_TEST

static unsigned num_interrupted;

/* As of libc; the kernel marks answers during which routes have changed. */
ssize_t recv(int fd, void *buffer, size_t size, int flags)
{
    const ssize_t length = recvfrom(fd, buffer, size, flags, NULL, NULL);
    struct nlmsghdr *message = buffer;

    if ((length >= (ssize_t)sizeof(*message)) && (num_interrupted > 0)) {
        --num_interrupted;
        message->nlmsg_flags |= NLM_F_DUMP_INTR;
    }
    return length;
}

START_TEST(routes_that_change_while_they_are_read_are_unknown)
{
    const uint8_t own[16] = IPV4(127, 0, 0, 1);

    num_interrupted = 1;
    muct_rdma_routes_read("lo", own, &routes);
    ck_assert_uint_eq(num_interrupted, 0);
    ck_assert(!routes.is_known);
    ck_assert(muct_rdma_routes_lead_to(&routes, far_host, false));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdma routes");
    TCase *tcase = tcase_create("routes");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, address_in_the_prefix_is_reached);
    tcase_add_test(tcase, prefix_may_end_within_a_byte);
    tcase_add_test(tcase, gateway_leads_anywhere_but_to_the_own_subnet);
    tcase_add_test(tcase, an_unknown_address_counts_as_reachable);
    tcase_add_test(tcase, routes_of_an_interface_come_from_the_kernel);
    tcase_add_test(tcase, routes_that_change_while_they_are_read_are_unknown);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
