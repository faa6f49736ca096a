/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_MD_H
#define MUCT_RDMA_MD_H

/**
 * @file
 * Memory domain of mori_rdma: one verbs device, its protection domain, and the memory
 * registered in it.
 *
 * Threads. Registration may be called from several threads, as verbs allow it.
 */

#include "base/muct_transport.h"
#include "base/muct_uct_abi.h"
#include "rdma/rdma_async.h"
#include "rdma/rdma_device.h"
#include "rdma/rdma_mr.h"

typedef struct muct_rdma_md_config {
    uct_md_config_t super;
    ucs_config_allow_list_t devices;
    int dmabuf;           /**< ucs_ternary_auto_value_t */
    int relaxed_ordering; /**< Boolean */
    size_t max_mr_size;
} muct_rdma_md_config_t;

typedef struct muct_rdma_md {
    uct_md_t super;
    muct_rdma_device_t device;
    struct ibv_pd *pd;
    uint64_t incarnation; /**< Random; in every address and key */
    int access;           /**< IBV_ACCESS_* of the user's memory */
    uint8_t chunk_shift;  /**< log2 of the most bytes of one key */
    uint8_t rail;         /**< Index among the used devices of this process */
    uint8_t num_rkeys;    /**< Most keys of a packed key */
    int dmabuf;           /**< ucs_ternary_auto_value_t, UCS_NO when it does not work */
    ucs_config_allow_list_t devices;
    muct_rdma_async_t async;
} muct_rdma_md_t;

extern const muct_transport_t muct_rdma_transport;

typedef MUCT_ABI_PADDED(struct uct_md_ops) muct_rdma_md_ops_t;
extern muct_rdma_md_ops_t muct_rdma_md_ops;

#endif
