/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_TL_H
#define MUCT_RDMA_TL_H

/**
 * @file
 * mori_rdma as the module registers it: interface, operation tables and transport.
 */

#include "base/muct_transport.h"

extern const muct_transport_t muct_rdma_transport;

#endif
