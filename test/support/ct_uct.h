/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef CT_UCT_H
#define CT_UCT_H

/**
 * @file
 * The part of UCT's second API that libuct exports but distributions install no
 * header for, as far as the conformance suite calls it. Written down from UCX's
 * documentation of these calls and apart from the module's own declarations on
 * purpose: a mistake in those then shows as a failing case.
 */

#include <uct/api/uct.h>
#include <uct/api/version.h>

#if (UCT_VERNO_MAJOR != 1) || ((UCT_VERNO_MINOR != 22) && (UCT_VERNO_MINOR != 23))
#error "the conformance suite knows the second UCT API of UCX 1.22 and 1.23"
#endif


/* Memory domain flags beyond uct.h */
#define CT_MD_FLAG_INVALIDATE_RMA UCS_BIT(11)

enum {
    CT_PACK_FIELD_FLAGS = UCS_BIT(0),
    CT_PACK_INVALIDATE_RMA = UCS_BIT(0),

    CT_DEREG_FIELD_MEMH = UCS_BIT(0),
    CT_DEREG_FIELD_FLAGS = UCS_BIT(1),
    CT_DEREG_FIELD_COMP = UCS_BIT(2),
    CT_DEREG_INVALIDATE = UCS_BIT(0),

    CT_REACH_FIELD_DEVICE_ADDR = UCS_BIT(0),
    CT_REACH_FIELD_IFACE_ADDR = UCS_BIT(1),
    CT_REACH_FIELD_INFO_STRING = UCS_BIT(2),
    CT_REACH_FIELD_INFO_STRING_LENGTH = UCS_BIT(3),

    CT_CONNECT_FIELD_EP_ADDR_LENGTH = UCS_BIT(1),

    CT_REG_FIELD_FLAGS = UCS_BIT(0),
    CT_REG_FIELD_DMABUF_FD = UCS_BIT(1),
    CT_REG_FIELD_MEM_TYPE = UCS_BIT(3),

    CT_V2_PUT_SGL = UCS_BIT(0),
    CT_V2_GET_SGL = UCS_BIT(1), /* UCX 1.23; a different bit before */

    CT_V2_FIELD_MAX_PUT_SGL = UCS_BIT(0),
#if UCT_VERNO_MINOR >= 23
    CT_V2_FIELD_MAX_GET_SGL = UCS_BIT(1),
    CT_V2_FIELD_CAP_FLAGS = UCS_BIT(2),
#else
    CT_V2_FIELD_CAP_FLAGS = UCS_BIT(1),
#endif

    CT_PERF_FIELD_OPERATION = UCS_BIT(0),
    CT_PERF_FIELD_SEND_PRE_OVERHEAD = UCS_BIT(5),
    CT_PERF_FIELD_RECV_OVERHEAD = UCS_BIT(7),
    CT_PERF_FIELD_BANDWIDTH = UCS_BIT(8),
    CT_PERF_FIELD_PATH_BANDWIDTH = UCS_BIT(9),
    CT_PERF_FIELD_LATENCY = UCS_BIT(10),
};

typedef enum uct_ep_operation {
    CT_PERF_AM_SHORT,
    CT_PERF_AM_BCOPY,
    CT_PERF_AM_ZCOPY,
    CT_PERF_PUT_SHORT,
    CT_PERF_PUT_BCOPY,
    CT_PERF_PUT_ZCOPY,
    CT_PERF_GET_SHORT,
    CT_PERF_GET_BCOPY,
    CT_PERF_GET_ZCOPY,
} uct_ep_operation_t;

typedef struct uct_md_mem_reg_params {
    uint64_t field_mask;
    uint64_t flags;
    int dmabuf_fd;
    size_t dmabuf_offset;
    ucs_memory_type_t mem_type;
} uct_md_mem_reg_params_t;

typedef struct uct_md_mem_dereg_params {
    uint64_t field_mask;
    unsigned flags;
    uct_mem_h memh;
    uct_completion_t *comp;
} uct_md_mem_dereg_params_t;

typedef struct uct_md_mkey_pack_params {
    uint64_t field_mask;
    unsigned flags;
} uct_md_mkey_pack_params_t;

typedef struct uct_iface_is_reachable_params {
    uint64_t field_mask;
    const uct_device_addr_t *device_addr;
    const uct_iface_addr_t *iface_addr;
    char *info_string;
    size_t info_string_length;
    int scope;
    size_t device_addr_length;
    size_t iface_addr_length;
} uct_iface_is_reachable_params_t;

typedef struct uct_rkey_compare_params {
    uint64_t field_mask;
} uct_rkey_compare_params_t;

typedef struct {
    uint64_t field_mask;
    uct_ep_operation_t operation;
    ucs_memory_type_t local_memory_type;
    ucs_memory_type_t remote_memory_type;
    ucs_sys_device_t local_sys_device;
    ucs_sys_device_t remote_sys_device;
    double send_pre_overhead;
    double send_post_overhead;
    double recv_overhead;
    uct_ppn_bandwidth_t bandwidth;
    uct_ppn_bandwidth_t path_bandwidth;
    ucs_linear_func_t latency;
    uint64_t reserved[6]; /* not asked for */
} uct_perf_attr_t;

typedef struct {
    uint64_t field_mask;
    size_t max_put_sgl_zcopy_count;
#if UCT_VERNO_MINOR >= 23
    size_t max_get_sgl_zcopy_count;
#endif
    uint64_t cap_flags;
    uint64_t reserved[8]; /* tokens, not asked for */
} uct_iface_attr_v2_t;


ucs_status_t uct_md_mem_reg_v2(uct_md_h md, void *address, size_t length,
                               const uct_md_mem_reg_params_t *params,
                               uct_mem_h *memh_p);
ucs_status_t uct_md_mem_dereg_v2(uct_md_h md, const uct_md_mem_dereg_params_t *params);
ucs_status_t uct_md_mkey_pack_v2(uct_md_h md, uct_mem_h memh, void *address,
                                 size_t length, const uct_md_mkey_pack_params_t *params,
                                 void *mkey_buffer);
ucs_status_t uct_rkey_compare(uct_component_h component, uct_rkey_t rkey1,
                              uct_rkey_t rkey2, const uct_rkey_compare_params_t *params,
                              int *result);
ucs_status_t uct_iface_query_v2(uct_iface_h iface, uct_iface_attr_v2_t *iface_attr);
ucs_status_t uct_iface_estimate_perf(uct_iface_h iface, uct_perf_attr_t *attr);

typedef struct uct_ep_connect_to_ep_params {
    uint64_t field_mask;
    size_t device_addr_length;
    size_t ep_addr_length;
} uct_ep_connect_to_ep_params_t;

ucs_status_t uct_ep_connect_to_ep_v2(uct_ep_h ep, const uct_device_addr_t *device_addr,
                                     const uct_ep_addr_t *ep_addr,
                                     const uct_ep_connect_to_ep_params_t *params);

int uct_iface_is_reachable_v2(uct_iface_h iface,
                              const uct_iface_is_reachable_params_t *params);

/* Put and get of a list have one signature, get exists from UCX 1.23. */
typedef ucs_status_t (*ct_sgl_func_t)(uct_ep_h ep, void *const *buffers,
                                      const size_t *lengths, uct_mem_h const *memhs,
                                      const uint64_t *remote_addrs,
                                      uct_rkey_t const *rkeys, const size_t *counts,
                                      const size_t *strides, size_t count,
                                      uct_completion_t *comp);
ucs_status_t uct_ep_put_sgl_zcopy(uct_ep_h ep, void *const *buffers,
                                  const size_t *lengths, uct_mem_h const *memhs,
                                  const uint64_t *remote_addrs, uct_rkey_t const *rkeys,
                                  const size_t *counts, const size_t *strides,
                                  size_t count, uct_completion_t *comp);
#if UCT_VERNO_MINOR >= 23
ucs_status_t uct_ep_get_sgl_zcopy(uct_ep_h ep, void *const *buffers,
                                  const size_t *lengths, uct_mem_h const *memhs,
                                  const uint64_t *remote_addrs, uct_rkey_t const *rkeys,
                                  const size_t *counts, const size_t *strides,
                                  size_t count, uct_completion_t *comp);
#endif

#endif
