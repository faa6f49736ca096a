/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_RDMA_GPU_WAY_H
#define MUCT_RDMA_GPU_WAY_H

/**
 * @file
 * Ways to register memory of a GPU, and the one to try first. One is by dma-buf, which
 * the kernel must be able to share between devices. The other is by its address, which
 * needs the GPU driver's peer memory. Which of them works and is fast depends on the
 * NIC's driver, the kernel and the release of ROCm.
 */

#include <ucs/config/types.h>
#include <ucs/type/status.h>

#include <stdbool.h>
#include <stddef.h>

typedef enum {
    MUCT_RDMA_GPU_WAY_DMABUF,
    MUCT_RDMA_GPU_WAY_PEERMEM
} muct_rdma_gpu_way_t;

#define MUCT_RDMA_GPU_WAY_WHY 192

/** Facts for the decision. */
typedef struct muct_rdma_gpu_way_params {
    ucs_ternary_auto_value_t dmabuf;  /**< UCS_YES: required */
    ucs_ternary_auto_value_t peermem; /**< UCS_NO: never; UCS_TRY: either first */
    bool has_call;                    /**< The library registers dma-bufs */
    bool is_peermem_first;            /**< The family prefers peer memory */
    bool needs_dmabuf;                /**< The device's family registers nothing else */
    int hip_version;                  /**< hipRuntimeGetVersion(), 0 if there is none */
    const char *kernel_lack;          /**< Missing kernel features, NULL: none known */
} muct_rdma_gpu_way_params_t;

typedef struct muct_rdma_gpu_ways {
    unsigned num;
    muct_rdma_gpu_way_t list[2]; /**< Ways in the order in which they are tried */
    bool may_crash; /**< An export by this release of ROCm may end the process */
    char why[MUCT_RDMA_GPU_WAY_WHY]; /**< Reason for list[0], as the end of a message */
} muct_rdma_gpu_ways_t;

/**
 * Decide.
 *
 * @return UCS_OK
 * @return UCS_ERR_INVALID_PARAM The options exclude both ways, or require both as the
 *                                only one; logged.
 * @return UCS_ERR_UNSUPPORTED A dma-buf is required and the library cannot register it;
 * logged.
 */
ucs_status_t muct_rdma_gpu_ways_init(const muct_rdma_gpu_way_params_t *params,
                                     muct_rdma_gpu_ways_t *ways);

/** Whether this way is one of the allowed ways. */
bool muct_rdma_gpu_ways_has(const muct_rdma_gpu_ways_t *ways, muct_rdma_gpu_way_t way);

/**
 * Find the features a kernel lacks to share one device's memory with another by
 * dma-buf. The sources are its release and the configuration that distributions
 * install.
 *
 * @param [in] root     Prefix of /boot and /lib: "" except in tests.
 * @param [in] release  Release as uname(2) returns it.
 * @param [out] lack    Text of at most @a size bytes, empty when nothing is missing or
 *                      nothing is known.
 */
void muct_rdma_kernel_lack(const char *root, const char *release, char *lack,
                           size_t size);

#endif
