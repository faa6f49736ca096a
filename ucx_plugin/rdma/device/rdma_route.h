/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_ROUTE_H
#define MUCT_RDMA_ROUTE_H

/**
 * @file
 * The kernel's routes through one network interface, which show before a connection
 * whether a peer's address is reachable through it. Routes of all tables count, those
 * of rules and VRFs and those by a gateway included. The route that the kernel would
 * choose is not queried.
 *
 * One thread per set of routes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MUCT_RDMA_ROUTE_MAX 64

typedef struct muct_rdma_route {
    uint8_t prefix[16]; /**< Format of a GID: IPv4 addresses are mapped */
    uint8_t length;     /**< Bits */
    bool is_direct;     /**< The route has no gateway */
} muct_rdma_route_t;

typedef struct muct_rdma_routes {
    bool is_known; /**< The kernel answered, and there was room for all */
    unsigned num;
    muct_rdma_route_t list[MUCT_RDMA_ROUTE_MAX];
} muct_rdma_routes_t;

/**
 * Query the kernel.
 *
 * @param [in]  net  Name of the interface. Routes are unknown if this network namespace
 * has no such interface.
 * @param [in]  gid  Address of the interface: decides between IPv4 and IPv6.
 */
void muct_rdma_routes_read(const char *net, const uint8_t gid[16],
                           muct_rdma_routes_t *routes);

/**
 * Whether a route leads to the address; true when the routes are unknown.
 *
 * @param [in] must_be_direct  Ignore routes through a gateway.
 */
bool muct_rdma_routes_lead_to(const muct_rdma_routes_t *routes, const uint8_t gid[16],
                              bool must_be_direct);

#endif
