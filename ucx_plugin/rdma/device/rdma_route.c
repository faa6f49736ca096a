/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/device/rdma_route.h"

#include "base/muct_log.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Bits of the prefix of a mapped IPv4 address */
#define MUCT_RDMA_ROUTE_MAPPED_BITS 96

/* Bytes of a part of the kernel's answer, at most */
#define MUCT_RDMA_ROUTE_MESSAGE 32768

typedef struct muct_rdma_route_query {
    unsigned ifindex;
    uint8_t family;
    muct_rdma_routes_t *routes;
} muct_rdma_route_query_t;

static bool muct_rdma_route_is_ipv4(const uint8_t gid[16])
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

    return memcmp(gid, mapped, sizeof(mapped)) == 0;
}

/* Whether one of a multipath route's next hops uses the interface. */
static bool muct_rdma_route_has_way(struct rtattr *attr, unsigned ifindex)
{
    struct rtnexthop *way = RTA_DATA(attr);
    int left = (int)RTA_PAYLOAD(attr);

    for (; RTNH_OK(way, left);
         left -= (int)RTNH_ALIGN(way->rtnh_len), way = RTNH_NEXT(way)) {
        if ((unsigned)way->rtnh_ifindex == ifindex) {
            return true;
        }
    }

    return false;
}

/* False when the route uses another interface. */
static bool muct_rdma_route_parse(const muct_rdma_route_query_t *query,
                                  struct nlmsghdr *message, muct_rdma_route_t *route)
{
    struct rtmsg *head = NLMSG_DATA(message);
    int left = (int)RTM_PAYLOAD(message);
    const size_t start = (query->family == AF_INET) ? 12 : 0;
    struct rtattr *attr;
    bool is_ours = false;
    uint32_t ifindex;

    memset(route, 0, sizeof(*route));
    route->is_direct = true;
    route->length = head->rtm_dst_len;
    if (query->family == AF_INET) {
        route->prefix[10] = route->prefix[11] = 0xff;
        route->length = (uint8_t)(route->length + MUCT_RDMA_ROUTE_MAPPED_BITS);
    }

    for (attr = RTM_RTA(head); RTA_OK(attr, left); attr = RTA_NEXT(attr, left)) {
        if ((attr->rta_type == RTA_OIF) && (RTA_PAYLOAD(attr) == sizeof(ifindex))) {
            memcpy(&ifindex, RTA_DATA(attr), sizeof(ifindex));
            is_ours |= (ifindex == query->ifindex);
        } else if (attr->rta_type == RTA_MULTIPATH) {
            is_ours |= muct_rdma_route_has_way(attr, query->ifindex);
            route->is_direct = false;
        } else if ((attr->rta_type == RTA_GATEWAY) || (attr->rta_type == RTA_VIA)) {
            route->is_direct = false;
        } else if ((attr->rta_type == RTA_DST) &&
                   (RTA_PAYLOAD(attr) <= sizeof(route->prefix) - start)) {
            memcpy(route->prefix + start, RTA_DATA(attr), RTA_PAYLOAD(attr));
        }
    }

    return is_ours &&
           ((head->rtm_type == RTN_UNICAST) || (head->rtm_type == RTN_LOCAL)) &&
           (head->rtm_family == query->family);
}

/* Parse one part of the answer. Returns false when it was the last part, or when routes
 * have changed meanwhile: the kernel may have left some out. */
static bool muct_rdma_route_take(const muct_rdma_route_query_t *query,
                                 struct nlmsghdr *message, size_t length)
{
    muct_rdma_routes_t *routes = query->routes;
    muct_rdma_route_t route;

    for (; NLMSG_OK(message, length); message = NLMSG_NEXT(message, length)) {
        if (message->nlmsg_flags & NLM_F_DUMP_INTR) {
            return false;
        }
        if (message->nlmsg_type == NLMSG_DONE) {
            routes->is_known = (routes->num <= MUCT_RDMA_ROUTE_MAX);
            return false;
        }
        if (message->nlmsg_type == NLMSG_ERROR) {
            return false;
        }
        if ((message->nlmsg_type != RTM_NEWROUTE) ||
            !muct_rdma_route_parse(query, message, &route)) {
            continue;
        }
        if (routes->num < MUCT_RDMA_ROUTE_MAX) {
            routes->list[routes->num] = route;
        }
        ++routes->num;
    }

    return true;
}

static void muct_rdma_route_request(const muct_rdma_route_query_t *query, int fd)
{
    static const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    _Alignas(struct nlmsghdr) char buffer[MUCT_RDMA_ROUTE_MESSAGE];
    struct {
        struct nlmsghdr head;
        struct rtmsg route;
    } request = {.head = {.nlmsg_len = sizeof(request),
                          .nlmsg_type = RTM_GETROUTE,
                          .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
                 .route = {.rtm_family = query->family}};
    ssize_t length;

    if (sendto(fd, &request, sizeof(request), 0, (const struct sockaddr *)&kernel,
               sizeof(kernel)) != (ssize_t)sizeof(request)) {
        return;
    }

    do {
        length = recv(fd, buffer, sizeof(buffer), 0);
    } while (
        (length > 0) &&
        muct_rdma_route_take(query, (struct nlmsghdr *)(void *)buffer, (size_t)length));
}

void muct_rdma_routes_read(const char *net, const uint8_t gid[16],
                           muct_rdma_routes_t *routes)
{
    const muct_rdma_route_query_t query = {
        .ifindex = if_nametoindex(net),
        .family = muct_rdma_route_is_ipv4(gid) ? AF_INET : AF_INET6,
        .routes = routes};
    int fd;

    routes->is_known = false;
    routes->num = 0;
    if (query.ifindex == 0) {
        return;
    }

    fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0) {
        muct_debug("routes by %s are not known: socket(AF_NETLINK) failed: %m", net);
        return;
    }

    muct_rdma_route_request(&query, fd);
    close(fd);
    muct_debug("%u routes by %s%s", routes->num, net,
               routes->is_known ? "" : ", not all of them known");
}

static bool muct_rdma_route_matches(const muct_rdma_route_t *route,
                                    const uint8_t gid[16])
{
    const size_t bytes = route->length / 8;
    const unsigned bits = route->length % 8;

    return (route->length <= 128) && (memcmp(route->prefix, gid, bytes) == 0) &&
           ((bits == 0) || (((route->prefix[bytes] ^ gid[bytes]) >> (8 - bits)) == 0));
}

bool muct_rdma_routes_lead_to(const muct_rdma_routes_t *routes, const uint8_t gid[16],
                              bool must_be_direct)
{
    unsigned i;

    for (i = 0; routes->is_known && (i < routes->num); ++i) {
        if ((routes->list[i].is_direct || !must_be_direct) &&
            muct_rdma_route_matches(&routes->list[i], gid)) {
            return true;
        }
    }

    return !routes->is_known;
}
