/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/ep/rdma_iface.h"

#include <string.h>

#define MUCT_RDMA_FEW_EPS 128

void muct_rdma_iface_device_address(const muct_rdma_iface_t *iface,
                                    muct_rdma_dev_addr_t *addr)
{
    const muct_rdma_md_t *md = muct_rdma_iface_md(iface);

    addr->link = iface->port.link;
    addr->mtu_shift = iface->limits.mtu_shift;
    addr->rail = md->rail;
    addr->lid = iface->port.lid;
    addr->incarnation = md->incarnation;
    memcpy(addr->gid, iface->port.gid.raw, sizeof(addr->gid));
}

unsigned muct_rdma_iface_share(const muct_rdma_iface_t *iface, unsigned whole,
                               unsigned least)
{
    unsigned num;

    for (num = MUCT_RDMA_FEW_EPS; (num <= iface->num_eps) && (whole > least);
         num *= 2) {
        whole /= 2;
    }

    return whole;
}
