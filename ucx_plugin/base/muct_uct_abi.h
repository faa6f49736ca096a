/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_UCT_ABI_H
#define MUCT_UCT_ABI_H

/**
 * @file
 * Declarations of UCX that a transport needs beyond the installed headers.
 *
 * UCX installs its public headers only. The structures a module fills in (component,
 * memory domain, interface, their operation tables and parameter structures) live in
 * headers that stay in UCX's source tree. This file is the only one of this project
 * that declares them.
 *
 * Identity. MUCT_UCX_MINOR is the minor version of UCX 1.x these declarations describe;
 * it follows the installed headers and may be overridden to check that another version
 * still compiles. A module built for one minor version refuses to register with another
 * (see muct_module.c).
 *
 * Layout. Every offset that UCX relies on is asserted at the end of this file. Builds
 * of UCX with statistics (ENABLE_STATS) have other layouts and are refused at load
 * time. Stable branches append operations: tables therefore end in MUCT_ABI_NUM_SPARE
 * spare slots, see MUCT_ABI_PADDED.
 *
 * To support another minor version: list it below, give it its differences, its
 * signatures in this file and its rows in the assertions.
 */

#include <uct/api/uct.h>
#include <uct/api/tl.h>
#include <uct/api/version.h>
#include <ucs/async/async_fwd.h>
#include <ucs/config/parser.h>
#include <ucs/datastruct/callbackq.h>
#include <ucs/datastruct/list.h>
#include <ucs/memory/memory_type.h>
#include <ucs/sys/topo/base/topo.h>
#include <ucs/type/class.h>
#include <ucs/type/param.h>
#include <ucs/type/spinlock.h>
#include <ucs/type/thread_mode.h>

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#ifndef MUCT_UCX_MINOR
#define MUCT_UCX_MINOR UCT_VERNO_MINOR
#endif

#if (UCT_VERNO_MAJOR != 1) || (MUCT_UCX_MINOR < 22) || (MUCT_UCX_MINOR > 23)
#error "this UCX version is not described in base/muct_uct_abi.h (known: 1.22, 1.23)"
#endif

/** Operations of this minor version of UCX */
#define MUCT_ABI_HAVE_GET_SGL (MUCT_UCX_MINOR >= 23)
#define MUCT_ABI_HAVE_OUTSTANDING_PURGE (MUCT_UCX_MINOR >= 23)
#define MUCT_ABI_HAVE_MEM_ELEM_RELEASE (MUCT_UCX_MINOR >= 23)

/** Spare slots behind each table: operations a stable branch may append */
#define MUCT_ABI_NUM_SPARE 8

typedef ucs_status_t (*muct_abi_spare_func_t)(void);

/** A structure UCX reads, followed by spare operations */
#define MUCT_ABI_PADDED(_type)                                                         \
    struct {                                                                           \
        _type super;                                                                   \
        muct_abi_spare_func_t spare[MUCT_ABI_NUM_SPARE];                               \
    }


/* ---- memory domain: parameters ---- */

enum {
    UCT_MD_MEM_REG_FIELD_FLAGS = 1u << 0,
    UCT_MD_MEM_REG_FIELD_DMABUF_FD = 1u << 1,
    UCT_MD_MEM_REG_FIELD_DMABUF_OFFSET = 1u << 2,
    UCT_MD_MEM_REG_FIELD_MEM_TYPE = 1u << 3
};

typedef struct uct_md_mem_reg_params {
    uint64_t field_mask;
    uint64_t flags;
    int dmabuf_fd;
    size_t dmabuf_offset;
    ucs_memory_type_t mem_type;
} uct_md_mem_reg_params_t;

enum {
    UCT_MD_MEM_DEREG_FIELD_MEMH = 1u << 0,
    UCT_MD_MEM_DEREG_FIELD_FLAGS = 1u << 1,
    UCT_MD_MEM_DEREG_FIELD_COMPLETION = 1u << 2
};

enum { UCT_MD_MEM_DEREG_FLAG_INVALIDATE = 1u << 0 };

typedef struct uct_md_mem_dereg_params {
    uint64_t field_mask;
    unsigned flags;
    uct_mem_h memh;
    uct_completion_t *comp;
} uct_md_mem_dereg_params_t;

enum { UCT_MD_MKEY_PACK_FIELD_FLAGS = 1u << 0 };

enum {
    UCT_MD_MKEY_PACK_FLAG_INVALIDATE_RMA = 1u << 0,
    UCT_MD_MKEY_PACK_FLAG_INVALIDATE_AMO = 1u << 1,
    UCT_MD_MKEY_PACK_FLAG_EXPORT = 1u << 2
};

typedef struct uct_md_mkey_pack_params {
    uint64_t field_mask;
    unsigned flags;
} uct_md_mkey_pack_params_t;

typedef struct uct_md_mem_attach_params {
    uint64_t field_mask;
    uint64_t flags;
    size_t mkey_size;
} uct_md_mem_attach_params_t;

enum {
    UCT_MD_MEM_ATTR_V2_FIELD_MEM_TYPE = 1u << 0,
    UCT_MD_MEM_ATTR_V2_FIELD_SYS_DEV = 1u << 1,
    UCT_MD_MEM_ATTR_V2_FIELD_BASE_ADDRESS = 1u << 2,
    UCT_MD_MEM_ATTR_V2_FIELD_ALLOC_LENGTH = 1u << 3,
    UCT_MD_MEM_ATTR_V2_FIELD_DMABUF_FD = 1u << 4,
    UCT_MD_MEM_ATTR_V2_FIELD_DMABUF_OFFSET = 1u << 5,
    UCT_MD_MEM_ATTR_V2_FIELD_MEM_FLAGS = 1u << 6
};

typedef struct uct_md_mem_attr_v2 {
    uint64_t field_mask;
    ucs_memory_type_t mem_type;
    ucs_sys_device_t sys_dev;
    void *base_address;
    size_t alloc_length;
    int dmabuf_fd;
    size_t dmabuf_offset;
    uint8_t mem_flags;
} uct_md_mem_attr_v2_t;

#define MUCT_MD_GLOBAL_ID_MAX 256

typedef struct {
    uint64_t field_mask;
    uint64_t max_alloc;
    size_t max_reg;
    uint64_t flags;
    uint64_t reg_mem_types;
    uint64_t reg_nonblock_mem_types;
    uint64_t cache_mem_types;
    uint64_t gva_mem_types;
    uint64_t detect_mem_types;
    uint64_t alloc_mem_types;
    uint64_t access_mem_types;
    uint64_t dmabuf_mem_types;
    ucs_linear_func_t reg_cost;
    char component_name[UCT_COMPONENT_NAME_MAX];
    size_t rkey_packed_size;
    ucs_cpu_set_t local_cpus;
    size_t exported_mkey_packed_size;
    char global_id[MUCT_MD_GLOBAL_ID_MAX];
    size_t reg_alignment;
    uint8_t required_mem_flags;
} uct_md_attr_v2_t;

enum {
    UCT_MD_FLAG_INVALIDATE_RMA = 1u << 11,
    UCT_MD_FLAG_INVALIDATE_AMO = 1u << 12,
    UCT_MD_FLAG_MEMTYPE_COPY = 1u << 13
};

typedef struct uct_rkey_compare_params {
    uint64_t field_mask;
} uct_rkey_compare_params_t;

enum { UCT_RKEY_UNPACK_FIELD_SYS_DEVICE = 1u << 0 };

typedef struct uct_rkey_unpack_params {
    uint64_t field_mask;
    ucs_sys_device_t sys_device;
} uct_rkey_unpack_params_t;


/* ---- component ---- */

typedef struct uct_component uct_component_t;

typedef ucs_status_t (*uct_component_query_md_resources_func_t)(
    uct_component_t *component, uct_md_resource_desc_t **resources_p,
    unsigned *num_resources_p);
typedef ucs_status_t (*uct_component_md_open_func_t)(uct_component_t *component,
                                                     const char *md_name,
                                                     const uct_md_config_t *config,
                                                     uct_md_h *md_p);
typedef ucs_status_t (*uct_component_cm_open_func_t)(uct_component_t *component,
                                                     uct_worker_h worker,
                                                     const uct_cm_config_t *config,
                                                     uct_cm_h *cm_p);
typedef ucs_status_t (*uct_component_rkey_unpack_func_t)(
    uct_component_t *component, const void *rkey_buffer,
    const uct_rkey_unpack_params_t *params, uct_rkey_t *rkey_p, void **handle_p);
typedef ucs_status_t (*uct_component_rkey_ptr_func_t)(uct_component_t *component,
                                                      uct_rkey_t rkey, void *handle,
                                                      uint64_t remote_addr,
                                                      void **local_addr_p);
typedef ucs_status_t (*uct_component_rkey_release_func_t)(uct_component_t *component,
                                                          uct_rkey_t rkey,
                                                          void *handle);
typedef ucs_status_t (*uct_component_rkey_compare_func_t)(
    uct_component_t *component, uct_rkey_t rkey1, uct_rkey_t rkey2,
    const uct_rkey_compare_params_t *params, int *result);
typedef void (*uct_component_md_vfs_init_func_t)(uct_md_h md);

struct uct_component {
    const char name[UCT_COMPONENT_NAME_MAX];
    uct_component_query_md_resources_func_t query_md_resources;
    uct_component_md_open_func_t md_open;
    uct_component_cm_open_func_t cm_open;
    uct_component_rkey_unpack_func_t rkey_unpack;
    uct_component_rkey_ptr_func_t rkey_ptr;
    uct_component_rkey_release_func_t rkey_release;
    uct_component_rkey_compare_func_t rkey_compare;
    ucs_config_global_list_entry_t md_config;
    ucs_config_global_list_entry_t cm_config;
    ucs_list_link_t tl_list;
    ucs_list_link_t list;
    uint64_t flags;
    uct_component_md_vfs_init_func_t md_vfs_init;
};

extern ucs_list_link_t uct_components_list;

void uct_component_register(uct_component_t *component);
void uct_component_unregister(uct_component_t *component);
ucs_status_t uct_md_query_single_md_resource(uct_component_t *component,
                                             uct_md_resource_desc_t **resources_p,
                                             unsigned *num_resources_p);
ucs_status_t uct_md_query_empty_md_resource(uct_md_resource_desc_t **resources_p,
                                            unsigned *num_resources_p);
ucs_status_t uct_base_rkey_compare(uct_component_t *component, uct_rkey_t rkey1,
                                   uct_rkey_t rkey2,
                                   const uct_rkey_compare_params_t *params,
                                   int *result);


/* ---- memory domain ---- */

struct uct_md_config {
    char dummy;
};

typedef void (*uct_md_close_func_t)(uct_md_h md);
typedef ucs_status_t (*uct_md_query_func_t)(uct_md_h md, uct_md_attr_v2_t *md_attr);
typedef ucs_status_t (*uct_md_mem_alloc_func_t)(uct_md_h md, size_t *length_p,
                                                void **address_p,
                                                ucs_memory_type_t mem_type,
                                                ucs_sys_device_t sys_dev,
                                                unsigned flags, const char *alloc_name,
                                                uct_mem_h *memh_p);
typedef ucs_status_t (*uct_md_mem_free_func_t)(uct_md_h md, uct_mem_h memh);
typedef ucs_status_t (*uct_md_mem_advise_func_t)(uct_md_h md, uct_mem_h memh,
                                                 void *addr, size_t length,
                                                 unsigned advice);
typedef ucs_status_t (*uct_md_mem_reg_func_t)(uct_md_h md, void *address, size_t length,
                                              const uct_md_mem_reg_params_t *params,
                                              uct_mem_h *memh_p);
typedef ucs_status_t (*uct_md_mem_dereg_func_t)(
    uct_md_h md, const uct_md_mem_dereg_params_t *params);
typedef ucs_status_t (*uct_md_mem_query_func_t)(uct_md_h md, const void *address,
                                                size_t length,
                                                uct_md_mem_attr_v2_t *mem_attr);
typedef ucs_status_t (*uct_md_mkey_pack_func_t)(uct_md_h md, uct_mem_h memh,
                                                void *address, size_t length,
                                                const uct_md_mkey_pack_params_t *params,
                                                void *buffer);
typedef ucs_status_t (*uct_md_mem_attach_func_t)(uct_md_h md, const void *mkey_buffer,
                                                 uct_md_mem_attach_params_t *params,
                                                 uct_mem_h *memh_p);
typedef ucs_status_t (*uct_md_detect_memory_type_func_t)(uct_md_h md, const void *addr,
                                                         size_t length,
                                                         ucs_memory_type_t *mem_type_p);
#if MUCT_ABI_HAVE_MEM_ELEM_RELEASE
typedef ucs_status_t (*uct_md_mem_elem_pack_func_t)(uct_md_h md, uct_mem_h memh,
                                                    uct_rkey_t rkey,
                                                    uct_device_mem_elem_t *mem_elem,
                                                    void **release_handle_p);
typedef void (*uct_md_mem_elem_release_func_t)(uct_md_h md, void *release_handle);
#else
typedef ucs_status_t (*uct_md_mem_elem_pack_func_t)(uct_md_h md, uct_mem_h memh,
                                                    uct_rkey_t rkey,
                                                    uct_device_mem_elem_t *mem_elem);
#endif

struct uct_md_ops {
    uct_md_close_func_t close;
    uct_md_query_func_t query;
    uct_md_mem_alloc_func_t mem_alloc;
    uct_md_mem_free_func_t mem_free;
    uct_md_mem_advise_func_t mem_advise;
    uct_md_mem_reg_func_t mem_reg;
    uct_md_mem_dereg_func_t mem_dereg;
    uct_md_mem_query_func_t mem_query;
    uct_md_mkey_pack_func_t mkey_pack;
    uct_md_mem_attach_func_t mem_attach;
    uct_md_detect_memory_type_func_t detect_memory_type;
    uct_md_mem_elem_pack_func_t mem_elem_pack;
#if MUCT_ABI_HAVE_MEM_ELEM_RELEASE
    uct_md_mem_elem_release_func_t mem_elem_release;
#endif
};

struct uct_md {
    uct_md_ops_t *ops;
    uct_component_t *component;
};

extern ucs_config_field_t uct_md_config_table[];

void uct_md_base_md_query(uct_md_attr_v2_t *md_attr);


/* ---- interface: parameters ---- */

typedef enum uct_ep_operation {
    UCT_EP_OP_AM_SHORT,
    UCT_EP_OP_AM_BCOPY,
    UCT_EP_OP_AM_ZCOPY,
    UCT_EP_OP_PUT_SHORT,
    UCT_EP_OP_PUT_BCOPY,
    UCT_EP_OP_PUT_ZCOPY,
    UCT_EP_OP_GET_SHORT,
    UCT_EP_OP_GET_BCOPY,
    UCT_EP_OP_GET_ZCOPY,
    UCT_EP_OP_EAGER_SHORT,
    UCT_EP_OP_EAGER_BCOPY,
    UCT_EP_OP_EAGER_ZCOPY,
    UCT_EP_OP_RNDV_ZCOPY,
    UCT_EP_OP_ATOMIC_POST,
    UCT_EP_OP_ATOMIC_FETCH,
#if MUCT_UCX_MINOR >= 23
    UCT_EP_OP_FLUSH,
#endif
    UCT_EP_OP_LAST
} uct_ep_operation_t;

enum uct_perf_attr_field {
    UCT_PERF_ATTR_FIELD_OPERATION = 1u << 0,
    UCT_PERF_ATTR_FIELD_LOCAL_MEMORY_TYPE = 1u << 1,
    UCT_PERF_ATTR_FIELD_REMOTE_MEMORY_TYPE = 1u << 2,
    UCT_PERF_ATTR_FIELD_LOCAL_SYS_DEVICE = 1u << 3,
    UCT_PERF_ATTR_FIELD_REMOTE_SYS_DEVICE = 1u << 4,
    UCT_PERF_ATTR_FIELD_SEND_PRE_OVERHEAD = 1u << 5,
    UCT_PERF_ATTR_FIELD_SEND_POST_OVERHEAD = 1u << 6,
    UCT_PERF_ATTR_FIELD_RECV_OVERHEAD = 1u << 7,
    UCT_PERF_ATTR_FIELD_BANDWIDTH = 1u << 8,
    UCT_PERF_ATTR_FIELD_PATH_BANDWIDTH = 1u << 9,
    UCT_PERF_ATTR_FIELD_LATENCY = 1u << 10,
    UCT_PERF_ATTR_FIELD_MAX_INFLIGHT_EPS = 1u << 11,
    UCT_PERF_ATTR_FIELD_FLAGS = 1u << 12
};

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
    size_t max_inflight_eps;
    uint64_t flags;
} uct_perf_attr_t;

typedef enum {
    UCT_IFACE_REACHABILITY_SCOPE_DEVICE,
    UCT_IFACE_REACHABILITY_SCOPE_NETWORK
} uct_iface_reachability_scope_t;

enum {
    UCT_IFACE_IS_REACHABLE_FIELD_DEVICE_ADDR = 1u << 0,
    UCT_IFACE_IS_REACHABLE_FIELD_IFACE_ADDR = 1u << 1,
    UCT_IFACE_IS_REACHABLE_FIELD_INFO_STRING = 1u << 2,
    UCT_IFACE_IS_REACHABLE_FIELD_INFO_STRING_LENGTH = 1u << 3,
    UCT_IFACE_IS_REACHABLE_FIELD_SCOPE = 1u << 4,
    UCT_IFACE_IS_REACHABLE_FIELD_DEVICE_ADDR_LENGTH = 1u << 5,
    UCT_IFACE_IS_REACHABLE_FIELD_IFACE_ADDR_LENGTH = 1u << 6
};

typedef struct uct_iface_is_reachable_params {
    uint64_t field_mask;
    const uct_device_addr_t *device_addr;
    const uct_iface_addr_t *iface_addr;
    char *info_string;
    size_t info_string_length;
    uct_iface_reachability_scope_t scope;
    size_t device_addr_length;
    size_t iface_addr_length;
} uct_iface_is_reachable_params_t;

enum {
    UCT_EP_IS_CONNECTED_FIELD_DEVICE_ADDR = 1u << 0,
    UCT_EP_IS_CONNECTED_FIELD_IFACE_ADDR = 1u << 1,
    UCT_EP_IS_CONNECTED_FIELD_EP_ADDR = 1u << 2
};

typedef struct uct_ep_is_connected_params {
    uint64_t field_mask;
    const uct_device_addr_t *device_addr;
    const uct_iface_addr_t *iface_addr;
    const uct_ep_addr_t *ep_addr;
} uct_ep_is_connected_params_t;

enum {
    UCT_EP_CONNECT_TO_EP_PARAM_FIELD_DEVICE_ADDR_LENGTH = 1u << 0,
    UCT_EP_CONNECT_TO_EP_PARAM_FIELD_EP_ADDR_LENGTH = 1u << 1
};

typedef struct uct_ep_connect_to_ep_params {
    uint64_t field_mask;
    size_t device_addr_length;
    size_t ep_addr_length;
} uct_ep_connect_to_ep_params_t;

typedef struct {
    uint64_t field_mask;
} uct_ep_invalidate_params_t;

enum {
    UCT_EP_ATTR_FIELD_LOCAL_SOCKADDR = 1u << 0,
    UCT_EP_ATTR_FIELD_REMOTE_SOCKADDR = 1u << 1,
    UCT_EP_ATTR_FIELD_TX_TOKEN = 1u << 2
};

struct uct_ep_attr {
    uint64_t field_mask;
    struct sockaddr_storage local_address;
    struct sockaddr_storage remote_address;
    void *tx_token;
#if MUCT_UCX_MINOR == 22
    void *rx_token;
#endif
};

enum {
    UCT_IFACE_ATTR_FIELD_MAX_PUT_SGL_ZCOPY_COUNT = 1u << 0,
#if MUCT_ABI_HAVE_GET_SGL
    UCT_IFACE_ATTR_FIELD_MAX_GET_SGL_ZCOPY_COUNT = 1u << 1,
    UCT_IFACE_ATTR_FIELD_CAP_FLAGS = 1u << 2,
    UCT_IFACE_ATTR_FIELD_TX_TOKEN_LENGTH = 1u << 3,
    UCT_IFACE_ATTR_FIELD_RX_TOKEN_LENGTH = 1u << 4,
    UCT_IFACE_ATTR_FIELD_TX_TOKEN = 1u << 5,
    UCT_IFACE_ATTR_FIELD_RX_TOKEN = 1u << 6
#else
    UCT_IFACE_ATTR_FIELD_CAP_FLAGS = 1u << 1,
    UCT_IFACE_ATTR_FIELD_TX_TOKEN_LENGTH = 1u << 2,
    UCT_IFACE_ATTR_FIELD_RX_TOKEN_LENGTH = 1u << 3,
    UCT_IFACE_ATTR_FIELD_TX_TOKEN = 1u << 4,
    UCT_IFACE_ATTR_FIELD_RX_TOKEN = 1u << 5
#endif
};

enum {
    UCT_IFACE_FLAG_V2_PUT_SGL_ZCOPY = 1u << 0,
#if MUCT_ABI_HAVE_GET_SGL
    UCT_IFACE_FLAG_V2_GET_SGL_ZCOPY = 1u << 1,
    UCT_IFACE_FLAG_V2_QUERY_TOKEN = 1u << 2
#else
    UCT_IFACE_FLAG_V2_QUERY_TOKEN = 1u << 1
#endif
};

typedef struct {
    uint64_t field_mask;
    size_t max_put_sgl_zcopy_count;
#if MUCT_ABI_HAVE_GET_SGL
    size_t max_get_sgl_zcopy_count;
#endif
    struct {
        uint64_t flags;
    } cap;
    size_t tx_token_length;
    size_t rx_token_length;
    const void *tx_token;
    void *rx_token;
} uct_iface_attr_v2_t;

typedef struct uct_ep_outstanding_purge_params uct_ep_outstanding_purge_params_t;


/* ---- interface: operations ---- */

typedef ucs_status_t (*uct_iface_query_v2_func_t)(uct_iface_h iface,
                                                  uct_iface_attr_v2_t *iface_attr);
typedef ucs_status_t (*uct_iface_estimate_perf_func_t)(uct_iface_h iface,
                                                       uct_perf_attr_t *perf_attr);
typedef void (*uct_iface_vfs_refresh_func_t)(uct_iface_h iface);
typedef ucs_status_t (*uct_ep_query_func_t)(uct_ep_h ep, uct_ep_attr_t *ep_attr);
typedef ucs_status_t (*uct_ep_invalidate_func_t)(
    uct_ep_h ep, const uct_ep_invalidate_params_t *params);
typedef ucs_status_t (*uct_ep_connect_to_ep_v2_func_t)(
    uct_ep_h ep, const uct_device_addr_t *device_addr, const uct_ep_addr_t *ep_addr,
    const uct_ep_connect_to_ep_params_t *params);
typedef int (*uct_iface_is_reachable_v2_func_t)(
    const uct_iface_h iface, const uct_iface_is_reachable_params_t *params);
typedef int (*uct_ep_is_connected_func_t)(uct_ep_h ep,
                                          const uct_ep_is_connected_params_t *params);
typedef ucs_status_t (*uct_ep_get_device_ep_func_t)(uct_ep_h ep,
                                                    uct_device_ep_h *device_ep_p);
typedef ucs_status_t (*uct_ep_put_sgl_zcopy_func_t)(
    uct_ep_h ep, void *const *buffers, const size_t *lengths, uct_mem_h const *memhs,
    const uint64_t *remote_addrs, uct_rkey_t const *rkeys, const size_t *counts,
    const size_t *strides, size_t count, uct_completion_t *comp);
typedef ucs_status_t (*uct_ep_get_sgl_zcopy_func_t)(
    uct_ep_h ep, void *const *buffers, const size_t *lengths, uct_mem_h const *memhs,
    const uint64_t *remote_addrs, uct_rkey_t const *rkeys, const size_t *counts,
    const size_t *strides, size_t count, uct_completion_t *comp);
typedef ucs_status_t (*uct_ep_outstanding_purge_func_t)(
    uct_ep_h ep, const uct_ep_outstanding_purge_params_t *params);

typedef struct uct_iface_internal_ops {
    uct_iface_query_v2_func_t iface_query_v2;
    uct_iface_estimate_perf_func_t iface_estimate_perf;
    uct_iface_vfs_refresh_func_t iface_vfs_refresh;
    uct_ep_query_func_t ep_query;
    uct_ep_invalidate_func_t ep_invalidate;
    uct_ep_connect_to_ep_v2_func_t ep_connect_to_ep_v2;
    uct_iface_is_reachable_v2_func_t iface_is_reachable_v2;
    uct_ep_is_connected_func_t ep_is_connected;
    uct_ep_get_device_ep_func_t ep_get_device_ep;
    uct_ep_put_sgl_zcopy_func_t ep_put_sgl_zcopy;
#if MUCT_ABI_HAVE_GET_SGL
    uct_ep_get_sgl_zcopy_func_t ep_get_sgl_zcopy;
#endif
#if MUCT_ABI_HAVE_OUTSTANDING_PURGE
    uct_ep_outstanding_purge_func_t ep_outstanding_purge;
#endif
} uct_iface_internal_ops_t;


/* ---- worker, interface, endpoint ---- */

/**
 * Lock of an asynchronous context of mode UCS_ASYNC_MODE_THREAD_SPINLOCK: its first
 * member. In other modes another object is there, which contains no pthread_t, so that
 * this lock has no owner.
 */
static inline ucs_recursive_spinlock_t *muct_abi_async_lock(ucs_async_context_t *async)
{
    return (ucs_recursive_spinlock_t *)async;
}

typedef struct uct_priv_worker {
    uct_worker_t super;
    ucs_async_context_t *async;
    ucs_thread_mode_t thread_mode;
    ucs_list_link_t tl_data;
} uct_priv_worker_t;

typedef struct uct_worker_progress {
    uct_worker_cb_id_t id;
    uint32_t refcount;
} uct_worker_progress_t;

typedef struct uct_am_handler {
    uct_am_callback_t cb;
    void *arg;
    uint32_t flags;
} uct_am_handler_t;

struct uct_iface_config {
    struct {
        uct_alloc_method_t *methods;
        unsigned count;
    } alloc_methods;
    int failure;
    size_t max_num_eps;
};

typedef struct uct_base_iface {
    uct_iface_t super;
    uct_iface_internal_ops_t *internal_ops;
    uct_md_h md;
    uct_priv_worker_t *worker;
    uct_am_handler_t am[UCT_AM_ID_MAX];
    uct_am_tracer_t am_tracer;
    void *am_tracer_arg;
    uct_error_handler_t err_handler;
    void *err_handler_arg;
    uint32_t err_handler_flags;
    uct_worker_progress_t prog;
    unsigned progress_flags;
    struct {
        unsigned num_alloc_methods;
        uct_alloc_method_t alloc_methods[UCT_ALLOC_METHOD_LAST];
        ucs_log_level_t failure_level;
        size_t max_num_eps;
    } config;
} uct_base_iface_t;

typedef struct uct_base_ep {
    uct_ep_t super;
} uct_base_ep_t;

UCS_CLASS_DECLARE(uct_base_iface_t, uct_iface_ops_t *, uct_iface_internal_ops_t *,
                  uct_md_h, uct_worker_h, const uct_iface_params_t *,
                  const uct_iface_config_t *)
UCS_CLASS_DECLARE(uct_base_ep_t, uct_base_iface_t *)

typedef struct uct_tl_device_resource {
    char name[UCT_DEVICE_NAME_MAX];
    uct_device_type_t type;
    ucs_sys_device_t sys_device;
} uct_tl_device_resource_t;

typedef struct uct_tl {
    char name[UCT_TL_NAME_MAX];
    ucs_status_t (*query_devices)(uct_md_h md, uct_tl_device_resource_t **tl_devices_p,
                                  unsigned *num_tl_devices_p);
    ucs_status_t (*iface_open)(uct_md_h md, uct_worker_h worker,
                               const uct_iface_params_t *params,
                               const uct_iface_config_t *config, uct_iface_h *iface_p);
    ucs_config_global_list_entry_t config;
    ucs_list_link_t list;
} uct_tl_t;

extern ucs_config_field_t uct_iface_config_table[];

void uct_tl_register(uct_component_t *component, uct_tl_t *tl);
void uct_tl_unregister(uct_tl_t *tl);
void uct_base_iface_query(uct_base_iface_t *iface, uct_iface_attr_t *iface_attr);
ucs_status_t uct_base_iface_estimate_perf(uct_iface_h iface,
                                          uct_perf_attr_t *perf_attr);
ucs_status_t uct_base_iface_flush(uct_iface_h iface, unsigned flags,
                                  uct_completion_t *comp);
ucs_status_t uct_base_iface_fence(uct_iface_h iface, unsigned flags);
void uct_base_iface_progress_enable(uct_iface_h iface, unsigned flags);
void uct_base_iface_progress_disable(uct_iface_h iface, unsigned flags);
int uct_base_iface_is_reachable(const uct_iface_h iface,
                                const uct_device_addr_t *dev_addr,
                                const uct_iface_addr_t *iface_addr);
ucs_status_t uct_iface_base_query_v2(uct_iface_h iface,
                                     uct_iface_attr_v2_t *iface_attr);
ucs_status_t uct_iface_handle_ep_err(uct_iface_h iface, uct_ep_h ep,
                                     ucs_status_t status);
int uct_iface_scope_is_reachable(const uct_iface_h iface,
                                 const uct_iface_is_reachable_params_t *params);
void uct_iface_fill_info_str_buf(const uct_iface_is_reachable_params_t *params,
                                 const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void uct_iface_set_async_event_params(const uct_iface_params_t *params,
                                      uct_async_event_cb_t *event_cb, void **event_arg);
ucs_status_t uct_single_device_resource(uct_md_h md, const char *dev_name,
                                        uct_device_type_t dev_type,
                                        ucs_sys_device_t sys_device,
                                        uct_tl_device_resource_t **tl_devices_p,
                                        unsigned *num_tl_devices_p);
int uct_base_ep_is_connected(const uct_ep_h ep,
                             const uct_ep_is_connected_params_t *params);
ucs_status_t uct_base_ep_flush(uct_ep_h ep, unsigned flags, uct_completion_t *comp);
ucs_status_t uct_base_ep_fence(uct_ep_h ep, unsigned flags);
ucs_status_t uct_base_ep_connect_to_ep(uct_ep_h ep,
                                       const uct_device_addr_t *device_addr,
                                       const uct_ep_addr_t *ep_addr);


/* ---- small inline functions of UCX, repeated here ---- */

#define MUCT_PARAM(_prefix, _params, _name, _flag, _default)                           \
    (((_params)->field_mask & UCS_PP_TOKENPASTE3(_prefix, _, _flag))                   \
         ? (_params)->_name                                                            \
         : (_default))

/** Account one finished part of an operation; calls back with the last one. */
static inline void muct_completion_invoke(uct_completion_t *comp, ucs_status_t status)
{
    if ((status != UCS_OK) && (comp->status == UCS_OK)) {
        comp->status = status;
    }
    if (--comp->count == 0) {
        comp->func(comp);
    }
}

/** Hand a received active message to its handler. */
static inline ucs_status_t muct_iface_invoke_am(uct_base_iface_t *iface, uint8_t id,
                                                void *data, size_t length,
                                                unsigned flags)
{
    uct_am_handler_t *handler = &iface->am[id];

    return handler->cb(handler->arg, data, length, flags);
}


/* ---- layout, bytes on 64-bit machines: every row was measured per release ---- */

#define MUCT_ABI_SIZE(_type, _size)                                                    \
    _Static_assert(sizeof(_type) == (_size), "size of " #_type)
#define MUCT_ABI_OFFSET(_type, _member, _offset)                                       \
    _Static_assert(offsetof(_type, _member) == (_offset), #_type "." #_member)
#define MUCT_ABI_BY_MINOR(_v22, _v23) ((MUCT_UCX_MINOR == 22) ? (_v22) : (_v23))

MUCT_ABI_SIZE(uct_component_t, 232);
MUCT_ABI_OFFSET(uct_component_t, query_md_resources, 16);
MUCT_ABI_OFFSET(uct_component_t, rkey_unpack, 40);
MUCT_ABI_OFFSET(uct_component_t, rkey_release, 56);
MUCT_ABI_OFFSET(uct_component_t, rkey_compare, 64);
MUCT_ABI_OFFSET(uct_component_t, md_config, 72);
MUCT_ABI_OFFSET(uct_component_t, cm_config, 128);
MUCT_ABI_OFFSET(uct_component_t, tl_list, 184);
MUCT_ABI_OFFSET(uct_component_t, list, 200);
MUCT_ABI_OFFSET(uct_component_t, flags, 216);
MUCT_ABI_OFFSET(uct_component_t, md_vfs_init, 224);
MUCT_ABI_SIZE(uct_tl_t, 104);
MUCT_ABI_OFFSET(uct_tl_t, query_devices, 16);
MUCT_ABI_OFFSET(uct_tl_t, iface_open, 24);
MUCT_ABI_OFFSET(uct_tl_t, config, 32);
MUCT_ABI_OFFSET(uct_tl_t, list, 88);
MUCT_ABI_SIZE(uct_tl_device_resource_t, 40);
MUCT_ABI_OFFSET(uct_tl_device_resource_t, sys_device, 36);
MUCT_ABI_SIZE(struct uct_md_ops, MUCT_ABI_BY_MINOR(96, 104));
MUCT_ABI_OFFSET(struct uct_md_ops, mkey_pack, 64);
MUCT_ABI_OFFSET(struct uct_md_ops, detect_memory_type, 80);
MUCT_ABI_SIZE(struct uct_md, 16);
MUCT_ABI_SIZE(struct uct_md_config, 1);
MUCT_ABI_SIZE(uct_md_attr_v2_t, 544);
MUCT_ABI_OFFSET(uct_md_attr_v2_t, flags, 24);
MUCT_ABI_OFFSET(uct_md_attr_v2_t, reg_mem_types, 32);
MUCT_ABI_OFFSET(uct_md_attr_v2_t, access_mem_types, 80);
MUCT_ABI_OFFSET(uct_md_attr_v2_t, rkey_packed_size, 128);
MUCT_ABI_OFFSET(uct_md_attr_v2_t, global_id, 272);
MUCT_ABI_SIZE(uct_md_mem_dereg_params_t, 32);
MUCT_ABI_SIZE(uct_md_mkey_pack_params_t, 16);
_Static_assert((unsigned)UCT_MD_FLAG_INVALIDATE_RMA == (unsigned)UCT_MD_FLAG_LAST,
               "memory domain flags of the second API version follow the first's");
MUCT_ABI_SIZE(uct_iface_ops_t, 400);
MUCT_ABI_OFFSET(uct_iface_ops_t, ep_flush, 208);
MUCT_ABI_OFFSET(uct_iface_ops_t, iface_is_reachable, 392);
MUCT_ABI_SIZE(uct_iface_internal_ops_t, MUCT_ABI_BY_MINOR(80, 96));
MUCT_ABI_OFFSET(uct_iface_internal_ops_t, iface_estimate_perf, 8);
MUCT_ABI_OFFSET(uct_iface_internal_ops_t, ep_query, 24);
MUCT_ABI_SIZE(uct_iface_attr_v2_t, MUCT_ABI_BY_MINOR(56, 64));
MUCT_ABI_OFFSET(uct_iface_attr_v2_t, cap, MUCT_ABI_BY_MINOR(16, 24));
_Static_assert(UCT_EP_OP_LAST == MUCT_ABI_BY_MINOR(15, 16), "UCT_EP_OP_LAST");
MUCT_ABI_SIZE(uct_perf_attr_t, 112);
MUCT_ABI_OFFSET(uct_perf_attr_t, bandwidth, 48);
MUCT_ABI_OFFSET(uct_perf_attr_t, latency, 80);
MUCT_ABI_SIZE(uct_iface_t, 400);
MUCT_ABI_SIZE(uct_ep_t, 8);
MUCT_ABI_SIZE(uct_base_iface_t, 1280);
MUCT_ABI_OFFSET(uct_base_iface_t, internal_ops, 400);
MUCT_ABI_OFFSET(uct_base_iface_t, md, 408);
MUCT_ABI_OFFSET(uct_base_iface_t, worker, 416);
MUCT_ABI_OFFSET(uct_base_iface_t, err_handler, 1208);
MUCT_ABI_OFFSET(uct_base_iface_t, prog, 1228);
MUCT_ABI_OFFSET(uct_base_iface_t, config, 1240);
MUCT_ABI_SIZE(uct_base_ep_t, 8);
MUCT_ABI_SIZE(struct uct_iface_config, 32);
MUCT_ABI_SIZE(uct_priv_worker_t, 168);
MUCT_ABI_SIZE(ucs_callbackq_t, 136);
MUCT_ABI_SIZE(uct_iface_attr_t, 536);
MUCT_ABI_OFFSET(uct_iface_attr_t, cap.flags, 296);
MUCT_ABI_OFFSET(uct_iface_attr_t, device_addr_len, 312);
MUCT_ABI_OFFSET(uct_iface_attr_t, overhead, 472);
MUCT_ABI_OFFSET(uct_iface_attr_t, bandwidth, 480);
MUCT_ABI_OFFSET(uct_iface_attr_t, dev_num_paths, 528);
MUCT_ABI_SIZE(uct_iface_params_t, 304);
MUCT_ABI_SIZE(uct_ep_params_t, 160);
MUCT_ABI_SIZE(uct_iov_t, 40);
MUCT_ABI_SIZE(uct_completion_t, 16);
MUCT_ABI_SIZE(uct_pending_req_t, 48);
MUCT_ABI_SIZE(ucs_config_field_t, 88);
MUCT_ABI_SIZE(ucs_config_parser_t, 56);
MUCT_ABI_SIZE(ucs_config_global_list_entry_t, 56);
MUCT_ABI_SIZE(ucs_class_t, 40);
_Static_assert(UCS_MEMORY_TYPE_ROCM == 3, "UCS_MEMORY_TYPE_ROCM");
_Static_assert(UCS_MEMORY_TYPE_LAST == 10, "UCS_MEMORY_TYPE_LAST");
_Static_assert(UCT_AM_ID_MAX == 32, "UCT_AM_ID_MAX");

#endif
