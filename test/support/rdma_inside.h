/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef RDMA_INSIDE_H
#define RDMA_INSIDE_H

/**
 * @file
 * Members of mori_rdma's interface that tests set. A file of its own, because the
 * module and the tests each declare the parts of UCX that it does not install.
 */

#include <uct/api/uct.h>


/** Set the number of receives of endpoints that are created after this call. */
void rdma_inside_set_first_receives(uct_iface_h iface, unsigned count);

#endif
