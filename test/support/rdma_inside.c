/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/rdma_inside.h"

#include "rdma/ep/rdma_iface.h"


void rdma_inside_set_first_receives(uct_iface_h iface, unsigned count)
{
    ucs_derived_of(iface, muct_rdma_iface_t)->limits.rx_first = count;
}
